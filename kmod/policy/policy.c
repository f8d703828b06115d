// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is common to all policies: entities wait in their tenant, tenants with
 * such entities in a tree of their rank, both in the order of keys that the
 * policy gives. So a tenant is throttled, or changes its rank, by moving one
 * node, however many queues it has.
 *
 * tenant_place() alone moves tenants; it is called after anything about a
 * tenant has changed. The lock is the caller's, see policy.h.
 */
#include "core.h"

/* Virtual time further ahead than this is a leftover of long ago. */
#define VTIME_STALE	((u64)1 << 53)
/* Events that one call deals with; if there are more, the next one is now. */
#define EVENTS_AT_ONCE	8

static const struct policy *const policies[] = {
	&policy_slo, &policy_fair, &policy_srpt, &policy_fifo,
};

const struct policy *policy_find(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		if (!strcmp(policies[i]->name, name))
			return policies[i];
	}
	return NULL;
}

const char *policy_name(const struct policy *policy)
{
	return policy->name;
}

static bool entity_less(struct rb_node *a, const struct rb_node *b)
{
	return policy_before(rb_entry(a, struct policy_entity, node)->key,
			     rb_entry(b, struct policy_entity, node)->key);
}

static bool tenant_less(struct rb_node *a, const struct rb_node *b)
{
	return policy_before(rb_entry(a, struct policy_tenant, node)->key,
			     rb_entry(b, struct policy_tenant, node)->key);
}

static bool event_less(struct rb_node *a, const struct rb_node *b)
{
	return policy_before(rb_entry(a, struct policy_tenant, event_node)->event_ns,
			     rb_entry(b, struct policy_tenant, event_node)->event_ns);
}

/* Before @waiting or @running of a rank changes, and before @starved_ns is looked at. */
static void rank_age(struct policy_rank *rank, u64 now)
{
	if (!policy_before(rank->aged_ns, now))
		return;
	if (rank->waiting && !rank->running)
		rank->starved_ns = min(rank->starved_ns + now - rank->aged_ns, POLICY_WINDOW_NS);
	rank->aged_ns = now;
}

/* After @waiting or @running has become less. */
static void rank_left(struct policy_rank *rank, u64 now)
{
	if (!rank->waiting && !rank->running)
		rank->empty_ns = now;
}

/* Nobody of it has wanted anything for a while. */
static bool rank_is_quiet(const struct policy_rank *rank, u64 now)
{
	return !rank->waiting && !rank->running &&
	       !policy_before(now, rank->empty_ns + POLICY_WINDOW_NS);
}

static void ranks_age(struct policy_sched *sched, u64 now)
{
	u32 i;

	for (i = 0; i < POLICY_RANKS; i++)
		rank_age(&sched->ranks[i], now);
}

static void tenant_join(struct policy_sched *sched, struct policy_tenant *tenant, u64 now)
{
	struct policy_rank *rank = &sched->ranks[tenant->rank];
	u64 ahead = tenant->vtime - rank->vtime;

	/* Also true of who is behind: the difference has wrapped. */
	if (ahead > VTIME_STALE)
		tenant->vtime = rank->vtime;
	rank_age(rank, now);
	if (rank_is_quiet(rank, now))
		rank->period++;
	rank->waiting += tenant->ready_count;
	sched->active++;
	tenant->runnable = true;
	tenant->key = sched->policy->tenant_key(tenant);
	rb_add_cached(&tenant->node, &rank->tenants, tenant_less);
	if (sched->policy->join)
		sched->policy->join(sched, tenant);
}

/* @ready_count is what it was counted with. */
static void tenant_leave(struct policy_sched *sched, struct policy_tenant *tenant, u64 now)
{
	struct policy_rank *rank = &sched->ranks[tenant->rank];

	if (sched->policy->leave)
		sched->policy->leave(sched, tenant);
	rb_erase_cached(&tenant->node, &rank->tenants);
	tenant->runnable = false;
	sched->active--;
	rank_age(rank, now);
	rank->waiting -= tenant->ready_count;
	rank_left(rank, now);
}

/* Its key may have changed; most often its place has not. */
static void tenant_move(struct policy_sched *sched, struct policy_tenant *tenant)
{
	struct policy_rank *rank = &sched->ranks[tenant->rank];
	u64 key = sched->policy->tenant_key(tenant);
	struct rb_node *other;

	if (key == tenant->key)
		return;
	if (policy_before(key, tenant->key)) {
		other = rb_prev(&tenant->node);
		tenant->key = key;
		if (!other || !tenant_less(&tenant->node, other))
			return;
	} else {
		other = rb_next(&tenant->node);
		tenant->key = key;
		if (!other || tenant_less(&tenant->node, other))
			return;
	}
	rb_erase_cached(&tenant->node, &rank->tenants);
	rb_add_cached(&tenant->node, &rank->tenants, tenant_less);
}

