// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much lane time a tenant may use: a token bucket per tenant.
 *
 * For a capped tenant it is a hard limit. The bucket holds 1/16 of what the
 * tenant may use in a window and fills at 15/16 of its share: together that is
 * the most it can get in any window. With no tokens it is throttled until the
 * bucket is half full, which keeps short jobs from setting a timer each.
 *
 * For a latency tenant under a policy that gives it precedence, the bucket
 * holds a whole window and fills at the share. With nothing left, not even set
 * aside, it is over, not throttled; of what it uses then a window's worth is
 * held against it at most.
 *
 * Time is set aside when an entity starts, in slices, because several may run
 * at once; what is set aside counts towards the bucket's depth. An entity that
 * has used its slice gets another one as long as there are tokens.
 */
#include "core.h"

#define BURST		16
/* Tokens are lane time in this fraction of a nanosecond, so that nothing is rounded. */
#define TOKENS_PER_NS	((s64)DISTMIND_SHARE_WHOLE * BURST)

static bool tenant_is_limited(const struct policy_sched *sched, const struct policy_tenant *tenant)
{
	return tenant->settings.capped ||
	       (sched->policy->precedence && tenant->settings.class == DISTMIND_CLASS_LATENCY);
}

static void tenant_refill(struct policy_tenant *tenant, u64 now)
{
	u64 passed = now - tenant->refilled_ns;
	s64 room = tenant->depth - tenant->reserved - tenant->tokens;

	if (!policy_before(tenant->refilled_ns, now))
		return;
	tenant->refilled_ns = now;
	if (room <= 0)
		return;
	/* The product does not overflow below this; that much time fills most buckets. */
	if (passed >= (u64)1 << 32 && passed > div64_u64(room, tenant->rate))
		tenant->tokens += room;
	else
		tenant->tokens += min_t(u64, room, passed * tenant->rate);
}

/* Settings, lanes or policy have changed. */
void policy_limit_set(struct policy_sched *sched, struct policy_tenant *tenant, u64 now)
{
	u64 whole = (u64)tenant->settings.share * sched->lanes;
	bool fresh = !tenant->rate;

	if (fresh)
		tenant->refilled_ns = now;
	else
		tenant_refill(tenant, now);
	if (tenant->settings.capped) {
		tenant->rate = whole * (BURST - 1);
		tenant->depth = whole * POLICY_WINDOW_NS;
	} else {
		tenant->rate = whole * BURST;
		tenant->depth = whole * BURST * POLICY_WINDOW_NS;
	}
	if (fresh || tenant->tokens > tenant->depth - tenant->reserved)
		tenant->tokens = tenant->depth - tenant->reserved;
}

/* Brings @throttled and @over up to date. */
void policy_limit_update(struct policy_sched *sched, struct policy_tenant *tenant, u64 now)
{
	if (!tenant_is_limited(sched, tenant)) {
		tenant->throttled = false;
		tenant->over = false;
		return;
	}
	tenant_refill(tenant, now);
	if (tenant->settings.capped) {
		tenant->throttled = tenant->tokens <= 0 ||
				    (tenant->throttled && tenant->tokens < tenant->depth / 2);
		tenant->over = false;
	} else {
		tenant->tokens = max(tenant->tokens, -tenant->depth - tenant->reserved);
		tenant->throttled = false;
		tenant->over = tenant->tokens + tenant->reserved <= 0;
	}
}

/* When a tenant that is throttled or over will no longer be so. */
u64 policy_limit_when(const struct policy_tenant *tenant)
{
	s64 missing;

	if (tenant->throttled)
		missing = tenant->depth / 2 - tenant->tokens;
	else
		missing = 1 - tenant->reserved - tenant->tokens;
	if (missing <= 0)
		return tenant->refilled_ns;
	return tenant->refilled_ns + div64_u64(missing + tenant->rate - 1, tenant->rate);
}

/* When its bucket will be full, if nothing is used meanwhile. */
u64 policy_limit_full_at(struct policy_sched *sched, struct policy_tenant *tenant, u64 now)
{
	s64 missing;

	if (!tenant_is_limited(sched, tenant))
		return now;
	tenant_refill(tenant, now);
	missing = tenant->depth - tenant->tokens - tenant->reserved;
	return missing > 0 ? now + div64_u64(missing + tenant->rate - 1, tenant->rate) : now;
}

/* It is new, and its bucket will be full then, not now. */
void policy_limit_empty(struct policy_sched *sched, struct policy_tenant *tenant, u64 full_ns,
			u64 now)
{
	u64 wait;

	if (!tenant_is_limited(sched, tenant) || !policy_before(now, full_ns))
		return;
	wait = min(full_ns - now, div64_u64(POLICY_FAR, tenant->rate));
	tenant->tokens = tenant->depth - (s64)(wait * tenant->rate);
}

/* Who is not capped can take in advance what it does not have. */
static void reserve(struct policy_sched *sched, struct policy_entity *entity, u64 ran_ns)
{
	struct policy_tenant *tenant = entity->tenant;
	s64 slice = tenant->depth / (2 * sched->lanes);
	u64 expected = policy_expected(entity);
	u64 rest = expected > ran_ns ? expected - ran_ns : POLICY_LIMIT_SLICE_NS;

	if (tenant->tokens > 0)
		slice = min(slice, tenant->tokens);
	else
		slice /= 4;
	slice = min_t(s64, slice, rest * TOKENS_PER_NS);
	tenant->tokens -= slice;
	tenant->reserved += slice;
	entity->reserved = slice;
	entity->settled_ns = ran_ns;
	entity->budget_ns = ran_ns + max(div64_u64(slice, TOKENS_PER_NS), POLICY_LIMIT_SLICE_NS);
}

static void entity_settle(struct policy_entity *entity, u64 ran_ns)
{
	struct policy_tenant *tenant = entity->tenant;
	s64 ran = min(ran_ns, POLICY_RUN_MAX) - entity->settled_ns;

	tenant->tokens += entity->reserved - ran * TOKENS_PER_NS;
	tenant->tokens = max(tenant->tokens, -(s64)POLICY_FAR);
	tenant->reserved -= entity->reserved;
	entity->reserved = 0;
	entity->budget_ns = 0;
}

void policy_limit_start(struct policy_sched *sched, struct policy_entity *entity)
{
	struct policy_tenant *tenant = entity->tenant;

	entity->reserved = 0;
	entity->settled_ns = 0;
	entity->budget_ns = 0;
	if (tenant_is_limited(sched, tenant))
		reserve(sched, entity, 0);
}

/* A running entity has used its budget. False if it must yield. */
bool policy_limit_extend(struct policy_sched *sched, struct policy_entity *entity, u64 now)
{
	struct policy_tenant *tenant = entity->tenant;
	u64 ran = min(policy_ran(entity, now), POLICY_RUN_MAX);

	tenant_refill(tenant, now);
	entity_settle(entity, ran);
	entity->settled_ns = ran;
	if (!tenant_is_limited(sched, tenant))
		return true;
	if (tenant->settings.capped && tenant->tokens <= 0)
		return false;
	reserve(sched, entity, ran);
	return true;
}

void policy_limit_done(struct policy_sched *sched, struct policy_entity *entity, u64 ran_ns,
		       u64 now)
{
	if (!tenant_is_limited(sched, entity->tenant) && !entity->reserved)
		return;
	tenant_refill(entity->tenant, now);
	entity_settle(entity, ran_ns);
}
