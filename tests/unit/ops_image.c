// SPDX-License-Identifier: GPL-2.0-or-later
/* Windows over images against plain loops; see ops.c for how each is run. */
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

static const struct image {
	uint64_t n, h, w, c, window, stride, pad;
} images[] = {
	{ 1, 1, 1, 1, 1, 1, 0 },  { 1, 1, 1, 3, 3, 1, 1 },   { 2, 5, 7, 3, 3, 1, 1 },
	{ 3, 8, 8, 2, 2, 2, 0 },  { 2, 11, 13, 5, 3, 2, 1 }, { 1, 9, 4, 1, 4, 3, 2 },
	{ 1, 7, 5, 2, 2, 3, 0 },  { 2, 6, 6, 1, 5, 4, 4 },   { 5, 30, 29, 16, 3, 1, 1 },
	{ 2, 3, 3, 5000, 3, 1, 1 },
};

#define IMAGE(m)                                                                   \
	NUM((m)->n), NUM((m)->h), NUM((m)->w), NUM((m)->c), NUM((m)->window),      \
		NUM((m)->stride), NUM((m)->pad)

static uint64_t high(const struct image *m)
{
	return distmind_op_windows(m->h, m->window, m->stride, m->pad);
}

static uint64_t wide(const struct image *m)
{
	return distmind_op_windows(m->w, m->window, m->stride, m->pad);
}

static uint64_t pixels(const struct image *m)
{
	return m->n * m->h * m->w;
}

static uint64_t windows(const struct image *m)
{
	return m->n * high(m) * wide(m);
}

/* The pixel under a point of a window, or -1 where that is outside. */
static int64_t under(const struct image *m, uint64_t window, uint64_t point)
{
	uint64_t ow = wide(m), oh = high(m);
	int64_t y = (int64_t)(window / ow % oh * m->stride + point / m->window) - (int64_t)m->pad;
	int64_t x = (int64_t)(window % ow * m->stride + point % m->window) - (int64_t)m->pad;

	if (y < 0 || x < 0 || y >= (int64_t)m->h || x >= (int64_t)m->w)
		return -1;
	return ((int64_t)(window / ow / oh) * (int64_t)m->h + y) * (int64_t)m->w + x;
}

static void im2col_matches(void **state)
{
	(void)state;
	for (const struct image *m = images; m < images + COUNT(images); m++) {
		uint64_t points = m->window * m->window, i = 0;
		struct buffer col, x;
		struct op_call call;

		heap_clear(&heap);
		col = heap_buffer(&heap, windows(m) * points * m->c);
		x = heap_buffer(&heap, pixels(m) * m->c);
		call = CALL(&heap, DISTMIND_OP_IM2COL, BUF(col), BUF(x), IMAGE(m));
		check_run(&heap, &call, 1);
		for (uint64_t window = 0; window < windows(m); window++) {
			for (uint64_t point = 0; point < points; point++) {
				int64_t at = under(m, window, point);

				for (uint64_t c = 0; c < m->c; c++, i++)
					assert_close("col", i, heap_floats(&heap, col)[i],
						     at < 0 ? 0 :
							      (double)heap_floats(&heap, x)
								      [(uint64_t)at * m->c + c]);
			}
		}
	}
}

static void col2im_matches(void **state)
{
	(void)state;
	for (const struct image *m = images; m < images + COUNT(images); m++) {
		uint64_t points = m->window * m->window, i = 0;
		struct buffer dcol, dx;
		struct op_call call;
		double *sums = calloc(pixels(m) * m->c, sizeof(*sums));

		assert_non_null(sums);
		heap_clear(&heap);
		dx = heap_buffer(&heap, pixels(m) * m->c);
		dcol = heap_buffer(&heap, windows(m) * points * m->c);
		call = CALL(&heap, DISTMIND_OP_COL2IM, BUF(dx), BUF(dcol), IMAGE(m));
		check_run(&heap, &call, 1);
		for (uint64_t window = 0; window < windows(m); window++) {
			for (uint64_t point = 0; point < points; point++) {
				int64_t at = under(m, window, point);

				for (uint64_t c = 0; c < m->c; c++, i++)
					if (at >= 0)
						sums[(uint64_t)at * m->c + c] +=
							(double)heap_floats(&heap, dcol)[i];
			}
		}
		for (i = 0; i < pixels(m) * m->c; i++)
			assert_close("dx", i, heap_floats(&heap, dx)[i], sums[i]);
		free(sums);
	}
}

/* One window and channel; its gradient is added to sums. */
static double pool(const struct image *m, uint32_t kind, const float *x, uint64_t window,
		   uint64_t channel, double dy, double *sums)
{
	uint64_t best = 0, inside = 0;
	double sum = 0;

	for (uint64_t point = 0; point < m->window * m->window; point++) {
		int64_t at = under(m, window, point);

		if (at < 0)
			continue;
		at = at * (int64_t)m->c + (int64_t)channel;
		if (!inside++ || x[at] > x[best])
			best = (uint64_t)at;
		sum += (double)x[at];
	}
	if (kind == DISTMIND_POOL_MAX) {
		sums[best] += dy;
		return (double)x[best];
	}
	for (uint64_t point = 0; point < m->window * m->window; point++) {
		int64_t at = under(m, window, point);

		if (at >= 0)
			sums[(uint64_t)at * m->c + channel] += dy / (double)inside;
	}
	return sum / (double)inside;
}

static void check_pool(const struct image *m, uint32_t kind, bool ties)
{
	double *sums = calloc(pixels(m) * m->c, sizeof(*sums));
	struct buffer y, x, dx, dy;
	struct op_call call;

	assert_non_null(sums);
	heap_clear(&heap);
	y = heap_buffer(&heap, windows(m) * m->c);
	x = heap_buffer(&heap, pixels(m) * m->c);
	dx = heap_buffer(&heap, pixels(m) * m->c);
	dy = heap_buffer(&heap, windows(m) * m->c);
	for (uint64_t i = 0; ties && i < pixels(m) * m->c; i++)
		heap_floats(&heap, x)[i] = (float)(heap_random(&heap) % 2);
	call = CALL(&heap, DISTMIND_OP_POOL, BUF(y), BUF(x), IMAGE(m), NUM(kind));
	check_run(&heap, &call, 1);
	call = CALL(&heap, DISTMIND_OP_POOL_GRAD, BUF(dx), BUF(dy), BUF(x), IMAGE(m), NUM(kind));
	check_run(&heap, &call, 1);
	for (uint64_t i = 0; i < windows(m) * m->c; i++)
		assert_close("y", i, heap_floats(&heap, y)[i],
			     pool(m, kind, heap_floats(&heap, x), i / m->c, i % m->c,
				  (double)heap_floats(&heap, dy)[i], sums));
	for (uint64_t i = 0; i < pixels(m) * m->c; i++)
		assert_close("dx", i, heap_floats(&heap, dx)[i], sums[i]);
	free(sums);
}

static void pooling_and_its_gradient_match(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < DISTMIND_POOL__COUNT; kind++)
		for (const struct image *m = images; m < images + COUNT(images); m++)
			check_pool(m, kind, false);
}

static void the_first_of_equal_maxima_has_the_gradient(void **state)
{
	(void)state;
	for (const struct image *m = images; m < images + COUNT(images); m++)
		check_pool(m, DISTMIND_POOL_MAX, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(im2col_matches),
		cmocka_unit_test(col2im_matches),
		cmocka_unit_test(pooling_and_its_gradient_match),
		cmocka_unit_test(the_first_of_equal_maxima_has_the_gradient),
	};

	return cmocka_run_group_tests(tests, open_heap, close_heap);
}
