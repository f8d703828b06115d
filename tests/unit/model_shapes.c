// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Models that are in use today, with the tensors that are published, and others at the limits.
 * No byte of them is needed to say how they are stored.
 */
#include "unit.h"

#include "../../userspace/model/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BF16 2
/* What the rule of chunk.h promises for images of up to MODEL_CHUNKS_AIM of the largest. */
#define CHUNKS_EXPECTED (4 * MODEL_CHUNKS_AIM + 1)

/* Tensors that have places and no bytes. */
struct shape {
	struct model_checkpoint checkpoint;
	struct model_tensor *tensors;
	size_t room;
};

__attribute__((format(printf, 3, 4))) static void add(struct shape *shape, uint64_t elements,
						      const char *format, ...)
{
	struct model_tensor *tensor;
	va_list args;

	if (shape->checkpoint.count == shape->room) {
		shape->room = shape->room ? shape->room * 2 : 1024;
		shape->tensors = reallocarray(shape->tensors, shape->room, sizeof(*tensor));
		assert_non_null(shape->tensors);
	}
	tensor = &shape->tensors[shape->checkpoint.count++];
	*tensor = (struct model_tensor){
		.size = elements * BF16,
		.shape = { .dtype = MODEL_BF16, .rank = 1, .extent = { elements } },
	};
	va_start(args, format);
	assert_true(vasprintf(&tensor->name, format, args) > 0);
	va_end(args);
}

static void shape_destroy(struct shape *shape)
{
	for (size_t i = 0; i < shape->checkpoint.count; i++)
		free(shape->tensors[i].name);
	free(shape->tensors);
	free(shape->checkpoint.tensors);
}

static int image_of(struct model_image *image, struct shape *shape, char *error)
{
	free(shape->checkpoint.tensors);
	shape->checkpoint.tensors = calloc(shape->checkpoint.count,
					   sizeof(*shape->checkpoint.tensors));
	assert_non_null(shape->checkpoint.tensors);
	for (size_t i = 0; i < shape->checkpoint.count; i++)
		shape->checkpoint.tensors[i] = &shape->tensors[i];
	return model_image_create(image, "model", &shape->checkpoint, NULL, error);
}

static void add_attention(struct shape *shape, int layer, uint64_t width, uint64_t queries,
			  uint64_t keys)
{
	add(shape, width * queries, "model.layers.%d.self_attn.q_proj.weight", layer);
	add(shape, width * keys, "model.layers.%d.self_attn.k_proj.weight", layer);
	add(shape, width * keys, "model.layers.%d.self_attn.v_proj.weight", layer);
	add(shape, width * queries, "model.layers.%d.self_attn.o_proj.weight", layer);
	add(shape, width, "model.layers.%d.input_layernorm.weight", layer);
	add(shape, width, "model.layers.%d.post_attention_layernorm.weight", layer);
}

static void add_ends(struct shape *shape, uint64_t vocabulary, uint64_t width)
{
	add(shape, vocabulary * width, "model.embed_tokens.weight");
	add(shape, width, "model.norm.weight");
	add(shape, vocabulary * width, "lm_head.weight");
}

static void llama_2_70b(struct shape *shape)
{
	for (int i = 0; i < 80; i++) {
		add_attention(shape, i, 8192, 8192, 1024);
		add(shape, 8192ULL * 28672, "model.layers.%d.mlp.gate_proj.weight", i);
		add(shape, 8192ULL * 28672, "model.layers.%d.mlp.up_proj.weight", i);
		add(shape, 8192ULL * 28672, "model.layers.%d.mlp.down_proj.weight", i);
	}
	add_ends(shape, 32000, 8192);
}

static void mixtral_8x7b(struct shape *shape)
{
	for (int i = 0; i < 32; i++) {
		add_attention(shape, i, 4096, 4096, 1024);
		add(shape, 8 * 4096, "model.layers.%d.block_sparse_moe.gate.weight", i);
		for (int expert = 0; expert < 8; expert++)
			for (int w = 1; w <= 3; w++)
				add(shape, 4096ULL * 14336,
				    "model.layers.%d.block_sparse_moe.experts.%d.w%d.weight", i,
				    expert, w);
	}
	add_ends(shape, 32000, 4096);
}

