// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What op_run refuses, and when it yields. For each operation there is one
 * good call whose buffers are exactly as long as needed; each change for the
 * worse of one argument must be refused with a reason, before anything is
 * written.
 */
#include "ops_heap.h"

#include <errno.h>

static struct heap heap;
static struct op_call good[DISTMIND_OP__COUNT];

/* s size, t size that may be of any size, f float, c choice or flags, w 64 bits, 0 others */
static const char *const scalars[] = {
	[DISTMIND_OP_NOP] = "0",
	[DISTMIND_OP_SPIN] = "00",
	[DISTMIND_OP_FILL] = "s0",
	[DISTMIND_OP_COPY] = "s",
	[DISTMIND_OP_GEMM] = "ssscffsssswww",
	[DISTMIND_OP_BIAS_ACTIVATION] = "ssc",
	[DISTMIND_OP_BIAS_ACTIVATION_GRAD] = "ssc",
	[DISTMIND_OP_ELEMENTWISE] = "scf",
	[DISTMIND_OP_LAYER_NORM] = "ssf",
	[DISTMIND_OP_LAYER_NORM_GRAD] = "ss",
	[DISTMIND_OP_SOFTMAX] = "ssc",
	[DISTMIND_OP_SOFTMAX_GRAD] = "ss",
	[DISTMIND_OP_SOFTMAX_XENT] = "ssf",
	[DISTMIND_OP_EMBEDDING] = "sss",
	[DISTMIND_OP_EMBEDDING_GRAD] = "sss",
	[DISTMIND_OP_IM2COL] = "ssssst0",
	[DISTMIND_OP_COL2IM] = "ssssst0",
	[DISTMIND_OP_POOL] = "ssssst0c",
	[DISTMIND_OP_POOL_GRAD] = "ssssst0c",
	[DISTMIND_OP_REDUCE] = "ss",
	[DISTMIND_OP_SGD] = "sf",
};

#define B(elements) BUF(heap_buffer(&heap, elements))
#define I(elements, below) BUF(heap_indices(&heap, elements, below))
#define GOOD(op, ...) good[DISTMIND_OP_##op] = CALL(&heap, DISTMIND_OP_##op, __VA_ARGS__)
/* 2 images of 5 x 4 x 3, windows of 3 that go by 2: 2 x 3 x 2 of them. */
#define IMAGE NUM(2), NUM(5), NUM(4), NUM(3), NUM(3), NUM(2), NUM(1)
#define PIXELS (2 * 5 * 4 * 3)
#define WINDOWS (2 * 3 * 2)