static void tenant_drop_event(struct policy_sched *sched, struct policy_tenant *tenant)
{
	if (tenant->event_ns)
		rb_erase_cached(&tenant->event_node, &sched->events);
	tenant->event_ns = 0;
}

/*
 * An event that comes too early, because more was used meanwhile, is set again when it comes.
 * It must not come too late, because what was set aside was given back.
 */
static void tenant_set_event(struct policy_sched *sched, struct policy_tenant *tenant, u64 now)
{
	bool wanted = tenant->ready_count && (tenant->throttled || tenant->over);
	u64 when = wanted ? policy_limit_when(tenant) : 0;

	if (wanted && tenant->event_ns && policy_before(now, tenant->event_ns) &&
	    !policy_before(when, tenant->event_ns))
		return;
	tenant_drop_event(sched, tenant);
	if (wanted) {
		tenant->event_ns = when;
		rb_add_cached(&tenant->event_node, &sched->events, event_less);
	}
}

/* Puts a tenant where it belongs now. */
static void tenant_place(struct policy_sched *sched, struct policy_tenant *tenant, u64 now)
{
	bool runnable;
	u32 rank;

	policy_limit_update(sched, tenant, now);
	runnable = tenant->ready_count && !tenant->throttled && !tenant->barred;
	rank = sched->policy->rank ? sched->policy->rank(tenant) : 0;
	if (tenant->runnable && (!runnable || rank != tenant->rank))
		tenant_leave(sched, tenant, now);
	if (rank != tenant->rank) {
		/* What it got among others says nothing here. */
		tenant->rank = rank;
		tenant->vtime = sched->ranks[rank].vtime;
		tenant->epoch++;
	}
	if (tenant->runnable)
		tenant_move(sched, tenant);
	else if (runnable)
		tenant_join(sched, tenant, now);
	tenant_set_event(sched, tenant, now);
}

static void entity_insert(struct policy_sched *sched, struct policy_entity *entity)
{
	struct policy_tenant *tenant = entity->tenant;

	entity->key = sched->policy->entity_key(entity);
	entity->in_order = list_empty(&tenant->in_order) ||
			   !policy_before(entity->key, list_last_entry(&tenant->in_order,
								       struct policy_entity,
								       link)->key);
	if (entity->in_order)
		list_add_tail(&entity->link, &tenant->in_order);
	else
		rb_add_cached(&entity->node, &tenant->ready, entity_less);
}

static void entity_erase(struct policy_entity *entity)
{
	if (entity->in_order)
		list_del(&entity->link);
	else
		rb_erase_cached(&entity->node, &entity->tenant->ready);
}

/* Counts of what is runnable, in the tenant and, if it can be picked, in its rank. */
static void count_ready(struct policy_sched *sched, struct policy_tenant *tenant, int change,
			u64 now)
{
	struct policy_rank *rank = &sched->ranks[tenant->rank];

	if (tenant->runnable) {
		rank_age(rank, now);
		rank->waiting += change;
		rank_left(rank, now);
	}
	tenant->ready_count += change;
}

/* The order of a tenant's entities has changed; the tenant is not runnable. */
static void tenant_reorder(struct policy_sched *sched, struct policy_tenant *tenant)
{
	struct rb_root_cached others = tenant->ready;
	struct policy_entity *entity, *next;
	struct rb_node *node;
	LIST_HEAD(in_order);

	list_splice_init(&tenant->in_order, &in_order);
	tenant->ready = RB_ROOT_CACHED;
	list_for_each_entry_safe(entity, next, &in_order, link)
		entity_insert(sched, entity);
	while ((node = rb_first_cached(&others))) {
		rb_erase_cached(node, &others);
		entity_insert(sched, rb_entry(node, struct policy_entity, node));
	}
}

static void expire_events(struct policy_sched *sched, u64 now)
{
	struct policy_tenant *tenant;
	struct rb_node *node;
	u32 i;

	for (i = 0; i < EVENTS_AT_ONCE; i++) {
		node = rb_first_cached(&sched->events);
		if (!node)
			return;
		tenant = rb_entry(node, struct policy_tenant, event_node);
		if (policy_before(now, tenant->event_ns))
			return;
		tenant_place(sched, tenant, now);
	}
}

