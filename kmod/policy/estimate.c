// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a job will take, learned from those before it: a moving average per
 * tenant and operation of the time that a block takes. Tenants repeat a few
 * operations, so the table is small; who was not looked at for longest goes.
 */
#include "core.h"

/* Of a job whose operation is not known. */
#define UNKNOWN_NS	((u64)1000000)
#define FRACTION_BITS	8
#define WEIGHT_BITS	3

static struct policy_estimate *find(struct policy_tenant *tenant, u32 operation)
{
	struct policy_estimate *estimate = tenant->estimates;
	u32 i;

	for (i = 0; i < POLICY_OPERATIONS; i++, estimate++) {
		if (estimate->block && estimate->operation == operation) {
			estimate->used = ++tenant->looks;
			return estimate;
		}
	}
	return NULL;
}

static struct policy_estimate *evict(struct policy_tenant *tenant)
{
	struct policy_estimate *estimate = tenant->estimates, *oldest = estimate;
	u32 i;

	for (i = 0; i < POLICY_OPERATIONS; i++, estimate++) {
		if (!estimate->block)
			return estimate;
		if (tenant->looks - estimate->used > tenant->looks - oldest->used)
			oldest = estimate;
	}
	return oldest;
}

u64 policy_estimate_get(struct policy_tenant *tenant, u32 operation, u32 blocks)
{
	struct policy_estimate *estimate = find(tenant, operation);

	if (!estimate)
		return UNKNOWN_NS;
	blocks = max_t(u32, blocks, 1);
	if (estimate->block > div64_u64(POLICY_RUN_MAX << FRACTION_BITS, blocks))
		return POLICY_RUN_MAX;
	return (estimate->block * blocks) >> FRACTION_BITS;
}

void policy_estimate_update(struct policy_tenant *tenant, u32 operation, u32 blocks, u64 ran_ns)
{
	struct policy_estimate *estimate = find(tenant, operation);
	u64 block = min(ran_ns, POLICY_RUN_MAX) << FRACTION_BITS;

	/* 0 marks a free entry. */
	block = max_t(u64, div64_u64(block, max_t(u32, blocks, 1)), 1);
	if (estimate) {
		estimate->block -= estimate->block >> WEIGHT_BITS;
		estimate->block = max_t(u64, estimate->block + (block >> WEIGHT_BITS), 1);
		return;
	}
	estimate = evict(tenant);
	estimate->operation = operation;
	estimate->used = ++tenant->looks;
	estimate->block = block;
}
