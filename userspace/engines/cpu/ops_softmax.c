// SPDX-License-Identifier: GPL-2.0-or-later
/* Softmax, its gradient, and its cross-entropy with that gradient. */
#include "ops_type.h"

#include <errno.h>
#include <math.h>

struct softmax {
	float *out; /* y or dx */
	float *loss;
	const float *x;
	const float *dy;
	const int32_t *labels;
	uint64_t rows, cols, tile;
	float scale;
	bool causal;
};
OP_STATE_CHECK(struct softmax);

static float largest(const float *x, uint64_t count)
{
	float max = x[0];

	for (uint64_t i = 1; i < count; i++)
		max = x[i] > max ? x[i] : max;
	return max;
}

/* out = exp(x - max); returns their sum. */
static double exponentials(float *out, const float *x, float max, uint64_t count)
{
	double sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		out[i] = expf(x[i] - max);
		sum += (double)out[i];
	}
	return sum;
}

static void scale_row(float *out, float scale, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] *= scale;
}

static uint64_t block_elements(const struct softmax *s, uint64_t block)
{
	return op_range_size(op_range(s->rows, s->tile, block)) * s->cols;
}

static void softmax_load(struct op_load *load, void *state)
{
	struct softmax *s = state;

	s->rows = op_load_size(load, DISTMIND_SOFTMAX_ROWS, "rows");
	s->cols = op_load_size(load, DISTMIND_SOFTMAX_COLS, "cols");
	s->causal = op_load_number(load, DISTMIND_SOFTMAX_FLAGS, "flags", 0,
				   DISTMIND_SOFTMAX_FLAGS__ALL) &
		    DISTMIND_SOFTMAX_CAUSAL;
	if (load->err)
		return;
	if (s->causal && s->rows % s->cols)
		op_load_fail(load, -EINVAL, "rows of a causal softmax is not a multiple of cols");
	s->tile = distmind_op_tile_rows(s->cols);
	s->out = op_load_output(load, DISTMIND_SOFTMAX_Y, "y", s->rows * s->cols);
	s->x = op_load_input(load, DISTMIND_SOFTMAX_X, "x", s->rows * s->cols);
}

static int softmax_block(const void *state, uint64_t block)
{
	const struct softmax *s = state;
	struct op_range range = op_range(s->rows, s->tile, block);

	for (uint64_t row = range.begin; row < range.end; row++) {
		const float *x = s->x + row * s->cols;
		float *y = s->out + row * s->cols;
		uint64_t count = s->causal ? row % s->cols + 1 : s->cols;
		double sum = exponentials(y, x, largest(x, count), count);

		scale_row(y, (float)(1 / sum), count);
		memset(y + count, 0, (s->cols - count) * sizeof(*y));
	}
	return 0;
}

static void softmax_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct softmax *s = state;

	work->flops += 12 * block_elements(s, block);
	work->bytes += 2 * block_elements(s, block) * sizeof(float);
}

const struct op_type op_softmax = { softmax_load, softmax_block, softmax_work, NULL };

static void grad_load(struct op_load *load, void *state)
{
	struct softmax *s = state;

	s->rows = op_load_size(load, DISTMIND_SOFTMAX_GRAD_ROWS, "rows");
	s->cols = op_load_size(load, DISTMIND_SOFTMAX_GRAD_COLS, "cols");
	if (load->err)
		return;
	s->tile = distmind_op_tile_rows(s->cols);
	s->out = op_load_output(load, DISTMIND_SOFTMAX_GRAD_DX, "dx", s->rows * s->cols);
	s->dy = op_load_input(load, DISTMIND_SOFTMAX_GRAD_DY, "dy", s->rows * s->cols);
	s->x = op_load_input(load, DISTMIND_SOFTMAX_GRAD_Y, "y", s->rows * s->cols);
}

static int grad_block(const void *state, uint64_t block)
{
	const struct softmax *s = state;
	struct op_range range = op_range(s->rows, s->tile, block);

	for (uint64_t row = range.begin; row < range.end; row++) {
		const float *y = s->x + row * s->cols;
		const float *dy = s->dy + row * s->cols;
		float *dx = s->out + row * s->cols;
		double sum = 0;

		for (uint64_t i = 0; i < s->cols; i++)
			sum += (double)(dy[i] * y[i]);
		for (uint64_t i = 0; i < s->cols; i++)
			dx[i] = y[i] * (dy[i] - (float)sum);
	}
	return 0;
}

static void grad_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct softmax *s = state;

	work->flops += 4 * block_elements(s, block);
	work->bytes += 3 * block_elements(s, block) * sizeof(float);
}

const struct op_type op_softmax_grad = { grad_load, grad_block, grad_work, NULL };

static void xent_load(struct op_load *load, void *state)
{
	struct softmax *s = state;

	s->rows = op_load_size(load, DISTMIND_SOFTMAX_XENT_ROWS, "rows");
	s->cols = op_load_size(load, DISTMIND_SOFTMAX_XENT_COLS, "cols");
	s->scale = op_load_float(load, DISTMIND_SOFTMAX_XENT_SCALE, "scale");
	if (load->err)
		return;
	s->tile = distmind_op_tile_rows(s->cols);
	s->loss = op_load_output(load, DISTMIND_SOFTMAX_XENT_LOSS, "loss", s->rows);
	s->out = op_load_output(load, DISTMIND_SOFTMAX_XENT_DX, "dx", s->rows * s->cols);
	s->x = op_load_input(load, DISTMIND_SOFTMAX_XENT_X, "x", s->rows * s->cols);
	s->labels = op_load_input(load, DISTMIND_SOFTMAX_XENT_LABELS, "labels", s->rows);
}

static int xent_block(const void *state, uint64_t block)
{
	const struct softmax *s = state;
	struct op_range range = op_range(s->rows, s->tile, block);

	for (uint64_t row = range.begin; row < range.end; row++) {
		const float *x = s->x + row * s->cols;
		float *dx = s->out + row * s->cols;
		int32_t label = op_read_index(&s->labels[row]);
		float max, wanted;
		double sum;

		if (label < 0 || (uint64_t)label >= s->cols)
			return -EDOM;
		max = largest(x, s->cols);
		wanted = x[label] - max; /* before dx, which may be x, is written */
		sum = exponentials(dx, x, max, s->cols);
		s->loss[row] = (float)(log(sum) - (double)wanted);
		scale_row(dx, (float)((double)s->scale / sum), s->cols);
		dx[label] -= s->scale;
	}
	return 0;
}

static void xent_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct softmax *s = state;

	work->flops += 13 * block_elements(s, block);
	work->bytes += 2 * block_elements(s, block) * sizeof(float);
}

const struct op_type op_softmax_xent = { xent_load, xent_block, xent_work, NULL };
