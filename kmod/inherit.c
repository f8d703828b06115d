// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inheritance: what a job waits for, through a timeline, has the place of who waits.
 *
 * A job that will signal a timeline is in timeline->signallers, from its submission until
 * it signals. A queue whose first job waits for a value of that timeline finds there the
 * first job that will reach it, and lends the queue of that job its place until the job has
 * ended: the helper's entity is then one of the lender's tenant, see policy_lend(), which
 * pays for it. If the helper waits too, it lends on what it was lent. A value that nobody
 * is to signal yet is looked for again by who submits a job that will.
 *
 * Both queues must be of one gpu: another scheduler knows neither the tenant nor its share.
 * A capped tenant lends nothing: its cap would hold up the one that helps it.
 *
 * queue->inherit is guarded by the scheduler's lock; timeline->signallers by the timeline's,
 * which nests inside. A queue in a list of lenders, or with lenders, has not been released:
 * it waits, or releasing it takes it out first. All walks are bounded: a helper has
 * DISTMIND_LENDERS_MAX lenders, the best of those that wait, and a place is lent on
 * DEPTH_MAX times. So whoever has the place of a queue is found within DEPTH_MAX steps from
 * it, also if queues wait for each other in a circle, and no place outlives its tenant: a
 * queue that waits no longer has its place back before it can go.
 */
#include <linux/ktime.h>
#include <linux/rbtree.h>

#include "gpu.h"
#include "inherit.h"
#include "job.h"
#include "queue.h"
#include "request.h"
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
}

/* Who will signal what */

static bool signals_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct distmind_job, in_signallers)->signal_value <
	       rb_entry(b, struct distmind_job, in_signallers)->signal_value;
}

static void find_waiting(struct distmind_timeline *timeline, u64 value,
			 struct distmind_inherit_found *found)
{
	struct rb_node *node = rb_first_cached(&timeline->waiters);
	struct distmind_timeline_waiter *waiter;
	struct distmind_queue *queue;
	u32 looks;

	for (looks = 0; node && looks < DISTMIND_LENDERS_MAX; looks++, node = rb_next(node)) {
		waiter = rb_entry(node, struct distmind_timeline_waiter, node);
		if (waiter->value > value || found->count == DISTMIND_LENDERS_MAX)
			return;
		queue = distmind_queue_of_waiter(waiter);
		if (!queue)
			continue;
		/* It waits, so it has a job, which holds it. */
		distmind_queue_get(queue);
		found->queues[found->count++] = queue;
	}
}

