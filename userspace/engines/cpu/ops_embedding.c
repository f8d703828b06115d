// SPDX-License-Identifier: GPL-2.0-or-later
/* Rows of a table by their index, and the gradient of the table. */
#include "ops_type.h"

#include <errno.h>

struct embedding {
	float *out; /* y or dtable */
	const float *in;
	const int32_t *index;
	uint64_t count, width, vocabulary, tile;
};
OP_STATE_CHECK(struct embedding);

static int read_index(const struct embedding *e, uint64_t i, uint64_t *index)
{
	int32_t value = op_read_index(&e->index[i]);

	if (value < 0 || (uint64_t)value >= e->vocabulary)
		return -EDOM;
	*index = (uint64_t)value;
	return 0;
}

static void embedding_load(struct op_load *load, void *state)
{
	struct embedding *e = state;

	e->count = op_load_size(load, DISTMIND_EMBEDDING_COUNT, "count");
	e->width = op_load_size(load, DISTMIND_EMBEDDING_WIDTH, "width");
	e->vocabulary = op_load_size(load, DISTMIND_EMBEDDING_VOCABULARY, "vocabulary");
	if (load->err)
		return;
	e->tile = distmind_op_tile_rows(e->width);
	e->out = op_load_output(load, DISTMIND_EMBEDDING_Y, "y", e->count * e->width);
	e->in = op_load_input(load, DISTMIND_EMBEDDING_TABLE, "table", e->vocabulary * e->width);
	e->index = op_load_input(load, DISTMIND_EMBEDDING_INDEX, "index", e->count);
}

static int embedding_block(const void *state, uint64_t block)
{
	const struct embedding *e = state;
	struct op_range range = op_range(e->count, e->tile, block);
	uint64_t index;

	for (uint64_t row = range.begin; row < range.end; row++) {
		if (read_index(e, row, &index))
			return -EDOM;
		memmove(e->out + row * e->width, e->in + index * e->width,
			e->width * sizeof(*e->out));
	}
	return 0;
}

static void embedding_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct embedding *e = state;

	work->bytes += 2 * op_range_size(op_range(e->count, e->tile, block)) * e->width *
		       sizeof(float);
}

const struct op_type op_embedding = { embedding_load, embedding_block, embedding_work, NULL };

static void grad_load(struct op_load *load, void *state)
{
	struct embedding *e = state;

	e->count = op_load_size(load, DISTMIND_EMBEDDING_GRAD_COUNT, "count");
	e->width = op_load_size(load, DISTMIND_EMBEDDING_GRAD_WIDTH, "width");
	e->vocabulary = op_load_size(load, DISTMIND_EMBEDDING_GRAD_VOCABULARY, "vocabulary");
	if (load->err)
		return;
	e->tile = distmind_op_tile_rows(e->width);
	e->out = op_load_output(load, DISTMIND_EMBEDDING_GRAD_DTABLE, "dtable",
				e->vocabulary * e->width);
	e->in = op_load_input(load, DISTMIND_EMBEDDING_GRAD_DY, "dy", e->count * e->width);
	e->index = op_load_input(load, DISTMIND_EMBEDDING_GRAD_INDEX, "index", e->count);
}

/* A block owns some rows of the table, and looks through all of the indices for them. */
static int grad_block(const void *state, uint64_t block)
{
	const struct embedding *e = state;
	struct op_range range = op_range(e->vocabulary, e->tile, block);
	uint64_t index;

	memset(e->out + range.begin * e->width, 0,
	       op_range_size(range) * e->width * sizeof(*e->out));
	for (uint64_t row = 0; row < e->count; row++) {
		const float *dy = e->in + row * e->width;
		float *dtable;

		if (read_index(e, row, &index))
			return -EDOM;
		if (index < range.begin || index >= range.end)
			continue;
		dtable = e->out + index * e->width;
		for (uint64_t i = 0; i < e->width; i++)
			dtable[i] += dy[i];
	}
	return 0;
}

/* What is added depends on the indices: taken as spread evenly over the table. */
static void grad_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct embedding *e = state;
	uint64_t rows = op_range_size(op_range(e->vocabulary, e->tile, block));
	uint64_t added = distmind_op_divide(e->count * rows, e->vocabulary) * e->width;

	work->flops += added;
	work->bytes += (rows * e->width + 3 * added + e->count) * sizeof(float);
}

/* All indices may be in the rows of one block. */
static void grad_most(const void *state, struct op_work *work)
{
	const struct embedding *e = state;
	uint64_t rows = op_range_size(op_range(e->vocabulary, e->tile, 0));
	uint64_t added = e->count * e->width;

	work->flops += added;
	work->bytes += (rows * e->width + 3 * added + e->count) * sizeof(float);
}

const struct op_type op_embedding_grad = { grad_load, grad_block, grad_work, grad_most };
