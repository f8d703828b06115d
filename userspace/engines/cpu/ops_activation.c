// SPDX-License-Identifier: GPL-2.0-or-later
/* A bias for each column, then a function of each element; and its gradient. */
#include "ops_type.h"

#include <math.h>

#define SQRT_HALF     0.70710678118654752f /* 1 / sqrt(2) */
#define SQRT_HALF_TAU 0.39894228040143268f /* 1 / sqrt(2 pi) */

struct activation {
	float *out; /* y or dx */
	const float *dy;
	const float *x;
	const float *bias;
	uint64_t rows, cols, tile;
	enum distmind_activation kind;
};
OP_STATE_CHECK(struct activation);

static void activation_load(struct op_load *load, void *state)
{
	struct activation *a = state;

	a->rows = op_load_size(load, DISTMIND_BIAS_ACTIVATION_ROWS, "rows");
	a->cols = op_load_size(load, DISTMIND_BIAS_ACTIVATION_COLS, "cols");
	a->kind = (enum distmind_activation)op_load_number(load, DISTMIND_BIAS_ACTIVATION_KIND,
							   "activation", 0,
							   DISTMIND_ACTIVATION__COUNT - 1);
	if (load->err)
		return;
	a->tile = distmind_op_tile_rows(a->cols);
	a->out = op_load_output(load, DISTMIND_BIAS_ACTIVATION_Y, "y", a->rows * a->cols);
	a->x = op_load_input(load, DISTMIND_BIAS_ACTIVATION_X, "x", a->rows * a->cols);
	a->bias = op_load_input(load, DISTMIND_BIAS_ACTIVATION_BIAS, "bias", a->cols);
}

static void activate(enum distmind_activation kind, float *y, const float *x, const float *bias,
		     uint64_t count)
{
	switch (kind) {
	case DISTMIND_ACTIVATION_RELU:
		for (uint64_t i = 0; i < count; i++) {
			float z = x[i] + bias[i];

			/* Not the other way round: what is not a number stays one. */
			y[i] = z < 0 ? 0 : z;
		}
		break;
	case DISTMIND_ACTIVATION_GELU:
		for (uint64_t i = 0; i < count; i++) {
			float z = x[i] + bias[i];

			y[i] = 0.5f * z * (1 + erff(z * SQRT_HALF));
		}
		break;
	case DISTMIND_ACTIVATION_TANH:
		for (uint64_t i = 0; i < count; i++)
			y[i] = tanhf(x[i] + bias[i]);
		break;
	case DISTMIND_ACTIVATION_NONE:
	default:
		for (uint64_t i = 0; i < count; i++)
			y[i] = x[i] + bias[i];
		break;
	}
}

static int activation_block(const void *state, uint64_t block)
{
	const struct activation *a = state;
	struct op_range range = op_range(a->rows, a->tile, block);

	for (uint64_t row = range.begin; row < range.end; row++)
		activate(a->kind, a->out + row * a->cols, a->x + row * a->cols, a->bias, a->cols);
	return 0;
}

/* Floating-point operations per element, as devices are rated. */
static uint64_t activation_flops(enum distmind_activation kind)
{
	return kind == DISTMIND_ACTIVATION_GELU || kind == DISTMIND_ACTIVATION_TANH ? 16 : 2;
}

static void activation_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct activation *a = state;
	uint64_t count = op_range_size(op_range(a->rows, a->tile, block)) * a->cols;

	work->flops += count * activation_flops(a->kind);
	work->bytes += count * (a->dy ? 3 : 2) * sizeof(float);
}

static void plain_load(struct op_load *load, void *state)
{
	struct activation *a = state;

	a->dy = NULL;
	activation_load(load, state);
}

const struct op_type op_bias_activation = { plain_load, activation_block, activation_work, NULL };

static void grad_load(struct op_load *load, void *state)
{
	struct activation *a = state;

	a->rows = op_load_size(load, DISTMIND_BIAS_ACTIVATION_GRAD_ROWS, "rows");
	a->cols = op_load_size(load, DISTMIND_BIAS_ACTIVATION_GRAD_COLS, "cols");
	a->kind = (enum distmind_activation)op_load_number(load, DISTMIND_BIAS_ACTIVATION_GRAD_KIND,
							   "activation", 0,
							   DISTMIND_ACTIVATION__COUNT - 1);
	if (load->err)
		return;
	a->tile = distmind_op_tile_rows(a->cols);
	a->out = op_load_output(load, DISTMIND_BIAS_ACTIVATION_GRAD_DX, "dx", a->rows * a->cols);
	a->dy = op_load_input(load, DISTMIND_BIAS_ACTIVATION_GRAD_DY, "dy", a->rows * a->cols);
	a->x = op_load_input(load, DISTMIND_BIAS_ACTIVATION_GRAD_X, "x", a->rows * a->cols);
	a->bias = op_load_input(load, DISTMIND_BIAS_ACTIVATION_GRAD_BIAS, "bias", a->cols);
}

static void differentiate(enum distmind_activation kind, float *dx, const float *dy, const float *x,
			  const float *bias, uint64_t count)
{
	switch (kind) {
	case DISTMIND_ACTIVATION_RELU:
		for (uint64_t i = 0; i < count; i++)
			dx[i] = x[i] + bias[i] > 0 ? dy[i] : 0;
		break;
	case DISTMIND_ACTIVATION_GELU:
		for (uint64_t i = 0; i < count; i++) {
			float z = x[i] + bias[i];
			float slope = 0.5f * (1 + erff(z * SQRT_HALF)) +
				      z * SQRT_HALF_TAU * expf(-0.5f * z * z);

			dx[i] = dy[i] * slope;
		}
		break;
	case DISTMIND_ACTIVATION_TANH:
		for (uint64_t i = 0; i < count; i++) {
			float y = tanhf(x[i] + bias[i]);

			dx[i] = dy[i] * (1 - y * y);
		}
		break;
	case DISTMIND_ACTIVATION_NONE:
	default:
		memmove(dx, dy, count * sizeof(*dx));
		break;
	}
}

static int grad_block(const void *state, uint64_t block)
{
	const struct activation *a = state;
	struct op_range range = op_range(a->rows, a->tile, block);

	for (uint64_t row = range.begin; row < range.end; row++)
		differentiate(a->kind, a->out + row * a->cols, a->dy + row * a->cols,
			      a->x + row * a->cols, a->bias, a->cols);
	return 0;
}

const struct op_type op_bias_activation_grad = { grad_load, grad_block, activation_work, NULL };
