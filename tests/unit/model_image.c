// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/model/image.h"
#include "model_files.h"

#include <errno.h>

/* A checkpoint in memory: tensors of bytes with these names and sizes. */
struct memory {
	struct model_checkpoint checkpoint;
	struct model_tensor *tensors;
	uint8_t *data;
	uint64_t size;
};

static uint32_t rnd(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

static void memory_create(struct memory *memory, char *const *names, const uint64_t *sizes,
			  uint32_t count)
{
	uint64_t at = 0;
	uint32_t seed = 5;

	*memory = (struct memory){ .checkpoint.count = count };
	for (uint32_t i = 0; i < count; i++)
		memory->size += sizes[i];
	memory->data = malloc(memory->size + 8);
	memory->tensors = calloc(count, sizeof(*memory->tensors));
	memory->checkpoint.tensors = calloc(count, sizeof(*memory->checkpoint.tensors));
	assert_true(memory->data && memory->tensors && memory->checkpoint.tensors);
	for (uint64_t i = 0; i < memory->size; i += 4) {
		uint32_t word = seed = seed * 1664525 + 1013904223;

		memcpy(memory->data + i, &word, 4);
	}
	for (uint32_t i = 0; i < count; i++) {
		memory->tensors[i] = (struct model_tensor){
			.name = names[i], .size = sizes[i], .data = memory->data + at,
			.shape = { .dtype = MODEL_U8, .rank = 1, .extent = { sizes[i] } },
		};
		memory->checkpoint.tensors[i] = &memory->tensors[i];
		at += sizes[i];
	}
}

static void memory_destroy(struct memory *memory)
{
	free(memory->checkpoint.tensors);
	free(memory->tensors);
	free(memory->data);
}

static void image_of(struct model_image *image, const struct memory *memory)
{
	char error[MODEL_ERROR_LEN];

	if (model_image_create(image, "model", &memory->checkpoint, NULL, error))
		fail_msg("%s", error);
	for (uint32_t i = 0; i < image->manifest.chunk_count; i++)
		assert_int_equal(model_image_digest(image, i), 0);
}

static char *const small_names[] = { "0.a", "0.b", "0.e", "1.a", "1.b", "2.a", "3.a", "3.b" };
static const uint64_t small_sizes[] = { 1000, 512, 0, 70000, 5, 150000, 65536, 1 };

static void small_model(struct memory *memory)
{
	memory_create(memory, small_names, small_sizes, COUNT(small_sizes));
}

static void cuts_at_tensors(void **state)
{
	/* Packed; two pieces; packed; pieces; packed to the brim; the rest. */
	static const struct {
		uint64_t offset;
		uint32_t size;
	} expected[] = {
		{ 0, 1536 },	   { 1536, 65536 },   { 67072, 4464 },
		{ 71680, 5 },	   { 72192, 65536 },  { 137728, 65536 },
		{ 203264, 18928 }, { 222208, 65536 }, { 287744, 1 },
	};
	static const uint32_t first[] = { 0, 0, 1, 1, 3, 4, 7, 8 };
	struct model_image image;
	struct memory memory;

	(void)state;
	small_model(&memory);
	image_of(&image, &memory);
	assert_int_equal(image.manifest.chunk_count, COUNT(expected));
	for (size_t i = 0; i < COUNT(expected); i++) {
		assert_int_equal(image.manifest.chunks[i].offset, expected[i].offset);
		assert_int_equal(image.manifest.chunks[i].size, expected[i].size);
	}
	for (size_t i = 0; i < COUNT(first); i++)
		assert_int_equal(image.manifest.tensors[i].chunk, first[i]);
	assert_int_equal(image.manifest.size, 287745);
	model_image_destroy(&image);
	memory_destroy(&memory);
}

static void large_tensors_have_large_pieces(void **state)
{
	static const struct {
		uint64_t size;
		uint32_t chunks, piece;
	} cases[] = {
		{ 65536, 1, 65536 },		    { 65537, 2, 65536 },
		{ 12 << 20, 192, 64 << 10 },	    { (12 << 20) + 1, 97, 128 << 10 },
		{ 1 << 30, 256, 4 << 20 },	    { 1ULL << 40, MODEL_CHUNKS_MAX, 4 << 20 },
	};
	struct model_chunk *chunks;
	uint64_t offset;
	uint32_t count;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(model_chunk_cut(&cases[i].size, 1, &offset, &chunks, &count), 0);
		assert_int_equal(count, cases[i].chunks);
		assert_int_equal(chunks[0].size, cases[i].piece);
		free(chunks);
	}
}

