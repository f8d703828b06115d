/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between ops.c and the files that implement operations. */
#ifndef ENGINE_CPU_OPS_TYPE_H
#define ENGINE_CPU_OPS_TYPE_H

#include "ops.h"

#define OP_STATE_SIZE 256

/* Arguments on their way into a state: the first error is kept, and later calls do nothing. */
struct op_load {
	const struct op_call *call;
	int err;
};

struct op_type {
	/* Checks every argument, and puts into state what block needs of them. */
	void (*load)(struct op_load *load, void *state);
	/* 0 or -EDOM */
	int (*block)(const void *state, uint64_t block);
	/* Adds what the block is worth. */
	void (*work)(const void *state, uint64_t block, struct op_work *work);
	/* What any block can cost this machine at most; NULL: what the first is worth. */
	void (*most)(const void *state, struct op_work *work);
};

extern const struct op_type op_nop, op_spin, op_fill, op_copy;
extern const struct op_type op_gemm;
extern const struct op_type op_bias_activation, op_bias_activation_grad;
extern const struct op_type op_elementwise, op_sgd, op_reduce;
extern const struct op_type op_layer_norm, op_layer_norm_grad;
extern const struct op_type op_softmax, op_softmax_grad, op_softmax_xent;
extern const struct op_type op_embedding, op_embedding_grad;
extern const struct op_type op_im2col, op_col2im, op_pool, op_pool_grad;

/* The argument of that index, which name names in errors. */
uint64_t op_load_number(struct op_load *load, uint32_t index, const char *name, uint64_t min,
			uint64_t max);
uint64_t op_load_size(struct op_load *load, uint32_t index, const char *name);
float op_load_float(struct op_load *load, uint32_t index, const char *name);
/* A buffer with room for so many elements of 4 bytes; UINT64_MAX: more than there can be. */
const void *op_load_input(struct op_load *load, uint32_t index, const char *name,
			  uint64_t elements);
/* The same, to be written: it must not be one that the tenant may only read. */
void *op_load_output(struct op_load *load, uint32_t index, const char *name, uint64_t elements);

__attribute__((format(printf, 3, 4))) void op_load_fail(struct op_load *load, int err,
							const char *format, ...);

/* A size that is cut into blocks of tile. */
struct op_range {
	uint64_t begin;
	uint64_t end;
};

static inline struct op_range op_range(uint64_t size, uint64_t tile, uint64_t block)
{
	struct op_range range = { block * tile, block * tile + tile };

	if (range.end > size)
		range.end = size;
	return range;
}

static inline uint64_t op_range_size(struct op_range range)
{
	return range.end - range.begin;
}

/* An int32 that the tenant may be changing, as one value. */
static inline int32_t op_read_index(const int32_t *index)
{
	return __atomic_load_n(index, __ATOMIC_RELAXED);
}

#define OP_STATE_CHECK(type) \
	_Static_assert(sizeof(type) <= OP_STATE_SIZE, "raise OP_STATE_SIZE for " #type)

#endif
