// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every operation against plain loops in double precision, on shapes with and
 * without whole tiles. Each call is run twice, undisturbed and asked to yield
 * after each block: the heap must be the same, bit by bit.
 */
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

static const uint64_t shapes[][2] = {
	{ 1, 1 },   { 1, 7 },	 { 7, 1 },	{ 13, 17 }, { 64, 256 },
	{ 65, 256 }, { 331, 211 }, { 3, 40000 }, { 5, 16384 }, { 2053, 37 },
};

#define FOR_SHAPES(rows, cols)                                                       \
	for (size_t shape_ = 0; shape_ < COUNT(shapes); shape_++)                    \
		for (uint64_t rows = shapes[shape_][0], cols = shapes[shape_][1];    \
		     heap_clear(&heap), rows; rows = 0)

static void fill_and_copy_move_every_element(void **state)
{
	static const uint64_t counts[] = { 1, 97, 262144, 262145, 600011 };

	(void)state;
	for (size_t i = 0; i < COUNT(counts); i++) {
		uint64_t count = counts[i];
		struct buffer out, in;
		struct op_call call;

		heap_clear(&heap);
		in = heap_buffer(&heap, count);
		out = heap_buffer(&heap, count);
		call = CALL(&heap, DISTMIND_OP_COPY, BUF(out), BUF(in), NUM(count));
		assert_int_equal(call.blocks, (count + 262143) / 262144);
		check_run(&heap, &call, 1);
		assert_memory_equal(heap_floats(&heap, out), heap_floats(&heap, in), count * 4);

		call = CALL(&heap, DISTMIND_OP_FILL, BUF(out), NUM(count), NUM(0xdeadbeef));
		check_run(&heap, &call, 1);
		for (uint64_t j = 0; j < count; j++)
			assert_int_equal((uint32_t)heap_ints(&heap, out)[j], 0xdeadbeef);
	}
}

static double elementwise(uint32_t kind, double a, double b, double alpha)
{
	switch (kind) {
	case DISTMIND_ELEMENTWISE_ADD:
		return a + b;
	case DISTMIND_ELEMENTWISE_SUB:
		return a - b;
	case DISTMIND_ELEMENTWISE_MUL:
		return a * b;
	case DISTMIND_ELEMENTWISE_AXPY:
		return alpha * a + b;
	default:
		return alpha * a;
	}
}

static void elementwise_is_arithmetic(void **state)
{
	static const uint64_t counts[] = { 1, 101, 16384, 70001 };

	(void)state;
	for (size_t i = 0; i < COUNT(counts) * DISTMIND_ELEMENTWISE__COUNT; i++) {
		uint64_t count = counts[i % COUNT(counts)];
		uint32_t kind = (uint32_t)(i / COUNT(counts));
		struct buffer out, a, b;
		struct op_call call;

		heap_clear(&heap);
		out = heap_buffer(&heap, count);
		a = heap_buffer(&heap, count);
		b = heap_buffer(&heap, count);
		call = CALL(&heap, DISTMIND_OP_ELEMENTWISE, BUF(out), BUF(a), BUF(b), NUM(count),
			    NUM(kind), REAL(-1.75f));
		check_run(&heap, &call, 1);
		for (uint64_t j = 0; j < count; j++)
			assert_close("out", j, heap_floats(&heap, out)[j],
				     elementwise(kind, (double)heap_floats(&heap, a)[j],
						 (double)heap_floats(&heap, b)[j], -1.75));
	}
}

static void elementwise_works_in_place(void **state)
{
	struct buffer a, b;
	struct op_call call;
	float *before;

	(void)state;
	heap_clear(&heap);
	a = heap_buffer(&heap, 70001);
	b = heap_buffer(&heap, 70001);
	before = heap_copy(&heap, a);
	call = CALL(&heap, DISTMIND_OP_ELEMENTWISE, BUF(a), BUF(a), BUF(b), NUM(70001),
		    NUM(DISTMIND_ELEMENTWISE_ADD), REAL(0));
	check_run(&heap, &call, 1);
	for (uint64_t j = 0; j < 70001; j++)
		assert_close("a", j, heap_floats(&heap, a)[j],
			     (double)before[j] + (double)heap_floats(&heap, b)[j]);
	free(before);
}

