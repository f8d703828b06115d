// SPDX-License-Identifier: GPL-2.0-or-later
/* Calls: their arguments are checked, then their blocks are run one by one. */
#include "ops.h"

#include "ops_type.h"

#include <cblas.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const struct op_type *const types[] = {
#define TYPE(number, NAME, name, buffers, arguments) [number] = &op_##name,
	DISTMIND_OPS(TYPE)
#undef TYPE
};

void op_init(void)
{
	/* A lane is a thread; a library that divides a block among cores would take others'. */
	openblas_set_num_threads(1);
}

void op_load_fail(struct op_load *load, int err, const char *format, ...)
{
	va_list args;

	if (load->err)
		return;
	load->err = err;
	if (!load->call->reason)
		return;
	va_start(args, format);
	vsnprintf(load->call->reason, OP_REASON_LEN, format, args);
	va_end(args);
}

uint64_t op_load_number(struct op_load *load, uint32_t index, const char *name, uint64_t min,
			uint64_t max)
{
	uint64_t value = load->call->args[index].value;

	if (value < min || value > max)
		op_load_fail(load, -EINVAL, "%s is %" PRIu64 ", not %" PRIu64 " to %" PRIu64, name,
			     value, min, max);
	return value;
}

uint64_t op_load_size(struct op_load *load, uint32_t index, const char *name)
{
	return op_load_number(load, index, name, 1, DISTMIND_OP_SIZE_MAX);
}