static int make_calls(void **state)
{
	(void)state;
	heap_open(&heap);
	GOOD(NOP, NUM(3));
	GOOD(SPIN, NUM(2), NUM(1));
	GOOD(FILL, B(300000), NUM(300000), NUM(7));
	GOOD(COPY, B(300000), B(300000), NUM(300000));
	GOOD(GEMM, B(2 * 140 * 7), B(2 * 140 * 5), B(2 * 5 * 7), NUM(140), NUM(7), NUM(5), NUM(0),
	     REAL(1), REAL(0), NUM(5), NUM(7), NUM(7), NUM(2), NUM(140 * 5), NUM(5 * 7),
	     NUM(140 * 7));
	GOOD(BIAS_ACTIVATION, B(33000), B(33000), B(1000), NUM(33), NUM(1000), NUM(1));
	GOOD(BIAS_ACTIVATION_GRAD, B(33000), B(33000), B(33000), B(1000), NUM(33), NUM(1000),
	     NUM(1));
	GOOD(ELEMENTWISE, B(33000), B(33000), B(33000), NUM(33000), NUM(0), REAL(1));
	GOOD(LAYER_NORM, B(33000), B(66), B(33000), B(1000), B(1000), NUM(33), NUM(1000),
	     REAL(0.1f));
	GOOD(LAYER_NORM_GRAD, B(33000), B(1000), B(1000), B(33000), B(33000), B(1000), B(66),
	     NUM(33), NUM(1000));
	GOOD(SOFTMAX, B(33000), B(33000), NUM(33), NUM(1000), NUM(0));
	GOOD(SOFTMAX_GRAD, B(33000), B(33000), B(33000), NUM(33), NUM(1000));
	GOOD(SOFTMAX_XENT, B(33), B(33000), B(33000), I(33, 1000), NUM(33), NUM(1000), REAL(1));
	GOOD(EMBEDDING, B(33000), B(11000), I(33, 11), NUM(33), NUM(1000), NUM(11));
	GOOD(EMBEDDING_GRAD, B(33000), B(11000), I(11, 33), NUM(11), NUM(1000), NUM(33));
	GOOD(IM2COL, B(WINDOWS * 27), B(PIXELS), IMAGE);
	GOOD(COL2IM, B(PIXELS), B(WINDOWS * 27), IMAGE);
	GOOD(POOL, B(WINDOWS * 3), B(PIXELS), IMAGE, NUM(1));
	GOOD(POOL_GRAD, B(PIXELS), B(WINDOWS * 3), B(PIXELS), IMAGE, NUM(1));
	GOOD(REDUCE, B(1000), B(33000), NUM(33), NUM(1000));
	GOOD(SGD, B(33000), B(33000), NUM(33000), REAL(1));
	memcpy(heap.before, heap.base, HEAP_SIZE);
	return 0;
}

static int close_heap(void **state)
{
	(void)state;
	return heap_close(&heap);
}

/* Refused with that error; 0: with any. */
static void assert_refused(const struct op_call *call, uint64_t cookie, int err)
{
	uint64_t after = cookie;
	int result;

	heap.reason[0] = '\0';
	result = op_run(call, &after, NULL);
	if (result >= 0 || (err && result != err))
		fail_msg("%s: %d, not %d (%s)", distmind_op_name(call->op), result, err,
			 heap.reason);
	assert_true(strlen(heap.reason) > 10);
	assert_int_equal(after, cookie);
}

static uint32_t buffers(uint32_t op)
{
	return distmind_op_buffers(op);
}

static void good_calls_are_not_refused(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < DISTMIND_OP__COUNT; op++) {
		assert_int_equal(good[op].nargs, distmind_op_args(op));
		assert_int_equal(strlen(scalars[op]), good[op].nargs - buffers(op));
		call_finish(&good[op]);
		memcpy(heap.base, heap.before, HEAP_SIZE);
	}
}

static void an_unknown_operation_is_refused(void **state)
{
	struct op_call call = good[0];

	(void)state;
	call.op = DISTMIND_OP__COUNT;
	assert_refused(&call, 0, -EOPNOTSUPP);
	call.op = UINT32_MAX;
	assert_refused(&call, 0, -EOPNOTSUPP);
	assert_string_equal(distmind_op_name(call.op), "?");
}

static void a_wrong_number_or_kind_of_arguments_is_refused(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < DISTMIND_OP__COUNT; op++) {
		struct op_call call = good[op];

		call.nargs--;
		assert_refused(&call, 0, -EINVAL);
		call.nargs = UINT32_MAX;
		assert_refused(&call, 0, -EINVAL);
		for (uint32_t i = 0; i < good[op].nargs; i++) {
			call = good[op];
			call.args[i].is_buffer = !call.args[i].is_buffer;
			assert_refused(&call, 0, -EINVAL);
		}
	}
}

static void a_wrong_number_of_blocks_or_cookie_is_refused(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < DISTMIND_OP__COUNT; op++) {
		struct op_call call = good[op];

		assert_refused(&call, call.blocks + 1ULL, -EINVAL);
		assert_refused(&call, UINT64_MAX, -EINVAL);
		call.blocks++;
		assert_refused(&call, 0, -EINVAL);
		call.blocks = 0;
		assert_refused(&call, 0, -EINVAL);
	}
}