static void sgd_goes_down_the_gradient(void **state)
{
	struct buffer w, g;
	struct op_call call;
	float *before;

	(void)state;
	heap_clear(&heap);
	w = heap_buffer(&heap, 70001);
	g = heap_buffer(&heap, 70001);
	before = heap_copy(&heap, w);
	call = CALL(&heap, DISTMIND_OP_SGD, BUF(w), BUF(g), NUM(70001), REAL(0.25f));
	assert_int_equal(call.blocks, 5);
	check_run(&heap, &call, 1);
	for (uint64_t j = 0; j < 70001; j++)
		assert_close("w", j, heap_floats(&heap, w)[j],
			     (double)before[j] - 0.25 * (double)heap_floats(&heap, g)[j]);
	free(before);
}

static void reduce_sums_columns(void **state)
{
	(void)state;
	FOR_SHAPES(rows, cols)
	{
		struct buffer out = heap_buffer(&heap, cols), x = heap_buffer(&heap, rows * cols);
		struct op_call call =
			CALL(&heap, DISTMIND_OP_REDUCE, BUF(out), BUF(x), NUM(rows), NUM(cols));

		check_run(&heap, &call, 1);
		for (uint64_t j = 0; j < cols; j++) {
			double sum = 0;

			for (uint64_t i = 0; i < rows; i++)
				sum += (double)heap_floats(&heap, x)[i * cols + j];
			assert_close("out", j, heap_floats(&heap, out)[j], sum);
		}
	}
}

static double activation(uint32_t kind, double z)
{
	switch (kind) {
	case DISTMIND_ACTIVATION_RELU:
		return z > 0 ? z : 0;
	case DISTMIND_ACTIVATION_GELU:
		return z / 2 * (1 + erf(z / sqrt(2)));
	case DISTMIND_ACTIVATION_TANH:
		return tanh(z);
	default:
		return z;
	}
}

/* By differences, which no formula of the engine's can agree with by mistake. */
static double slope(uint32_t kind, double z)
{
	return (activation(kind, z + 1e-5) - activation(kind, z - 1e-5)) / 2e-5;
}

static double biased(struct buffer x, struct buffer bias, uint64_t i)
{
	return (double)(heap_floats(&heap, x)[i] +
			heap_floats(&heap, bias)[i % (bias.length / 4)]);
}

static void activations_and_their_gradients_match(void **state)
{
	(void)state;
	FOR_SHAPES(rows, cols)
	{
		struct buffer y = heap_buffer(&heap, rows * cols);
		struct buffer x = heap_buffer(&heap, rows * cols);
		struct buffer dy = heap_buffer(&heap, rows * cols);
		struct buffer bias = heap_buffer(&heap, cols);

		for (uint32_t kind = 0; kind < DISTMIND_ACTIVATION__COUNT; kind++) {
			struct op_call call = CALL(&heap, DISTMIND_OP_BIAS_ACTIVATION, BUF(y),
						   BUF(x), BUF(bias), NUM(rows), NUM(cols),
						   NUM(kind));

			check_run(&heap, &call, 1);
			for (uint64_t i = 0; i < rows * cols; i++)
				assert_close("y", i, heap_floats(&heap, y)[i],
					     activation(kind, biased(x, bias, i)));
			call = CALL(&heap, DISTMIND_OP_BIAS_ACTIVATION_GRAD, BUF(y), BUF(dy),
				    BUF(x), BUF(bias), NUM(rows), NUM(cols), NUM(kind));
			check_run(&heap, &call, 1);
			for (uint64_t i = 0; i < rows * cols; i++) {
				double z = biased(x, bias, i);

				if (fabs(z) > 1e-4) /* relu has no slope at 0 */
					assert_close("dx", i, heap_floats(&heap, y)[i],
						     (double)heap_floats(&heap, dy)[i] *
							     slope(kind, z));
			}
		}
	}
}

static void row_statistics(const float *x, uint64_t cols, double *mean, double *rstd)
{
	double variance = 0;

	*mean = 0;
	for (uint64_t j = 0; j < cols; j++)
		*mean += (double)x[j] / (double)cols;
	for (uint64_t j = 0; j < cols; j++)
		variance += ((double)x[j] - *mean) * ((double)x[j] - *mean) / (double)cols;
	*rstd = 1 / sqrt(variance + 0.01);
}

