// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inheritance: what a job waits for, through a timeline, has the place of who waits.
 *
 * A job that will signal a timeline is in timeline->signallers, from its submission until
 * it signals. A queue whose first job waits for a value of that timeline is in
 * timeline->queues meanwhile, finds among the signallers the first job that will reach the
 * value, and lends the queue of that job its place until the job has ended: the helper's
 * entity is then one of the lender's tenant, see policy_lend(), which pays for it. If the
 * helper waits too, it lends on what it was lent. A value that nobody is to signal yet is
 * looked for again by who submits a job that will.
 *
 * Both queues must be of one gpu: another scheduler knows neither the tenant nor its share.
 * A capped tenant lends nothing: its cap would hold up the one that helps it. For the same
 * reason the entity of a helper goes back to its own tenant while the one whose place it has
 * is barred, or has used more than its share so that the helper is better off by itself, or
 * once it is capped; the place stays what it is.
 *
 * Of all that wait for one job the most urgent one lends, also if others join or leave: only
 * its place matters. It is found in O(log n) of those that wait, because each node of
 * timeline->queues knows how urgent the most urgent one below it is; whoever else waits
 * for the timeline is not there. A helper has at most DISTMIND_LENDERS_MAX lenders, the best
 * of those for all of its jobs. If these were too many it is crowded, and looks for others
 * when one of them leaves, for as many of its first jobs.
 *
 * queue->inherit is guarded by the scheduler's lock; timeline->signallers and
 * timeline->queues by the timeline's, which nests inside; and a queue enters and leaves
 * timeline->queues under both. A queue in a list of lenders, or with lenders, or there, has
 * not been released: it waits, or releasing it takes it out first.
 *
 * No place outlives its tenant, because between any two holders of the scheduler's lock
 * every place is backed: it is the queue's own, or that of one of its lenders, one deeper.
 * From lender to lender the depth falls, so each place leads back to a queue that is still
 * linked and whose own it is, and nobody has the place of one that is linked to nobody.
 * Whoever changes the place of a queue, or takes one of its lenders away, walks on with
 * place_helpers(), during which all but the queue that it has come to are backed. A queue
 * has one helper, so there is one way to go, also round a circle, and it ends: after
 * DEPTH_MAX steps the walk goes on only to places that were backed by what it has just
 * changed, and each of these is one deeper than the last, of DEPTH_MAX at most.
 */
#include <linux/ktime.h>
#include <linux/rbtree_augmented.h>

#include "gpu.h"
#include "inherit.h"
#include "job.h"
#include "queue.h"
#include "request.h"
#include "room.h"
#include "sched.h"
#include "tenant.h"
#include "timeline.h"

#define DEPTH_MAX 16

void distmind_inherit_init(struct distmind_queue *queue)
{
	struct distmind_inherit *inherit = &queue->inherit;

	INIT_LIST_HEAD(&inherit->in_helper);
	INIT_LIST_HEAD(&inherit->lenders);
	inherit->own.tenant = queue->tenant;
	inherit->own.deadline_ns = U64_MAX;
	inherit->place = inherit->own;
	INIT_LIST_HEAD(&inherit->in_guests);
}

static const struct policy_settings *settings_of(const struct distmind_place *place)
{
	return &place->tenant->policy[DISTMIND_LANE_COMPUTE].settings;
}

static bool can_be_lent(const struct distmind_place *place)
{
	return !settings_of(place)->capped && place->depth < DEPTH_MAX;
}

/* Who waits for what: timeline->queues, by gpu and value */

/* Larger is more urgent, as is_better() has it, to 8 ns; 0: it lends nothing. */
static u64 urgency_of(const struct distmind_place *place)
{
	if (!can_be_lent(place))
		return 0;
	return (u64)(settings_of(place)->class + 1) << 61 | (U64_MAX - place->deadline_ns) >> 3;
}