static void bad_buffers_are_refused(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < DISTMIND_OP__COUNT; op++) {
		for (uint32_t i = 0; i < buffers(op); i++) {
			struct op_call call = good[op];

			call.args[i].length--;
			assert_refused(&call, 0, -ERANGE);
			call.args[i].length = 0;
			assert_refused(&call, 0, -ERANGE);
			for (uint32_t shift = 1; shift < 4; shift++) {
				call = good[op];
				call.args[i].value += shift;
				assert_refused(&call, 0, -EINVAL);
			}
			call = good[op];
			call.args[i].value = HEAP_SIZE - call.args[i].length + 4;
			assert_refused(&call, 0, -ERANGE);
			call.args[i].value = UINT64_MAX - 3;
			assert_refused(&call, 0, -ERANGE);
			call = good[op];
			call.args[i].length = UINT64_MAX;
			assert_refused(&call, 0, -ERANGE);
		}
	}
}

/* Whatever a size becomes, the call is over the end of a buffer, or not possible. */
static void bad_scalars_are_refused(void **state)
{
	static const uint64_t wrong[] = {
		0, 1ULL << 31, 1ULL << 32, (1ULL << 32) + 1, 1ULL << 62, 1ULL << 63, UINT64_MAX,
	};

	(void)state;
	for (uint32_t op = 0; op < DISTMIND_OP__COUNT; op++) {
		for (uint32_t i = buffers(op); i < good[op].nargs; i++) {
			char kind = scalars[op][i - buffers(op)];
			struct op_call call = good[op];

			for (size_t j = 0; j < COUNT(wrong); j++) {
				call.args[i].value = wrong[j];
				call.blocks = call_blocks(&call);
				if (kind == 's' || kind == 't' || wrong[j] > UINT32_MAX)
					assert_refused(&call, 0, 0);
			}
			if (kind != 's' && kind != 'c')
				continue;
			call.args[i].value = kind == 's' ? INT32_MAX : 1000;
			call.blocks = call_blocks(&call);
			assert_refused(&call, 0, 0);
		}
	}
}

static void sizes_whose_product_overflows_are_refused(void **state)
{
	struct op_call call;

	(void)state;
	for (uint32_t op = DISTMIND_OP_FILL; op < DISTMIND_OP__COUNT; op++) {
		call = good[op];
		for (uint32_t i = buffers(op); i < call.nargs; i++)
			if (scalars[op][i - buffers(op)] == 's')
				call.args[i].value = INT32_MAX;
		call.blocks = call_blocks(&call);
		assert_refused(&call, 0, 0);
	}
	/* 2^62 elements: the bytes are 0 modulo 2^64. */
	call = good[DISTMIND_OP_GEMM];
	call.args[DISTMIND_GEMM_STRIDE_C].value = (1ULL << 62) - 140 * 7;
	assert_refused(&call, 0, -EOVERFLOW);
	/* The last item of the batch comes round to the first. */
	call.args[DISTMIND_GEMM_STRIDE_C].value = UINT64_MAX - 140 * 7 + 1;
	assert_refused(&call, 0, -EOVERFLOW);
	call = good[DISTMIND_OP_IM2COL];
	for (uint32_t i = DISTMIND_IM2COL_N; i <= DISTMIND_IM2COL_WINDOW; i++)
		call.args[i].value = 1U << 30;
	assert_refused(&call, 0, -EOVERFLOW);
	assert_int_equal(call_blocks(&call), 0);
}

