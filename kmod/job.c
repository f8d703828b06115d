// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs: a job holds its queue and its timelines until it has ended, and its buffers until
 * nobody can reach them on its behalf any more: a lane holds a job that was taken from its
 * engine, see lane.c.
 *
 * Jobs end in two steps: under the scheduler's lock they go to a list of their queue,
 * distmind_job_end(); without it they signal their timelines and are freed, by
 * distmind_job_end_all(), which may end further jobs, of other gpus too: so it is not under
 * the pool's lock either.
 *
 * A queue with jobs that have ended is in one list at a time: the caller's, or the
 * account's, see queue->settling. So they are ended in their order, by one at a time.
 * Who ends jobs does that for as many as it has a budget for, whoever they belong to. The
 * rest is left to the accounts of the queues, see account.c: an engine that hands a job
 * back, or whose signal it was, never works for as long as somebody feeds it.
 */
#include <linux/atomic.h>
#include <linux/ktime.h>
#include <linux/pid.h>
#include <linux/slab.h>

#include "account.h"
#include "buffer.h"
#include "gpu.h"
#include "inherit.h"
#include "job.h"
#include "ledger.h"
#include "payment.h"
#include "preempt.h"
#include "queue.h"
#include "request.h"
#include "tenant.h"
#include "timeline.h"
#include "vgpu.h"

/* Not an errno: the job goes with its queue. */
#define JOB_DROPPED 1

static atomic64_t last_job;

/* With room for its arguments and up to @waits waits behind it; it counts for @account. */
struct distmind_job *distmind_job_alloc(struct distmind_account *account, u32 args, u32 waits)
{
	struct distmind_job *job;
	size_t size;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_JOB, 1);
	if (err)
		return ERR_PTR(err);
	err = distmind_account_charge(account, DISTMIND_LIMIT_WAIT, waits);
	if (err)
		goto err_job;
	size = sizeof(*job) + waits * sizeof(*job->waits) +
	       args * (sizeof(*job->args) + sizeof(*job->buffers) + sizeof(*job->payments));
	job = kzalloc(size, GFP_KERNEL_ACCOUNT);
	if (!job) {
		err = -ENOMEM;
		goto err_waits;
	}
	distmind_account_get(account);
	job->account = account;
	job->args = (void *)(job + 1);
	job->waits = (void *)(job->args + args);
	job->buffers = (void *)(job->waits + waits);
	job->payments = (void *)(job->buffers + args);
	job->arg_count = args;
	job->wait_room = waits;
	job->error = JOB_DROPPED;
	refcount_set(&job->ref, 1);
	job->phase = DISTMIND_REQUEST_PHASE_ORDER;
	RB_CLEAR_NODE(&job->in_signallers);
	job->id = atomic64_inc_return(&last_job);
	distmind_ledger_created(DISTMIND_OBJECT_JOB);
	return job;

err_waits:
	distmind_account_uncharge(account, DISTMIND_LIMIT_WAIT, waits);
err_job:
	distmind_account_uncharge(account, DISTMIND_LIMIT_JOB, 1);
	return ERR_PTR(err);
}

void distmind_job_get(struct distmind_job *job)
{
	refcount_inc(&job->ref);
}

/* With the last reference its buffers go, which sleeps. */
void distmind_job_put(struct distmind_job *job)
{
	u32 i;

	if (!refcount_dec_and_test(&job->ref))
		return;
	for (i = 0; i < job->arg_count; i++) {
		distmind_payment_put(job->payments[i]);
		if (job->buffers[i])
			distmind_buffer_put_later(job->buffers[i]);
	}
	distmind_account_uncharge(job->account, DISTMIND_LIMIT_WAIT, job->wait_room);
	distmind_account_uncharge(job->account, DISTMIND_LIMIT_JOB, 1);
	distmind_account_put(job->account);
	kfree(job->turn);
	kfree(job);
	distmind_ledger_destroyed(DISTMIND_OBJECT_JOB);
}

/* It has ended, or never began: whatever of it was filled in. */
void distmind_job_free(struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->wait_count; i++) {
		if (job->waits[i].timeline)
			distmind_timeline_put(job->waits[i].timeline);
	}
	if (job->signal) {
		distmind_timeline_writer_put(job->signal);
		distmind_timeline_put(job->signal);
	}
	if (job->request)
		distmind_request_put(job->request);
	if (job->queue)
		distmind_queue_put(job->queue);
	put_pid(job->pid);
	distmind_job_put(job);
}

/* Under the scheduler's lock. */
void distmind_job_end(struct distmind_job *job, int error, struct list_head *ended)
{
	job->error = error;
	job->queue->count--;
	distmind_queue_leave_line(job->queue, job);
	/* First: nobody lends anything to a job that has ended. */
	list_move_tail(&job->link, &job->queue->ended);
	distmind_inherit_job_ends(job, ktime_get_ns());
	distmind_queue_settle_later(job->queue, ended);
}

/* What the end of a job costs, in the same unit as the call of a waiter. */
static u32 cost_of(const struct distmind_job *job)
{
	return 1 + (job->wait_count + job->arg_count) / 16;
}

/* Signal and free it. Without any lock. */
static void job_finish(struct distmind_job *job, u32 *budget, struct list_head *ended)
{
	int error = job->error == JOB_DROPPED ? job->queue->error : job->error;

	*budget -= min(*budget, cost_of(job));
	atomic64_dec(&job->queue->tenant->vgpu->stats.queued);
	if (job->suspended)
		distmind_preempt_resume(job->suspended);
	distmind_request_job_ended(job, error);
	distmind_inherit_detach(job);
	if (job->signal) {
		distmind_timeline_signal(job->signal, job->signal_value, error, budget, ended);
		distmind_timeline_writer_end(job->signal, budget, ended);
		distmind_timeline_put(job->signal);
		job->signal = NULL;
	}
	distmind_job_free(job);
	cond_resched();
}

/*
 * Those of the queues in @ended, and what that ends in turn, as far as the budget goes.
 * Without any lock.
 */
void distmind_job_end_all(struct list_head *ended)
{
	u32 budget = DISTMIND_ENDS_AT_ONCE;
	struct distmind_queue *queue;
	struct distmind_job *job;

	lockdep_assert_not_held(&distmind_pool_lock);
	while ((queue = list_first_entry_or_null(ended, struct distmind_queue, in_ended))) {
		/* Behind the others, until it is settled. */
		list_move_tail(&queue->in_ended, ended);
		if (!budget) {
			list_del(&queue->in_ended);
			distmind_account_post(queue->account, &queue->settle);
			continue;
		}
		job = distmind_queue_take_ended(queue, &budget);
		if (job)
			job_finish(job, &budget, ended);
	}
}
