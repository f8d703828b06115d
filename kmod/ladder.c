// SPDX-License-Identifier: GPL-2.0-only
/*
 * The preemption ladder, for a job that was asked to yield and has not:
 *
 *   grace period   the vendor's hook is called. A grant that it took off the device
 *                  goes back to its queue, suspended, until it has a lane again.
 *   hang limit     the job fails, and the lane is reset: it gets no other job until
 *                  its engine, or the process that it was lent to, answers. The engine's
 *                  other lanes go on.
 *   as long again  a process is killed, which gives the lane back. If others have the
 *                  queue too its handle stays, so the lane is taken from a process that
 *                  is dead. An engine none of whose lanes answers loses its gpu.
 *
 * Whoever has the job has all of this time: a job that waits for its buffers, or for a
 * thread of its engine that was told and has not run yet, is nobody's to yield.
 *
 * A lane for which the engine sends no thread, although a job waits, is absent after the
 * hang limit, until one comes. That is how an engine is noticed that stops while it has
 * nothing to do: a thread that is stopped does not wait in the kernel.
 *
 * All of it runs in the scheduler's work item.
 */
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>

#include "gpu.h"
#include "grant.h"
#include "job.h"
#include "ladder.h"
#include "lane.h"
#include "netlink.h"
#include "preempt.h"
#include "queue.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

/*
 * The engine's threads are away between two exchanges; how long that is, is the host's
 * matter as well. So it is nothing below this, however short the hang limit.
 */
#define ABSENCE_MIN_NS	NSEC_PER_SEC

static u64 absence_ns(const struct distmind_sched *sched)
{
	return max_t(u64, sched->hang_ns, ABSENCE_MIN_NS);
}

/* Since when somebody has the lane's job and is asked to yield; 0: nobody. */
static u64 asked_since(const struct distmind_lane *lane)
{
	if (!lane->state.asked || !distmind_lane_state_has_begun(&lane->state))
		return 0;
	return max(lane->asked_ns, lane->started_ns);
}

/* When the lane's next rung is due; 0: never. */
u64 distmind_ladder_due(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	u64 since = asked_since(lane);

	if (since)
		return since + (lane->state.asked == DISTMIND_LANE_HOOKED ?
				sched->hang_ns : min(sched->grace_ns, sched->hang_ns));
	if (lane->state.use == DISTMIND_LANE_OVERDUE || lane->state.use == DISTMIND_LANE_KILLED)
		return lane->failed_ns + sched->hang_ns;
	return lane->wanted_ns ? lane->wanted_ns + absence_ns(sched) : 0;
}

/* When the engine will not have been heard of on the lane for too long; 0: it is there. */
static u64 silent_at(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	switch (lane->state.use) {
	case DISTMIND_LANE_RESET:
		return lane->failed_ns + sched->hang_ns;
	case DISTMIND_LANE_OFFERED:
	case DISTMIND_LANE_ADMITTING:
	case DISTMIND_LANE_RUNNING:
		return 0;
	default:
		return lane->state.waiting ? 0 : lane->away_ns + absence_ns(sched);
	}
}

/*
 * When the engine is given up: one of its lanes has failed, and it is silent on all the
 * others too. 0: not if nothing else happens.
 */
u64 distmind_ladder_lost_at(const struct distmind_sched *sched)
{
	bool failed = false;
	u64 at, last = 0;
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		at = silent_at(sched, lane);
		if (!at)
			return 0;
		last = max(last, at);
		failed |= lane->state.use == DISTMIND_LANE_RESET ||
			  lane->state.use == DISTMIND_LANE_ABSENT;
	}
	return failed ? last : 0;
}

/* The request to yield has been ignored for too long. */
static void fail_hanging(struct distmind_sched *sched, struct distmind_lane *lane, u64 now,
			 struct list_head *ended)
{
	bool lent = lane->state.use == DISTMIND_LANE_LENT;
	struct distmind_preempt preempt;
	struct distmind_job *job;

	job = distmind_lane_stop(sched, lane,
				 lent ? DISTMIND_LANE_EXPIRE : DISTMIND_LANE_TAKE_AWAY, -ETIME, 0,
				 now);
	preempt = distmind_lane_describe(sched, lane, job, DISTMIND_PREEMPT_RUNG_HANG);
	trace_distmind_preempt_hang(&preempt);
	distmind_netlink_notify_preempt(&preempt, 0);
	sched->stats.hangs++;
	distmind_lane_count_end(sched, job, -ETIME, now);
	distmind_job_end(job, -ETIME, ended);
	if (lent) {
		/* One lane at a time: the queue ends with the grant. */
		WRITE_ONCE(lane->lent->page->yield, 1);
		distmind_queue_drop_jobs(job->queue, -ETIME, ended);
	} else {
		distmind_lane_reset(lane, job);
		distmind_queue_advance(job->queue, now, ended);
	}
}

/* With all its threads, and its files closed, be it buried or not. */
static bool is_dead(struct pid *pid)
{
	struct task_struct *leader;
	bool dead;

	rcu_read_lock();
	leader = pid_task(pid, PIDTYPE_TGID);
	dead = !leader || (READ_ONCE(leader->exit_state) && thread_group_empty(leader));
	rcu_read_unlock();
	return dead;
}