static void layer_norm_matches(void **state)
{
	(void)state;
	FOR_SHAPES(rows, cols)
	{
		struct buffer y = heap_buffer(&heap, rows * cols);
		struct buffer stats = heap_buffer(&heap, rows * 2);
		struct buffer x = heap_buffer(&heap, rows * cols);
		struct buffer gamma = heap_buffer(&heap, cols), beta = heap_buffer(&heap, cols);
		struct op_call call = CALL(&heap, DISTMIND_OP_LAYER_NORM, BUF(y), BUF(stats),
					   BUF(x), BUF(gamma), BUF(beta), NUM(rows), NUM(cols),
					   REAL(0.01f));
		const float *in = heap_floats(&heap, x);
		double mean, rstd;

		check_run(&heap, &call, 2);
		for (uint64_t i = 0; i < rows * cols; i++) {
			if (i % cols == 0)
				row_statistics(in + i, cols, &mean, &rstd);
			assert_close("y", i, heap_floats(&heap, y)[i],
				     ((double)in[i] - mean) * rstd *
						     (double)heap_floats(&heap, gamma)[i % cols] +
					     (double)heap_floats(&heap, beta)[i % cols]);
			assert_close("mean", i / cols, heap_floats(&heap, stats)[i / cols * 2],
				     mean);
			assert_close("rstd", i / cols, heap_floats(&heap, stats)[i / cols * 2 + 1],
				     rstd);
		}
	}
}

static void check_norm_grad_rows(uint64_t rows, uint64_t cols, const float *dx, const float *dy,
				 const float *x, const float *gamma)
{
	for (uint64_t i = 0; i < rows; i++, dx += cols, dy += cols, x += cols) {
		double mean, rstd, sum = 0, product = 0;

		row_statistics(x, cols, &mean, &rstd);
		for (uint64_t j = 0; j < cols; j++) {
			sum += (double)dy[j] * (double)gamma[j] / (double)cols;
			product += (double)dy[j] * (double)gamma[j] * ((double)x[j] - mean) * rstd /
				   (double)cols;
		}
		for (uint64_t j = 0; j < cols; j++)
			assert_close("dx", i * cols + j, dx[j],
				     rstd * ((double)dy[j] * (double)gamma[j] - sum -
					     ((double)x[j] - mean) * rstd * product));
	}
}

static void layer_norm_grad_matches(void **state)
{
	(void)state;
	FOR_SHAPES(rows, cols)
	{
		struct buffer dx = heap_buffer(&heap, rows * cols);
		struct buffer dgamma = heap_buffer(&heap, cols), dbeta = heap_buffer(&heap, cols);
		struct buffer dy = heap_buffer(&heap, rows * cols);
		struct buffer x = heap_buffer(&heap, rows * cols);
		struct buffer gamma = heap_buffer(&heap, cols);
		struct buffer stats = heap_buffer(&heap, rows * 2);
		const float *in = heap_floats(&heap, x), *dout = heap_floats(&heap, dy);
		double *sums = calloc(cols * 2, sizeof(*sums));
		struct op_call call = CALL(&heap, DISTMIND_OP_LAYER_NORM_GRAD, BUF(dx), BUF(dgamma),
					   BUF(dbeta), BUF(dy), BUF(x), BUF(gamma), BUF(stats),
					   NUM(rows), NUM(cols));

		assert_non_null(sums);
		for (uint64_t i = 0; i < rows; i++) {
			double mean, rstd;

			row_statistics(in + i * cols, cols, &mean, &rstd);
			heap_floats(&heap, stats)[i * 2] = (float)mean;
			heap_floats(&heap, stats)[i * 2 + 1] = (float)rstd;
			for (uint64_t j = 0; j < cols; j++) {
				double d = (double)dout[i * cols + j];

				sums[j * 2] += d * ((double)in[i * cols + j] - mean) * rstd;
				sums[j * 2 + 1] += d;
			}
		}
		check_run(&heap, &call, 3);
		check_norm_grad_rows(rows, cols, heap_floats(&heap, dx), dout, in,
				     heap_floats(&heap, gamma));
		for (uint64_t j = 0; j < cols; j++) {
			assert_close("dgamma", j, heap_floats(&heap, dgamma)[j], sums[j * 2]);
			assert_close("dbeta", j, heap_floats(&heap, dbeta)[j], sums[j * 2 + 1]);
		}
		free(sums);
	}
}