static void refuses_images_beyond_63_bits(void **state)
{
	const uint64_t sizes[] = { 1, INT64_MAX - 500 };
	struct model_chunk *chunks;
	uint64_t offsets[2];
	uint32_t count;

	(void)state;
	assert_int_equal(model_chunk_cut(sizes, 2, offsets, &chunks, &count), -ERANGE);
}

static void chunks_are_the_image(void **state)
{
	struct model_image image;
	struct memory memory;
	uint8_t *expected;

	(void)state;
	small_model(&memory);
	image_of(&image, &memory);
	expected = calloc(1, image.manifest.size);
	assert_non_null(expected);
	for (uint32_t i = 0; i < image.manifest.tensor_count; i++)
		memcpy(expected + image.manifest.tensors[i].offset, image.tensors[i]->data,
		       image.tensors[i]->size);
	for (uint32_t i = 0; i < image.manifest.chunk_count; i++) {
		const struct model_chunk *chunk = &image.manifest.chunks[i];
		struct model_digest digest;

		assert_memory_equal(model_image_chunk(&image, i), expected + chunk->offset,
				    chunk->size);
		assert_int_equal(model_digest_make(expected + chunk->offset, chunk->size, &digest),
				 0);
		assert_true(model_digest_equal(&digest, &chunk->digest));
	}
	free(expected);
	model_image_destroy(&image);
	memory_destroy(&memory);
}

/* Any sizes, any number of empty ones. */
static void every_cut_is_valid(void **state)
{
	char names[40][8], *pointers[40];
	uint64_t sizes[40];
	uint32_t seed = 9;

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(names[i], sizeof(names[i]), "%zu.w", i / 3);
		if (i % 3)
			snprintf(names[i], sizeof(names[i]), "%zu.b%zu", i / 3, i % 3);
		pointers[i] = names[i];
	}
	for (int round = 0; round < 300; round++) {
		uint32_t count = 1 + rnd(&seed, COUNT(names)), end = 0, tensor = 0;
		struct model_image image;
		struct memory memory;

		for (uint32_t i = 0; i < count; i++)
			sizes[i] = rnd(&seed, 4) ? rnd(&seed, 1U << rnd(&seed, 19)) : 0;
		sizes[rnd(&seed, count)]++;
		memory_create(&memory, pointers, sizes, count);
		/* It checks what it has made. */
		image_of(&image, &memory);
		for (uint32_t i = 0; i < image.manifest.layer_count; i++) {
			uint32_t first = model_manifest_chunk_from(&image.manifest, tensor);

			assert_int_equal(first, end);
			tensor += image.manifest.layers[i].tensors;
			end = model_manifest_chunk_from(&image.manifest, tensor);
			assert_true(end >= first);
		}
		assert_int_equal(end, image.manifest.chunk_count);
		model_image_destroy(&image);
		memory_destroy(&memory);
	}
}

static void digests_survive_as_text(void **state)
{
	static const char text[] =
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	char back[MODEL_DIGEST_TEXT_LEN], bad[MODEL_DIGEST_TEXT_LEN];
	struct model_digest digest, parsed;

	(void)state;
	/* The standard's own example. */
	assert_int_equal(model_digest_make("abc", 3, &digest), 0);
	model_digest_format(&digest, back);
	assert_string_equal(back, text);
	assert_int_equal(model_digest_parse(text, &parsed), 0);
	assert_true(model_digest_equal(&digest, &parsed));
	for (size_t i = 0; i < 3; i++) {
		memcpy(bad, text, sizeof(bad));
		bad[i ? 10 : 63] = "\0Ag"[i];
		assert_int_equal(model_digest_parse(bad, &parsed), -EINVAL);
	}
}

