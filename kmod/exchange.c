// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exchange with engines: a thread of the engine, for one lane, hands back what it
 * has done and waits for what is next. Lanes and jobs are guarded by sched->lock; the
 * thread sleeps without it, and has the lane's turn (lane->fetching, lane->admitting)
 * meanwhile, so that a lane has one thread at a time.
 */
#include <linux/ktime.h>
#include <linux/mm.h>

#include "buffer.h"
#include "exchange.h"
#include "gpu.h"
#include "ioctl.h"
#include "job.h"
#include "lane.h"
#include "queue.h"
#include "residency.h"
#include "sched.h"
#include "tenant.h"
#include "vgpu.h"

/* What the engine says about the job that it had. */
static int take_back(struct distmind_sched *sched, struct distmind_lane *lane,
		     const struct distmind_engine_exchange *arg, u64 now, struct list_head *ended)
{
	struct distmind_queue *queue;
	struct distmind_job *job;
	int error = arg->status;

	if (lane->failed && lane->failed == arg->done && !lane->lent) {
		lane->failed = 0;
		distmind_lane_count_usable(sched, lane->kind, now);
		WRITE_ONCE(lane->page->reset, 0);
		WRITE_ONCE(lane->page->yield, 0);
		return 0;
	}
	if (!lane->job || !lane->delivered || lane->lent || lane->job->id != arg->done)
		return -EPROTO;
	if (error == DISTMIND_DONE_YIELDED && arg->cookie > lane->job->blocks)
		error = -EPROTO;
	job = distmind_lane_stop(sched, lane, error, arg->ran_ns, now);
	queue = job->queue;
	if (error != DISTMIND_DONE_YIELDED)
		distmind_lane_count_end(sched, job, error, now);
	if (!error)
		policy_estimate_update(queue->entity.tenant, job->operation,
				       max_t(u32, job->blocks, 1), job->ran_ns);
	if (error != DISTMIND_DONE_YIELDED)
		distmind_job_end(job, error, ended);
	else if (queue->error)
		distmind_job_end(job, queue->error, ended);
	else
		job->cookie = arg->cookie;
	distmind_queue_advance(queue, now, ended);
	return 0;
}

/* Its buffers are active, so they are where they are until it leaves the lane. */
static void deliver(struct distmind_sched *sched, struct distmind_lane *lane,
		    struct distmind_engine_job *out)
{
	struct distmind_job *job = lane->job;
	u32 i;

	out->id = job->id;
	out->cookie = job->cookie;
	out->vgpu = job->queue->tenant->vgpu->id;
	out->type = job->type;
	out->operation = job->operation;
	out->blocks = job->blocks;
	out->args = job->arg_count;
	out->read_only = job->read_only;
	memcpy(out->arg, job->args, job->arg_count * sizeof(*job->args));
	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i])
			out->arg[i].value += (u64)job->buffers[i]->start << PAGE_SHIFT;
	}
	lane->page->job = job->id;
	distmind_lane_begin(sched, lane, ktime_get_ns());
}

/* The slow way: some of the buffers must be brought in first. */
static int deliver_later(struct distmind_sched *sched, struct distmind_lane *lane,
			 struct distmind_engine_job *out)
{
	struct distmind_job *job = lane->job;
	LIST_HEAD(ended);
	int err;
	u64 now;

	err = distmind_residency_admit(container_of(sched, struct distmind_gpu, sched), job, lane);
	spin_lock(&sched->lock);
	now = ktime_get_ns();
	lane->admitting = false;
	if (sched->error) {
		distmind_job_end(distmind_lane_stop(sched, lane, sched->error, 0, now),
				 sched->error, &ended);
		err = -ENODEV;
	} else if (!err) {
		deliver(sched, lane, out);
	} else {
		/* Back to its queue if it was in a hurry to leave, else it cannot be. */
		bool back = err == -EAGAIN || err == -EINTR;
		int error = job->queue->error ? job->queue->error : err;

		distmind_lane_stop(sched, lane, back ? DISTMIND_DONE_YIELDED : err, 0, now);
		if (!back || job->queue->error) {
			distmind_lane_count_end(sched, job, error, now);
			distmind_job_end(job, error, &ended);
		}
		distmind_queue_advance(job->queue, now, &ended);
		err = -EINTR;
	}
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	return err;
}

/* One thread of an engine, for one lane: hand back what is done, wait for the next. */
int distmind_exchange(struct distmind_sched *sched, struct distmind_engine_exchange *arg)
{
	struct distmind_lane *lane;
	bool admitting = false;
	LIST_HEAD(ended);
	long left = 1;
	u64 now;
	int err;

	if (arg->pad || arg->lane >= sched->lane_count ||
	    arg->timeout_ms > DISTMIND_TIMEOUT_MAX_MS || arg->status > DISTMIND_DONE_YIELDED ||
	    (arg->status < 0 && !distmind_ioctl_is_error(arg->status)))
		return -EINVAL;
	memset(&arg->job, 0, sizeof(arg->job));
	lane = &sched->lanes[arg->lane];

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	if (lane->fetching || lane->admitting)
		err = -EBUSY;
	else
		err = arg->done ? take_back(sched, lane, arg, now, &ended) : 0;
	if (!err && lane->offered && lane->delivered)
		err = -EPROTO;
	if (!err)
		lane->fetching = true;
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	if (err)
		return err;

	if (arg->timeout_ms)
		left = wait_event_interruptible_timeout(lane->wait, READ_ONCE(lane->offered) ||
							READ_ONCE(sched->error),
							msecs_to_jiffies(arg->timeout_ms));
	spin_lock(&sched->lock);
	lane->fetching = false;
	if (!lane->offered)
		err = sched->error ? -ENODEV : left < 0 ? -EINTR : -ETIMEDOUT;
	else if (distmind_residency_try(container_of(sched, struct distmind_gpu, sched), lane->job))
		deliver(sched, lane, &arg->job);
	else
		admitting = true;
	lane->admitting = admitting;
	/* It can be asked now, whether the engine yields or not: who came before this waits. */
	if (admitting)
		distmind_sched_dispatch(sched, ktime_get_ns());
	spin_unlock(&sched->lock);
	return admitting ? deliver_later(sched, lane, &arg->job) : err;
}
