// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shortest expected remaining time first, with a fairness deficit. What counts is
 * what remains of the request, not of the job alone: whoever waits for the request
 * waits for all of it.
 *
 * Whoever has run pays for the time, and every tenant that waits is given an
 * equal part of it. Once a tenant is owed more than POLICY_DEFICIT_NS, the one
 * that is owed most goes first. Instead of giving something to everybody, the
 * sched counts what everybody was given, and a tenant remembers where that
 * counter was when it was owed nothing.
 *
 * A request counts as shorter the longer ago it began, so that a tenant's long
 * ones are not starved by its own short ones. One behind another in a queue counts as
 * longer by what is before it, and what is before it counts as short as it is.
 */
#include "core.h"

#define PREEMPT_COST_NS	100000
#define OWED_MAX	((s64)POLICY_DEFICIT_NS)

static u64 srpt_entity_key(const struct policy_entity *entity)
{
	u64 key = policy_begun(entity) / POLICY_SRPT_AGING + policy_left_own(entity);

	if (!entity->behind_ns)
		return key;
	return min(key, entity->behind_ns / POLICY_SRPT_AGING + policy_left_behind(entity));
}

static u64 srpt_tenant_key(const struct policy_tenant *tenant)
{
	return policy_first_entity(tenant)->key;
}

static s64 owed_to(const struct policy_sched *sched, const struct policy_tenant *tenant)
{
	return sched->owed - tenant->owed_base;
}

static bool owed_less(struct rb_node *a, const struct rb_node *b)
{
	return policy_before(rb_entry(a, struct policy_tenant, owed_node)->owed_base,
			     rb_entry(b, struct policy_tenant, owed_node)->owed_base);
}

/* Nothing is earned while not runnable, and neither debt nor credit adds up without limit. */
static void srpt_join(struct policy_sched *sched, struct policy_tenant *tenant)
{
	s64 owed = clamp_t(s64, tenant->owed_base, 0, OWED_MAX);

	tenant->owed_base = sched->owed - owed;
	rb_add_cached(&tenant->owed_node, &sched->owed_tree, owed_less);
}

static void srpt_leave(struct policy_sched *sched, struct policy_tenant *tenant)
{
	rb_erase_cached(&tenant->owed_node, &sched->owed_tree);
	tenant->owed_base = owed_to(sched, tenant);
}

/* Debt does not add up: what it had while nobody wanted any is not held against it. */
static void srpt_ran(struct policy_sched *sched, struct policy_tenant *tenant, u64 ran_ns)
{
	u64 ran = min(ran_ns, POLICY_DEFICIT_NS);

	if (tenant->runnable)
		rb_erase_cached(&tenant->owed_node, &sched->owed_tree);
	sched->owed += div64_u64(ran, sched->active + 1);
	if (tenant->runnable) {
		tenant->owed_base += ran;
		if (owed_to(sched, tenant) < 0)
			tenant->owed_base = sched->owed;
		rb_add_cached(&tenant->owed_node, &sched->owed_tree, owed_less);
	} else {
		tenant->owed_base -= min_t(s64, tenant->owed_base, ran);
	}
}

static struct policy_tenant *srpt_select(struct policy_sched *sched, u64 now, bool *starved)
{
	struct policy_tenant *tenant = rb_entry_safe(rb_first_cached(&sched->owed_tree),
						     struct policy_tenant, owed_node);

	if (tenant && owed_to(sched, tenant) > OWED_MAX) {
		*starved = true;
		return tenant;
	}
	return policy_first_tenant(&sched->ranks[0]);
}

/* What has run longer than expected is taken to be half way. */
static u64 remaining(const struct policy_entity *running, u64 now)
{
	u64 left = policy_left(running), ran = policy_ran_in_all(running, now);

	return left > ran ? left - ran : ran;
}

/* Only for one that is a good deal shorter: to yield and to resume costs something too. */
static bool srpt_preempts(const struct policy_entity *waiter, bool starved,
			  const struct policy_entity *running, u64 now, u64 *when)
{
	u64 worth = 2 * policy_left(waiter) + PREEMPT_COST_NS;

	/* If not now, then perhaps when it turns out to be longer than was expected. */
	*when = running->picked_ns + max(worth, policy_left(running)) + 1;
	return remaining(running, now) > worth;
}

const struct policy policy_srpt = {
	.name = "srpt",
	.entity_key = srpt_entity_key,
	.tenant_key = srpt_tenant_key,
	.select = srpt_select,
	.preempts = srpt_preempts,
	.excess = remaining,
	.join = srpt_join,
	.leave = srpt_leave,
	.ran = srpt_ran,
};