static void sizes_that_contradict_each_other_are_refused(void **state)
{
	struct op_call call;

	(void)state;
	for (uint32_t i = DISTMIND_GEMM_LDA; i <= DISTMIND_GEMM_LDC; i++) {
		call = good[DISTMIND_OP_GEMM];
		call.args[i].value--;
		assert_refused(&call, 0, -EINVAL);
	}
	for (uint32_t op = DISTMIND_OP_IM2COL; op <= DISTMIND_OP_POOL_GRAD; op++) {
		uint32_t pad = buffers(op) + 6, window = buffers(op) + 4;

		call = good[op];
		call.args[pad].value = call.args[window].value;
		assert_refused(&call, 0, -EINVAL);
		assert_int_equal(call_blocks(&call), 0);
		call = good[op];
		call.args[window].value = 7; /* 4 pixels and 1 on each side are 6 */
		assert_refused(&call, 0, -EINVAL);
		assert_int_equal(call_blocks(&call), 0);
	}
	call = good[DISTMIND_OP_SOFTMAX];
	call.args[DISTMIND_SOFTMAX_FLAGS].value = DISTMIND_SOFTMAX_CAUSAL;
	assert_refused(&call, 0, -EINVAL);
}

static void refusals_write_nothing(void **state)
{
	(void)state;
	assert_memory_equal(heap.base, heap.before, HEAP_SIZE);
}

static void indices_outside_of_their_table_fail_the_call(void **state)
{
	static const struct {
		uint32_t op, arg, element;
	} cases[] = {
		{ DISTMIND_OP_SOFTMAX_XENT, DISTMIND_SOFTMAX_XENT_LABELS, 32 },
		{ DISTMIND_OP_EMBEDDING, DISTMIND_EMBEDDING_INDEX, 0 },
		{ DISTMIND_OP_EMBEDDING_GRAD, DISTMIND_EMBEDDING_GRAD_INDEX, 10 },
	};
	static const int32_t wrong[] = { -1, 1000, INT32_MIN, INT32_MAX };

	(void)state;
	for (size_t i = 0; i < COUNT(cases) * COUNT(wrong); i++) {
		const struct op_call *call = &good[cases[i / COUNT(wrong)].op];
		uint64_t at = call->args[cases[i / COUNT(wrong)].arg].value;

		at += cases[i / COUNT(wrong)].element * 4;
		memcpy(heap.base + at, &wrong[i % COUNT(wrong)], 4);
		assert_refused(call, 0, -EDOM);
		memcpy(heap.base, heap.before, HEAP_SIZE);
	}
}

static void a_nop_may_have_no_blocks(void **state)
{
	struct op_call call = CALL(&heap, DISTMIND_OP_NOP, NUM(0));

	(void)state;
	assert_int_equal(call.blocks, 0);
	call_finish(&call);
}

static void a_call_gets_on_though_it_is_always_asked_to_yield(void **state)
{
	const struct op_call *call = &good[DISTMIND_OP_NOP];
	uint32_t asked = 1;
	struct op_yield yield = { .asked = &asked };
	uint64_t cookie = 0;

	(void)state;
	assert_int_equal(op_run(call, &cookie, &yield), OP_YIELDED);
	assert_int_equal(cookie, 1);
	assert_int_equal(op_run(call, &cookie, &yield), OP_YIELDED);
	assert_int_equal(cookie, 2);
	/* After the last block there is nothing to give back. */
	assert_int_equal(op_run(call, &cookie, &yield), OP_DONE);
	assert_int_equal(cookie, 3);
	assert_int_equal(op_run(call, &cookie, &yield), OP_DONE);
	assert_int_equal(cookie, 3);
}

struct account {
	uint64_t blocks;
	struct op_work work;
};

static void count(void *arg, const struct op_work *work)
{
	struct account *account = arg;

	account->blocks++;
	account->work.flops += work->flops;
	account->work.bytes += work->bytes;
	account->work.copied += work->copied;
	account->work.ns += work->ns;
}