static void a_manifest_is_the_same_bytes_again(void **state)
{
	struct model_manifest manifest;
	char error[MODEL_ERROR_LEN] = "", *text, *again;
	struct model_image image;
	struct memory memory;
	size_t len, again_len;

	(void)state;
	small_model(&memory);
	image_of(&image, &memory);
	assert_int_equal(model_manifest_encode(&image.manifest, &text, &len), 0);
	if (model_manifest_parse(&manifest, text, len, error))
		fail_msg("%s", error);
	assert_int_equal(model_manifest_encode(&manifest, &again, &again_len), 0);
	assert_int_equal(len, again_len);
	assert_memory_equal(text, again, len);
	model_manifest_destroy(&manifest);
	free(text);
	free(again);
	model_image_destroy(&image);
	memory_destroy(&memory);
}

/* The text with its first "from" replaced, the caller's to free. */
static char *replace(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *result;

	if (!at)
		fail_msg("\"%s\" is not in %s", from, text);
	if (asprintf(&result, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) < 0)
		fail();
	return result;
}

static void refuses_a_manifest_that_lies(void **state)
{
	static const struct {
		const char *from, *to, *reason;
	} cases[] = {
		{ "{\"format\":2", "{\"format\":1", "format: 1, but only 2" },
		{ "{\"format\":2,", "{", "format: " },
		{ "{\"format\":2", "[{\"format\":2", "byte " },
		{ "\"name\":\"model\"", "\"name\":\"../model\"", "name: \"../model\"" },
		{ "\"name\":\"model\"", "\"name\":\"\"", "name: " },
		{ "\"name\":\"model\"", "\"name\":1", "name: not a text" },
		{ "\"size\":287745", "\"size\":287744", "size: " },
		{ "\"size\":287745", "\"size\":-1", "size: " },
		{ "\"size\":287745", "\"size\":0", "size: " },
		{ "\"size\":287745", "\"size\":287745,\"more\":1", "unknown" },
		{ "\"name\":\"0.a\"", "\"name\":\"0.b\"", "tensors: \"0.b\" is there twice" },
		{ "\"name\":\"0.a\"", "\"name\":\"\"", "tensors[0].name: " },
		{ "\"dtype\":\"U8\"", "\"dtype\":\"U9\"", "tensors[0].dtype: unknown" },
		{ "\"dtype\":\"U8\"", "\"dtype\":\"F32\"", "tensors[0].size: " },
		{ "\"shape\":[1000]", "\"shape\":[999]", "tensors[0].size: " },
		{ "\"shape\":[1000]", "\"shape\":[\"1\"]", "tensors[0].shape: " },
		{ "\"shape\":[1000]", "\"shape\":[1000,4294967296,4294967296]",
		  "tensors[0].size: " },
		{ "\"offset\":1024,\"size\":512", "\"offset\":1536,\"size\":512",
		  "tensors[1].offset: " },
		{ "\"offset\":1024,\"size\":512", "\"offset\":1000,\"size\":512",
		  "tensors[1].offset: " },
		{ "\"size\":512,\"chunk\":0", "\"size\":512,\"chunk\":1", "tensors[1].chunk: " },
		{ "\"size\":512,\"chunk\":0", "\"size\":512,\"chunk\":4294967296",
		  "tensors[1].chunk: " },
		{ "\"sha256\":\"", "\"sha256\":\"0", "chunks[0].sha256: " },
		{ "\"xxh3\":\"", "\"xxh3\":\"0", "chunks[0].xxh3: not 16" },
		{ "\"xxh3\":\"", "\"xxh3\":1,\"x\":\"", "chunks[0]: has fields" },
		{ "\"size\":1536,\"offset\":0", "\"size\":1535,\"offset\":0",
		  "chunks[1].offset: " },
		{ "\"size\":1536,\"offset\":0", "\"size\":1200,\"offset\":0",
		  "chunks[1].offset: " },
		{ "\"size\":1536,\"offset\":0", "\"size\":1020,\"offset\":0",
		  "chunks[0].size: does not end in a tensor" },
		{ "\"size\":1536,\"offset\":0", "\"size\":0,\"offset\":0", "chunks[0].size: " },
		{ "\"size\":65536,\"offset\":1536", "\"size\":4194305,\"offset\":1536",
		  "chunks[1].size: " },
		{ "\"size\":65536,\"offset\":1536", "\"size\":65536,\"offset\":2048",
		  "chunks[1].offset: " },
		{ "\"size\":65536,\"offset\":1536", "\"size\":4194304,\"offset\":1536",
		  "chunks[1].size: does not end" },
		{ "\"name\":\"0\",\"tensors\":3", "\"name\":\"0\",\"tensors\":4",
		  "layers[0].bytes: " },
		{ "\"name\":\"3\",\"tensors\":2", "\"name\":\"3\",\"tensors\":3",
		  "layers[3].tensors: " },
		{ "\"name\":\"3\",\"tensors\":2,\"bytes\":65537",
		  "\"name\":\"3\",\"tensors\":1,\"bytes\":65536",
		  "layers: 1 tensors belong to none" },
		{ "\"bytes\":1512", "\"bytes\":1513", "layers[0].bytes: " },
		{ "\"bytes\":1512", "\"bytes\":1512,\"flops\":-1", "layers[0].flops: " },
		{ "\"bytes\":1512", "\"bytes\":1512,\"more\":1", "layers[0]: has fields" },
		{ "\"layers\":[", "\"layers\":[],\"levels\":[", "unknown" },
		{ "\"layers\":[", "\"layers\":[7,", "layers[0]: not an object" },
	};
	struct model_manifest manifest;
	char error[MODEL_ERROR_LEN], *text;
	struct model_image image;
	struct memory memory;
	size_t len;

	(void)state;
	small_model(&memory);
	image_of(&image, &memory);
	assert_int_equal(model_manifest_encode(&image.manifest, &text, &len), 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *bad = replace(text, cases[i].from, cases[i].to);

		if (model_manifest_parse(&manifest, bad, strlen(bad), error) != -EINVAL)
			fail_msg("%s was not refused", cases[i].to);
		assert_contains(error, cases[i].reason);
		free(bad);
	}
	/* A manifest is whole or it is none. */
	for (size_t i = 0; i < len; i += 7)
		assert_int_equal(model_manifest_parse(&manifest, text, i, error), -EINVAL);
	free(text);
	model_image_destroy(&image);
	memory_destroy(&memory);
}

