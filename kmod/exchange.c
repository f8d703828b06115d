// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exchange with engines: a thread of the engine, for one lane, hands back what it
 * has done and waits for what is next. Lanes and jobs are guarded by sched->lock; the
 * thread sleeps without it, and has the lane's turn (it waits, or admits) meanwhile, so
 * that a lane has one thread at a time.
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
#include "request.h"
#include "residency.h"
#include "room.h"
#include "sched.h"
#include "tenant.h"
#include "vgpu.h"

/* What the engine says about the job that it had. */
static int job_take_back(struct distmind_sched *sched, struct distmind_lane *lane,
			 const struct distmind_engine_exchange *arg, u64 now,
			 struct list_head *ended, struct distmind_job **abandoned)
{
	struct distmind_queue *queue;
	struct distmind_job *job;
	int error = arg->status;

	if (lane->state.use == DISTMIND_LANE_RESET && lane->failed == arg->done) {
		*abandoned = distmind_lane_answer(sched, lane, now);
		return 0;
	}
	if (lane->state.use != DISTMIND_LANE_RUNNING || lane->job->id != arg->done)
		return -EPROTO;
	if (error == DISTMIND_DONE_YIELDED && arg->cookie > lane->job->blocks)
		error = -EPROTO;
	job = distmind_lane_stop(sched, lane, DISTMIND_LANE_HAND_BACK, error, arg->ran_ns, now);
	queue = job->queue;
	if (error != DISTMIND_DONE_YIELDED)
		distmind_lane_count_end(sched, job, error, now);
	if (!error)
		policy_estimate_update(&queue->tenant->policy[queue->kind], job->operation,
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
	distmind_room_delivered(sched, lane);
	lane->page->job = job->id;
	distmind_lane_begin(sched, lane, DISTMIND_LANE_DELIVER, ktime_get_ns());
}

/* The lane is not for a job that has no room in the heap: its queue waits for that. */
static void send_back(struct distmind_sched *sched, struct distmind_lane *lane, int err, u64 now,
		      struct list_head *ended)
{
	struct distmind_job *job = lane->job;
	struct distmind_queue *queue = job->queue;
	bool back = err == -EAGAIN || err == -EINTR;
	int error = queue->error ? queue->error : err;

	distmind_lane_stop(sched, lane, DISTMIND_LANE_WITHDRAW,
			   back ? DISTMIND_DONE_YIELDED : err, 0, now);
	if (!back || queue->error) {
		distmind_room_leave(sched, queue);
		distmind_lane_count_end(sched, job, error, now);
		distmind_job_end(job, error, ended);
	} else if (err == -EAGAIN) {
		distmind_room_wait(sched, queue, true, now);
	}
	distmind_queue_advance(queue, now, ended);
}

/* The slow way: some of the buffers must be brought in first. */
static int deliver_later(struct distmind_sched *sched, struct distmind_lane *lane,
			 struct distmind_engine_job *out)
{
	struct distmind_job *job = lane->job;
	LIST_HEAD(ended);
	int err;
	u64 now;

	err = distmind_residency_admit(distmind_gpu_of(sched), job);
	spin_lock(&sched->lock);
	now = ktime_get_ns();
	/* First: of a gpu that ends, who has a claim may have no job any more. */
	if (sched->error) {
		distmind_lane_stop(sched, lane, DISTMIND_LANE_WITHDRAW, sched->error, 0, now);
		distmind_room_leave(sched, job->queue);
		distmind_job_end(job, sched->error, &ended);
		err = -ENODEV;
	} else if (!err && distmind_room_allows(sched, lane, now)) {
		deliver(sched, lane, out);
	} else {
		send_back(sched, lane, err ? err : -EAGAIN, now, &ended);
		err = -EINTR;
	}
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	return err;
}

/* Whether a thread of the engine may begin to wait on the lane. */
static int may_fetch(const struct distmind_lane *lane)
{
	if (lane->state.waiting || lane->state.use == DISTMIND_LANE_ADMITTING)
		return -EBUSY;
	/* It has a job, or had one that was taken away, and says nothing about it. */
	if (lane->state.use == DISTMIND_LANE_RUNNING || lane->state.use == DISTMIND_LANE_RESET)
		return -EPROTO;
	return 0;
}

static void begin_wait(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	bool absent = lane->state.use == DISTMIND_LANE_ABSENT;

	distmind_lane_step(lane, DISTMIND_LANE_FETCH);
	if (absent)
		distmind_lane_count_usable(sched, lane->kind, now);
}

/* The thread has waited: it goes on with the job that is offered, or without one. */
static int end_wait(struct distmind_sched *sched, struct distmind_lane *lane, long left,
		    struct distmind_engine_job *out)
{
	struct distmind_gpu *gpu = distmind_gpu_of(sched);
	u64 now = ktime_get_ns();

	lockdep_assert_held(&sched->lock);
	if (lane->state.use != DISTMIND_LANE_OFFERED) {
		distmind_lane_step(lane, DISTMIND_LANE_LEAVE);
		lane->away_ns = now;
		distmind_sched_dispatch(sched, now);
		return sched->error ? -ENODEV : left < 0 ? -EINTR : -ETIMEDOUT;
	}
	if (distmind_residency_try(gpu, lane->job)) {
		if (distmind_room_allows(sched, lane, now)) {
			deliver(sched, lane, out);
			/* It was asked before it began, or others can look for room now. */
			if (lane->state.asked || sched->room_due_ns)
				distmind_sched_dispatch(sched, now);
			return 0;
		}
		distmind_residency_release(gpu, lane->job);
	}
	distmind_lane_step(lane, DISTMIND_LANE_ADMIT);
	distmind_request_enter(lane->job, DISTMIND_REQUEST_PHASE_ROOM, now);
	return 0;
}

/* One thread of an engine, for one lane: hand back what is done, wait for the next. */
int distmind_exchange(struct distmind_sched *sched, struct distmind_engine_exchange *arg)
{
	struct distmind_job *abandoned = NULL;
	struct distmind_lane *lane;
	LIST_HEAD(ended);
	long left = 1;
	bool admit;
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
	err = may_fetch(lane);
	if (arg->done && err != -EBUSY)
		err = job_take_back(sched, lane, arg, now, &ended, &abandoned);
	if (!err)
		begin_wait(sched, lane, now);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	if (abandoned)
		distmind_job_put(abandoned);
	if (err)
		return err;

	if (arg->timeout_ms)
		left = wait_event_interruptible_timeout(lane->wait, READ_ONCE(lane->state.use) ==
							DISTMIND_LANE_OFFERED ||
							READ_ONCE(sched->error),
							msecs_to_jiffies(arg->timeout_ms));
	spin_lock(&sched->lock);
	err = end_wait(sched, lane, left, &arg->job);
	admit = lane->state.use == DISTMIND_LANE_ADMITTING;
	spin_unlock(&sched->lock);
	return admit ? deliver_later(sched, lane, &arg->job) : err;
}
