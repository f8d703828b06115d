/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The operations of <distmind_ops.h> on a mapped heap. A call may run on any
 * thread, and different calls on different threads at once.
 *
 * The heap is the tenants': they may write to it while an operation reads it.
 * What is read from it decides about values, never about addresses, but for
 * indices, which are read once and checked.
 */
#ifndef ENGINE_CPU_OPS_H
#define ENGINE_CPU_OPS_H

#include "../../libdistmind/distmind_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OP_REASON_LEN 96

struct op_arg {
	bool is_buffer;
	bool read_only;
	uint64_t value;	 /* a scalar's, or where in the heap a buffer begins */
	uint64_t length; /* of a buffer, in bytes */
};

struct op_call {
	uint32_t op; /* enum distmind_op */
	uint32_t blocks;
	uint32_t nargs;
	struct op_arg args[DISTMIND_OP_ARGS_MAX];
	void *heap;
	uint64_t heap_size;
	bool skip;    /* only check, count and call block_end: nothing is computed */
	char *reason; /* of a failure, has room for OP_REASON_LEN; or NULL */
};

/* What a block is worth, for an emulated device. */
struct op_work {
	uint64_t flops;
	uint64_t bytes;	 /* read and written while computing */
	uint64_t copied; /* bytes of operations that only move */
	uint64_t ns;	 /* that it takes on any device */
};

/* What happens between two blocks. */
struct op_yield {
	const uint32_t *asked; /* others set it to non-zero to ask; or NULL */
	/* Called after each block; @asked is looked at after it. Or NULL. */
	void (*block_end)(void *arg, const struct op_work *work);
	void *arg;
};

enum op_result {
	OP_DONE = 0,
	OP_YIELDED = 1,
};

/* Once per process, before the first call. */
void op_init(void);

/*
 * Runs the blocks from *cookie on, the first of them whatever is requested, so
 * that a call always gets on. yield may be NULL. Returns
 *
 *   OP_DONE       all blocks have been run
 *   OP_YIELDED    *cookie is the next block
 *   -EOPNOTSUPP   there is no such operation
 *   -EINVAL       an argument, the number of blocks or the cookie is not possible
 *   -EOVERFLOW    the sizes are larger than any memory
 *   -EFBIG        a block would take too long, see DISTMIND_OP_BLOCK_FLOPS_MAX
 *   -ERANGE       a buffer is too short, or outside of the heap
 *   -EACCES       an output can only be read
 *   -EDOM         a label or an index in a buffer is not possible; the output is undefined
 *
 * and on failure leaves *cookie alone and says why in call->reason.
 */
int op_run(const struct op_call *call, uint64_t *cookie, const struct op_yield *yield);

/* The work of the blocks from first on. Fails as op_run. */
int op_work(const struct op_call *call, uint64_t first, uint64_t count, struct op_work *work);

#endif
