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
 *   and again      a process that was killed may not end, because it waits in the kernel
 *                  for what no signal interrupts. The lane is taken from it all the same: it
 *                  does not come back to user space.
 *
 * A lane that was lent is in the hands of whoever asked for it. So that nobody can keep
 * others waiting like this again and again, with one process after the other, a user that
 * has let it come to the hang limit gets no more than twice the grace period instead of
 * that limit, for the next DISTRUST of them, on this gpu.
 *
 * Whoever has the job has all of this time: a job that waits for its buffers, or for a
 * thread of its engine that was told and has not run yet, is nobody's to yield.
 *
 * A lane for which the engine sends no thread, although a job waits, is absent after the
 * hang limit, until one comes. That is how an engine is noticed that stops while it has
 * nothing to do: a thread that is stopped does not wait in the kernel.
 *
 * One that hangs in the middle of a job has that for an excuse, and a policy may never ask
 * for the lane: fifo does not. So whoever has had a lane for twice as long, while others
 * wait for any lane, is asked here. An engine that is there hands the job back, and has it
 * again in the order of the policy; of one that is not, the gpu is lost two hang limits
 * later. An engine that cannot yield cannot be asked: its jobs take as long as they take.
 *
 * But a process that is stopped, by SIGSTOP or from a terminal, hands nothing back, whether
 * it can yield or not, and who has submitted its job waits for that, be there others or
 * not. So while an engine has a job, the process that took it is looked at, once in each
 * hang limit. If it was stopped at two looks, and has not run between them, the job fails
 * as one that hangs, and of an engine all of whose lanes are silent the gpu is lost. It may
 * have been stopped for less than one hang limit without harm, as often as anybody likes.
 *
 * All of it runs in the scheduler's work item, but for hooks: these sleep or compute for as
 * long as they like, so each lane has a work item for them, on a workqueue of their own, and
 * neither the next rungs nor other gpus wait for it, nor who removes the gpu.
 */
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>

#include "account.h"
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

static struct workqueue_struct *hooks;

/*
 * The engine's threads are away between two exchanges; how long that is, is the host's
 * matter as well. So it is nothing below this, however short the hang limit.
 */
#define ABSENCE_MIN_NS	NSEC_PER_SEC

/* For how many hang limits a user who has kept a lane is given less time. */
#define DISTRUST	128

static u64 absence_ns(const struct distmind_sched *sched)
{
	return max_t(u64, sched->hang_ns, ABSENCE_MIN_NS);
}

/* How long whoever has the lane's job may go on when asked, and as long again. */
static u64 limit_ns(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	return lane->brief ? min(max_t(u64, 2 * sched->grace_ns, NSEC_PER_MSEC), sched->hang_ns) :
			     sched->hang_ns;
}

/* Whether the user has not kept a lane that it was lent, as far as is known. */
bool distmind_ladder_trusts(const struct distmind_sched *sched,
			    const struct distmind_account *account, u64 now)
{
	u32 i;

	for (i = 0; i < DISTMIND_KEEPERS_MAX; i++) {
		if (sched->keepers[i].account == account)
			return now - sched->keepers[i].kept_ns >= DISTRUST * sched->hang_ns;
	}
	return true;
}

/* It has kept one. Of too many, who has done so longest ago is forgotten. */
static void distrust(struct distmind_sched *sched, struct distmind_account *account, u64 now)
{
	struct distmind_keeper *keeper, *place = sched->keepers;
	u32 i;

	for (i = 0; i < DISTMIND_KEEPERS_MAX; i++) {
		keeper = &sched->keepers[i];
		if (keeper->account == account) {
			keeper->kept_ns = now;
			return;
		}
		if (keeper->kept_ns < place->kept_ns)
			place = keeper;
	}
	if (place->account)
		distmind_account_put(place->account);
	distmind_account_get(account);
	place->account = account;
	place->kept_ns = now;
}

/* Since when somebody has the lane's job and is asked to yield; 0: nobody. */
static u64 asked_since(const struct distmind_lane *lane)
{
	if (!lane->state.asked || !distmind_lane_state_has_begun(&lane->state))
		return 0;
	return max(lane->asked_ns, lane->started_ns);
}

/*
 * When the engine, or the job that it has on the lane, has not been heard of for too long
 * although it is wanted; 0: it is not.
 */
static u64 missed_at(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	if (!lane->wanted_ns)
		return 0;
	switch (lane->state.use) {
	case DISTMIND_LANE_IDLE:
		return lane->wanted_ns + absence_ns(sched);
	case DISTMIND_LANE_RUNNING:
		return max(lane->wanted_ns, lane->started_ns) + 2 * absence_ns(sched);
	default:
		return 0;
	}
}