static void a_skipped_call_counts_but_computes_nothing(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < DISTMIND_OP__COUNT; op++) {
		struct op_call call = good[op];
		struct account account = { 0 };
		struct op_yield yield = { .block_end = count, .arg = &account };
		struct op_work work;
		uint64_t cookie = 0;

		call.skip = true;
		assert_int_equal(op_run(&call, &cookie, &yield), OP_DONE);
		assert_int_equal(account.blocks, call.blocks);
		assert_int_equal(op_work(&call, 0, UINT64_MAX, &work), 0);
		assert_memory_equal(&work, &account.work, sizeof(work));
		assert_true(op == DISTMIND_OP_NOP || work.bytes + work.copied + work.ns > 0);
	}
	assert_memory_equal(heap.base, heap.before, HEAP_SIZE);
}

static void work_is_what_the_sizes_say(void **state)
{
	struct op_work work;

	(void)state;
	assert_int_equal(op_work(&good[DISTMIND_OP_GEMM], 0, UINT64_MAX, &work), 0);
	assert_int_equal(work.flops, 2 * 2 * 140 * 7 * 5);
	assert_int_equal(op_work(&good[DISTMIND_OP_COPY], 1, 1, &work), 0);
	assert_int_equal(work.copied, (300000 - 262144) * 4);
	assert_int_equal(op_work(&good[DISTMIND_OP_SPIN], 0, 2, &work), 0);
	assert_int_equal(work.ns, 2000);
	assert_int_equal(op_work(&good[DISTMIND_OP_SPIN], 3, 1, &work), -EINVAL);
}

/* A call whose buffers are as large as they can be: it can be checked, not run. */
static struct op_call vast_call(uint32_t op, const uint64_t *numbers)
{
	struct op_call call = { .op = op, .nargs = distmind_op_args(op), .heap_size = 1ULL << 48 };

	for (uint32_t i = 0; i < call.nargs; i++) {
		if (i < distmind_op_buffers(op))
			call.args[i] = (struct op_arg){ .is_buffer = true, .length = 1ULL << 48 };
		else
			call.args[i].value = numbers[i - distmind_op_buffers(op)];
	}
	call.blocks = call_blocks(&call);
	return call;
}

#define VAST(op, ...) vast_call(DISTMIND_OP_##op, (const uint64_t[]){ __VA_ARGS__ })

static int check_vast(struct op_call call)
{
	struct op_work work;

	return op_work(&call, 0, 1, &work);
}

static void a_block_that_would_take_too_long_is_refused(void **state)
{
	const uint64_t huge = 1U << 30;

	(void)state;
	assert_int_equal(check_vast(VAST(SPIN, 1, 1000000)), 0);
	assert_int_equal(check_vast(VAST(SPIN, 1, 1000001)), -EFBIG);
	assert_int_equal(check_vast(VAST(SPIN, 1, UINT32_MAX)), -EFBIG);
	assert_int_equal(check_vast(VAST(SOFTMAX, 1, huge, 0)), -EFBIG);
	assert_int_equal(check_vast(VAST(LAYER_NORM, 1, huge, 0)), -EFBIG);
	assert_int_equal(check_vast(VAST(LAYER_NORM_GRAD, 1, huge)), -EFBIG);
	assert_int_equal(check_vast(VAST(LAYER_NORM_GRAD, huge, 16)), -EFBIG);
	assert_int_equal(check_vast(VAST(BIAS_ACTIVATION, 1, huge, 1)), -EFBIG);
	assert_int_equal(check_vast(VAST(REDUCE, huge, 16)), -EFBIG);
	assert_int_equal(check_vast(VAST(EMBEDDING_GRAD, huge, 4, 4)), -EFBIG);
	assert_int_equal(check_vast(VAST(GEMM, 16, 16, huge, 0, 0, 0, huge, 16, 16, 1, 0, 0, 0)),
			 -EFBIG);
	/* A small image, of which each pixel is in as many windows, each as large as it. */
	assert_int_equal(check_vast(VAST(POOL_GRAD, 1, 512, 512, 1, 257, 1, 128, 0)), -EFBIG);
	assert_int_equal(check_vast(VAST(POOL_GRAD, 1, 512, 512, 1, 257, 257, 128, 0)), 0);
	/* A window that hangs over on all sides costs what is inside of it. */
	assert_int_equal(check_vast(VAST(POOL, 1, 1, 1, 1, INT32_MAX, INT32_MAX, 0, 0)), -EINVAL);
	assert_int_equal(check_vast(VAST(POOL, 1, 1, 1, 1, INT32_MAX, INT32_MAX, INT32_MAX - 1, 0)),
			 0);
}