static void flops_of_an_order_file_are_kept(void **state)
{
	static const char order[] = "3\t77\n2\n0\n1\nrelu\t5\n";
	struct model_manifest manifest;
	char error[MODEL_ERROR_LEN] = "", *text;
	struct model_image image;
	struct memory memory;
	size_t len;

	(void)state;
	small_model(&memory);
	if (model_image_create(&image, "model", &memory.checkpoint,
			       files_write("order", order, strlen(order)), error))
		fail_msg("%s", error);
	assert_int_equal(model_manifest_encode(&image.manifest, &text, &len), 0);
	assert_int_equal(model_manifest_parse(&manifest, text, len, error), 0);
	assert_int_equal(manifest.layer_count, 5);
	assert_string_equal(manifest.layers[0].name, "3");
	assert_true(manifest.layers[0].flops_known);
	assert_int_equal(manifest.layers[0].flops, 77);
	assert_false(manifest.layers[1].flops_known);
	assert_int_equal(manifest.layers[4].bytes, 0);
	assert_string_equal(manifest.tensors[0].name, "3.a");
	model_manifest_destroy(&manifest);
	free(text);
	model_image_destroy(&image);
	memory_destroy(&memory);
}

static void refuses_names_and_empty_models(void **state)
{
	static const char *const names[] = { "", ".x", "-x", "a/b", "a b", "a\n" };
	static char *const one[] = { "w" };
	static const uint64_t nothing[] = { 0 };
	char error[MODEL_ERROR_LEN], longest[MODEL_NAME_MAX + 2];
	struct model_image image;
	struct memory memory;

	(void)state;
	small_model(&memory);
	for (size_t i = 0; i < COUNT(names); i++)
		assert_int_equal(model_image_create(&image, names[i], &memory.checkpoint, NULL,
						    error), -EINVAL);
	memset(longest, 'x', sizeof(longest));
	longest[MODEL_NAME_MAX + 1] = '\0';
	assert_false(model_name_valid(longest));
	longest[MODEL_NAME_MAX] = '\0';
	assert_true(model_name_valid(longest));
	memory_destroy(&memory);

	memory_create(&memory, one, nothing, 1);
	assert_int_equal(model_image_create(&image, "x", &memory.checkpoint, NULL, error), -EINVAL);
	assert_contains(error, "empty");
	memory_destroy(&memory);
}