/* The jobs are about to be submitted. Without a lock; @found is for who waits already. */
void distmind_inherit_attach(struct list_head *jobs, struct distmind_inherit_found *found)
{
	struct distmind_job *job;

	found->count = 0;
	list_for_each_entry(job, jobs, link) {
		struct distmind_timeline *timeline = job->signal;

		if (!timeline)
			continue;
		spin_lock(&timeline->lock);
		rb_add_cached(&job->in_signallers, &timeline->signallers, signals_less);
		find_waiting(timeline, job->signal_value, found);
		spin_unlock(&timeline->lock);
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

/* The queue with the first job that will signal @value, if it is of the same gpu. */
static struct distmind_queue *find_helper(struct distmind_queue *queue,
					  const struct distmind_job_wait *wait, u64 *job)
{
	struct distmind_timeline *timeline = wait->timeline;
	struct distmind_queue *helper = NULL;
	struct distmind_job *first = NULL;
	struct rb_node *node;

	spin_lock(&timeline->lock);
	node = timeline->signallers.rb_root.rb_node;
	while (node) {
		struct distmind_job *other = rb_entry(node, struct distmind_job, in_signallers);

		if (other->signal_value >= wait->value) {
			first = other;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	if (first && first->queue != queue && first->queue->tenant->gpu == queue->tenant->gpu) {
		helper = first->queue;
		*job = first->id;
	}
	spin_unlock(&timeline->lock);
	return helper;
}

/* Places */

static const struct policy_settings *settings_of(const struct distmind_place *place)
{
	return &place->tenant->policy[DISTMIND_LANE_COMPUTE].settings;
}

static bool is_better(const struct distmind_place *a, const struct distmind_place *b)
{
	u32 ours = settings_of(a)->class, theirs = settings_of(b)->class;

	if (settings_of(a)->capped || a->depth >= DEPTH_MAX)
		return false;
	return ours != theirs ? ours > theirs : a->deadline_ns < b->deadline_ns;
}

/* By its first job, as @queue->entity would be described for it. */
static void set_own(struct distmind_queue *queue, const struct policy_entity *entity, u64 now)
{
	struct distmind_inherit *inherit = &queue->inherit;
	u64 begun = entity->request_ns ? entity->request_ns : now;

	inherit->deadline_ns = entity->deadline_ns;
	inherit->own.deadline_ns = U64_MAX;
	if (settings_of(&inherit->own)->class == DISTMIND_CLASS_LATENCY)
		inherit->own.deadline_ns = entity->deadline_ns ? entity->deadline_ns :
			begun + settings_of(&inherit->own)->objective_ns;
}

/* Its place may be another one. Returns whether it is. */
static bool place_queue(struct distmind_queue *queue, u64 now)
{
	struct distmind_inherit *inherit = &queue->inherit;
	struct distmind_place best = inherit->own;
	struct policy_tenant *tenant;
	struct distmind_queue *lender;
	u64 deadline_ns = inherit->deadline_ns;
	bool changed;

	list_for_each_entry(lender, &inherit->lenders, inherit.in_helper) {
		if (!is_better(&lender->inherit.place, &best))
			continue;
		best = lender->inherit.place;
		best.depth++;
	}
	changed = best.tenant != inherit->place.tenant || best.depth != inherit->place.depth ||
		  best.deadline_ns != inherit->place.deadline_ns;
	inherit->place = best;
	if (best.depth)
		deadline_ns = best.deadline_ns == U64_MAX ? 0 : best.deadline_ns;
	tenant = &best.tenant->policy[queue->kind];
	if (tenant != queue->entity.tenant || deadline_ns != queue->entity.deadline_ns)
		policy_lend(&queue->tenant->gpu->sched.policy[queue->kind], &queue->entity, tenant,
			    deadline_ns, now);
	return changed;
}

/*
 * And that of the queue that it waits for, and so on. What was lent is gone after DEPTH_MAX
 * steps; behind that, queues may get places that there was no way to before.
 */
static void place_helpers(struct distmind_queue *queue, u64 now)
{
	u32 steps;

	for (steps = 0; queue && steps <= 2 * DEPTH_MAX; steps++) {
		if (!place_queue(queue, now))
			return;
		queue = queue->inherit.helper;
	}
}

static void take_back(struct distmind_queue *lender)
{
	list_del_init(&lender->inherit.in_helper);
	lender->inherit.helper->inherit.lender_count--;
	lender->inherit.helper = NULL;
}

/* Of more than a helper may have, the best stay. */
static bool make_room(struct distmind_queue *helper, const struct distmind_place *place)
{
	struct distmind_queue *lender, *worst = NULL;

	if (helper->inherit.lender_count < DISTMIND_LENDERS_MAX)
		return true;
	list_for_each_entry(lender, &helper->inherit.lenders, inherit.in_helper) {
		if (!worst || is_better(&worst->inherit.place, &lender->inherit.place))
			worst = lender;
	}
	if (!is_better(place, &worst->inherit.place))
		return false;
	take_back(worst);
	return true;
}

static void lend(struct distmind_queue *queue, const struct distmind_job_wait *wait, u64 now)
{
	struct distmind_inherit *inherit = &queue->inherit;
	struct distmind_queue *helper;

	helper = find_helper(queue, wait, &inherit->job);
	if (!helper || !make_room(helper, &inherit->place))
		return;
	inherit->helper = helper;
	list_add_tail(&inherit->in_helper, &helper->inherit.lenders);
	helper->inherit.lender_count++;
	place_helpers(helper, now);
}

/* Its first job begins to wait. */
void distmind_inherit_waits(struct distmind_queue *queue, struct distmind_job *job, u64 now)
{
	struct policy_entity entity = { 0 };

	lockdep_assert_held(&queue->tenant->gpu->sched.lock);
	distmind_request_describe(job, &entity);
	set_own(queue, &entity, now);
	place_queue(queue, now);
	lend(queue, &job->waits[job->waited], now);
}

/* Its first job is ready: its entity, which is idle, has been described. */
void distmind_inherit_ready(struct distmind_queue *queue)
{
	struct policy_entity *entity = &queue->entity;

	set_own(queue, entity, entity->arrival_ns);
	place_queue(queue, entity->arrival_ns);
}

/* It waits no longer. */
void distmind_inherit_stops(struct distmind_queue *queue, u64 now)
{
	struct distmind_queue *helper = queue->inherit.helper;

	if (!helper)
		return;
	take_back(queue);
	place_helpers(helper, now);
}

/* A job of a helper ends: who waited for it has its place back before it is told. */
void distmind_inherit_job_ends(struct distmind_job *job, u64 now)
{
	struct distmind_queue *helper = job->queue, *lender, *next;

	if (!helper->inherit.lender_count)
		return;
	list_for_each_entry_safe(lender, next, &helper->inherit.lenders, inherit.in_helper) {
		if (lender->inherit.job == job->id)
			take_back(lender);
	}
	place_helpers(helper, now);
}

/* It has no jobs any more, or is released: it neither helps nor waits. */
void distmind_inherit_drop(struct distmind_queue *queue, u64 now)
{
	struct distmind_queue *lender, *next;

	list_for_each_entry_safe(lender, next, &queue->inherit.lenders, inherit.in_helper)
		take_back(lender);
	place_queue(queue, now);
	distmind_inherit_stops(queue, now);
}

/* The queue has taken the jobs that were attached: who waits for them lends it its place. */
void distmind_inherit_submitted(struct distmind_queue *queue, struct distmind_inherit_found *found,
				u64 now)
{
	struct distmind_job *job;
	u32 i;

	for (i = 0; i < found->count; i++) {
		struct distmind_queue *waiting = found->queues[i];

		/* Its lock is this one only if it is of this gpu. */
		if (waiting->tenant->gpu != queue->tenant->gpu || !waiting->waiting ||
		    waiting->inherit.helper)
			continue;
		job = list_first_entry_or_null(&waiting->jobs, struct distmind_job, link);
		if (job && job->waited < job->wait_count)
			lend(waiting, &job->waits[job->waited], now);
	}
}

/*
 * The queue has not taken them, and others have had the lock: who was quick enough to wait
 * for them finds another one, or none.
 */
void distmind_inherit_refused(struct distmind_queue *queue, struct list_head *jobs)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct distmind_queue *lender, *next;
	struct distmind_job *job;
	LIST_HEAD(lenders);
	u64 now;

	list_for_each_entry(job, jobs, link)
		distmind_inherit_detach(job);
	spin_lock(&sched->lock);
	now = ktime_get_ns();
	list_for_each_entry_safe(lender, next, &queue->inherit.lenders, inherit.in_helper) {
		take_back(lender);
		list_add_tail(&lender->inherit.in_helper, &lenders);
	}
	place_helpers(queue, now);
	list_for_each_entry_safe(lender, next, &lenders, inherit.in_helper) {
		list_del_init(&lender->inherit.in_helper);
		job = list_first_entry(&lender->jobs, struct distmind_job, link);
		lend(lender, &job->waits[job->waited], now);
	}
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}