float op_load_float(struct op_load *load, uint32_t index, const char *name)
{
	uint32_t bits = (uint32_t)load->call->args[index].value;
	float value;

	if (load->call->args[index].value != bits)
		op_load_fail(load, -EINVAL, "%s is not a float: its high half is not zero", name);
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void *load_buffer(struct op_load *load, uint32_t index, const char *name, uint64_t elements)
{
	const struct op_arg *arg = &load->call->args[index];
	uint64_t bytes;

	/* An earlier error may have left sizes that mean nothing. */
	if (load->err)
		return NULL;
	if (__builtin_mul_overflow(elements, sizeof(float), &bytes)) {
		op_load_fail(load, -EOVERFLOW, "%s is larger than any memory", name);
		return NULL;
	}
	if (arg->value % sizeof(float)) {
		op_load_fail(load, -EINVAL, "%s begins at %" PRIu64 ", not a multiple of 4", name,
			     arg->value);
		return NULL;
	}
	if (arg->value > load->call->heap_size ||
	    arg->length > load->call->heap_size - arg->value) {
		op_load_fail(load, -ERANGE, "%s is not inside of the heap", name);
		return NULL;
	}
	if (arg->length < bytes) {
		op_load_fail(load, -ERANGE, "%s has %" PRIu64 " bytes, %" PRIu64 " are needed",
			     name, arg->length, bytes);
		return NULL;
	}
	return (char *)load->call->heap + arg->value;
}

const void *op_load_input(struct op_load *load, uint32_t index, const char *name,
			  uint64_t elements)
{
	return load_buffer(load, index, name, elements);
}

void *op_load_output(struct op_load *load, uint32_t index, const char *name, uint64_t elements)
{
	if (load->call->args[index].read_only)
		op_load_fail(load, -EACCES, "%s can only be read", name);
	return load_buffer(load, index, name, elements);
}

static void check_kinds(struct op_load *load)
{
	const struct op_call *call = load->call;
	uint32_t buffers = distmind_op_buffers(call->op);

	if (call->nargs != distmind_op_args(call->op)) {
		op_load_fail(load, -EINVAL, "%s has %" PRIu32 " arguments, not %" PRIu32,
			     distmind_op_name(call->op), distmind_op_args(call->op), call->nargs);
		return;
	}
	for (uint32_t i = 0; i < call->nargs; i++)
		if (call->args[i].is_buffer != (i < buffers))
			op_load_fail(load, -EINVAL, "argument %" PRIu32 " of %s is a %s", i,
				     distmind_op_name(call->op), i < buffers ? "buffer" : "scalar");
}

static void check_blocks(struct op_load *load, uint64_t cookie)
{
	const struct op_call *call = load->call;
	uint64_t args[DISTMIND_OP_ARGS_MAX];
	uint32_t blocks;

	for (uint32_t i = 0; i < call->nargs; i++)
		args[i] = call->args[i].value;
	blocks = distmind_op_blocks(call->op, args, call->nargs);
	/* The arguments have been found good: what remains is that they are too many. */
	if (!blocks && call->op != DISTMIND_OP_NOP)
		op_load_fail(load, -EOVERFLOW, "the call has more than %" PRIu32 " blocks",
			     UINT32_MAX);
	if (call->blocks != blocks)
		op_load_fail(load, -EINVAL, "the call has %" PRIu32 " blocks, not %" PRIu32, blocks,
			     call->blocks);
	if (cookie > blocks)
		op_load_fail(load, -EINVAL, "block %" PRIu64 " is beyond the last of %" PRIu32,
			     cookie, blocks);
}

/* Nobody can interrupt a block, so there is none that takes long. */
static void check_length(struct op_load *load, const struct op_type *type, const void *state)
{
	struct op_work most = { 0 };

	if (type->most)
		type->most(state, &most);
	else
		type->work(state, 0, &most);
	if (most.flops > DISTMIND_OP_BLOCK_FLOPS_MAX || most.bytes > DISTMIND_OP_BLOCK_BYTES_MAX ||
	    most.copied > DISTMIND_OP_BLOCK_BYTES_MAX || most.ns > DISTMIND_OP_BLOCK_NS_MAX)
		op_load_fail(load, -EFBIG, "a block of %s with these sizes would take too long",
			     distmind_op_name(load->call->op));
}

static int load_call(const struct op_call *call, uint64_t cookie, void *state)
{
	struct op_load load = { .call = call };

	if (call->op >= DISTMIND_OP__COUNT) {
		op_load_fail(&load, -EOPNOTSUPP, "there is no operation %" PRIu32, call->op);
		return load.err;
	}
	check_kinds(&load);
	if (!load.err)
		types[call->op]->load(&load, state);
	if (!load.err)
		check_blocks(&load, cookie);
	if (!load.err && call->blocks)
		check_length(&load, types[call->op], state);
	return load.err;
}

int op_run(const struct op_call *call, uint64_t *cookie, const struct op_yield *yield)
{
	_Alignas(16) char state[OP_STATE_SIZE];
	const struct op_type *type;
	uint64_t block = *cookie;
	int err;

	err = load_call(call, block, state);
	if (err)
		return err;
	type = types[call->op];
	while (block < call->blocks) {
		if (!call->skip && type->block(state, block)) {
			struct op_load load = { .call = call };

			op_load_fail(&load, -EDOM, "%s: an index is outside of its table",
				     distmind_op_name(call->op));
			return load.err;
		}
		if (yield && yield->block_end) {
			struct op_work work = { 0 };

			type->work(state, block, &work);
			yield->block_end(yield->arg, &work);
		}
		block++;
		if (block < call->blocks && yield && yield->asked &&
		    __atomic_load_n(yield->asked, __ATOMIC_ACQUIRE)) {
			*cookie = block;
			return OP_YIELDED;
		}
	}
	*cookie = block;
	return OP_DONE;
}

int op_work(const struct op_call *call, uint64_t first, uint64_t count, struct op_work *work)
{
	_Alignas(16) char state[OP_STATE_SIZE];
	int err;

	err = load_call(call, first, state);
	if (err)
		return err;
	*work = (struct op_work){ 0 };
	if (count > call->blocks - first)
		count = call->blocks - first;
	for (uint64_t block = first; block < first + count; block++)
		types[call->op]->work(state, block, work);
	return 0;
}