static double exponential_sum(const float *x, uint64_t count)
{
	double sum = 0;

	for (uint64_t j = 0; j < count; j++)
		sum += exp((double)x[j]);
	return sum;
}

static void check_softmax(uint64_t rows, uint64_t cols, uint32_t flags)
{
	struct buffer y = heap_buffer(&heap, rows * cols), x = heap_buffer(&heap, rows * cols);
	struct op_call call = CALL(&heap, DISTMIND_OP_SOFTMAX, BUF(y), BUF(x), NUM(rows), NUM(cols),
				   NUM(flags));

	check_run(&heap, &call, 1);
	for (uint64_t i = 0; i < rows; i++) {
		const float *in = heap_floats(&heap, x) + i * cols;
		uint64_t count = flags ? i % cols + 1 : cols;
		double sum = exponential_sum(in, count);

		for (uint64_t j = 0; j < cols; j++)
			assert_close("y", i * cols + j, heap_floats(&heap, y)[i * cols + j],
				     j < count ? exp((double)in[j]) / sum : 0);
	}
}

static void softmax_matches(void **state)
{
	(void)state;
	FOR_SHAPES(rows, cols)
		check_softmax(rows, cols, 0);
}

static void softmax_can_be_causal(void **state)
{
	(void)state;
	heap_clear(&heap);
	check_softmax(1, 1, DISTMIND_SOFTMAX_CAUSAL);
	check_softmax(21, 7, DISTMIND_SOFTMAX_CAUSAL);
	check_softmax(2 * 211, 211, DISTMIND_SOFTMAX_CAUSAL);
}

static void softmax_of_large_numbers_is_finite(void **state)
{
	struct buffer x, loss, labels;
	struct op_call call;

	(void)state;
	heap_clear(&heap);
	x = heap_buffer(&heap, 3);
	loss = heap_buffer(&heap, 1);
	labels = heap_indices(&heap, 1, 1);
	memcpy(heap_floats(&heap, x), (const float[]){ 1e30f, 1e30f, -1e30f }, 12);
	call = CALL(&heap, DISTMIND_OP_SOFTMAX_XENT, BUF(loss), BUF(x), BUF(x), BUF(labels), NUM(1),
		    NUM(3), REAL(1));
	check_run(&heap, &call, 2);
	assert_close("loss", 0, heap_floats(&heap, loss)[0], log(2));
	assert_close("dx", 0, heap_floats(&heap, x)[0], -0.5);
	assert_close("dx", 1, heap_floats(&heap, x)[1], 0.5);
	assert_close("dx", 2, heap_floats(&heap, x)[2], 0);
}

static void softmax_grad_matches(void **state)
{
	(void)state;
	FOR_SHAPES(rows, cols)
	{
		struct buffer dx = heap_buffer(&heap, rows * cols);
		struct buffer dy = heap_buffer(&heap, rows * cols);
		struct buffer y = heap_buffer(&heap, rows * cols);
		struct op_call call = CALL(&heap, DISTMIND_OP_SOFTMAX_GRAD, BUF(dx), BUF(dy),
					   BUF(y), NUM(rows), NUM(cols));
		const float *p = heap_floats(&heap, y), *d = heap_floats(&heap, dy);

		/* As a softmax leaves it, or the sums would be larger than any real one. */
		for (uint64_t i = 0; i < rows * cols; i++)
			heap_floats(&heap, y)[i] = fabsf(p[i]) / (float)cols;
		check_run(&heap, &call, 1);
		for (uint64_t i = 0; i < rows; i++) {
			double sum = 0;

			for (uint64_t j = i * cols; j < (i + 1) * cols; j++)
				sum += (double)d[j] * (double)p[j];
			for (uint64_t j = i * cols; j < (i + 1) * cols; j++)
				assert_close("dx", j, heap_floats(&heap, dx)[j],
					     (double)p[j] * ((double)d[j] - sum));
		}
	}
}

