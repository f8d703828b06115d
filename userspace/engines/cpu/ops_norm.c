// SPDX-License-Identifier: GPL-2.0-or-later
/* Layer normalisation and its gradient. */
#include "ops_type.h"

#include <math.h>

struct norm {
	float *y;
	float *stats; /* a row's mean and rstd */
	const float *x, *gamma, *beta;
	uint64_t rows, cols, tile;
	float epsilon;
};

static void norm_load(struct op_load *load, void *state)
{
	struct norm *n = state;

	n->rows = op_load_size(load, DISTMIND_LAYER_NORM_ROWS, "rows");
	n->cols = op_load_size(load, DISTMIND_LAYER_NORM_COLS, "cols");
	n->epsilon = op_load_float(load, DISTMIND_LAYER_NORM_EPSILON, "epsilon");
	if (load->err)
		return;
	n->tile = distmind_op_tile_rows(n->cols);
	n->y = op_load_output(load, DISTMIND_LAYER_NORM_Y, "y", n->rows * n->cols);
	n->stats = op_load_output(load, DISTMIND_LAYER_NORM_STATS, "stats", n->rows * 2);
	n->x = op_load_input(load, DISTMIND_LAYER_NORM_X, "x", n->rows * n->cols);
	n->gamma = op_load_input(load, DISTMIND_LAYER_NORM_GAMMA, "gamma", n->cols);
	n->beta = op_load_input(load, DISTMIND_LAYER_NORM_BETA, "beta", n->cols);
}

static void norm_row(const struct norm *n, uint64_t row)
{
	const float *x = n->x + row * n->cols;
	float *y = n->y + row * n->cols;
	double sum = 0, squares = 0;
	float mean, rstd;

	for (uint64_t i = 0; i < n->cols; i++)
		sum += (double)x[i];
	sum /= (double)n->cols;
	for (uint64_t i = 0; i < n->cols; i++)
		squares += ((double)x[i] - sum) * ((double)x[i] - sum);
	mean = (float)sum;
	rstd = (float)(1 / sqrt(squares / (double)n->cols + (double)n->epsilon));
	for (uint64_t i = 0; i < n->cols; i++)
		y[i] = (x[i] - mean) * rstd * n->gamma[i] + n->beta[i];
	n->stats[row * 2] = mean;
	n->stats[row * 2 + 1] = rstd;
}

static int norm_block(const void *state, uint64_t block)
{
	const struct norm *n = state;
	struct op_range range = op_range(n->rows, n->tile, block);

	for (uint64_t row = range.begin; row < range.end; row++)
		norm_row(n, row);
	return 0;
}

static void norm_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct norm *n = state;
	uint64_t count = op_range_size(op_range(n->rows, n->tile, block)) * n->cols;

	work->flops += 8 * count;
	work->bytes += 2 * count * sizeof(float);
}

const struct op_type op_layer_norm = { norm_load, norm_block, norm_work, NULL };
OP_STATE_CHECK(struct norm);

/* The blocks of columns come first: those of rows may overwrite dy. */
struct norm_grad {
	float *dx, *dgamma, *dbeta;
	const float *dy, *x, *gamma, *stats;
	uint64_t rows, cols;
	uint64_t tile_rows, tile_cols;
	uint64_t col_blocks;
};

static void grad_load(struct op_load *load, void *state)
{
	struct norm_grad *n = state;

	n->rows = op_load_size(load, DISTMIND_LAYER_NORM_GRAD_ROWS, "rows");
	n->cols = op_load_size(load, DISTMIND_LAYER_NORM_GRAD_COLS, "cols");
	if (load->err)
		return;
	n->tile_rows = distmind_op_tile_rows(n->cols);
	n->tile_cols = distmind_op_tile_cols(n->rows);
	n->col_blocks = distmind_op_divide(n->cols, n->tile_cols);
	n->dx = op_load_output(load, DISTMIND_LAYER_NORM_GRAD_DX, "dx", n->rows * n->cols);
	n->dgamma = op_load_output(load, DISTMIND_LAYER_NORM_GRAD_DGAMMA, "dgamma", n->cols);
	n->dbeta = op_load_output(load, DISTMIND_LAYER_NORM_GRAD_DBETA, "dbeta", n->cols);
	n->dy = op_load_input(load, DISTMIND_LAYER_NORM_GRAD_DY, "dy", n->rows * n->cols);
	n->x = op_load_input(load, DISTMIND_LAYER_NORM_GRAD_X, "x", n->rows * n->cols);
	n->gamma = op_load_input(load, DISTMIND_LAYER_NORM_GRAD_GAMMA, "gamma", n->cols);
	n->stats = op_load_input(load, DISTMIND_LAYER_NORM_GRAD_STATS, "stats", n->rows * 2);
}