static u64 own_urgency(struct distmind_inherit *inherit)
{
	return inherit->urgency;
}

RB_DECLARE_CALLBACKS_MAX(static, urgencies, struct distmind_inherit, in_timeline, u64, most_urgent,
			 own_urgency)

static struct distmind_inherit *waiting_at(struct rb_node *node)
{
	return rb_entry_safe(node, struct distmind_inherit, in_timeline);
}

static struct distmind_queue *queue_of(struct distmind_inherit *inherit)
{
	return container_of(inherit, struct distmind_queue, inherit);
}

static unsigned long gpu_key(struct distmind_inherit *inherit)
{
	return (unsigned long)queue_of(inherit)->tenant->gpu;
}

static bool waits_before(struct distmind_inherit *a, struct distmind_inherit *b)
{
	return gpu_key(a) != gpu_key(b) ? gpu_key(a) < gpu_key(b) : a->value < b->value;
}

static void enter_timeline(struct distmind_queue *queue, const struct distmind_job_wait *wait)
{
	struct distmind_inherit *inherit = &queue->inherit, *other;
	struct distmind_timeline *timeline = wait->timeline;
	struct rb_node **place = &timeline->queues.rb_node, *parent = NULL;

	inherit->timeline = timeline;
	inherit->value = wait->value;
	inherit->urgency = urgency_of(&inherit->place);
	inherit->most_urgent = inherit->urgency;
	spin_lock(&timeline->lock);
	while (*place) {
		parent = *place;
		other = waiting_at(parent);
		other->most_urgent = max(other->most_urgent, inherit->urgency);
		place = waits_before(inherit, other) ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&inherit->in_timeline, parent, place);
	rb_insert_augmented(&inherit->in_timeline, &timeline->queues, &urgencies);
	spin_unlock(&timeline->lock);
}

static void leave_timeline(struct distmind_queue *queue)
{
	struct distmind_inherit *inherit = &queue->inherit;
	struct distmind_timeline *timeline = inherit->timeline;

	spin_lock(&timeline->lock);
	rb_erase_augmented(&inherit->in_timeline, &timeline->queues, &urgencies);
	spin_unlock(&timeline->lock);
	inherit->timeline = NULL;
}

/* Its place has changed. */
static void set_urgency(struct distmind_queue *queue)
{
	struct distmind_inherit *inherit = &queue->inherit;

	if (!inherit->timeline)
		return;
	spin_lock(&inherit->timeline->lock);
	inherit->urgency = urgency_of(&inherit->place);
	urgencies.propagate(&inherit->in_timeline, NULL);
	spin_unlock(&inherit->timeline->lock);
}

/* Values after @above, up to @last, of one gpu; and the best so far: it, or below it. */
struct search {
	unsigned long gpu;
	u64 above;
	u64 last;
	struct distmind_inherit *best;
	u64 urgency;
};

/* Negative: before what is looked for; positive: behind it. */
static int search_compare(const struct search *search, struct distmind_inherit *inherit)
{
	if (gpu_key(inherit) != search->gpu)
		return gpu_key(inherit) < search->gpu ? -1 : 1;
	return inherit->value <= search->above ? -1 : inherit->value > search->last;
}

static void consider(struct search *search, struct distmind_inherit *inherit, u64 urgency)
{
	if (urgency > search->urgency) {
		search->best = inherit;
		search->urgency = urgency;
	}
}

static void consider_all(struct search *search, struct rb_node *node)
{
	if (node)
		consider(search, waiting_at(node), waiting_at(node)->most_urgent);
}

/* To the left of what was found, or to its right: on the other side all is looked for. */
static void search_side(struct search *search, struct rb_node *node, bool right)
{
	while (node) {
		struct rb_node *inner = right ? node->rb_left : node->rb_right;
		struct rb_node *outer = right ? node->rb_right : node->rb_left;

		if (search_compare(search, waiting_at(node))) {
			node = inner;
			continue;
		}
		consider(search, waiting_at(node), waiting_at(node)->urgency);
		consider_all(search, inner);
		node = outer;
	}
}

