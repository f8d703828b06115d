// SPDX-License-Identifier: GPL-2.0-or-later
/* Operations that move memory, or nothing: nop, spin, fill, copy. */
#include "ops_type.h"

#include "../../common/clock.h"


static void nop_load(struct op_load *load, void *state)
{
	(void)state;
	op_load_number(load, DISTMIND_NOP_BLOCKS, "blocks", 0, UINT32_MAX);
}

static int nop_block(const void *state, uint64_t block)
{
	(void)state;
	(void)block;
	return 0;
}

static void nop_work(const void *state, uint64_t block, struct op_work *work)
{
	(void)state;
	(void)block;
	(void)work;
}

const struct op_type op_nop = { nop_load, nop_block, nop_work, NULL };

struct spin {
	uint64_t ns;
};

static void spin_load(struct op_load *load, void *state)
{
	struct spin *spin = state;

	op_load_number(load, DISTMIND_SPIN_BLOCKS, "blocks", 1, UINT32_MAX);
	spin->ns = op_load_number(load, DISTMIND_SPIN_US, "us", 0, UINT32_MAX) * 1000;
}

static int spin_block(const void *state, uint64_t block)
{
	const struct spin *spin = state;
	uint64_t end = clock_ns() + spin->ns;
	volatile float sum = 0;

	(void)block;
	while (clock_ns() < end)
		for (int i = 0; i < 64; i++)
			sum = sum * 0.5f + 1;
	return 0;
}

static void spin_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct spin *spin = state;

	(void)block;
	work->ns += spin->ns;
}

const struct op_type op_spin = { spin_load, spin_block, spin_work, NULL };

struct copy {
	uint32_t *out;
	const uint32_t *in; /* NULL: fill */
	uint64_t count;
	uint32_t value;
};

static void fill_load(struct op_load *load, void *state)
{
	struct copy *copy = state;

	copy->count = op_load_size(load, DISTMIND_FILL_COUNT, "count");
	copy->value = (uint32_t)op_load_number(load, DISTMIND_FILL_VALUE, "value", 0, UINT32_MAX);
	copy->out = op_load_output(load, DISTMIND_FILL_OUT, "out", copy->count);
	copy->in = NULL;
}

static int fill_block(const void *state, uint64_t block)
{
	const struct copy *copy = state;
	struct op_range range = op_range(copy->count, DISTMIND_OP_TILE_COPY, block);

	for (uint64_t i = range.begin; i < range.end; i++)
		copy->out[i] = copy->value;
	return 0;
}

static void copy_load(struct op_load *load, void *state)
{
	struct copy *copy = state;

	copy->count = op_load_size(load, DISTMIND_COPY_COUNT, "count");
	copy->out = op_load_output(load, DISTMIND_COPY_OUT, "out", copy->count);
	copy->in = op_load_input(load, DISTMIND_COPY_IN, "in", copy->count);
}

static int copy_block(const void *state, uint64_t block)
{
	const struct copy *copy = state;
	struct op_range range = op_range(copy->count, DISTMIND_OP_TILE_COPY, block);

	/* They may overlap, if only by mistake. */
	memmove(copy->out + range.begin, copy->in + range.begin,
		op_range_size(range) * sizeof(*copy->out));
	return 0;
}

static void copy_work(const void *state, uint64_t block, struct op_work *work)
{
	const struct copy *copy = state;

	work->copied += op_range_size(op_range(copy->count, DISTMIND_OP_TILE_COPY, block)) *
			sizeof(*copy->out);
}

const struct op_type op_fill = { fill_load, fill_block, copy_work, NULL };
const struct op_type op_copy = { copy_load, copy_block, copy_work, NULL };
OP_STATE_CHECK(struct copy);
