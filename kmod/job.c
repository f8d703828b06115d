// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs: a job holds its queue and its timelines until it has ended, and its buffers until
 * nobody can reach them on its behalf any more: a lane holds a job that was taken from its
 * engine, see lane.c.
 *
 * Jobs end in two steps: under the scheduler's lock they go to a list, distmind_job_end();
 * without it they signal their timelines and are freed, distmind_job_end_all(),
 * which may end further jobs, of other gpus too: so it is not under the pool's lock either.
 */
#include <linux/atomic.h>
#include <linux/ktime.h>
#include <linux/pid.h>
#include <linux/slab.h>

#include "buffer.h"
#include "gpu.h"
#include "inherit.h"
#include "job.h"
#include "ledger.h"
#include "preempt.h"
#include "queue.h"
#include "request.h"
#include "tenant.h"
#include "timeline.h"
#include "vgpu.h"

/* Not an errno: the job goes with its queue. */
#define JOB_DROPPED 1

static atomic64_t last_job;

/* With room for its arguments and up to @waits waits behind it. */
struct distmind_job *distmind_job_alloc(u32 args, u32 waits)
{
	struct distmind_job *job;
	size_t size;

	size = sizeof(*job) + args * (sizeof(*job->args) + sizeof(*job->buffers)) +
	       waits * sizeof(*job->waits);
	job = kzalloc(size, GFP_KERNEL_ACCOUNT);
	if (!job)
		return NULL;
	job->args = (void *)(job + 1);
	job->waits = (void *)(job->args + args);
	job->buffers = (void *)(job->waits + waits);
	job->arg_count = args;
	job->error = JOB_DROPPED;
	refcount_set(&job->ref, 1);
	job->phase = DISTMIND_REQUEST_PHASE_ORDER;
	RB_CLEAR_NODE(&job->in_signallers);
	job->id = atomic64_inc_return(&last_job);
	distmind_ledger_created(DISTMIND_OBJECT_JOB);
	return job;
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
		if (job->buffers[i])
			distmind_buffer_put(job->buffers[i]);
	}
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
	if (job->signal)
		distmind_timeline_put(job->signal);
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
	distmind_inherit_job_ends(job, ktime_get_ns());
	list_move_tail(&job->link, ended);
}

/* Without any lock. */
void distmind_job_end_all(struct list_head *ended)
{
	struct distmind_job *job;

	lockdep_assert_not_held(&distmind_pool_lock);
	while ((job = list_first_entry_or_null(ended, struct distmind_job, link))) {
		int error = job->error == JOB_DROPPED ? job->queue->error : job->error;

		list_del(&job->link);
		atomic64_dec(&job->queue->tenant->vgpu->stats.queued);
		if (job->suspended)
			distmind_preempt_resume(job->suspended);
		distmind_request_job_ended(job, error);
		distmind_inherit_detach(job);
		if (job->signal)
			distmind_timeline_signal(job->signal, job->signal_value, error, ended);
		if (READ_ONCE(job->queue->paused))
			distmind_queue_resume(job->queue, ended);
		distmind_job_free(job);
		cond_resched();
	}
}
