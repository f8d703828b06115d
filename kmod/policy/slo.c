// SPDX-License-Identifier: GPL-2.0-only
/*
 * Objectives first: a rank per class; the earliest deadline in the latency
 * class, fair in the others.
 *
 * Two things keep precedence from starving anybody. A latency tenant has it
 * for its share only and is standard beyond (limit.c). And a class that has
 * waited for POLICY_WINDOW_NS without being served goes first, once, for
 * POLICY_SLICE_NS, whether those above it wait too or only run.
 */
#include "core.h"

static u64 slo_entity_key(const struct policy_entity *entity)
{
	const struct policy_settings *settings = &entity->tenant->settings;
	u64 slack, begun = policy_begun(entity);

	if (settings->class != DISTMIND_CLASS_LATENCY)
		return policy_fair_entity_key(entity);
	if (!entity->deadline_ns)
		slack = settings->objective_ns;
	else if (entity->deadline_ns > begun)
		slack = entity->deadline_ns - begun;
	else
		slack = 0;
	return begun + min(slack, POLICY_FAR);
}

static u64 slo_tenant_key(const struct policy_tenant *tenant)
{
	if (tenant->rank == DISTMIND_CLASS_LATENCY)
		return policy_first_entity(tenant)->key;
	return policy_fair_tenant_key(tenant);
}

static u32 slo_rank(const struct policy_tenant *tenant)
{
	return tenant->over ? DISTMIND_CLASS_STANDARD : tenant->settings.class;
}

static bool is_starved(const struct policy_rank *rank)
{
	return rank->waiting && !rank->running && rank->starved_ns >= POLICY_WINDOW_NS;
}

static struct policy_tenant *slo_select(struct policy_sched *sched, u64 now, bool *starved)
{
	struct policy_rank *rank = sched->ranks;
	u32 i;

	for (i = 0; i < DISTMIND_CLASS_LATENCY; i++) {
		if (is_starved(&sched->ranks[i])) {
			*starved = true;
			return policy_first_tenant(&sched->ranks[i]);
		}
	}
	for (i = 0; i < POLICY_RANKS; i++) {
		if (sched->ranks[i].waiting)
			rank = &sched->ranks[i];
	}
	return policy_first_tenant(rank);
}

static bool slo_preempts(const struct policy_entity *waiter, bool starved,
			 const struct policy_entity *running, u64 now, u64 *when)
{
	u32 ours = waiter->tenant->rank, theirs = running->tenant->rank;

	if (ours != theirs)
		return ours > theirs || starved;
	if (ours != DISTMIND_CLASS_LATENCY)
		return policy_fair_preempts(waiter, starved, running, now, when);
	if (!policy_before(waiter->key, running->key))
		return false;
	*when = running->picked_ns + POLICY_SLICE_NS;
	return !policy_before(now, *when);
}

static u64 slo_excess(const struct policy_entity *running, u64 now)
{
	if (running->tenant->rank == DISTMIND_CLASS_LATENCY)
		return running->key;
	return policy_fair_excess(running, now);
}

static u64 slo_next(struct policy_sched *sched, u64 now)
{
	u64 when = 0;
	u32 i;

	for (i = 0; i < DISTMIND_CLASS_LATENCY; i++) {
		const struct policy_rank *rank = &sched->ranks[i];

		if (!rank->waiting || rank->running || is_starved(rank))
			continue;
		when = policy_earlier(when, now + POLICY_WINDOW_NS - rank->starved_ns);
	}
	return when;
}

const struct policy policy_slo = {
	.name = "slo",
	.precedence = true,
	.entity_key = slo_entity_key,
	.tenant_key = slo_tenant_key,
	.rank = slo_rank,
	.select = slo_select,
	.preempts = slo_preempts,
	.excess = slo_excess,
	.next = slo_next,
};
