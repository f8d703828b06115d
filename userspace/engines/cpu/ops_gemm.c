// SPDX-License-Identifier: GPL-2.0-or-later
/* Batches of matrix products. A block is a tile of one product, over the whole of k. */
#include "ops_type.h"

#include <cblas.h>
#include <errno.h>

struct gemm {
	float *c;
	const float *a, *b;
	uint64_t m, n, k;
	uint64_t lda, ldb, ldc;
	uint64_t batch, stride_a, stride_b, stride_c;
	uint64_t tile_rows, tile_cols; /* of c, in elements */
	uint64_t grid_rows, grid_cols; /* of an item of the batch, in tiles */
	float alpha, beta;
	bool transpose_a, transpose_b;
};
OP_STATE_CHECK(struct gemm);

/* From the first to the last element of batch matrices. */
static uint64_t elements(uint64_t rows, uint64_t cols, uint64_t ld, uint64_t batch, uint64_t stride)
{
	uint64_t last, all;

	if (__builtin_mul_overflow(batch - 1, stride, &last) ||
	    __builtin_add_overflow(last, (rows - 1) * ld + cols, &all))
		return UINT64_MAX;
	return all;
}

static uint64_t load_ld(struct op_load *load, uint32_t index, const char *name, uint64_t cols)
{
	uint64_t ld = op_load_size(load, index, name);

	if (ld < cols)
		op_load_fail(load, -EINVAL, "%s is less than the columns of its matrix", name);
	return ld;
}

static void gemm_load(struct op_load *load, void *state)
{
	struct gemm *g = state;
	uint64_t transpose;

	g->m = op_load_size(load, DISTMIND_GEMM_M, "m");
	g->n = op_load_size(load, DISTMIND_GEMM_N, "n");
	g->k = op_load_size(load, DISTMIND_GEMM_K, "k");
	transpose = op_load_number(load, DISTMIND_GEMM_TRANSPOSE, "transpose", 0,
				   DISTMIND_GEMM_TRANSPOSE__ALL);
	g->transpose_a = transpose & DISTMIND_GEMM_TRANSPOSE_A;
	g->transpose_b = transpose & DISTMIND_GEMM_TRANSPOSE_B;
	g->alpha = op_load_float(load, DISTMIND_GEMM_ALPHA, "alpha");
	g->beta = op_load_float(load, DISTMIND_GEMM_BETA, "beta");
	g->lda = load_ld(load, DISTMIND_GEMM_LDA, "lda", g->transpose_a ? g->m : g->k);
	g->ldb = load_ld(load, DISTMIND_GEMM_LDB, "ldb", g->transpose_b ? g->k : g->n);
	g->ldc = load_ld(load, DISTMIND_GEMM_LDC, "ldc", g->n);
	g->batch = op_load_size(load, DISTMIND_GEMM_BATCH, "batch");
	g->stride_a = op_load_number(load, DISTMIND_GEMM_STRIDE_A, "stride_a", 0, UINT64_MAX);
	g->stride_b = op_load_number(load, DISTMIND_GEMM_STRIDE_B, "stride_b", 0, UINT64_MAX);
	g->stride_c = op_load_number(load, DISTMIND_GEMM_STRIDE_C, "stride_c", 0, UINT64_MAX);
	if (load->err)
		return;
	distmind_op_tile_gemm(g->m, g->n, g->k, &g->tile_rows, &g->tile_cols);
	g->grid_rows = distmind_op_divide(g->m, g->tile_rows);
	g->grid_cols = distmind_op_divide(g->n, g->tile_cols);

	g->c = op_load_output(load, DISTMIND_GEMM_C, "c",
			      elements(g->m, g->n, g->ldc, g->batch, g->stride_c));
	g->a = op_load_input(load, DISTMIND_GEMM_A, "a",
			      elements(g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k,
				       g->lda, g->batch, g->stride_a));
	g->b = op_load_input(load, DISTMIND_GEMM_B, "b",
			      elements(g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n,
				       g->ldb, g->batch, g->stride_b));
}

struct tile {
	uint64_t item;
	struct op_range rows, cols;
};

static struct tile find_tile(const struct gemm *g, uint64_t block)
{
	uint64_t inside = block % (g->grid_rows * g->grid_cols);

	return (struct tile){
		.item = block / (g->grid_rows * g->grid_cols),
		.rows = op_range(g->m, g->tile_rows, inside / g->grid_cols),
		.cols = op_range(g->n, g->tile_cols, inside % g->grid_cols),
	};
}

static int gemm_block(const void *state, uint64_t block)
{
	const struct gemm *g = state;
	struct tile tile = find_tile(g, block);
	uint64_t row = tile.rows.begin, col = tile.cols.begin;

	cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
		    g->transpose_b ? CblasTrans : CblasNoTrans, (blasint)op_range_size(tile.rows),
		    (blasint)op_range_size(tile.cols), (blasint)g->k, g->alpha,
		    g->a + tile.item * g->stride_a + (g->transpose_a ? row : row * g->lda),
		    (blasint)g->lda,
		    g->b + tile.item * g->stride_b + (g->transpose_b ? col * g->ldb : col),
		    (blasint)g->ldb, g->beta,
		    g->c + tile.item * g->stride_c + row * g->ldc + col, (blasint)g->ldc);
	return 0;
}

static void gemm_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct gemm *g = state;
	struct tile tile = find_tile(g, block);
	uint64_t m = op_range_size(tile.rows), n = op_range_size(tile.cols);

	work->flops += 2 * m * n * g->k;
	work->bytes += (m * g->k + g->k * n + (g->beta == 0 ? 1 : 2) * m * n) * sizeof(float);
}

const struct op_type op_gemm = { gemm_load, gemm_block, gemm_work, NULL };