static struct policy_tenant *select_tenant(struct policy_sched *sched, u64 now, bool *starved)
{
	*starved = false;
	if (!sched->active)
		return NULL;
	if (!sched->policy->select)
		return policy_first_tenant(&sched->ranks[0]);
	ranks_age(sched, now);
	return sched->policy->select(sched, now, starved);
}

void policy_sched_init(struct policy_sched *sched, const struct policy *policy, u32 lanes)
{
	memset(sched, 0, sizeof(*sched));
	sched->policy = policy;
	sched->lanes = clamp_t(u32, lanes, 1, POLICY_LANES_MAX);
	sched->patience_ns = POLICY_PATIENCE_NS;
	INIT_LIST_HEAD(&sched->tenants);
}

void policy_set_patience(struct policy_sched *sched, u64 patience_ns, u64 now)
{
	sched->patience_ns = min(patience_ns, POLICY_RUN_MAX);
	sched->recheck_ns = now;
}

void policy_set_lanes(struct policy_sched *sched, u32 lanes, u64 now)
{
	struct policy_tenant *tenant;

	lanes = clamp_t(u32, lanes, 1, POLICY_LANES_MAX);
	if (lanes == sched->lanes)
		return;
	sched->lanes = lanes;
	sched->recheck_ns = now;
	list_for_each_entry(tenant, &sched->tenants, in_sched) {
		tenant_drop_event(sched, tenant);
		policy_limit_set(sched, tenant, now);
		tenant_place(sched, tenant, now);
	}
}

void policy_switch(struct policy_sched *sched, const struct policy *policy, u64 now)
{
	struct policy_tenant *tenant;
	u32 i;

	list_for_each_entry(tenant, &sched->tenants, in_sched) {
		if (tenant->runnable)
			tenant_leave(sched, tenant, now);
	}
	sched->policy = policy;
	sched->owed = 0;
	sched->recheck_ns = now;
	for (i = 0; i < POLICY_RANKS; i++) {
		sched->ranks[i].vtime = 0;
		sched->ranks[i].starved_ns = 0;
		sched->ranks[i].period++;
	}
	list_for_each_entry(tenant, &sched->tenants, in_sched) {
		tenant->owed_base = 0;
		tenant->vtime = 0;
		tenant->epoch++;
		tenant_reorder(sched, tenant);
		tenant_place(sched, tenant, now);
	}
}

static void tenant_set(struct policy_sched *sched, struct policy_tenant *tenant,
		       const struct policy_settings *settings, u64 now)
{
	tenant->settings = *settings;
	tenant->settings.share = clamp_t(u32, settings->share, 1, DISTMIND_SHARE_WHOLE);
	tenant->settings.class = min_t(u32, settings->class, DISTMIND_CLASS__COUNT - 1);
	tenant->inverse = (DISTMIND_SHARE_WHOLE << 10) / tenant->settings.share;
	policy_limit_set(sched, tenant, now);
}

void policy_tenant_init(struct policy_sched *sched, struct policy_tenant *tenant,
			const struct policy_settings *settings, u64 now)
{
	memset(tenant, 0, sizeof(*tenant));
	INIT_LIST_HEAD(&tenant->in_order);
	tenant->ready = RB_ROOT_CACHED;
	list_add_tail(&tenant->in_sched, &sched->tenants);
	tenant_set(sched, tenant, settings, now);
	tenant->vtime = sched->ranks[0].vtime;
	tenant_place(sched, tenant, now);
}

void policy_tenant_change(struct policy_sched *sched, struct policy_tenant *tenant,
			  const struct policy_settings *settings, u64 now)
{
	bool reorder = settings->class != tenant->settings.class ||
		       settings->objective_ns != tenant->settings.objective_ns;

	if (reorder && tenant->runnable)
		tenant_leave(sched, tenant, now);
	tenant_drop_event(sched, tenant);
	tenant_set(sched, tenant, settings, now);
	if (reorder)
		tenant_reorder(sched, tenant);
	tenant_place(sched, tenant, now);
	sched->recheck_ns = now;
}

void policy_bar(struct policy_sched *sched, struct policy_tenant *tenant, bool barred, u64 now)
{
	tenant->barred = barred;
	tenant_place(sched, tenant, now);
}

void policy_tenant_exit(struct policy_sched *sched, struct policy_tenant *tenant)
{
	policy_bug_on(tenant->ready_count || tenant->running);
	list_del_init(&tenant->in_sched);
}

