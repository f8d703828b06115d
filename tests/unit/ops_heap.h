/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A heap as an engine maps it, for tests of operations. Buffers have gaps
 * between them; while a call runs, everything but its own buffers is poison to
 * our code, and the heap lies between two pages that nobody can touch, the
 * BLAS library neither.
 */
#ifndef TESTS_UNIT_OPS_HEAP_H
#define TESTS_UNIT_OPS_HEAP_H

#include "unit.h"

#include "../../userspace/engines/cpu/ops.h"

#include <math.h>
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAP_SIZE (8UL << 20)
#define HEAP_GUARD 65536UL
#define HEAP_GAP 64

/*
 * Of 1 + |expected|. Inputs are -1 to 1 and the longest sum of floats has a few
 * hundred terms, which is some tens of roundings of 6e-8.
 */
#define TOLERANCE 2e-5

struct heap {
	char *base;
	char *before, *after; /* copies, for check_run() */
	uint64_t used;
	uint32_t random;
	char reason[OP_REASON_LEN];
};

struct buffer {
	uint64_t offset;
	uint64_t length;
};

/* Numbers that are the same in every run. */
static inline uint32_t heap_random(struct heap *heap)
{
	heap->random ^= heap->random << 13;
	heap->random ^= heap->random >> 17;
	heap->random ^= heap->random << 5;
	return heap->random;
}

/* -1 to 1 */
static inline float heap_random_float(struct heap *heap)
{
	return (float)(heap_random(heap) >> 8) / (float)(1 << 23) - 1;
}

