// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Models with as many chunks, layers and tensors as today's have, or more, and next to no
 * bytes; and such that have tensors without any.
 */
#include "unit.h"

#include "service_bed.h"

#define PERIOD 16384 /* bytes that repeat: few of the chunks are different */
#define PIECE MODEL_ALIGNMENT

/* A model in memory whose tensors are parts of the same bytes. */
struct large {
	struct sample sample;
	struct model_tensor *tensors;
	uint8_t *bytes;
};

static int setup_large(void **state)
{
	setup(state);
	stop_daemon();
	fake.copy_lanes = 1;
	bed.config.donor_memory = 64U << 20;
	start_daemon();
	return 0;
}

static void digest_all(struct model_image *image)
{
	for (uint32_t i = 0; i < image->manifest.chunk_count; i++)
		assert_int_equal(model_image_digest(image, i), 0);
}

static void large_create(struct large *large, const uint64_t *sizes, uint32_t count)
{
	struct model_checkpoint *checkpoint = &large->sample.checkpoint;
	char error[MODEL_ERROR_LEN];
	uint64_t largest = 0;

	*large = (struct large){ 0 };
	large->tensors = calloc(count, sizeof(*large->tensors));
	checkpoint->tensors = calloc(count, sizeof(*checkpoint->tensors));
	checkpoint->count = count;
	for (uint32_t i = 0; i < count; i++)
		largest = sizes[i] > largest ? sizes[i] : largest;
	large->bytes = malloc(largest + PERIOD);
	assert_true(large->tensors && checkpoint->tensors && large->bytes);
	fill_layer(large->bytes, PERIOD, 1);
	for (uint64_t i = PERIOD; i < largest + PERIOD; i++)
		large->bytes[i] = large->bytes[i - PERIOD];
	for (uint32_t i = 0; i < count; i++) {
		large->tensors[i] = (struct model_tensor){
			.size = sizes[i], .data = large->bytes + i % 8 * PIECE,
			.shape = { .dtype = MODEL_U8, .rank = 1, .extent = { sizes[i] } },
		};
		/* Names may have all that is special in JSON. */
		assert_true(asprintf(&large->tensors[i].name, "layers.%u.%s", i,
				     i % 2 ? "weight" : "\"w\\e/\xc3\xafght\"") > 0);
		checkpoint->tensors[i] = &large->tensors[i];
	}
	if (model_image_create(&large->sample.image, "large", checkpoint, NULL, error))
		fail_msg("%s", error);
	digest_all(&large->sample.image);
}

static void large_destroy(struct large *large)
{
	model_image_destroy(&large->sample.image);
	for (size_t i = 0; i < large->sample.checkpoint.count; i++)
		free(large->tensors[i].name);
	free(large->tensors);
	free(large->sample.checkpoint.tensors);
	free(large->bytes);
}

/* As finely as a manifest may be. */
static void cut_finely(struct large *large)
{
	struct model_manifest *manifest = &large->sample.image.manifest;
	uint64_t size = manifest->size;

	free(manifest->chunks);
	manifest->chunk_count = (uint32_t)((size + PIECE - 1) / PIECE);
	manifest->chunks = calloc(manifest->chunk_count, sizeof(*manifest->chunks));
	assert_non_null(manifest->chunks);
	for (uint32_t i = 0; i < manifest->chunk_count; i++) {
		struct model_chunk *chunk = &manifest->chunks[i];

		chunk->offset = (uint64_t)i * PIECE;
		chunk->size = size - chunk->offset < PIECE ? (uint32_t)(size - chunk->offset) :
							     PIECE;
	}
	for (uint32_t i = 0; i < manifest->tensor_count; i++)
		manifest->tensors[i].chunk = model_manifest_chunk_at(manifest,
								     manifest->tensors[i].offset);
	digest_all(&large->sample.image);
}

/* Pushed, listed, shown, loaded in both forms and deleted. */
static void use(struct large *large, bool staged)
{
	const struct model_manifest *manifest = &large->sample.image.manifest;
	struct message reply;
	json_t *shown;
	int fd;

	push(&large->sample);
	fd = connect_client();
	reply = ask(fd, op("show", "large"), NULL, 0);
	shown = document(&reply);
	assert_int_equal(json_array_size(json_object_get(shown, "holders")),
			 manifest->chunk_count);
	assert_true(json_array_size(json_object_get(shown, "groups")) > 0);
	json_decref(shown);
	reply = ask(fd, staged ? staged_op("large") : load_op("large"), NULL, 0);
	check_weights(&reply, &large->sample);
	assert_in_range(fake.extents, 1, field(&reply, "groups"));
	message_clear(&reply);
	hang_up(fd);
	fd = connect_client();
	reply = ask(fd, op("delete", "large"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	large_destroy(large);
}

/* Those of a group are one extent. */
static void more_chunks_than_a_buffer_has_extents_are_loaded(void **state)
{
	const uint64_t sizes[] = { 20 << 20, 3 << 20, 12000256, 1000 };
	struct large large;

	(void)state;
	large_create(&large, sizes, COUNT(sizes));
	cut_finely(&large);
	assert_in_range(large.sample.image.manifest.chunk_count, 65537, MODEL_CHUNKS_MAX);
	use(&large, false);
}

static void twenty_two_thousand_layers_are_loaded(void **state)
{
	const uint32_t count = 22000;
	uint64_t *sizes = calloc(count, sizeof(*sizes));
	struct large large;

	assert_non_null(sizes);
	for (int staged = 0; staged < 2; staged++) {
		for (uint32_t i = 0; i < count; i++)
			sizes[i] = 1 + i % 700;
		large_create(&large, sizes, count);
		use(&large, staged);
		teardown(state);
		setup_large(state);
	}
	free(sizes);
}

static void tensors_without_bytes_are_loaded(void **state)
{
	static const uint64_t sizes[][4] = {
		{ 0, 7, 300, 0 }, { 0, 0, 1, 0 }, { 5, 0, 0, 0 }, { 0, 0, 0, 2 }, { 1, 0, 70000, 0 },
	};

	for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
		struct large large;

		large_create(&large, sizes[i / 2], COUNT(sizes[0]));
		use(&large, i % 2);
		teardown(state);
		setup_large(state);
	}
}

#define LARGE_TEST(name) cmocka_unit_test_setup_teardown(name, setup_large, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LARGE_TEST(more_chunks_than_a_buffer_has_extents_are_loaded),
		LARGE_TEST(twenty_two_thousand_layers_are_loaded),
		LARGE_TEST(tensors_without_bytes_are_loaded),
	};

	return cmocka_run_group_tests_name("service_large", tests, NULL, NULL);
}
