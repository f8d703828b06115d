// SPDX-License-Identifier: GPL-2.0-only
/*
 * Grants: lanes that are lent to the process that asked, for work that it starts
 * on the device itself. Everything under sched->lock but where it says so.
 *
 * A queue has at most one lane. While it has one lane->lent points to it, and
 * queue->grant is the number under which the process gives the lane back; both
 * outlive the job if that is failed for hanging. A grant that the vendor's hook
 * has taken off the device has no lane and keeps its number: its job is the first
 * of its queue, suspended.
 */
#include <linux/ktime.h>
#include <linux/pid.h>

#include "grant.h"
#include "job.h"
#include "ladder.h"
#include "lane.h"
#include "preempt.h"
#include "queue.h"
#include "sched.h"
#include "tenant.h"

/* To the process that submitted the grant. */
void distmind_grant_lend(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	struct distmind_queue *queue = lane->job->queue;

	lane->lent = queue;
	lane->pid = get_pid(lane->job->pid);
	lane->brief = !distmind_ladder_trusts(sched, queue->account, now);
	if (lane->job->suspended)
		distmind_preempt_resume(lane->job->suspended);
	lane->job->suspended = NULL;
	distmind_lane_begin(sched, lane, DISTMIND_LANE_LEND, now);
	if (!queue->grant)
		queue->grant = ++queue->grants;
	WRITE_ONCE(queue->page->yield, 0);
	WRITE_ONCE(queue->page->grant, queue->grant);
	distmind_lane_tell(queue);
}

/*
 * The process that it was lent to has no claim on it any more. Returns the grant's job,
 * which goes on as @status says, or NULL if it has been failed before.
 */
struct distmind_job *distmind_grant_take(struct distmind_sched *sched, struct distmind_lane *lane,
					 int status, u64 now)
{
	struct distmind_job *job = NULL;

	if (lane->job)
		job = distmind_lane_stop(sched, lane, DISTMIND_LANE_RETURN, status, 0, now);
	else
		distmind_lane_step(lane, DISTMIND_LANE_RETURN);
	put_pid(lane->pid);
	lane->pid = NULL;
	lane->brief = false;
	lane->lent = NULL;
	if (!job)
		distmind_lane_count_usable(sched, lane->kind, now);
	return job;
}

static struct distmind_lane *find_lent_lane(struct distmind_sched *sched,
					    const struct distmind_queue *queue)
{
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		if (sched->lanes[i].lent == queue)
			return &sched->lanes[i];
	}
	return NULL;
}

/*
 * The grant is over, or it wants a lane @again. It has one, or the job was failed
 * and it has one still, or it is suspended: then what the hook stopped goes on
 * when the job ends or has a lane again.
 */
static void grant_finish(struct distmind_sched *sched, struct distmind_queue *queue, bool again,
			 u64 now, struct list_head *ended)
{
	struct distmind_lane *lane = find_lent_lane(sched, queue);
	struct distmind_job *job = NULL;

	if (lane) {
		job = distmind_grant_take(sched, lane, again ? DISTMIND_DONE_YIELDED : 0, now);
	} else {
		job = list_first_entry_or_null(&queue->jobs, struct distmind_job, link);
		if (!job || !job->suspended)
			job = NULL;
		else if (!again)
			policy_remove(&sched->policy[queue->kind], &queue->entity, now);
	}
	queue->grant = 0;
	WRITE_ONCE(queue->page->grant, 0);
	WRITE_ONCE(queue->page->yield, 0);
	if (!job)
		return;
	if (!again)
		policy_estimate_update(&queue->tenant->policy[queue->kind], job->operation, 1,
				       job->ran_ns);
	if (!again || (queue->error && !job->suspended)) {
		distmind_lane_count_end(sched, job, queue->error, now);
		distmind_job_end(job, queue->error, ended);
	}
}

/* The process gives the lane back that grant number @grant has lent it. */
int distmind_grant_return(struct distmind_sched *sched, struct distmind_queue *queue, u64 grant,
			  bool again)
{
	LIST_HEAD(ended);
	int err = 0;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	if (queue->grant != grant) {
		err = queue->error ? queue->error : -EPROTO;
	} else {
		grant_finish(sched, queue, again, now, &ended);
		err = queue->error;
		distmind_queue_advance(queue, now, &ended);
		distmind_sched_dispatch(sched, now);
	}
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	return err;
}

/* The same, by the end of the queue's handle; what it ran is not waited for. */
void distmind_grant_revoke(struct distmind_sched *sched, struct distmind_queue *queue, int error,
			   struct list_head *ended)
{
	struct distmind_lane *lane = find_lent_lane(sched, queue);
	u64 now = ktime_get_ns();
	struct distmind_job *job;

	lockdep_assert_held(&sched->lock);
	if (!lane)
		return;
	job = distmind_grant_take(sched, lane, error, now);
	if (job) {
		distmind_lane_count_end(sched, job, error, now);
		distmind_job_end(job, error, ended);
	}
}

/* The same, and the process that has the lane learns that there is none any more. */
struct distmind_job *distmind_grant_forsake(struct distmind_sched *sched,
					    struct distmind_lane *lane, int status, u64 now)
{
	struct distmind_queue *queue = lane->lent;

	queue->grant = 0;
	WRITE_ONCE(queue->page->grant, 0);
	WRITE_ONCE(queue->page->yield, 1);
	distmind_lane_tell(queue);
	return distmind_grant_take(sched, lane, status, now);
}