/* It has been told to give the lane back, has been failed, and does neither. */
static void kill_holder(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	struct distmind_preempt preempt = {
		.gpu = container_of(sched, struct distmind_gpu, sched)->id,
		.lane = distmind_lane_index(sched, lane),
		.vgpu = lane->lent->tenant->vgpu->id,
		.job = lane->failed,
		.type = DISTMIND_JOB_GRANT,
		.rung = DISTMIND_PREEMPT_RUNG_KILL,
	};

	/* Look again whether that has helped. */
	lane->failed_ns = now;
	if (lane->state.use == DISTMIND_LANE_KILLED)
		return;
	distmind_lane_step(lane, DISTMIND_LANE_KILL);
	kill_pid(lane->pid, SIGKILL, 1);
	trace_distmind_preempt_kill(&preempt);
	distmind_netlink_notify_preempt(&preempt, 0);
}

/* A job has waited for long, and the engine has sent nobody for it. */
static void note_absent(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	distmind_lane_step(lane, DISTMIND_LANE_MISS);
	lane->wanted_ns = 0;
	distmind_lane_count_usable(sched, lane->kind, now);
}

/* Whatever is due. Returns false if the engine does not answer any more. */
bool distmind_ladder_check(struct distmind_sched *sched, u64 now, struct list_head *ended)
{
	u64 lost_at;
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];
		u64 since = asked_since(lane);

		if (since && now - since >= sched->hang_ns)
			fail_hanging(sched, lane, now, ended);
		else if (lane->wanted_ns && now - lane->wanted_ns >= absence_ns(sched))
			note_absent(sched, lane, now);
		else if ((lane->state.use != DISTMIND_LANE_OVERDUE &&
			  lane->state.use != DISTMIND_LANE_KILLED) ||
			 now - lane->failed_ns < sched->hang_ns)
			continue;
		else if (is_dead(lane->pid))
			distmind_grant_forsake(sched, lane, -ETIME, now);
		else
			kill_holder(sched, lane, now);
	}
	lost_at = distmind_ladder_lost_at(sched);
	return !lost_at || now < lost_at;
}

/*
 * A lane for which the vendor's hook is to be called, and with what; the caller
 * has a reference to the process afterwards.
 */
static struct distmind_lane *find_deaf(struct distmind_sched *sched, u64 now,
				       struct distmind_preempt *preempt)
{
	const struct distmind_gpu *gpu = container_of(sched, struct distmind_gpu, sched);
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];
		u64 since = asked_since(lane);

		if (!since || lane->state.asked != DISTMIND_LANE_ASKED ||
		    now - since < sched->grace_ns)
			continue;
		distmind_lane_step(lane, DISTMIND_LANE_HOOK);
		*preempt = distmind_lane_describe(sched, lane, lane->job,
						  DISTMIND_PREEMPT_RUNG_HOOK);
		preempt->pid = get_pid(lane->pid);
		strscpy(preempt->gpu_name, gpu->name, sizeof(preempt->gpu_name));
		strscpy(preempt->gpu_kind, gpu->kind, sizeof(preempt->gpu_kind));
		return lane;
	}
	return NULL;
}

/*
 * The hook has taken @preempt's job off the device. If that is a grant it makes room for
 * others now, and keeps @suspension. Returns false if it has ended meanwhile, so that the
 * hook has stopped what nobody would resume.
 */
static bool make_room(struct distmind_sched *sched, struct distmind_lane *lane,
		      const struct distmind_preempt *preempt,
		      struct distmind_suspension *suspension, struct list_head *ended)
{
	u64 now = ktime_get_ns();
	struct distmind_job *job;

	sched->stats.evictions++;
	if (!lane->job || lane->job->id != preempt->job)
		return false;
	if (lane->state.use != DISTMIND_LANE_LENT)
		return true;
	job = distmind_grant_take(sched, lane, DISTMIND_DONE_YIELDED, now);
	WRITE_ONCE(job->queue->page->yield, 1);
	job->suspended = suspension;
	if (job->queue->error)
		distmind_job_end(job, job->queue->error, ended);
	distmind_queue_advance(job->queue, now, ended);
	return true;
}

static void evict(struct distmind_sched *sched, struct distmind_lane *lane,
		  struct distmind_preempt *preempt, struct list_head *ended)
{
	struct distmind_suspension *suspension;
	int err = distmind_preempt_evict(preempt, &suspension);
	bool kept;

	if (err == -ENOENT)
		return;
	spin_lock(&sched->lock);
	distmind_netlink_notify_preempt(preempt, 0);
	kept = !err && make_room(sched, lane, preempt, suspension, ended);
	spin_unlock(&sched->lock);
	if (suspension && !kept)
		distmind_preempt_resume(suspension);
}

/* Those that are due, one after the other; without the lock, because they sleep. */
void distmind_ladder_call_hooks(struct distmind_sched *sched, struct list_head *ended)
{
	struct distmind_preempt preempt;
	struct distmind_lane *lane;

	for (;;) {
		spin_lock(&sched->lock);
		lane = sched->error ? NULL : find_deaf(sched, ktime_get_ns(), &preempt);
		spin_unlock(&sched->lock);
		if (!lane)
			return;
		evict(sched, lane, &preempt, ended);
		put_pid(preempt.pid);
	}
}
