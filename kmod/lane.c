// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: how a job comes onto one, is asked to leave it, and leaves it, and what
 * is counted and told at each of these steps. Everything under sched->lock.
 *
 * A job's buffers are active, and so stay where they are, while the engine has the job. A
 * job that is taken from its engine ends at once, for those who wait for it; but the
 * engine may go on with it. So the lane keeps the job, with its buffers active, until the
 * engine answers or the heap is closed to it.
 */
#include <linux/eventfd.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>

#include "compat.h"
#include "gpu.h"
#include "job.h"
#include "lane.h"
#include "netlink.h"
#include "preempt.h"
#include "queue.h"
#include "request.h"
#include "residency.h"
#include "room.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

/* Whoever does what cannot be has a bug; the lane stays as it is. */
void distmind_lane_step(struct distmind_lane *lane, enum distmind_lane_event event)
{
	WARN_ON_ONCE(!distmind_lane_state_step(&lane->state, event));
}

static struct distmind_vgpu_stats *stats_of(const struct distmind_job *job)
{
	return &job->queue->tenant->vgpu->stats;
}

/* Whoever watches the queue. */
void distmind_lane_tell(struct distmind_queue *queue)
{
	distmind_queue_tell(queue);
}

bool distmind_lane_can_yield(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	return lane->state.use == DISTMIND_LANE_LENT ||
	       sched->capabilities & DISTMIND_ENGINE_YIELDS;
}

static void count_latency(struct distmind_sched *sched, u64 ns)
{
	int bucket = fls64(div_u64(ns, NSEC_PER_USEC));

	sched->stats.latency[min(bucket, DISTMIND_LATENCY_BUCKETS - 1)]++;
}

u32 distmind_lane_index(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	return lane - sched->lanes;
}

/* For those who are told. */
struct distmind_preempt distmind_lane_describe(const struct distmind_sched *sched,
					       const struct distmind_lane *lane,
					       const struct distmind_job *job, u32 rung)
{
	return (struct distmind_preempt){
		.gpu = container_of(sched, struct distmind_gpu, sched)->id,
		.lane = distmind_lane_index(sched, lane),
		.vgpu = job->queue->tenant->vgpu->id,
		.job = job->id,
		.type = job->type,
		.rung = rung,
	};
}

void distmind_lane_ask(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	struct distmind_queue *queue = lane->job->queue;
	struct distmind_preempt preempt;

	if (lane->state.asked || !distmind_lane_can_yield(sched, lane))
		return;
	distmind_lane_step(lane, DISTMIND_LANE_ASK);
	lane->asked_ns = now;
	sched->stats.preemptions++;
	atomic64_inc(&stats_of(lane->job)->preemptions);
	if (lane->state.use != DISTMIND_LANE_LENT)
		WRITE_ONCE(lane->page->yield, 1);
	if (queue->page) {
		WRITE_ONCE(queue->page->yield, 1);
		WRITE_ONCE(queue->page->asked, queue->page->asked + 1);
		distmind_lane_tell(queue);
	}
	preempt = distmind_lane_describe(sched, lane, lane->job, DISTMIND_PREEMPT_RUNG_ASK);
	trace_distmind_preempt_ask(&preempt);
	distmind_netlink_notify_preempt(&preempt, 0);
}

/* The job's time on the lane begins: the engine or a process has it. */
void distmind_lane_begin(struct distmind_sched *sched, struct distmind_lane *lane,
			 enum distmind_lane_event event, u64 now)
{
	struct distmind_vgpu_stats *stats = stats_of(lane->job);
	u64 waited = now - lane->job->since_ns;

	distmind_lane_step(lane, event);
	lane->started_ns = now;
	if (event == DISTMIND_LANE_DELIVER) {
		/* It is this thread that takes the job. */
		lane->server = get_pid(task_tgid(current));
		lane->looked_ns = now;
		lane->halted = false;
	}
	distmind_request_enter(lane->job, DISTMIND_REQUEST_PHASE_RUN, now);
	atomic64_add(waited, &stats->wait_ns);
	atomic64_inc(&stats->running);
	trace_distmind_job_start(lane->job, distmind_lane_index(sched, lane), waited);
}

/* A job that was asked to yield has left its lane, one way or another. */
static void left_lane(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	struct distmind_queue *queue = lane->job->queue;
	u64 latency = now - lane->asked_ns;
	struct distmind_preempt preempt;

	count_latency(sched, latency);
	if (queue->page) {
		WRITE_ONCE(queue->page->yield, 0);
		WRITE_ONCE(queue->page->yielded, queue->page->yielded + 1);
		distmind_lane_tell(queue);
	}
	preempt = distmind_lane_describe(sched, lane, lane->job, DISTMIND_PREEMPT_RUNG_YIELDED);
	distmind_netlink_notify_preempt(&preempt, latency);
}

/* A lane that has failed is not there until its engine, or its process, answers. */
void distmind_lane_count_usable(struct distmind_sched *sched, u32 kind, u64 now)
{
	u32 i, usable = 0, out = 0;

	if (sched->error)
		return;
	/* Whoever watches the gpu is told by the work item. */
	queue_work(system_highpri_wq, &sched->work);
	for (i = 0; i < sched->lane_count; i++) {
		if (!distmind_lane_state_is_usable(&sched->lanes[i].state))
			out++;
		else
			usable += sched->lanes[i].kind == kind;
	}
	policy_set_lanes(&sched->policy[kind], usable, now);
	if (out < sched->lanes_out)
		distmind_sched_unbar(sched, &sched->barred, now);
	sched->lanes_out = out;
}