/* Whether somebody got further than those who are in it now. */
static bool is_ahead(const struct policy_rank *rank, u64 vtime, u64 now)
{
	u64 ahead = vtime - rank->vtime;

	return ahead && ahead <= VTIME_STALE && !rank_is_quiet(rank, now);
}

static bool debt_counts(const struct policy_rank *rank, const struct policy_debt *debt, u32 i,
			u64 now)
{
	return debt->period[i] == rank->period && is_ahead(rank, debt->vtime[i], now);
}

void policy_debt_note(struct policy_sched *sched, struct policy_tenant *tenant,
		      struct policy_debt *debt, u64 now)
{
	const struct policy_rank *rank = &sched->ranks[tenant->rank];
	u64 full_ns = policy_limit_full_at(sched, tenant, now);
	u32 i = tenant->rank;

	if (policy_before(debt->full_ns, full_ns) && policy_before(now, full_ns))
		debt->full_ns = full_ns;
	if (!is_ahead(rank, tenant->vtime, now))
		return;
	if (debt_counts(rank, debt, i, now) && policy_before(tenant->vtime, debt->vtime[i]))
		return;
	debt->vtime[i] = tenant->vtime;
	debt->period[i] = rank->period;
}

void policy_debt_take(struct policy_sched *sched, struct policy_tenant *tenant,
		      const struct policy_debt *debt, u64 now)
{
	if (debt->full_ns)
		policy_limit_empty(sched, tenant, debt->full_ns, now);
	/* What it may use says of which rank it is. */
	tenant_place(sched, tenant, now);
	if (debt_counts(&sched->ranks[tenant->rank], debt, tenant->rank, now))
		tenant->vtime = debt->vtime[tenant->rank];
}

bool policy_debt_matters(const struct policy_sched *sched, const struct policy_debt *debt, u64 now)
{
	u32 i;

	for (i = 0; i < POLICY_RANKS; i++) {
		if (debt_counts(&sched->ranks[i], debt, i, now))
			return true;
	}
	return debt->full_ns && policy_before(now, debt->full_ns);
}

void policy_enqueue(struct policy_sched *sched, struct policy_entity *entity, u64 now)
{
	struct policy_tenant *tenant = entity->tenant;

	if (policy_bug_on(entity->state != POLICY_IDLE))
		return;
	entity->state = POLICY_RUNNABLE;
	entity_insert(sched, entity);
	count_ready(sched, tenant, 1, now);
	tenant_place(sched, tenant, now);
}

static void entity_take(struct policy_sched *sched, struct policy_entity *entity, u64 now)
{
	struct policy_tenant *tenant = entity->tenant;

	/* It leaves while it still has an entity: keys are made from the first one. */
	if (tenant->ready_count == 1 && tenant->runnable)
		tenant_leave(sched, tenant, now);
	entity_erase(entity);
	count_ready(sched, tenant, -1, now);
}

void policy_remove(struct policy_sched *sched, struct policy_entity *entity, u64 now)
{
	if (entity->state == POLICY_IDLE || policy_bug_on(entity->state != POLICY_RUNNABLE))
		return;
	entity_take(sched, entity, now);
	entity->state = POLICY_IDLE;
	tenant_place(sched, entity->tenant, now);
}

/* The caller must look again when this one has used what was counted on, if anybody cares. */
static void watch(struct policy_sched *sched, const struct policy_entity *running)
{
	u64 when = 0;

	if (running->budget_ns && (running->tenant->settings.capped || sched->active))
		when = running->started_ns + running->budget_ns;
	if (sched->active && sched->policy->preempts)
		when = policy_earlier(when, running->started_ns +
					    max(running->paid_ns, POLICY_SLICE_NS));
	sched->recheck_ns = policy_earlier(sched->recheck_ns, when);
}

/* Its tenant was charged for too little time and looks as if it had got less than others. */
static void charge_more(struct policy_entity *running, u64 now)
{
	struct policy_tenant *tenant = running->tenant;
	u64 charged;

	running->paid_ns = policy_ran(running, now) + POLICY_SLICE_NS;
	if (running->epoch != tenant->epoch)
		return;
	charged = policy_fair_charge(tenant, running->paid_ns);
	tenant->vtime += charged - running->charged;
	running->charged = charged;
}