/* When the lane's next rung is due, or it is to be looked at again; 0: never. */
u64 distmind_ladder_due(const struct distmind_sched *sched, const struct distmind_lane *lane,
			u64 now)
{
	u64 since = asked_since(lane);

	if (since)
		return since + (lane->state.asked == DISTMIND_LANE_HOOKED ?
				limit_ns(sched, lane) : min(sched->grace_ns, sched->hang_ns));
	if (lane->state.use == DISTMIND_LANE_OVERDUE || lane->state.use == DISTMIND_LANE_KILLED)
		return lane->failed_ns + limit_ns(sched, lane);
	/* Nobody may come by when the engine has taken what it was offered. */
	if (lane->wanted_ns && !missed_at(sched, lane))
		return now + absence_ns(sched);
	return missed_at(sched, lane);
}

/* When it is to be seen whether who has the lane's job has stopped; 0: never. */
u64 distmind_ladder_look_at(const struct distmind_sched *sched, const struct distmind_lane *lane,
			    u64 now)
{
	if (lane->state.asked)
		return 0;
	switch (lane->state.use) {
	case DISTMIND_LANE_RUNNING:
		return lane->looked_ns + absence_ns(sched);
	case DISTMIND_LANE_OFFERED:
	case DISTMIND_LANE_ADMITTING:
		/* As above: nobody may come by when it is taken. */
		return now + absence_ns(sched);
	default:
		return 0;
	}
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

/* It was asked to yield and has not for too long, or who has the job has stopped. */
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
		distrust(sched, lane->lent->account, now);
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

/* It has been killed, or ends by itself: none of its threads gets back to user space. */
static bool is_dying(struct pid *pid)
{
	struct task_struct *leader;
	bool dying;

	rcu_read_lock();
	leader = pid_task(pid, PIDTYPE_TGID);
	dying = !leader || READ_ONCE(leader->signal->flags) & SIGNAL_GROUP_EXIT;
	rcu_read_unlock();
	return dying;
}

/* As a whole, and how often its first thread has left a processor. */
static bool is_stopped(struct pid *pid, unsigned long *switches)
{
	struct task_struct *leader;
	bool stopped = false;

	rcu_read_lock();
	leader = pid_task(pid, PIDTYPE_TGID);
	if (leader) {
		stopped = READ_ONCE(leader->signal->flags) & SIGNAL_STOP_STOPPED;
		*switches = READ_ONCE(leader->nvcsw) + READ_ONCE(leader->nivcsw);
	}
	rcu_read_unlock();
	return stopped;
}

/* Whether it is stopped, and has been since the last look: who goes on for a moment runs. */
static bool look_at_server(struct distmind_lane *lane, u64 now)
{
	unsigned long switches = 0;
	bool halted = is_stopped(lane->server, &switches);
	bool all_the_time = halted && lane->halted && switches == lane->switches;

	lane->looked_ns = now;
	lane->halted = halted;
	lane->switches = switches;
	return all_the_time;
}

/* It has been told to give the lane back, has been failed, and does neither. */
static void kill_holder(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	struct distmind_preempt preempt = {
		.gpu = distmind_gpu_of(sched)->id,
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

/* A job has waited for long: the engine has sent nobody for it, or may have stopped. */
static void note_missed(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	lane->wanted_ns = 0;
	if (lane->state.use == DISTMIND_LANE_RUNNING) {
		distmind_lane_ask(sched, lane, now);
		return;
	}
	distmind_lane_step(lane, DISTMIND_LANE_MISS);
	distmind_lane_count_usable(sched, lane->kind, now);
}

/* Its job has been left to itself for the grace period, and has not been hooked yet. */
static bool is_deaf(const struct distmind_sched *sched, const struct distmind_lane *lane,
		    u64 since, u64 now)
{
	return since && lane->state.asked == DISTMIND_LANE_ASKED && now - since >= sched->grace_ns;
}

/* The call, which may be under way when the gpu is removed, holds it. */
static void order_hook(struct distmind_sched *sched, struct distmind_lane *lane)
{
	struct distmind_gpu *gpu = distmind_gpu_of(sched);

	distmind_lane_step(lane, DISTMIND_LANE_HOOK);
	lane->hook_due = lane->job->id;
	distmind_gpu_get(gpu);
	/* What was ordered and has not begun will do. The gpu's removal waits for the caller. */
	if (!queue_work(hooks, &lane->hook))
		distmind_gpu_put(gpu);
}

/* After the scheduler's end, as distmind_sched_quiesce(): what is under way goes on. */
void distmind_ladder_quiesce(struct distmind_sched *sched)
{
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		if (cancel_work(&sched->lanes[i].hook))
			distmind_gpu_put(distmind_gpu_of(sched));
	}
}

/* Whatever is due. Returns false if the engine does not answer any more. */
bool distmind_ladder_check(struct distmind_sched *sched, u64 now, struct list_head *ended)
{
	u64 lost_at;
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];
		u64 since = asked_since(lane), missed = missed_at(sched, lane);
		u64 look = distmind_ladder_look_at(sched, lane, now);

		if (since && now - since >= limit_ns(sched, lane))
			fail_hanging(sched, lane, now, ended);
		else if (is_deaf(sched, lane, since, now))
			order_hook(sched, lane);
		else if (look && now >= look && look_at_server(lane, now))
			fail_hanging(sched, lane, now, ended);
		else if (missed && now >= missed)
			note_missed(sched, lane, now);
		else if ((lane->state.use != DISTMIND_LANE_OVERDUE &&
			  lane->state.use != DISTMIND_LANE_KILLED) ||
			 now - lane->failed_ns < limit_ns(sched, lane))
			continue;
		else if (is_dead(lane->pid) || (lane->state.use == DISTMIND_LANE_KILLED &&
						is_dying(lane->pid)))
			distmind_grant_forsake(sched, lane, -ETIME, now);
		else
			kill_holder(sched, lane, now);
	}
	lost_at = distmind_ladder_lost_at(sched);
	return !lost_at || now < lost_at;
}