static void grad_cols(const struct norm_grad *n, uint64_t first, uint64_t count)
{
	double gamma[DISTMIND_OP_TILE_COLS] = { 0 }, beta[DISTMIND_OP_TILE_COLS] = { 0 };

	for (uint64_t row = 0; row < n->rows; row++) {
		const float *dy = n->dy + row * n->cols + first;
		const float *x = n->x + row * n->cols + first;
		float mean = n->stats[row * 2], rstd = n->stats[row * 2 + 1];

		for (uint64_t i = 0; i < count; i++) {
			gamma[i] += (double)(dy[i] * (x[i] - mean) * rstd);
			beta[i] += (double)dy[i];
		}
	}
	for (uint64_t i = 0; i < count; i++) {
		n->dgamma[first + i] = (float)gamma[i];
		n->dbeta[first + i] = (float)beta[i];
	}
}

static void grad_row(const struct norm_grad *n, uint64_t row)
{
	const float *dy = n->dy + row * n->cols;
	const float *x = n->x + row * n->cols;
	float *dx = n->dx + row * n->cols;
	float mean = n->stats[row * 2], rstd = n->stats[row * 2 + 1];
	double sum = 0, product = 0;
	float mean_dy, mean_product;

	for (uint64_t i = 0; i < n->cols; i++) {
		double scaled = (double)(dy[i] * n->gamma[i]);

		sum += scaled;
		product += scaled * (double)((x[i] - mean) * rstd);
	}
	mean_dy = (float)(sum / (double)n->cols);
	mean_product = (float)(product / (double)n->cols);
	for (uint64_t i = 0; i < n->cols; i++)
		dx[i] = rstd * (dy[i] * n->gamma[i] - mean_dy -
				(x[i] - mean) * rstd * mean_product);
}

static struct op_range grad_range(const struct norm_grad *n, uint64_t block)
{
	if (block < n->col_blocks)
		return op_range(n->cols, n->tile_cols, block);
	return op_range(n->rows, n->tile_rows, block - n->col_blocks);
}

static int grad_block(const void *state, uint64_t block)
{
	const struct norm_grad *n = state;
	struct op_range range = grad_range(n, block);

	if (block >= n->col_blocks) {
		for (uint64_t row = range.begin; row < range.end; row++)
			grad_row(n, row);
		return 0;
	}
	for (uint64_t first = range.begin; first < range.end; first += DISTMIND_OP_TILE_COLS) {
		uint64_t count = range.end - first;

		grad_cols(n, first, count < DISTMIND_OP_TILE_COLS ? count : DISTMIND_OP_TILE_COLS);
	}
	return 0;
}

static void grad_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct norm_grad *n = state;
	bool by_cols = block < n->col_blocks;
	uint64_t count = op_range_size(grad_range(n, block)) * (by_cols ? n->rows : n->cols);

	work->flops += count * (by_cols ? 5 : 12);
	work->bytes += count * (by_cols ? 2 : 3) * sizeof(float);
}

/* The first block of columns and the first of rows, as if they were one. */
static void grad_most(const void *state, struct op_work *work)
{
	const struct norm_grad *n = state;

	grad_work(state, 0, work);
	grad_work(state, n->col_blocks, work);
}

const struct op_type op_layer_norm_grad = { grad_load, grad_block, grad_work, grad_most };
OP_STATE_CHECK(struct norm_grad);