static inline int heap_open(struct heap *heap)
{
	char *all = mmap(NULL, HEAP_SIZE + 2 * HEAP_GUARD, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(all, MAP_FAILED);
	*heap = (struct heap){ .base = all + HEAP_GUARD, .random = 2463534242 };
	assert_int_equal(mprotect(heap->base, HEAP_SIZE, PROT_READ | PROT_WRITE), 0);
	heap->before = malloc(HEAP_SIZE);
	heap->after = malloc(HEAP_SIZE);
	assert_non_null(heap->before);
	assert_non_null(heap->after);
	op_init();
	return 0;
}

static inline int heap_close(struct heap *heap)
{
	free(heap->before);
	free(heap->after);
	return munmap(heap->base - HEAP_GUARD, HEAP_SIZE + 2 * HEAP_GUARD);
}

/* Begins again, with an empty heap. */
static inline void heap_clear(struct heap *heap)
{
	heap->used = 0;
}

static inline float *heap_floats(struct heap *heap, struct buffer buffer)
{
	return (float *)(heap->base + buffer.offset);
}

static inline int32_t *heap_ints(struct heap *heap, struct buffer buffer)
{
	return (int32_t *)(heap->base + buffer.offset);
}

/* A buffer of random floats, a multiple of 4 from the last. */
static inline struct buffer heap_buffer(struct heap *heap, uint64_t elements)
{
	struct buffer buffer = { .offset = heap->used + HEAP_GAP, .length = elements * 4 };

	heap->used = buffer.offset + buffer.length;
	assert_true(heap->used + HEAP_GAP <= HEAP_SIZE);
	for (uint64_t i = 0; i < elements; i++)
		heap_floats(heap, buffer)[i] = heap_random_float(heap);
	return buffer;
}

/* One whose end is the heap's. There is room for one of them. */
static inline struct buffer heap_buffer_at_end(struct heap *heap, uint64_t elements)
{
	struct buffer buffer = { .offset = HEAP_SIZE - elements * 4, .length = elements * 4 };

	assert_true(heap->used <= buffer.offset);
	for (uint64_t i = 0; i < elements; i++)
		heap_floats(heap, buffer)[i] = heap_random_float(heap);
	return buffer;
}

static inline struct buffer heap_indices(struct heap *heap, uint64_t elements, uint32_t below)
{
	struct buffer buffer = heap_buffer(heap, elements);

	for (uint64_t i = 0; i < elements; i++)
		heap_ints(heap, buffer)[i] = (int32_t)(heap_random(heap) % below);
	return buffer;
}

static inline float *heap_copy(struct heap *heap, struct buffer buffer)
{
	float *copy = malloc(buffer.length);

	assert_non_null(copy);
	return memcpy(copy, heap_floats(heap, buffer), buffer.length);
}

static inline struct op_arg buffer_arg(struct buffer buffer)
{
	return (struct op_arg){
		.is_buffer = true,
		.value = buffer.offset,
		.length = buffer.length,
	};
}

#define BUF(b) buffer_arg(b)
#define NUM(x) { .value = (uint64_t)(x) }
#define REAL(x) { .value = distmind_op_float(x) }

static inline uint32_t call_blocks(const struct op_call *call)
{
	uint64_t args[DISTMIND_OP_ARGS_MAX];

	for (uint32_t i = 0; i < call->nargs; i++)
		args[i] = call->args[i].value;
	return distmind_op_blocks(call->op, args, call->nargs);
}

static inline struct op_call call_make(struct heap *heap, uint32_t op, const struct op_arg *args,
				       uint32_t nargs)
{
	struct op_call call = {
		.op = op,
		.nargs = nargs,
		.heap = heap->base,
		.heap_size = HEAP_SIZE,
		.reason = heap->reason,
	};

	memcpy(call.args, args, nargs * sizeof(*args));
	call.blocks = call_blocks(&call);
	return call;
}

#define CALL(heap, op, ...)                                         \
	call_make(heap, op, (const struct op_arg[]){ __VA_ARGS__ }, \
		  COUNT(((const struct op_arg[]){ __VA_ARGS__ })))

/* op_run, with nothing to be touched but the buffers of the call. */
static inline int call_run(const struct op_call *call, uint64_t *cookie,
			   const struct op_yield *yield)
{
	int result;

	ASAN_POISON_MEMORY_REGION(call->heap, HEAP_SIZE);
	for (uint32_t i = 0; i < call->nargs; i++)
		if (call->args[i].is_buffer)
			ASAN_UNPOISON_MEMORY_REGION((char *)call->heap + call->args[i].value,
						    call->args[i].length);
	result = op_run(call, cookie, yield);
	ASAN_UNPOISON_MEMORY_REGION(call->heap, HEAP_SIZE);
	return result;
}

static inline void call_finish(const struct op_call *call)
{
	uint64_t cookie = 0;

	if (call_run(call, &cookie, NULL) != OP_DONE)
		fail_msg("%s: %s", distmind_op_name(call->op), call->reason);
	assert_int_equal(cookie, call->blocks);
}

static inline void assert_close(const char *what, uint64_t i, float actual, double expected)
{
	if (!(fabs((double)actual - expected) <= TOLERANCE * (1 + fabs(expected))))
		fail_msg("%s[%lu] is %.9g, not %.9g", what, (unsigned long)i, (double)actual,
			 expected);
}

static inline void ask(void *arg, const struct op_work *work)
{
	(void)work;
	*(uint32_t *)arg = 1;
}

static inline void run_in_pieces(const struct op_call *call)
{
	uint32_t asked = 0;
	struct op_yield yield = { .asked = &asked, .block_end = ask, .arg = &asked };
	uint64_t cookie = 0;

	for (uint64_t block = 1; block < call->blocks; block++) {
		assert_int_equal(call_run(call, &cookie, &yield), OP_YIELDED);
		assert_int_equal(cookie, block);
		asked = 0;
	}
	assert_int_equal(call_run(call, &cookie, &yield), OP_DONE);
	assert_int_equal(cookie, call->blocks);
}

/* Both ways; the first so many buffers are the output. */
static inline void check_run(struct heap *heap, const struct op_call *call, uint32_t outputs)
{
	char *before = heap->before, *after = heap->after;
	uint64_t size = HEAP_SIZE;

	assert_true(call->blocks > 0);
	memcpy(before, heap->base, size);
	call_finish(call);
	memcpy(after, heap->base, size);
	memcpy(heap->base, before, size);
	run_in_pieces(call);
	if (memcmp(heap->base, after, size))
		fail_msg("%s of %u blocks differs when it was preempted",
			 distmind_op_name(call->op), call->blocks);
	for (uint32_t i = 0; i < outputs; i++)
		memcpy(after + call->args[i].value, before + call->args[i].value,
		       call->args[i].length);
	if (memcmp(before, after, size))
		fail_msg("%s writes to what is not its output", distmind_op_name(call->op));
}

#endif