static void qwen3_30b_a3b(struct shape *shape)
{
	static const char *const parts[] = { "gate", "up", "down" };

	for (int i = 0; i < 48; i++) {
		add_attention(shape, i, 2048, 4096, 512);
		add(shape, 128, "model.layers.%d.self_attn.q_norm.weight", i);
		add(shape, 128, "model.layers.%d.self_attn.k_norm.weight", i);
		add(shape, 128 * 2048, "model.layers.%d.mlp.gate.weight", i);
		for (int expert = 0; expert < 128; expert++)
			for (int part = 0; part < 3; part++)
				add(shape, 768ULL * 2048,
				    "model.layers.%d.mlp.experts.%d.%s_proj.weight", i, expert,
				    parts[part]);
	}
	add_ends(shape, 151936, 2048);
}

static const struct {
	void (*make)(struct shape *shape);
	uint32_t tensors;
	uint64_t bytes;
} published[] = {
	{ llama_2_70b, 723, 137953296384 },
	{ mixtral_8x7b, 995, 93405585408 },
	{ qwen3_30b_a3b, 18867, 61064245248 },
};

static void todays_models_have_few_chunks(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(published); i++) {
		struct model_manifest again;
		struct shape shape = { 0 };
		struct model_image image;
		char error[MODEL_ERROR_LEN], *text;
		uint64_t bytes = 0;
		size_t len;

		published[i].make(&shape);
		for (size_t j = 0; j < shape.checkpoint.count; j++)
			bytes += shape.tensors[j].size;
		assert_int_equal(bytes, published[i].bytes);
		assert_int_equal(shape.checkpoint.count, published[i].tensors);
		if (image_of(&image, &shape, error))
			fail_msg("%s", error);
		assert_in_range(image.manifest.chunk_count, 1, CHUNKS_EXPECTED);
		assert_int_equal(model_manifest_encode(&image.manifest, &text, &len), 0);
		assert_int_equal(model_manifest_parse(&again, text, len, error), 0);
		assert_int_equal(again.chunk_count, image.manifest.chunk_count);
		model_manifest_destroy(&again);
		free(text);
		model_image_destroy(&image);
		shape_destroy(&shape);
	}
}

/* Where in a chunk and how large: the same bytes are then the same chunk. */
static bool same_cut(const struct model_manifest *a, uint32_t i, const struct model_manifest *b,
		     uint32_t j)
{
	const struct model_manifest_tensor *x = &a->tensors[i], *y = &b->tensors[j];
	uint32_t end = model_manifest_chunk_at(a, x->offset + x->size - 1);

	for (uint32_t at = x->chunk, other = y->chunk; at <= end; at++, other++)
		if (other >= b->chunk_count || a->chunks[at].size != b->chunks[other].size ||
		    a->chunks[at].offset - x->offset != b->chunks[other].offset - y->offset)
			return false;
	return true;
}

static void copies_with_more_tensors_have_their_chunks_in_common(void **state)
{
	struct shape base = { 0 }, tuned = { 0 };
	struct model_image a, b;
	char error[MODEL_ERROR_LEN];
	uint32_t other = 0, same = 0;

	(void)state;
	qwen3_30b_a3b(&base);
	qwen3_30b_a3b(&tuned);
	/* A layer more at the beginning, and one at the end. */
	add(&tuned, 4096ULL * 2048, "adapter.weight");
	add(&tuned, 16ULL * 2048, "score.weight");
	assert_int_equal(image_of(&a, &base, error), 0);
	assert_int_equal(image_of(&b, &tuned, error), 0);
	for (uint32_t i = 0; i < a.manifest.tensor_count; i++) {
		while (strcmp(a.manifest.tensors[i].name, b.manifest.tensors[other].name))
			other++;
		same += same_cut(&a.manifest, i, &b.manifest, other);
	}
	/* Only the two that share a chunk with the new last one are not. */
	assert_int_equal(same, a.manifest.tensor_count - 2);
	model_image_destroy(&a);
	model_image_destroy(&b);
	shape_destroy(&base);
	shape_destroy(&tuned);
}