/* Under the timeline's lock. NULL: nobody who could lend anything. */
static struct distmind_queue *find_most_urgent(struct distmind_timeline *timeline,
					       struct search *search)
{
	struct rb_node *top = timeline->queues.rb_node;
	struct distmind_inherit *below;
	int order;

	/* Everything that is looked for is below the first that is found of it. */
	while (top && (order = search_compare(search, waiting_at(top))))
		top = order < 0 ? top->rb_right : top->rb_left;
	if (!top)
		return NULL;
	consider(search, waiting_at(top), waiting_at(top)->urgency);
	search_side(search, top->rb_left, false);
	search_side(search, top->rb_right, true);
	if (!search->best)
		return NULL;
	while (search->best->urgency != search->urgency) {
		below = waiting_at(search->best->in_timeline.rb_left);
		if (!below || below->most_urgent != search->urgency)
			below = waiting_at(search->best->in_timeline.rb_right);
		search->best = below;
	}
	return queue_of(search->best);
}

/* Who will signal what */

static bool signals_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct distmind_job, in_signallers)->signal_value <
	       rb_entry(b, struct distmind_job, in_signallers)->signal_value;
}

/*
 * The most urgent of those that wait for this job of @gpu: not for one before it, and not
 * reached yet. Under the timeline's lock.
 */
static struct distmind_queue *find_waiting(struct distmind_job *job,
					   const struct distmind_gpu *gpu)
{
	struct distmind_timeline *timeline = job->signal;
	struct rb_node *before = rb_prev(&job->in_signallers);
	struct search search = {
		.gpu = (unsigned long)gpu,
		.above = timeline->page->value,
		.last = job->signal_value,
	};

	if (before)
		search.above = max(search.above, rb_entry(before, struct distmind_job,
							  in_signallers)->signal_value);
	return find_most_urgent(timeline, &search);
}

/* With its reference. If there are too many, the most urgent ones stay. */
static void note_found(struct distmind_inherit_found *found, struct distmind_queue *queue,
		       u64 urgency)
{
	u32 i, at = found->count, least = 0;

	for (i = 0; i < found->count; i++) {
		if (found->queues[i] == queue)
			goto put;
		if (found->urgencies[i] < found->urgencies[least])
			least = i;
	}
	if (found->count < DISTMIND_LENDERS_MAX) {
		found->count++;
	} else if (urgency > found->urgencies[least]) {
		distmind_queue_put(found->queues[least]);
		at = least;
	} else {
		goto put;
	}
	found->queues[at] = queue;
	found->urgencies[at] = urgency;
	return;

put:
	distmind_queue_put(queue);
}

/*
 * The jobs are about to be submitted to @queue. Without a lock; @found is for who waits
 * already.
 */
void distmind_inherit_attach(struct distmind_queue *queue, struct list_head *jobs,
			     struct distmind_inherit_found *found)
{
	struct distmind_queue *waiting;
	struct distmind_job *job;
	u64 urgency;

	found->count = 0;
	list_for_each_entry(job, jobs, link) {
		struct distmind_timeline *timeline = job->signal;

		if (!timeline)
			continue;
		spin_lock(&timeline->lock);
		rb_add_cached(&job->in_signallers, &timeline->signallers, signals_less);
		waiting = find_waiting(job, queue->tenant->gpu);
		if (waiting) {
			/* It waits, so it has a job, which holds it. */
			distmind_queue_get(waiting);
			urgency = waiting->inherit.urgency;
		}
		spin_unlock(&timeline->lock);
		if (waiting)
			note_found(found, waiting, urgency);
	}
}

