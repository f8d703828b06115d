// SPDX-License-Identifier: GPL-2.0-or-later
/* Matrix products against three loops; see ops.c for how each is run. */
#include "ops_heap.h"

static struct heap heap;

static int open_heap(void **state)
{
	(void)state;
	return heap_open(&heap);
}

static int close_heap(void **state)
{
	(void)state;
	return heap_close(&heap);
}

struct product {
	uint64_t m, n, k, batch, spare; /* spare: elements between rows and items */
	uint32_t transpose;
	float alpha, beta;
};

struct matrix {
	struct buffer buffer;
	uint64_t ld, stride;
};

static struct matrix make_matrix(uint64_t rows, uint64_t cols, const struct product *p, bool at_end)
{
	uint64_t ld = cols + p->spare, stride = rows * ld + p->spare;
	uint64_t elements = (p->batch - 1) * stride + (rows - 1) * ld + cols;

	return (struct matrix){
		.buffer = at_end ? heap_buffer_at_end(&heap, elements) :
				   heap_buffer(&heap, elements),
		.ld = ld,
		.stride = stride,
	};
}

static double element(const struct matrix *matrix, bool transposed, uint64_t item, uint64_t i,
		      uint64_t j)
{
	const float *at = heap_floats(&heap, matrix->buffer) + item * matrix->stride;

	return (double)(transposed ? at[j * matrix->ld + i] : at[i * matrix->ld + j]);
}

static void check_values(const struct product *p, const struct matrix *a, const struct matrix *b,
			 const struct matrix *c, const float *before)
{
	bool ta = p->transpose & DISTMIND_GEMM_TRANSPOSE_A;
	bool tb = p->transpose & DISTMIND_GEMM_TRANSPOSE_B;

	for (uint64_t item = 0; item < p->batch; item++) {
		for (uint64_t i = 0; i < p->m; i++) {
			for (uint64_t j = 0; j < p->n; j++) {
				uint64_t at = item * c->stride + i * c->ld + j;
				double sum = 0;

				for (uint64_t l = 0; l < p->k; l++)
					sum += element(a, ta, item, i, l) *
					       element(b, tb, item, l, j);
				sum *= (double)p->alpha;
				if (p->beta != 0)
					sum += (double)p->beta * (double)before[at];
				assert_close("c", at, heap_floats(&heap, c->buffer)[at], sum);
			}
		}
	}
}

/* What lies between the rows of c is not part of it. */
static void check_gaps(const struct product *p, const struct matrix *c, const float *before)
{
	for (uint64_t i = 0; i < c->buffer.length / 4; i++) {
		uint64_t inside = i % c->stride;

		if (inside / c->ld >= p->m || inside % c->ld >= p->n)
			assert_memory_equal(heap_floats(&heap, c->buffer) + i, before + i, 4);
	}
}

/* at_end: the matrix, 0 to 2, that ends where the heap does. */
static void check_product(const struct product *p, int at_end)
{
	bool ta = p->transpose & DISTMIND_GEMM_TRANSPOSE_A;
	bool tb = p->transpose & DISTMIND_GEMM_TRANSPOSE_B;
	struct matrix a, b, c;
	struct op_call call;
	float *before;

	heap_clear(&heap);
	a = make_matrix(ta ? p->k : p->m, ta ? p->m : p->k, p, at_end == 0);
	b = make_matrix(tb ? p->n : p->k, tb ? p->k : p->n, p, at_end == 1);
	c = make_matrix(p->m, p->n, p, at_end == 2);
	if (p->beta == 0)
		heap_floats(&heap, c.buffer)[0] = NAN;
	before = heap_copy(&heap, c.buffer);
	call = CALL(&heap, DISTMIND_OP_GEMM, BUF(c.buffer), BUF(a.buffer), BUF(b.buffer), NUM(p->m),
		    NUM(p->n), NUM(p->k), NUM(p->transpose), REAL(p->alpha), REAL(p->beta),
		    NUM(a.ld), NUM(b.ld), NUM(c.ld), NUM(p->batch), NUM(a.stride), NUM(b.stride),
		    NUM(c.stride));
	check_run(&heap, &call, 1);
	check_values(p, &a, &b, &c, before);
	check_gaps(p, &c, before);
	free(before);
}

static void products_of_all_shapes_match(void **state)
{
	static const uint64_t sizes[][3] = {
		{ 1, 1, 1 },	{ 1, 131, 1 },	{ 131, 1, 3 },	 { 1, 1, 257 },
		{ 2, 3, 5 },	{ 17, 19, 23 }, { 128, 128, 8 }, { 129, 127, 16 },
		{ 67, 257, 31 }, { 37, 41, 1031 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		for (uint32_t transpose = 0; transpose < 4; transpose++) {
			struct product p = {
				.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2],
				.batch = 1, .transpose = transpose, .alpha = 1,
			};

			check_product(&p, (int)(i + transpose) % 3);
		}
	}
}