/* Sizes of all magnitudes, the same of each run. */
static uint64_t any_size(void)
{
	return 1 + heap_random(&heap) % (1U << (1 + heap_random(&heap) % 30));
}

static void assert_bounded(const struct op_call *call, uint64_t block)
{
	struct op_work work;

	assert_int_equal(op_work(call, block, 1, &work), 0);
	assert_true(work.flops <= DISTMIND_OP_BLOCK_FLOPS_MAX);
	assert_true(work.bytes <= DISTMIND_OP_BLOCK_BYTES_MAX);
	assert_true(work.copied <= DISTMIND_OP_BLOCK_BYTES_MAX);
	assert_true(work.ns <= DISTMIND_OP_BLOCK_NS_MAX);
}

static void no_block_of_a_call_that_is_taken_is_longer_than_the_limit(void **state)
{
	int taken[DISTMIND_OP__COUNT] = { 0 }, refused = 0;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		uint32_t op = heap_random(&heap) % DISTMIND_OP__COUNT;
		uint64_t numbers[DISTMIND_OP_ARGS_MAX];
		struct op_call call;
		int err;

		for (size_t i = 0; i < COUNT(numbers); i++) {
			char kind = i < strlen(scalars[op]) ? scalars[op][i] : '0';

			numbers[i] = kind == 'c' || kind == 'f' ? 0 : any_size();
		}
		/* Strides and leading dimensions say nothing about lengths of blocks. */
		if (op == DISTMIND_OP_GEMM) {
			numbers[6] = numbers[2];
			numbers[7] = numbers[8] = numbers[1];
			numbers[10] = numbers[11] = numbers[12] = 0;
		}
		call = vast_call(op, numbers);
		err = check_vast(call);
		refused += err == -EFBIG;
		if (err || !call.blocks)
			continue;
		taken[op]++;
		assert_bounded(&call, 0);
		assert_bounded(&call, heap_random(&heap) % call.blocks);
		assert_bounded(&call, call.blocks - 1);
	}
	for (uint32_t op = 0; op < DISTMIND_OP__COUNT; op++)
		assert_true(taken[op]);
	assert_true(refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_calls_are_not_refused),
		cmocka_unit_test(an_unknown_operation_is_refused),
		cmocka_unit_test(a_wrong_number_or_kind_of_arguments_is_refused),
		cmocka_unit_test(a_wrong_number_of_blocks_or_cookie_is_refused),
		cmocka_unit_test(bad_buffers_are_refused),
		cmocka_unit_test(bad_scalars_are_refused),
		cmocka_unit_test(sizes_whose_product_overflows_are_refused),
		cmocka_unit_test(sizes_that_contradict_each_other_are_refused),
		cmocka_unit_test(refusals_write_nothing),
		cmocka_unit_test(indices_outside_of_their_table_fail_the_call),
		cmocka_unit_test(a_nop_may_have_no_blocks),
		cmocka_unit_test(a_call_gets_on_though_it_is_always_asked_to_yield),
		cmocka_unit_test(a_skipped_call_counts_but_computes_nothing),
		cmocka_unit_test(work_is_what_the_sizes_say),
		cmocka_unit_test(a_block_that_would_take_too_long_is_refused),
		cmocka_unit_test(no_block_of_a_call_that_is_taken_is_longer_than_the_limit),
	};

	return cmocka_run_group_tests(tests, make_calls, close_heap);
}
