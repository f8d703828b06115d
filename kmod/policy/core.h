/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between policy.c, which moves entities and tenants, and the policies, which
 * say how they are ordered.
 */
#ifndef _DISTMIND_POLICY_CORE_H
#define _DISTMIND_POLICY_CORE_H

#include "policy.h"

/* No time or key is further than this from one it is compared with. */
#define POLICY_FAR	((u64)1 << 62)
/* The longest run that is charged as such. */
#define POLICY_RUN_MAX	((u64)1 << 42)

/**
 * struct policy - how entities are ordered
 * @name: for operators
 * @precedence: a latency tenant goes first as long as it is within its share
 * @entity_key: order of the entities of one tenant, smallest first
 * @tenant_key: order of the runnable tenants of a rank, smallest first; looks
 *	at the tenant and its first entity only
 * @rank: of a tenant, all 0 if missing
 * @select: the tenant to pick from, if not the first of the highest rank;
 *	sets *starved if that is out of turn and the entity needs protection
 * @preempts: must @running yield to @waiter, which @select gave with @starved?
 *	If not yet, *when is the time to look again. Missing: nobody ever must.
 * @excess: which of the running ones of a rank should go first, the largest
 * @join, @leave: the tenant becomes runnable, or is no longer
 * @ran: an entity of the tenant has run for so long and is done, or has yielded
 * @next: when @select or @preempts may say something else, 0 for never
 *
 * Keys, like virtual times, are compared by the sign of their difference.
 */
struct policy {
	const char *name;
	bool precedence;
	u64 (*entity_key)(const struct policy_entity *entity);
	u64 (*tenant_key)(const struct policy_tenant *tenant);
	u32 (*rank)(const struct policy_tenant *tenant);
	struct policy_tenant *(*select)(struct policy_sched *sched, u64 now, bool *starved);
	bool (*preempts)(const struct policy_entity *waiter, bool starved,
			 const struct policy_entity *running, u64 now, u64 *when);
	u64 (*excess)(const struct policy_entity *running, u64 now);
	void (*join)(struct policy_sched *sched, struct policy_tenant *tenant);
	void (*leave)(struct policy_sched *sched, struct policy_tenant *tenant);
	void (*ran)(struct policy_sched *sched, struct policy_tenant *tenant, u64 ran_ns);
	u64 (*next)(struct policy_sched *sched, u64 now);
};

static inline bool policy_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static inline u64 policy_expected(const struct policy_entity *entity)
{
	return min(entity->expected_ns, POLICY_RUN_MAX);
}

/* Of its request. */
static inline u64 policy_left_own(const struct policy_entity *entity)
{
	return min(max(entity->expected_ns, entity->left_ns), POLICY_RUN_MAX);
}

/* Of the one behind it. */
static inline u64 policy_left_behind(const struct policy_entity *entity)
{
	return min(max(entity->expected_ns, entity->behind_left_ns), POLICY_RUN_MAX);
}

/* Of whichever is shorter. */
static inline u64 policy_left(const struct policy_entity *entity)
{
	u64 left = policy_left_own(entity);

	return entity->behind_ns ? min(left, policy_left_behind(entity)) : left;
}

static inline u64 policy_begun(const struct policy_entity *entity)
{
	return entity->request_ns ? entity->request_ns : entity->arrival_ns;
}

static inline struct policy_entity *policy_first_entity(const struct policy_tenant *tenant)
{
	struct policy_entity *other, *first;

	other = rb_entry_safe(rb_first_cached(&tenant->ready), struct policy_entity, node);
	if (list_empty(&tenant->in_order))
		return other;
	first = list_first_entry(&tenant->in_order, struct policy_entity, link);
	return other && !policy_before(first->key, other->key) ? other : first;
}

static inline struct policy_tenant *policy_first_tenant(const struct policy_rank *rank)
{
	return rb_entry_safe(rb_first_cached(&rank->tenants), struct policy_tenant, node);
}

/* At the expense of the tenant that it has now. */
static inline u64 policy_ran(const struct policy_entity *running, u64 now)
{
	return policy_before(now, running->started_ns) ? 0 : now - running->started_ns;
}

/* At whoever's. */
static inline u64 policy_ran_in_all(const struct policy_entity *running, u64 now)
{
	return policy_before(now, running->picked_ns) ? 0 : now - running->picked_ns;
}

/* The earlier of two times of which 0 is never. */
static inline u64 policy_earlier(u64 a, u64 b)
{
	return !a || (b && policy_before(b, a)) ? b : a;
}

/* fair.c, for those who are fair within a rank. */
u64 policy_fair_charge(const struct policy_tenant *tenant, u64 ran_ns);
u64 policy_fair_entity_key(const struct policy_entity *entity);
u64 policy_fair_tenant_key(const struct policy_tenant *tenant);
bool policy_fair_preempts(const struct policy_entity *waiter, bool starved,
			  const struct policy_entity *running, u64 now, u64 *when);
u64 policy_fair_excess(const struct policy_entity *running, u64 now);

/* limit.c */
void policy_limit_set(struct policy_sched *sched, struct policy_tenant *tenant, u64 now);
void policy_limit_update(struct policy_sched *sched, struct policy_tenant *tenant, u64 now);
u64 policy_limit_when(const struct policy_tenant *tenant);
u64 policy_limit_full_at(struct policy_sched *sched, struct policy_tenant *tenant, u64 now);
void policy_limit_empty(struct policy_sched *sched, struct policy_tenant *tenant, u64 full_ns,
			u64 now);
void policy_limit_start(struct policy_sched *sched, struct policy_entity *entity);
bool policy_limit_extend(struct policy_sched *sched, struct policy_entity *entity, u64 now);
void policy_limit_done(struct policy_sched *sched, struct policy_entity *entity, u64 ran_ns,
		       u64 now);

#endif /* _DISTMIND_POLICY_CORE_H */