/*
 * With what the vendor's hook is to be called for the job on the lane; the caller has a
 * reference to the process afterwards. False: it has left the lane meanwhile.
 */
static bool describe_deaf(struct distmind_sched *sched, struct distmind_lane *lane,
			  struct distmind_preempt *preempt)
{
	const struct distmind_gpu *gpu = distmind_gpu_of(sched);
	u64 due = lane->hook_due;

	lane->hook_due = 0;
	if (sched->error || !lane->job || lane->job->id != due)
		return false;
	*preempt = distmind_lane_describe(sched, lane, lane->job, DISTMIND_PREEMPT_RUNG_HOOK);
	preempt->pid = get_pid(lane->pid);
	strscpy(preempt->gpu_name, gpu->name, sizeof(preempt->gpu_name));
	strscpy(preempt->gpu_kind, gpu->kind, sizeof(preempt->gpu_kind));
	return true;
}

/*
 * The hook has taken @preempt's job off the device. If that is a grant it makes room for
 * others now, and keeps @suspension. Returns false if it has ended meanwhile, so that the
 * hook has stopped what nobody would resume.
 */
static bool lane_make_room(struct distmind_sched *sched, struct distmind_lane *lane,
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

static void lane_evict(struct distmind_sched *sched, struct distmind_lane *lane,
		       struct distmind_preempt *preempt, struct list_head *ended)
{
	struct distmind_suspension *suspension;
	int err = distmind_preempt_evict(preempt, &suspension);
	bool kept;

	if (err == -ENOENT)
		return;
	spin_lock(&sched->lock);
	distmind_netlink_notify_preempt(preempt, 0);
	kept = !err && lane_make_room(sched, lane, preempt, suspension, ended);
	distmind_sched_dispatch(sched, ktime_get_ns());
	spin_unlock(&sched->lock);
	if (suspension && !kept)
		distmind_preempt_resume(suspension);
}

/*
 * The lane's own work item. Nobody waits for it: if the gpu is removed meanwhile, its jobs
 * have ended, and it goes when the call is over.
 */
void distmind_ladder_call_hook(struct work_struct *work)
{
	struct distmind_lane *lane = container_of(work, struct distmind_lane, hook);
	struct distmind_sched *sched = lane->sched;
	struct distmind_preempt preempt;
	LIST_HEAD(ended);
	bool due;

	spin_lock(&sched->lock);
	due = describe_deaf(sched, lane, &preempt);
	spin_unlock(&sched->lock);
	if (due) {
		lane_evict(sched, lane, &preempt, &ended);
		put_pid(preempt.pid);
		distmind_job_end_all(&ended);
	}
	distmind_gpu_put(distmind_gpu_of(sched));
}

int distmind_ladder_init(void)
{
	hooks = alloc_workqueue("distmind_hooks", WQ_UNBOUND | WQ_HIGHPRI, WQ_MAX_ACTIVE);
	return hooks ? 0 : -ENOMEM;
}

/* No gpu is left but what calls of hooks hold: these have returned, as no hook is left. */
void distmind_ladder_exit(void)
{
	destroy_workqueue(hooks);
}