static void alpha_beta_and_leading_dimensions_hold(void **state)
{
	static const float betas[] = { 0, 1, -0.5f };

	(void)state;
	for (size_t i = 0; i < COUNT(betas) * 4; i++) {
		struct product p = {
			.m = 131, .n = 37, .k = 29, .batch = 1, .spare = 3,
			.transpose = (uint32_t)i % 4, .alpha = 0.75f, .beta = betas[i / 4],
		};

		check_product(&p, (int)i % 3);
	}
}

static void batches_have_strides(void **state)
{
	(void)state;
	for (uint32_t transpose = 0; transpose < 4; transpose++) {
		struct product small = {
			.m = 7, .n = 5, .k = 11, .batch = 13, .spare = 2,
			.transpose = transpose, .alpha = 0.35f, .beta = 1,
		};
		struct product tiled = {
			.m = 150, .n = 140, .k = 9, .batch = 3, .spare = 1,
			.transpose = transpose, .alpha = -1,
		};

		check_product(&small, 2);
		check_product(&tiled, 1);
	}
}

/* Attention: the heads of a row lie side by side, so items of a batch interleave. */
static void items_of_a_batch_may_interleave(void **state)
{
	enum { ROWS = 9, HEADS = 4, SIZE = 6, ALL = HEADS * SIZE };
	struct buffer q, k, scores;
	struct op_call call;

	(void)state;
	heap_clear(&heap);
	q = heap_buffer(&heap, ROWS * ALL);
	k = heap_buffer(&heap, ROWS * ALL);
	scores = heap_buffer(&heap, HEADS * ROWS * ROWS);
	call = CALL(&heap, DISTMIND_OP_GEMM, BUF(scores), BUF(q), BUF(k), NUM(ROWS), NUM(ROWS),
		    NUM(SIZE), NUM(DISTMIND_GEMM_TRANSPOSE_B), REAL(1), REAL(0), NUM(ALL), NUM(ALL),
		    NUM(ROWS), NUM(HEADS), NUM(SIZE), NUM(SIZE), NUM(ROWS * ROWS));
	check_run(&heap, &call, 1);
	for (uint64_t i = 0; i < HEADS * ROWS * ROWS; i++) {
		uint64_t head = i / (ROWS * ROWS), row = i / ROWS % ROWS, col = i % ROWS;
		double sum = 0;

		for (uint64_t l = 0; l < SIZE; l++)
			sum += (double)heap_floats(&heap, q)[row * ALL + head * SIZE + l] *
			       (double)heap_floats(&heap, k)[col * ALL + head * SIZE + l];
		assert_close("scores", i, heap_floats(&heap, scores)[i], sum);
	}
}

static void tiles_shrink_as_k_grows(void **state)
{
	uint64_t rows, cols;

	(void)state;
	for (uint64_t k = 1; k < 1 << 20; k = k * 3 + 1) {
		distmind_op_tile_gemm(1000, 1000, k, &rows, &cols);
		assert_in_range(rows, DISTMIND_GEMM_TILE_MIN, DISTMIND_GEMM_TILE);
		assert_in_range(cols, DISTMIND_GEMM_TILE_MIN, DISTMIND_GEMM_TILE);
		if (rows > DISTMIND_GEMM_TILE_MIN)
			assert_true(rows * cols * k <= DISTMIND_GEMM_TILE_STEPS);
	}
	distmind_op_tile_gemm(1000, 1000, 512, &rows, &cols);
	assert_int_equal(rows * cols, 128 * 128);
	distmind_op_tile_gemm(1000, 1000, 1 << 20, &rows, &cols);
	assert_int_equal(rows * cols, 16 * 16);
}

/* A product with few rows, as inference has, is not cut into more blocks than its work needs. */
static void tiles_of_thin_products_are_wider(void **state)
{
	uint64_t rows, cols, high, wide;

	(void)state;
	distmind_op_tile_gemm(8, 720, 720, &rows, &cols);
	assert_true(rows >= 8 && cols >= 720);
	distmind_op_tile_gemm(720, 8, 720, &rows, &cols);
	assert_true(rows >= 720 && cols >= 8);
	for (uint64_t m = 1; m < 128; m = m * 2 + 1) {
		for (uint64_t k = 1; k < 1 << 16; k = k * 3 + 1) {
			distmind_op_tile_gemm(m, 1 << 20, k, &rows, &cols);
			distmind_op_tile_gemm(1 << 20, m, k, &wide, &high);
			if (m >= rows || m >= high)
				continue;
			assert_true(m * cols * k <= DISTMIND_GEMM_TILE_STEPS);
			assert_true(cols <= DISTMIND_GEMM_TILE ||
				    cols * k <= DISTMIND_GEMM_TILE_READ);
			assert_true(wide <= DISTMIND_GEMM_TILE ||
				    wide * k <= DISTMIND_GEMM_TILE_READ);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_of_all_shapes_match),
		cmocka_unit_test(alpha_beta_and_leading_dimensions_hold),
		cmocka_unit_test(batches_have_strides),
		cmocka_unit_test(items_of_a_batch_may_interleave),
		cmocka_unit_test(tiles_shrink_as_k_grows),
		cmocka_unit_test(tiles_of_thin_products_are_wider),
	};

	return cmocka_run_group_tests(tests, open_heap, close_heap);
}
