// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes are divided by share: start-time fair queueing of tenants.
 *
 * A tenant's virtual time grows by its run time divided by its share, and who
 * has the least goes first. What is picked is charged at once with what it is
 * expected to take, or one tenant would get every lane that is idle at the
 * moment; policy_done() puts that right. Who becomes runnable starts no
 * earlier than the one who was picked last, so being idle earns nothing.
 */
#include "core.h"

/* Jobs that take no time must not go first for ever. */
#define CHARGE_MIN_NS	((u64)1000)

u64 policy_fair_charge(const struct policy_tenant *tenant, u64 ran_ns)
{
	return (clamp(ran_ns, CHARGE_MIN_NS, POLICY_RUN_MAX) * tenant->inverse) >> 10;
}

u64 policy_fair_entity_key(const struct policy_entity *entity)
{
	return policy_begun(entity);
}

u64 policy_fair_tenant_key(const struct policy_tenant *tenant)
{
	return tenant->vtime;
}

/* Virtual time of its tenant before it was picked, as far as that is known. */
static u64 vtime_without(const struct policy_entity *running)
{
	const struct policy_tenant *tenant = running->tenant;

	return tenant->vtime - (running->epoch == tenant->epoch ? running->charged : 0);
}

u64 policy_fair_excess(const struct policy_entity *running, u64 now)
{
	return vtime_without(running) +
	       policy_fair_charge(running->tenant, policy_ran(running, now));
}

bool policy_fair_preempts(const struct policy_entity *waiter, bool starved,
			  const struct policy_entity *running, u64 now, u64 *when)
{
	u64 even;
	s64 ahead;

	if (waiter->tenant == running->tenant)
		return false;
	ahead = waiter->tenant->vtime - vtime_without(running);
	*when = running->picked_ns + POLICY_SLICE_NS;
	if (ahead > 0) {
		even = running->started_ns + 1 +
		       div64_u64(min_t(u64, ahead, POLICY_RUN_MAX) << 10,
				 running->tenant->inverse);
		if (policy_before(*when, even))
			*when = even;
	}
	return !policy_before(now, *when);
}

const struct policy policy_fair = {
	.name = "fair",
	.entity_key = policy_fair_entity_key,
	.tenant_key = policy_fair_tenant_key,
	.preempts = policy_fair_preempts,
	.excess = policy_fair_excess,
};
