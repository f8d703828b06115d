// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a job will take, learned from those before it: a moving average per
 * tenant and operation of the time that a block takes. Tenants repeat a few
 * operations, so the table is small; who was not looked at for longest goes. What a
 * request takes is learned in the same way, by its shape.
 */
#include "core.h"

/* Of a job whose operation is not known. */
#define UNKNOWN_NS	((u64)1000000)
#define FRACTION_BITS	8
#define WEIGHT_BITS	3

static struct policy_estimate *estimate_find(struct policy_estimates *estimates, u32 number)
{
	struct policy_estimate *estimate = estimates->entries;
	u32 i;

	for (i = 0; i < POLICY_OPERATIONS; i++, estimate++) {
		if (estimate->block && estimate->operation == number) {
			estimate->used = ++estimates->looks;
			return estimate;
		}
	}
	return NULL;
}

static struct policy_estimate *estimate_evict(struct policy_estimates *estimates)
{
	struct policy_estimate *estimate = estimates->entries, *oldest = estimate;
	u32 i;

	for (i = 0; i < POLICY_OPERATIONS; i++, estimate++) {
		if (!estimate->block)
			return estimate;
		if (estimates->looks - estimate->used > estimates->looks - oldest->used)
			oldest = estimate;
	}
	return oldest;
}

u64 policy_estimates_get(struct policy_estimates *estimates, u32 number, u32 blocks)
{
	struct policy_estimate *estimate = estimate_find(estimates, number);

	if (!estimate)
		return 0;
	blocks = max_t(u32, blocks, 1);
	if (estimate->block > div64_u64(POLICY_RUN_MAX << FRACTION_BITS, blocks))
		return POLICY_RUN_MAX;
	return (estimate->block * blocks) >> FRACTION_BITS;
}

void policy_estimates_update(struct policy_estimates *estimates, u32 number, u32 blocks,
			     u64 ran_ns)
{
	struct policy_estimate *estimate = estimate_find(estimates, number);
	u64 block = min(ran_ns, POLICY_RUN_MAX) << FRACTION_BITS;

	/* 0 marks a free entry. */
	block = max_t(u64, div64_u64(block, max_t(u32, blocks, 1)), 1);
	if (estimate) {
		estimate->block -= estimate->block >> WEIGHT_BITS;
		estimate->block = max_t(u64, estimate->block + (block >> WEIGHT_BITS), 1);
		return;
	}
	estimate = estimate_evict(estimates);
	estimate->operation = number;
	estimate->used = ++estimates->looks;
	estimate->block = block;
}

u64 policy_estimate_get(struct policy_tenant *tenant, u32 operation, u32 blocks)
{
	if (!estimate_find(&tenant->estimates, operation))
		return UNKNOWN_NS;
	return policy_estimates_get(&tenant->estimates, operation, blocks);
}

void policy_estimate_update(struct policy_tenant *tenant, u32 operation, u32 blocks, u64 ran_ns)
{
	policy_estimates_update(&tenant->estimates, operation, blocks, ran_ns);
}