/* It is about to signal, or will not be submitted. */
void distmind_inherit_detach(struct distmind_job *job)
{
	struct distmind_timeline *timeline = job->signal;

	if (!timeline || RB_EMPTY_NODE(&job->in_signallers))
		return;
	spin_lock(&timeline->lock);
	rb_erase_cached(&job->in_signallers, &timeline->signallers);
	spin_unlock(&timeline->lock);
	RB_CLEAR_NODE(&job->in_signallers);
}

void distmind_inherit_put(struct distmind_inherit_found *found)
{
	while (found->count)
		distmind_queue_put(found->queues[--found->count]);
}

/* The first that will signal @value. Under the timeline's lock. */
static struct distmind_job *find_signaller(struct distmind_timeline *timeline, u64 value)
{
	struct rb_node *node = timeline->signallers.rb_root.rb_node;
	struct distmind_job *first = NULL;

	while (node) {
		struct distmind_job *other = rb_entry(node, struct distmind_job, in_signallers);

		if (other->signal_value >= value) {
			first = other;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return first;
}

/*
 * The queue with the job that @queue waits for, if it is of the same gpu. That cannot go
 * before it has had the scheduler's lock.
 */
static struct distmind_queue *find_helper(struct distmind_queue *queue, u64 *job)
{
	struct distmind_timeline *timeline = queue->inherit.timeline;
	struct distmind_queue *helper = NULL;
	struct distmind_job *first;

	spin_lock(&timeline->lock);
	first = find_signaller(timeline, queue->inherit.value);
	if (first && first->queue != queue && first->queue->tenant->gpu == queue->tenant->gpu) {
		helper = first->queue;
		*job = first->id;
	}
	spin_unlock(&timeline->lock);
	return helper;
}

/* Places */

/* Of equal ones the one that was lent on less often: round a circle none is the better. */
static bool is_better(const struct distmind_place *a, const struct distmind_place *b)
{
	u32 ours = settings_of(a)->class, theirs = settings_of(b)->class;

	if (!can_be_lent(a))
		return false;
	if (ours != theirs)
		return ours > theirs;
	return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns :
						  a->depth + 1 < b->depth;
}

/* What is behind the first job of the queue may be due before it. Returns whether it is. */
static bool heed_line(struct distmind_queue *queue)
{
	struct distmind_inherit *inherit = &queue->inherit;
	u64 due_ns = policy_line_due(&queue->line);

	if (due_ns >= inherit->own.deadline_ns)
		return false;
	inherit->own.deadline_ns = due_ns;
	inherit->deadline_ns = due_ns;
	return true;
}

/* By its first job, as @queue->entity would be described for it. */
static void set_own(struct distmind_queue *queue, const struct policy_entity *entity, u64 now)
{
	struct distmind_inherit *inherit = &queue->inherit;
	u64 begun = entity->request_ns ? entity->request_ns : now;

	inherit->since_ns = now;
	inherit->deadline_ns = entity->deadline_ns;
	inherit->own.deadline_ns = U64_MAX;
	if (settings_of(&inherit->own)->class != DISTMIND_CLASS_LATENCY)
		return;
	/* As slo has it: nothing is due before its request began. */
	inherit->own.deadline_ns = entity->deadline_ns ? max(entity->deadline_ns, begun) :
		begun + min_t(u64, settings_of(&inherit->own)->objective_ns, S64_MAX);
	heed_line(queue);
}

/* Whether the queue can have the place of the tenant, or has it already. */
static bool has_place_for(const struct distmind_tenant *tenant, const struct distmind_queue *queue)
{
	return tenant == queue->tenant || tenant == queue->inherit.place.tenant ||
	       tenant->guest_count < DISTMIND_GUESTS_MAX;
}

static void set_place(struct distmind_queue *queue, const struct distmind_place *place)
{
	struct distmind_inherit *inherit = &queue->inherit;

	if (place->tenant != inherit->place.tenant) {
		if (inherit->place.tenant != queue->tenant)
			inherit->place.tenant->guest_count--;
		list_del_init(&inherit->in_guests);
		if (place->tenant != queue->tenant) {
			place->tenant->guest_count++;
			list_add_tail(&inherit->in_guests, &place->tenant->guests);
		}
	}
	inherit->place = *place;
}

/*
 * Whether the queue is better off as one of its own tenant's: a latency tenant that has used
 * more than its share is standard.
 */
static bool is_better_off(const struct distmind_queue *queue, const struct distmind_place *place)
{
	const struct policy_tenant *own = &queue->tenant->policy[queue->kind];

	if (list_empty(&place->tenant->in_spent) || own->barred || own->settings.capped)
		return false;
	if (own->rank != DISTMIND_CLASS_STANDARD)
		return own->rank > DISTMIND_CLASS_STANDARD;
	return own->settings.share > settings_of(place)->share;
}

/* Its place, or whether the tenant of that can run anything, may be another. */
static void place_entity(struct distmind_queue *queue, u64 now)
{
	const struct distmind_place *place = &queue->inherit.place;
	struct policy_tenant *tenant = &place->tenant->policy[queue->kind];
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	u64 deadline_ns = queue->inherit.deadline_ns;

	if (tenant->barred || tenant->settings.capped || is_better_off(queue, place))
		tenant = &queue->tenant->policy[queue->kind];
	else if (place->depth)
		deadline_ns = place->deadline_ns == U64_MAX ? 0 : place->deadline_ns;
	if (tenant != queue->entity.tenant || deadline_ns != queue->entity.deadline_ns)
		policy_lend(&sched->policy[queue->kind], &queue->entity, tenant, deadline_ns, now);
	distmind_room_place(sched, queue, now);
}

/* Its place may be another one. Returns whether it is. */
static bool place_queue(struct distmind_queue *queue, u64 now)
{
	struct distmind_inherit *inherit = &queue->inherit;
	struct distmind_place best = inherit->own;
	struct distmind_queue *lender;
	bool changed;

	list_for_each_entry(lender, &inherit->lenders, inherit.in_helper) {
		if (!is_better(&lender->inherit.place, &best) ||
		    !has_place_for(lender->inherit.place.tenant, queue))
			continue;
		best = lender->inherit.place;
		best.depth++;
	}
	changed = best.tenant != inherit->place.tenant || best.depth != inherit->place.depth ||
		  best.deadline_ns != inherit->place.deadline_ns;
	set_place(queue, &best);
	if (changed)
		set_urgency(queue);
	place_entity(queue, now);
	return changed;
}

static void lender_take_back(struct distmind_queue *lender)
{
	list_del_init(&lender->inherit.in_helper);
	lender->inherit.helper->inherit.lender_count--;
	lender->inherit.helper = NULL;
}

/* Of more than a helper may have, the best stay. */
static bool helper_make_room(struct distmind_queue *helper, const struct distmind_place *place)
{
	struct distmind_queue *lender, *worst = NULL;

	if (helper->inherit.lender_count < DISTMIND_LENDERS_MAX)
		return true;
	helper->inherit.crowded = true;
	list_for_each_entry(lender, &helper->inherit.lenders, inherit.in_helper) {
		if (!worst || is_better(&worst->inherit.place, &lender->inherit.place))
			worst = lender;
	}
	if (!is_better(place, &worst->inherit.place))
		return false;
	lender_take_back(worst);
	return true;
}

/* It waits, and lends to nobody: to who will signal what it waits for, if there is one. */
static void join_helper(struct distmind_queue *queue)
{
	struct distmind_inherit *inherit = &queue->inherit;
	struct distmind_queue *helper = find_helper(queue, &inherit->job);

	if (!helper || !helper_make_room(helper, &inherit->place))
		return;
	inherit->helper = helper;
	list_add_tail(&inherit->in_helper, &helper->inherit.lenders);
	helper->inherit.lender_count++;
}

/* Whether its place is its own, or one that a lender still has, see the head of this file. */
static bool is_backed(const struct distmind_queue *queue)
{
	const struct distmind_place *place = &queue->inherit.place;
	struct distmind_queue *lender;

	if (!place->depth)
		return true;
	list_for_each_entry(lender, &queue->inherit.lenders, inherit.in_helper) {
		const struct distmind_place *lent = &lender->inherit.place;

		if (lent->tenant == place->tenant && lent->deadline_ns == place->deadline_ns &&
		    lent->depth + 1 == place->depth)
			return true;
	}
	return false;
}

/*
 * The place of the queue may be another one, and that of the queue that it waits for, and
 * so on. After DEPTH_MAX steps nobody gets a better place, nor lends one that was not lent
 * before: only what is no longer backed is put right.
 */
static void place_helpers(struct distmind_queue *queue, u64 now)
{
	u32 steps;

	for (steps = 0; queue; steps++) {
		bool near = steps <= DEPTH_MAX;

		if ((!near && is_backed(queue)) || !place_queue(queue, now))
			return;
		if (near && queue->inherit.timeline && !queue->inherit.helper)
			join_helper(queue);
		queue = queue->inherit.helper;
	}
}

static void lend(struct distmind_queue *queue, u64 now)
{
	if (!queue->inherit.timeline || queue->inherit.helper)
		return;
	join_helper(queue);
	place_helpers(queue->inherit.helper, now);
}

/* Who waits for this job of @helper most urgently lends, if it does not already. */
static void lend_most_urgent(struct distmind_queue *helper, struct distmind_job *job, u64 now)
{
	struct distmind_queue *waiting;

	spin_lock(&job->signal->lock);
	waiting = RB_EMPTY_NODE(&job->in_signallers) ? NULL :
						       find_waiting(job, helper->tenant->gpu);
	spin_unlock(&job->signal->lock);
	if (waiting && waiting != helper)
		lend(waiting, now);
}

/* It has lost a lender, and there were more than it could have. */
static void helper_refill(struct distmind_queue *helper, u64 now)
{
	struct distmind_job *job;
	u32 looks = 0;

	if (!helper->inherit.crowded || helper->inherit.lender_count == DISTMIND_LENDERS_MAX)
		return;
	helper->inherit.crowded = false;
	list_for_each_entry(job, &helper->jobs, link) {
		if (++looks > DISTMIND_LENDERS_MAX) {
			helper->inherit.crowded = true;
			return;
		}
		if (job->signal)
			lend_most_urgent(helper, job, now);
	}
}

/* Another one who waits for what @queue waited for @helper to do. */
static void replace_lender(struct distmind_queue *queue, struct distmind_queue *helper,
			   struct distmind_timeline *timeline, u64 now)
{
	struct distmind_queue *waiting = NULL;
	struct distmind_job *job;

	spin_lock(&timeline->lock);
	job = find_signaller(timeline, queue->inherit.value);
	if (job && job->queue == helper)
		waiting = find_waiting(job, helper->tenant->gpu);
	spin_unlock(&timeline->lock);
	if (waiting && waiting != helper)
		lend(waiting, now);
	helper_refill(helper, now);
}

/* Its first job begins to wait. */
void distmind_inherit_waits(struct distmind_queue *queue, struct distmind_job *job, u64 now)
{
	struct policy_entity entity = { 0 };

	lockdep_assert_held(&queue->tenant->gpu->sched.lock);
	distmind_request_describe(job, &entity);
	set_own(queue, &entity, now);
	place_queue(queue, now);
	enter_timeline(queue, &job->waits[job->waited]);
	lend(queue, now);
}

/* Its first job is ready: its entity, which is idle, has been described. */
void distmind_inherit_ready(struct distmind_queue *queue)
{
	struct policy_entity *entity = &queue->entity;

	set_own(queue, entity, entity->arrival_ns);
	place_queue(queue, entity->arrival_ns);
}

/* A request in it has another deadline, which may be earlier or later. */
void distmind_inherit_renew(struct distmind_queue *queue, u64 now)
{
	struct policy_entity entity = { 0 };

	/* One that does neither is looked at anew before it does. */
	if (!queue->waiting && queue->entity.state == POLICY_IDLE)
		return;
	distmind_request_describe(list_first_entry(&queue->jobs, struct distmind_job, link),
				  &entity);
	set_own(queue, &entity, queue->inherit.since_ns);
	place_helpers(queue, now);
}

/* A request has come behind its first job, which waits, is ready, or runs. */
void distmind_inherit_hurry(struct distmind_queue *queue, u64 now)
{
	if (settings_of(&queue->inherit.own)->class == DISTMIND_CLASS_LATENCY && heed_line(queue))
		place_helpers(queue, now);
}

/* It waits no longer. */
void distmind_inherit_stops(struct distmind_queue *queue, u64 now)
{
	struct distmind_timeline *timeline = queue->inherit.timeline;
	struct distmind_queue *helper = queue->inherit.helper;

	if (!timeline)
		return;
	leave_timeline(queue);
	if (!helper)
		return;
	lender_take_back(queue);
	place_helpers(helper, now);
	replace_lender(queue, helper, timeline, now);
}

/* A job of a helper ends: who waited for it has its place back before it is told. */
void distmind_inherit_job_ends(struct distmind_job *job, u64 now)
{
	struct distmind_queue *helper = job->queue, *lender, *next;

	if (!helper->inherit.lender_count)
		return;
	list_for_each_entry_safe(lender, next, &helper->inherit.lenders, inherit.in_helper) {
		if (lender->inherit.job == job->id)
			lender_take_back(lender);
	}
	place_helpers(helper, now);
	helper_refill(helper, now);
}

/* It has no jobs any more, or is released: it neither helps nor waits. */
void distmind_inherit_drop(struct distmind_queue *queue, u64 now)
{
	struct distmind_queue *lender, *next;

	list_for_each_entry_safe(lender, next, &queue->inherit.lenders, inherit.in_helper)
		lender_take_back(lender);
	place_queue(queue, now);
	distmind_inherit_stops(queue, now);
}

/* The tenant is barred, capped or beyond its share, or no longer: so are who have its place. */
void distmind_inherit_place_guests(struct distmind_tenant *tenant, u64 now)
{
	struct distmind_queue *queue;

	lockdep_assert_held(&tenant->gpu->sched.lock);
	list_for_each_entry(queue, &tenant->guests, inherit.in_guests)
		place_entity(queue, now);
}

/* The queue has taken the jobs that were attached: who waits for them lends it its place. */
void distmind_inherit_submitted(struct distmind_queue *queue, struct distmind_inherit_found *found,
				u64 now)
{
	u32 i;

	lockdep_assert_held(&queue->tenant->gpu->sched.lock);
	for (i = 0; i < found->count; i++)
		lend(found->queues[i], now);
}

/*
 * The queue has not taken them, and others have had the lock: who was quick enough to wait
 * for them finds another one, or none.
 */
void distmind_inherit_refused(struct distmind_queue *queue, struct list_head *jobs)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct distmind_queue *lenders[DISTMIND_LENDERS_MAX], *lender, *next;
	struct distmind_job *job;
	u32 i, count = 0;
	u64 now;

	list_for_each_entry(job, jobs, link)
		distmind_inherit_detach(job);
	spin_lock(&sched->lock);
	now = ktime_get_ns();
	list_for_each_entry_safe(lender, next, &queue->inherit.lenders, inherit.in_helper) {
		lender_take_back(lender);
		lenders[count++] = lender;
	}
	/* If they wait for each other in a circle, this may have one of them lend already. */
	place_helpers(queue, now);
	for (i = 0; i < count; i++)
		lend(lenders[i], now);
	helper_refill(queue, now);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}