/* With many queues, most of a decision's time would go into fetching what it picks. */
static void prefetch_next(const struct policy_rank *rank)
{
	const struct policy_tenant *tenant = policy_first_tenant(rank);
	const struct policy_entity *entity;

	if (!tenant)
		return;
	entity = list_first_entry(&tenant->in_order, struct policy_entity, link);
	prefetch(entity);
	prefetch(&entity->started_ns);
	prefetch(tenant->in_order.prev);
}

/* Its time on a lane begins, at the expense of the tenant that it has now. */
static void stretch_begin(struct policy_sched *sched, struct policy_entity *entity, u64 now)
{
	struct policy_tenant *tenant = entity->tenant;
	struct policy_rank *rank = &sched->ranks[tenant->rank];

	rank_age(rank, now);
	rank->running++;
	sched->running++;
	tenant->running++;
	entity->rank = tenant->rank;
	entity->epoch = tenant->epoch;
	entity->started_ns = now;
	entity->paid_ns = min(entity->expected_ns, POLICY_WINDOW_NS);
	entity->charged = policy_fair_charge(tenant, entity->paid_ns);
	tenant->vtime += entity->charged;
	policy_limit_start(sched, entity);
	tenant_place(sched, tenant, now);
	watch(sched, entity);
}

bool policy_is_wanted(const struct policy_sched *sched)
{
	u32 i;

	for (i = 0; i < POLICY_RANKS; i++) {
		if (sched->ranks[i].waiting)
			return true;
	}
	return false;
}

struct policy_entity *policy_pick(struct policy_sched *sched, u64 now)
{
	struct policy_entity *entity;
	struct policy_tenant *tenant;
	struct policy_rank *rank;
	bool starved;

	expire_events(sched, now);
	tenant = select_tenant(sched, now, &starved);
	if (!tenant)
		return NULL;
	entity = policy_first_entity(tenant);
	rank = &sched->ranks[tenant->rank];
	if (policy_before(rank->vtime, tenant->vtime))
		rank->vtime = tenant->vtime;
	entity_take(sched, entity, now);
	entity->state = POLICY_RUNNING;
	entity->asked = false;
	entity->picked_ns = now;
	entity->protected_ns = starved ? now + POLICY_SLICE_NS : now;
	stretch_begin(sched, entity, now);
	prefetch_next(rank);
	return entity;
}

/* A stretch on a lane has ended, or has become somebody else's. */
static void stretch_end(struct policy_sched *sched, struct policy_entity *entity, u64 ran_ns,
			u64 now)
{
	struct policy_rank *rank = &sched->ranks[entity->rank];
	struct policy_tenant *tenant = entity->tenant;
	u64 made_up = min(ran_ns, POLICY_WINDOW_NS) * POLICY_FLOOR;

	rank_age(rank, now);
	rank->running--;
	rank_left(rank, now);
	rank->starved_ns -= min(rank->starved_ns, made_up);
	sched->running--;
	tenant->running--;
	if (sched->policy->ran)
		sched->policy->ran(sched, tenant, ran_ns);
	if (entity->epoch == tenant->epoch)
		tenant->vtime += policy_fair_charge(tenant, ran_ns) - entity->charged;
	policy_limit_done(sched, entity, ran_ns, now);
	tenant_place(sched, tenant, now);
}

void policy_done(struct policy_sched *sched, struct policy_entity *entity, u64 ran_ns, u64 now)
{
	if (policy_bug_on(entity->state != POLICY_RUNNING))
		return;
	entity->state = POLICY_IDLE;
	stretch_end(sched, entity, ran_ns, now);
}

/* It runs, and what decides about its place has changed. */
static void entity_rekey(struct policy_sched *sched, struct policy_entity *entity, u64 now)
{
	entity->key = sched->policy->entity_key(entity);
	sched->recheck_ns = now;
}

void policy_lend(struct policy_sched *sched, struct policy_entity *entity,
		 struct policy_tenant *tenant, u64 deadline_ns, u64 now)
{
	bool runnable = entity->state == POLICY_RUNNABLE;

	if (entity->state == POLICY_RUNNING && entity->tenant == tenant) {
		entity->deadline_ns = deadline_ns;
		entity_rekey(sched, entity, now);
		return;
	}
	if (runnable)
		policy_remove(sched, entity, now);
	else if (entity->state == POLICY_RUNNING)
		stretch_end(sched, entity, policy_ran(entity, now), now);
	entity->tenant = tenant;
	entity->deadline_ns = deadline_ns;
	if (runnable) {
		policy_enqueue(sched, entity, now);
	} else if (entity->state == POLICY_RUNNING) {
		stretch_begin(sched, entity, now);
		entity_rekey(sched, entity, now);
	}
}