static void softmax_xent_matches(void **state)
{
	(void)state;
	FOR_SHAPES(rows, cols)
	{
		struct buffer loss = heap_buffer(&heap, rows);
		struct buffer dx = heap_buffer(&heap, rows * cols);
		struct buffer x = heap_buffer(&heap, rows * cols);
		struct buffer labels = heap_indices(&heap, rows, (uint32_t)cols);
		struct op_call call = CALL(&heap, DISTMIND_OP_SOFTMAX_XENT, BUF(loss), BUF(dx),
					   BUF(x), BUF(labels), NUM(rows), NUM(cols), REAL(0.5f));

		check_run(&heap, &call, 2);
		for (uint64_t i = 0; i < rows; i++) {
			const float *in = heap_floats(&heap, x) + i * cols;
			uint64_t label = (uint64_t)heap_ints(&heap, labels)[i];
			double sum = exponential_sum(in, cols);

			assert_close("loss", i, heap_floats(&heap, loss)[i],
				     log(sum) - (double)in[label]);
			for (uint64_t j = 0; j < cols; j++)
				assert_close("dx", i * cols + j,
					     heap_floats(&heap, dx)[i * cols + j],
					     0.5 * (exp((double)in[j]) / sum - (j == label)));
		}
	}
}

static void embedding_looks_up_rows(void **state)
{
	(void)state;
	FOR_SHAPES(count, width)
	{
		struct buffer y = heap_buffer(&heap, count * width);
		struct buffer table = heap_buffer(&heap, 11 * width);
		struct buffer index = heap_indices(&heap, count, 11);
		struct op_call call = CALL(&heap, DISTMIND_OP_EMBEDDING, BUF(y), BUF(table),
					   BUF(index), NUM(count), NUM(width), NUM(11));

		check_run(&heap, &call, 1);
		for (uint64_t i = 0; i < count; i++)
			assert_memory_equal(heap_floats(&heap, y) + i * width,
					    heap_floats(&heap, table) +
						    (uint64_t)heap_ints(&heap, index)[i] * width,
					    width * 4);
	}
}

static void embedding_grad_adds_what_was_looked_up(void **state)
{
	(void)state;
	FOR_SHAPES(vocabulary, width)
	{
		struct buffer dtable = heap_buffer(&heap, vocabulary * width);
		struct buffer dy = heap_buffer(&heap, 23 * width);
		struct buffer index = heap_indices(&heap, 23, (uint32_t)vocabulary);
		double *sums = calloc(vocabulary * width, sizeof(*sums));
		struct op_call call = CALL(&heap, DISTMIND_OP_EMBEDDING_GRAD, BUF(dtable), BUF(dy),
					   BUF(index), NUM(23), NUM(width), NUM(vocabulary));

		assert_non_null(sums);
		check_run(&heap, &call, 1);
		for (uint64_t i = 0; i < 23 * width; i++)
			sums[(uint64_t)heap_ints(&heap, index)[i / width] * width + i % width] +=
				(double)heap_floats(&heap, dy)[i];
		for (uint64_t i = 0; i < vocabulary * width; i++)
			assert_close("dtable", i, heap_floats(&heap, dtable)[i], sums[i]);
		free(sums);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fill_and_copy_move_every_element),
		cmocka_unit_test(elementwise_is_arithmetic),
		cmocka_unit_test(elementwise_works_in_place),
		cmocka_unit_test(sgd_goes_down_the_gradient),
		cmocka_unit_test(reduce_sums_columns),
		cmocka_unit_test(activations_and_their_gradients_match),
		cmocka_unit_test(layer_norm_matches),
		cmocka_unit_test(layer_norm_grad_matches),
		cmocka_unit_test(softmax_matches),
		cmocka_unit_test(softmax_can_be_causal),
		cmocka_unit_test(softmax_of_large_numbers_is_finite),
		cmocka_unit_test(softmax_grad_matches),
		cmocka_unit_test(softmax_xent_matches),
		cmocka_unit_test(embedding_looks_up_rows),
		cmocka_unit_test(embedding_grad_adds_what_was_looked_up),
	};

	return cmocka_run_group_tests(tests, open_heap, close_heap);
}