static uint32_t rnd(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

/* Tensors of one size, of any, or small ones between large ones, up to 64 GiB of them. */
static void the_number_of_chunks_is_bounded(void **state)
{
	uint32_t most = 120000, seed = 4;
	uint64_t *sizes = calloc(most, sizeof(*sizes)), *offsets = calloc(most, sizeof(*offsets));

	(void)state;
	assert_true(sizes && offsets);
	for (int round = 0; round < 60; round++) {
		uint64_t left = (uint64_t)MODEL_CHUNKS_AIM * MODEL_CHUNK_MAX;
		uint32_t count = 0, shift = 1 + rnd(&seed, 26), chunk_count, pattern = round % 3;
		uint64_t usual = 1 + rnd(&seed, 1U << shift), end = 0;
		struct model_chunk *chunks;

		while (count < most) {
			uint64_t size = usual;

			if (pattern == 1)
				size = rnd(&seed, 1U << rnd(&seed, shift + 1));
			if (pattern == 2 && count % 2)
				size = usual * 40 + 1;
			if (size + MODEL_ALIGNMENT > left)
				break;
			left -= size + MODEL_ALIGNMENT;
			sizes[count++] = size;
		}
		assert_int_equal(model_chunk_cut(sizes, count, offsets, &chunks, &chunk_count), 0);
		assert_true(chunk_count <= CHUNKS_EXPECTED);
		for (uint32_t i = 0; i < chunk_count; i++) {
			assert_true(chunks[i].size && chunks[i].size <= MODEL_CHUNK_MAX);
			assert_true(chunks[i].offset >= end);
			end = chunks[i].offset + chunks[i].size;
		}
		free(chunks);
	}
	free(sizes);
	free(offsets);
}

static void refuse(struct shape *shape, const char *field, const char *fix)
{
	char error[MODEL_ERROR_LEN] = "";
	struct model_image image;

	assert_int_equal(image_of(&image, shape, error), -E2BIG);
	assert_memory_equal(error, field, strlen(field));
	assert_contains(error, fix);
	shape_destroy(shape);
}

static void what_cannot_be_loaded_is_refused_before_it_is_read(void **state)
{
	char name[MODEL_TENSOR_NAME_MAX - 20];
	struct shape chunks = { 0 }, layers = { 0 }, text = { 0 };

	(void)state;
	/* 2 TiB. */
	for (int i = 0; i < 32; i++)
		add(&chunks, 1ULL << 35, "%d.weight", i);
	refuse(&chunks, "chunks: ", "several models");
	for (int i = 0; i < MODEL_CHUNKS_MAX + 1; i++)
		add(&layers, 1, "%d.weight", i);
	refuse(&layers, "layers: ", "order file");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 40000; i++)
		add(&text, 1, "%s%d.weight", name, i);
	refuse(&text, "tensors: ", "shorter names");
}

static void empty_tensors_are_everywhere(void **state)
{
	static const uint64_t sizes[][4] = {
		{ 0, 7, 300, 0 }, { 0, 0, 1, 0 }, { 5, 0, 0, 0 }, { 0, 0, 0, 2 }, { 1, 0, 70000, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct model_manifest again;
		struct shape shape = { 0 };
		struct model_image image;
		char error[MODEL_ERROR_LEN] = "", *text;
		size_t len;

		for (int j = 0; j < 4; j++)
			add(&shape, sizes[i][j], "%d.weight", j);
		if (image_of(&image, &shape, error))
			fail_msg("%s", error);
		assert_int_equal(model_manifest_encode(&image.manifest, &text, &len), 0);
		if (model_manifest_parse(&again, text, len, error))
			fail_msg("%s", error);
		model_manifest_destroy(&again);
		free(text);
		model_image_destroy(&image);
		shape_destroy(&shape);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(todays_models_have_few_chunks),
		cmocka_unit_test(copies_with_more_tensors_have_their_chunks_in_common),
		cmocka_unit_test(the_number_of_chunks_is_bounded),
		cmocka_unit_test(what_cannot_be_loaded_is_refused_before_it_is_read),
		cmocka_unit_test(empty_tensors_are_everywhere),
	};

	return cmocka_run_group_tests_name("model_shapes", tests, NULL, NULL);
}