void policy_set_behind(struct policy_sched *sched, struct policy_entity *entity, u64 behind_ns,
		       u64 left_ns, u64 now)
{
	bool runnable = entity->state == POLICY_RUNNABLE;

	if (entity->behind_ns == behind_ns && entity->behind_left_ns == left_ns)
		return;
	if (runnable)
		policy_remove(sched, entity, now);
	entity->behind_ns = behind_ns;
	entity->behind_left_ns = left_ns;
	if (runnable)
		policy_enqueue(sched, entity, now);
	else if (entity->state == POLICY_RUNNING)
		entity_rekey(sched, entity, now);
}

/*
 * Brings up to date what was charged for those who run. Gives one that has used
 * its budget and is capped; others lose their precedence.
 */
static struct policy_entity *charge_running(struct policy_sched *sched,
					    struct policy_entity **running, u32 count, u64 now)
{
	u32 i;

	for (i = 0; i < count; i++) {
		struct policy_entity *entity = running[i];
		u64 ran = policy_ran(entity, now);
		bool extended = true;

		if (entity->asked)
			continue;
		if (ran >= entity->paid_ns)
			charge_more(entity, now);
		if (entity->budget_ns && ran >= entity->budget_ns)
			extended = policy_limit_extend(sched, entity, now);
		tenant_place(sched, entity->tenant, now);
		watch(sched, entity);
		if (!extended && !entity->unyielding)
			return entity;
	}
	return NULL;
}

/* It was asked to yield, and there is still hope. */
static bool is_soon_free(struct policy_sched *sched, const struct policy_entity *asked, u64 now)
{
	u64 until = asked->asked_ns + sched->patience_ns;

	if (!policy_before(now, until))
		return false;
	sched->recheck_ns = policy_earlier(sched->recheck_ns, until);
	return true;
}

/* Is there more to run than the lanes that will be free anyway can take? */
static bool is_needed(struct policy_sched *sched, const struct policy_entity *victim, u32 asked)
{
	u32 i, waiting = 0;

	if (!asked)
		return true;
	for (i = victim->tenant->rank + 1; i < POLICY_RANKS; i++)
		waiting += sched->ranks[i].waiting;
	return waiting > asked;
}

static bool is_worse(struct policy_sched *sched, const struct policy_entity *a,
		     const struct policy_entity *b, u64 now)
{
	if (a->tenant->rank != b->tenant->rank)
		return a->tenant->rank < b->tenant->rank;
	return policy_before(sched->policy->excess(b, now), sched->policy->excess(a, now));
}

struct policy_entity *policy_victim(struct policy_sched *sched, struct policy_entity **running,
				    u32 count, u64 now)
{
	struct policy_entity *entity, *waiter, *victim;
	struct policy_tenant *tenant;
	u32 i, asked = 0;
	bool starved;
	u64 when;

	sched->recheck_ns = 0;
	expire_events(sched, now);
	victim = charge_running(sched, running, count, now);
	if (victim) {
		/* Others may be over their budget too. */
		sched->recheck_ns = now;
		goto ask;
	}
	tenant = select_tenant(sched, now, &starved);
	if (!tenant || !sched->policy->preempts || count < sched->lanes)
		return NULL;
	waiter = policy_first_entity(tenant);
	for (i = 0; i < count; i++) {
		entity = running[i];
		if (entity->asked) {
			asked += is_soon_free(sched, entity, now);
			continue;
		}
		if (entity->unyielding)
			continue;
		when = 0;
		if (policy_before(now, entity->protected_ns)) {
			when = entity->protected_ns;
		} else if (sched->policy->preempts(waiter, starved, entity, now, &when)) {
			if (!victim || is_worse(sched, entity, victim, now))
				victim = entity;
			continue;
		}
		sched->recheck_ns = policy_earlier(sched->recheck_ns, when);
	}
	if (!victim || !is_needed(sched, victim, asked))
		return NULL;
ask:
	victim->asked = true;
	victim->asked_ns = now;
	return victim;
}

u64 policy_next_event(struct policy_sched *sched, u64 now)
{
	struct rb_node *node = rb_first_cached(&sched->events);
	u64 when = sched->running ? sched->recheck_ns : 0;

	if (node)
		when = policy_earlier(when, rb_entry(node, struct policy_tenant,
						     event_node)->event_ns);
	if (sched->policy->next) {
		ranks_age(sched, now);
		when = policy_earlier(when, sched->policy->next(sched, now));
	}
	return when;
}