static bool has_digest(const struct model_manifest *manifest, const struct model_digest *digest)
{
	for (uint32_t i = 0; i < manifest->chunk_count; i++)
		if (model_digest_equal(&manifest->chunks[i].digest, digest))
			return true;
	return false;
}

/* Weights of convolutions with the four small tensors of a normalisation after each. */
static void a_tuned_copy_shares_what_did_not_change(void **state)
{
	enum { BLOCKS = 60, EACH = 5 };
	char names[BLOCKS * EACH][24], *pointers[BLOCKS * EACH];
	uint64_t sizes[BLOCKS * EACH];
	uint32_t seed = 11;
	struct model_image base, tuned;
	struct memory memory;

	(void)state;
	for (uint32_t i = 0; i < BLOCKS * EACH; i++) {
		uint32_t block = i / EACH;

		snprintf(names[i], sizeof(names[i]), "layer.%u.%s%u", block,
			 i % EACH ? "norm." : "conv.", i % EACH);
		pointers[i] = names[i];
		sizes[i] = i % EACH ? 256U << block / 15 : 36864U << block / 10;
	}
	memory_create(&memory, pointers, sizes, BLOCKS * EACH);
	image_of(&base, &memory);
	for (int round = 0; round < 4; round++) {
		uint64_t changed = 0, stored = 0;

		for (int tries = 0; tries < 1000; tries++) {
			uint32_t i = rnd(&seed, BLOCKS * EACH);

			if (changed + sizes[i] > memory.size / 20)
				continue;
			changed += sizes[i];
			/* One byte is enough to make it another tensor. */
			((uint8_t *)memory.tensors[i].data)[rnd(&seed, (uint32_t)sizes[i])]++;
		}
		assert_true(changed > memory.size * 4 / 100);
		image_of(&tuned, &memory);
		for (uint32_t i = 0; i < tuned.manifest.chunk_count; i++)
			if (!has_digest(&base.manifest, &tuned.manifest.chunks[i].digest))
				stored += tuned.manifest.chunks[i].size;
		if (stored * 100 > memory.size * 7)
			fail_msg("%llu of %llu bytes are stored for %llu changed",
				 (unsigned long long)stored, (unsigned long long)memory.size,
				 (unsigned long long)changed);
		model_image_destroy(&base);
		base = tuned;
	}
	/* The last one still points into the same memory. */
	model_image_destroy(&base);
	memory_destroy(&memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_at_tensors),
		cmocka_unit_test(large_tensors_have_large_pieces),
		cmocka_unit_test(refuses_images_beyond_63_bits),
		cmocka_unit_test(chunks_are_the_image),
		cmocka_unit_test(every_cut_is_valid),
		cmocka_unit_test(digests_survive_as_text),
		cmocka_unit_test(a_manifest_is_the_same_bytes_again),
		cmocka_unit_test(refuses_a_manifest_that_lies),
		cmocka_unit_test(flops_of_an_order_file_are_kept),
		cmocka_unit_test(refuses_names_and_empty_models),
		cmocka_unit_test(a_tuned_copy_shares_what_did_not_change),
	};

	return cmocka_run_group_tests_name("model_image", tests, files_setup, files_teardown);
}
