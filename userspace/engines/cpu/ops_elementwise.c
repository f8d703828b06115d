// SPDX-License-Identifier: GPL-2.0-or-later
/* Arithmetic on each element, and sums of columns: elementwise, sgd, reduce. */
#include "ops_type.h"

struct elementwise {
	float *out;
	const float *a, *b;
	uint64_t count;
	float alpha;
	enum distmind_elementwise_kind kind;
};

static void elementwise_load(struct op_load *load, void *state)
{
	struct elementwise *e = state;

	e->count = op_load_size(load, DISTMIND_ELEMENTWISE_COUNT, "count");
	e->kind = (enum distmind_elementwise_kind)op_load_number(
		load, DISTMIND_ELEMENTWISE_KIND, "kind", 0, DISTMIND_ELEMENTWISE__COUNT - 1);
	e->alpha = op_load_float(load, DISTMIND_ELEMENTWISE_ALPHA, "alpha");
	e->out = op_load_output(load, DISTMIND_ELEMENTWISE_OUT, "out", e->count);
	e->a = op_load_input(load, DISTMIND_ELEMENTWISE_A, "a", e->count);
	e->b = op_load_input(load, DISTMIND_ELEMENTWISE_B, "b", e->count);
}

static int elementwise_block(const void *state, uint64_t block)
{
	const struct elementwise *e = state;
	struct op_range range = op_range(e->count, DISTMIND_OP_TILE, block);
	const float *a = e->a, *b = e->b;
	float *out = e->out, alpha = e->alpha;

	switch (e->kind) {
	case DISTMIND_ELEMENTWISE_ADD:
		for (uint64_t i = range.begin; i < range.end; i++)
			out[i] = a[i] + b[i];
		break;
	case DISTMIND_ELEMENTWISE_SUB:
		for (uint64_t i = range.begin; i < range.end; i++)
			out[i] = a[i] - b[i];
		break;
	case DISTMIND_ELEMENTWISE_MUL:
		for (uint64_t i = range.begin; i < range.end; i++)
			out[i] = a[i] * b[i];
		break;
	case DISTMIND_ELEMENTWISE_AXPY:
		for (uint64_t i = range.begin; i < range.end; i++)
			out[i] = alpha * a[i] + b[i];
		break;
	case DISTMIND_ELEMENTWISE_SCALE:
	default:
		for (uint64_t i = range.begin; i < range.end; i++)
			out[i] = alpha * a[i];
		break;
	}
	return 0;
}

static void elementwise_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct elementwise *e = state;
	uint64_t count = op_range_size(op_range(e->count, DISTMIND_OP_TILE, block));

	work->flops += count * (e->kind == DISTMIND_ELEMENTWISE_AXPY ? 2 : 1);
	work->bytes += count * (e->kind == DISTMIND_ELEMENTWISE_SCALE ? 2 : 3) * sizeof(float);
}

const struct op_type op_elementwise = { elementwise_load, elementwise_block, elementwise_work,
					NULL };
OP_STATE_CHECK(struct elementwise);

struct sgd {
	float *w;
	const float *g;
	uint64_t count;
	float rate;
};

static void sgd_load(struct op_load *load, void *state)
{
	struct sgd *sgd = state;

	sgd->count = op_load_size(load, DISTMIND_SGD_COUNT, "count");
	sgd->rate = op_load_float(load, DISTMIND_SGD_RATE, "rate");
	sgd->w = op_load_output(load, DISTMIND_SGD_W, "w", sgd->count);
	sgd->g = op_load_input(load, DISTMIND_SGD_G, "g", sgd->count);
}

static int sgd_block(const void *state, uint64_t block)
{
	const struct sgd *sgd = state;
	struct op_range range = op_range(sgd->count, DISTMIND_OP_TILE, block);
	const float *g = sgd->g;
	float *w = sgd->w, rate = sgd->rate;

	for (uint64_t i = range.begin; i < range.end; i++)
		w[i] -= rate * g[i];
	return 0;
}

static void sgd_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct sgd *sgd = state;
	uint64_t count = op_range_size(op_range(sgd->count, DISTMIND_OP_TILE, block));

	work->flops += 2 * count;
	work->bytes += 3 * count * sizeof(float);
}

const struct op_type op_sgd = { sgd_load, sgd_block, sgd_work, NULL };
OP_STATE_CHECK(struct sgd);

struct reduce {
	float *out;
	const float *x;
	uint64_t rows, cols, tile;
};

static void reduce_load(struct op_load *load, void *state)
{
	struct reduce *r = state;

	r->rows = op_load_size(load, DISTMIND_REDUCE_ROWS, "rows");
	r->cols = op_load_size(load, DISTMIND_REDUCE_COLS, "cols");
	if (load->err)
		return;
	r->tile = distmind_op_tile_cols(r->rows);
	r->out = op_load_output(load, DISTMIND_REDUCE_OUT, "out", r->cols);
	r->x = op_load_input(load, DISTMIND_REDUCE_X, "x", r->rows * r->cols);
}

/* A few columns at a time, as many as a pass keeps in registers and one cache line has. */
static int reduce_block(const void *state, uint64_t block)
{
	const struct reduce *r = state;
	struct op_range range = op_range(r->cols, r->tile, block);

	for (uint64_t first = range.begin; first < range.end; first += DISTMIND_OP_TILE_COLS) {
		uint64_t count = range.end - first;
		double sums[DISTMIND_OP_TILE_COLS] = { 0 };

		if (count > DISTMIND_OP_TILE_COLS)
			count = DISTMIND_OP_TILE_COLS;
		for (uint64_t row = 0; row < r->rows; row++)
			for (uint64_t i = 0; i < count; i++)
				sums[i] += (double)r->x[row * r->cols + first + i];
		for (uint64_t i = 0; i < count; i++)
			r->out[first + i] = (float)sums[i];
	}
	return 0;
}

static void reduce_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct reduce *r = state;
	uint64_t cols = op_range_size(op_range(r->cols, r->tile, block));

	work->flops += r->rows * cols;
	work->bytes += (r->rows + 1) * cols * sizeof(float);
}

const struct op_type op_reduce = { reduce_load, reduce_block, reduce_work, NULL };
OP_STATE_CHECK(struct reduce);