/*
 * Take the job off its lane; it stays the first of its queue. The lane's time
 * is charged by the kernel's clock. What the engine says, @reported, can only
 * be less: then the rest was its own, and is not what the job will take again.
 * The policy charges what others could not have, from when it was picked on: a
 * job that only waited for room in the heap must not come before them again.
 * @event is what that means to the lane, @status is how the job goes on, for those who
 * watch.
 */
struct distmind_job *distmind_lane_stop(struct distmind_sched *sched, struct distmind_lane *lane,
					enum distmind_lane_event event, int status,
					u64 reported, u64 now)
{
	bool begun = distmind_lane_state_has_begun(&lane->state);
	bool lent = distmind_lane_state_is_lent(&lane->state);
	struct distmind_job *job = lane->job;
	struct distmind_queue *queue = job->queue;
	u64 ran = begun ? now - lane->started_ns : 0;

	if (event != DISTMIND_LANE_TAKE_AWAY)
		distmind_residency_release(distmind_gpu_of(sched), job);
	else
		/* Who waits for its memory waits for another reason now. */
		distmind_room_changed(sched);
	distmind_request_enter(job, DISTMIND_REQUEST_PHASE_ORDER, now);
	distmind_request_ran(job, ran);
	policy_done(&sched->policy[lane->kind], &queue->entity, now - queue->entity.started_ns,
		    now);
	job->ran_ns += reported ? min(reported, ran) : ran;
	sched->stats.busy_ns[lane->kind] += ran;
	atomic64_add(ran, &stats_of(job)->busy_ns);
	if (begun) {
		atomic64_dec(&stats_of(job)->running);
		trace_distmind_job_stop(job, distmind_lane_index(sched, lane), status, job->cookie,
					ran);
	}
	if (lane->state.asked)
		left_lane(sched, lane, now);
	queue->running = false;
	lane->job = NULL;
	put_pid(lane->server);
	lane->server = NULL;
	distmind_lane_step(lane, event);
	lane->asked_ns = 0;
	lane->wanted_ns = 0;
	lane->away_ns = now;
	if (!lent)
		WRITE_ONCE(lane->page->yield, 0);
	if (!distmind_lane_state_is_usable(&lane->state)) {
		lane->failed = job->id;
		lane->failed_ns = now;
		distmind_lane_count_usable(sched, lane->kind, now);
	}
	return job;
}

void distmind_lane_count_end(struct distmind_sched *sched, const struct distmind_job *job,
			     int error, u64 now)
{
	struct distmind_vgpu_stats *stats = stats_of(job);
	const struct distmind_queue *queue = job->queue;
	u64 objective_ns = queue->tenant->policy[queue->kind].settings.objective_ns;

	sched->stats.jobs++;
	sched->stats.failed += error < 0;
	atomic64_inc(&stats->jobs);
	if (error < 0)
		atomic64_inc(&stats->failed);
	/* A request is missed as a whole. */
	if (!job->request && objective_ns && now - job->ready_ns > objective_ns)
		atomic64_inc(&stats->misses);
}

/*
 * The job is no longer the engine's: let it stop whatever it still does for it. Until it
 * has, the job's memory stays.
 */
void distmind_lane_reset(struct distmind_lane *lane, struct distmind_job *job)
{
	distmind_job_get(job);
	lane->abandoned = job;
	lane->failed_vgpu = job->queue->tenant->vgpu->id;
	WRITE_ONCE(lane->page->yield, 1);
	WRITE_ONCE(lane->page->reset, 1);
}

/*
 * The engine cannot reach the memory of the job that it was given, or has said that it
 * does not. Returns that job, to be put without the lock, or NULL.
 */
struct distmind_job *distmind_lane_reclaim(struct distmind_sched *sched, struct distmind_lane *lane)
{
	struct distmind_job *job = lane->abandoned;

	lane->abandoned = NULL;
	if (job)
		distmind_residency_release(distmind_gpu_of(sched), job);
	return job;
}

/* The engine has handed back what had been taken from it. Returns as above. */
struct distmind_job *distmind_lane_answer(struct distmind_sched *sched, struct distmind_lane *lane,
					  u64 now)
{
	distmind_lane_step(lane, DISTMIND_LANE_ANSWER);
	WRITE_ONCE(lane->page->reset, 0);
	WRITE_ONCE(lane->page->yield, 0);
	distmind_lane_count_usable(sched, lane->kind, now);
	return distmind_lane_reclaim(sched, lane);
}

static vm_fault_t lane_fault(struct vm_fault *vmf)
{
	struct distmind_sched *sched = vmf->vma->vm_private_data;
	unsigned long lane = vmf->pgoff - (DISTMIND_LANE_MAP_OFFSET >> PAGE_SHIFT);

	if (lane >= sched->lane_count)
		return VM_FAULT_SIGBUS;
	vmf->page = virt_to_page(sched->lanes[lane].page);
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct lane_vm_ops = {
	.fault = lane_fault,
};

/* The control pages, read-only. The mapping's file holds the gpu. */
int distmind_lane_mmap(struct distmind_sched *sched, struct vm_area_struct *vma)
{
	unsigned long first = vma->vm_pgoff - (DISTMIND_LANE_MAP_OFFSET >> PAGE_SHIFT);

	if (!(vma->vm_flags & VM_MAYSHARE) || first > sched->lane_count ||
	    vma_pages(vma) > sched->lane_count - first)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	vma->vm_private_data = sched;
	vma->vm_ops = &lane_vm_ops;
	return 0;
}
