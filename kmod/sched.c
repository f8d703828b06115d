// SPDX-License-Identifier: GPL-2.0-only
/*
 * The scheduler of a gpu: lanes, who gets them, and the exchange with engines.
 *
 * There is no scheduling thread. A decision is taken by whoever changes
 * something: who submits, who hands a job back, whose signal makes a job ready,
 * and a work item for what becomes due by itself. All of that is process
 * context, under sched->lock. Who to pick and whom to ask is the policy's to
 * say; see policy/policy.h. The time is always read under the lock, so that it
 * does not go back from one holder to the next: times are subtracted here.
 *
 * A lane is given a job when a thread of the engine waits on it, and belongs to
 * that job until the engine hands it back. One that was asked to yield and does
 * not within the hang limit loses its job: the job fails, the lane is reset and
 * gets no other until the engine answers; when it does not within the limit
 * either, the gpu is declared lost.
 *
 * The scheduler is part of its gpu, whose release waits for the work item, so
 * that one must not wait for what the release is called under.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "gpu.h"
#include "queue.h"
#include "sched.h"
#include "vgpu.h"

static u64 earlier(u64 a, u64 b)
{
	return a && b ? min(a, b) : a + b;
}

static void arm_timer(struct distmind_sched *sched, u64 now)
{
	u64 due = 0;
	u32 i;

	for (i = 0; i < DISTMIND_LANE__COUNT; i++)
		due = earlier(due, policy_next_event(&sched->policy[i], now));
	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		if (lane->job && lane->asked_ns)
			due = earlier(due, lane->asked_ns + sched->hang_ns);
		if (lane->failed)
			due = earlier(due, lane->failed_ns + sched->hang_ns);
	}
	if (due)
		hrtimer_start(&sched->timer, ns_to_ktime(max(due, now)), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart timer_due(struct hrtimer *timer)
{
	struct distmind_sched *sched = container_of(timer, struct distmind_sched, timer);

	queue_work(system_highpri_wq, &sched->work);
	return HRTIMER_NORESTART;
}

static void work_due(struct work_struct *work);

int distmind_sched_init(struct distmind_sched *sched, u32 compute, u32 copy)
{
	u32 i;

	spin_lock_init(&sched->lock);
	sched->hang_ns = DISTMIND_HANG_NS;
	INIT_LIST_HEAD(&sched->tenants);
	INIT_WORK(&sched->work, work_due);
	hrtimer_init(&sched->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	sched->timer.function = timer_due;
	policy_sched_init(&sched->policy[DISTMIND_LANE_COMPUTE], &policy_slo, compute);
	policy_sched_init(&sched->policy[DISTMIND_LANE_COPY], &policy_slo, copy);
	sched->lane_count = compute + copy;
	sched->lanes_of[DISTMIND_LANE_COMPUTE] = compute;
	sched->lanes_of[DISTMIND_LANE_COPY] = copy;
	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		lane->kind = i < compute ? DISTMIND_LANE_COMPUTE : DISTMIND_LANE_COPY;
		init_waitqueue_head(&lane->wait);
		lane->page = (void *)get_zeroed_page(GFP_KERNEL);
		if (!lane->page) {
			distmind_sched_destroy(sched);
			return -ENOMEM;
		}
	}
	return 0;
}

void distmind_sched_destroy(struct distmind_sched *sched)
{
	u32 i;

	hrtimer_cancel(&sched->timer);
	cancel_work_sync(&sched->work);
	for (i = 0; i < sched->lane_count; i++) {
		if (sched->lanes[i].page)
			put_page(virt_to_page(sched->lanes[i].page));
	}
}

static struct policy_settings policy_settings(const struct distmind_vgpu_settings *settings)
{
	return (struct policy_settings){
		.share = settings->share,
		.class = settings->class,
		.objective_ns = settings->objective_ns,
		.capped = settings->capped,
	};
}

int distmind_sched_add(struct distmind_sched *sched, struct distmind_tenant *tenant,
		       const struct distmind_vgpu_settings *settings)
{
	struct policy_settings policy = policy_settings(settings);
	int kind, err;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	err = sched->error;
	list_add_tail(&tenant->in_sched, &sched->tenants);
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_tenant_init(&sched->policy[kind], &tenant->policy[kind], &policy, now);
	spin_unlock(&sched->lock);
	return err;
}

void distmind_sched_del(struct distmind_sched *sched, struct distmind_tenant *tenant)
{
	int kind;

	spin_lock(&sched->lock);
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_tenant_exit(&sched->policy[kind], &tenant->policy[kind]);
	list_del(&tenant->in_sched);
	spin_unlock(&sched->lock);
}

void distmind_sched_change(struct distmind_sched *sched, struct distmind_tenant *tenant,
			   const struct distmind_vgpu_settings *settings)
{
	struct policy_settings policy = policy_settings(settings);
	int kind;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_tenant_change(&sched->policy[kind], &tenant->policy[kind], &policy, now);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}

static struct distmind_vgpu_stats *stats_of(const struct distmind_job *job)
{
	return &job->queue->tenant->vgpu->stats;
}

static void ask_lane(struct distmind_sched *sched, struct distmind_lane *lane, u64 now)
{
	if (lane->asked_ns)
		return;
	lane->asked_ns = now;
	sched->stats.preemptions++;
	atomic64_inc(&stats_of(lane->job)->preemptions);
	WRITE_ONCE(lane->page->yield, 1);
}

/* Have the job that is on some lane yield. */
void distmind_sched_ask(struct distmind_sched *sched, struct distmind_job *job)
{
	u32 i;

	lockdep_assert_held(&sched->lock);
	for (i = 0; i < sched->lane_count; i++) {
		if (sched->lanes[i].job == job)
			ask_lane(sched, &sched->lanes[i], ktime_get_ns());
	}
}

static void start(struct distmind_lane *lane, struct policy_entity *entity)
{
	struct distmind_queue *queue = container_of(entity, struct distmind_queue, entity);

	lane->job = list_first_entry(&queue->jobs, struct distmind_job, link);
	lane->delivered = false;
	queue->running = true;
	wake_up_interruptible(&lane->wait);
}

static void ask_victims(struct distmind_sched *sched, u32 kind, u64 now)
{
	struct policy_entity *running[DISTMIND_LANES_MAX], *victim;
	struct distmind_lane *of[DISTMIND_LANES_MAX];
	u32 i, count = 0;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		if (lane->kind == kind && lane->job) {
			of[count] = lane;
			running[count++] = &lane->job->queue->entity;
		}
	}
	while (count && (victim = policy_victim(&sched->policy[kind], running, count, now))) {
		for (i = 0; i < count; i++) {
			if (running[i] == victim)
				ask_lane(sched, of[i], now);
		}
	}
}

/* After anything has changed: give lanes away, ask others to yield. */
void distmind_sched_dispatch(struct distmind_sched *sched, u64 now)
{
	struct policy_entity *entity;
	u32 i, kind;

	lockdep_assert_held(&sched->lock);
	if (sched->error)
		return;
	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		if (!lane->fetching || lane->job || lane->failed)
			continue;
		entity = policy_pick(&sched->policy[lane->kind], now);
		if (entity)
			start(lane, entity);
	}
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		ask_victims(sched, kind, now);
	arm_timer(sched, now);
}

static void count_latency(struct distmind_sched *sched, u64 ns)
{
	int bucket = fls64(div_u64(ns, NSEC_PER_USEC));

	sched->stats.latency[min(bucket, DISTMIND_LATENCY_BUCKETS - 1)]++;
}

/*
 * Take the job off its lane; it stays the first of its queue. The lane's time
 * is charged by the kernel's clock. What the engine says, @reported, can only
 * be less: then the rest was its own, and is not what the job will take again.
 */
static struct distmind_job *stop(struct distmind_sched *sched, struct distmind_lane *lane,
				 u64 reported, u64 now)
{
	struct distmind_job *job = lane->job;
	struct distmind_queue *queue = job->queue;
	u64 ran = lane->delivered ? now - lane->started_ns : 0;

	policy_done(&sched->policy[lane->kind], &queue->entity, ran, now);
	job->ran_ns += reported ? min(reported, ran) : ran;
	sched->stats.busy_ns[lane->kind] += ran;
	atomic64_add(ran, &stats_of(job)->busy_ns);
	if (lane->asked_ns)
		count_latency(sched, now - lane->asked_ns);
	queue->running = false;
	lane->job = NULL;
	lane->asked_ns = 0;
	WRITE_ONCE(lane->page->yield, 0);
	return job;
}

static void count_end(struct distmind_sched *sched, const struct distmind_job *job, int error,
		      u64 now)
{
	struct distmind_vgpu_stats *stats = stats_of(job);
	u64 objective_ns = job->queue->entity.tenant->settings.objective_ns;

	sched->stats.jobs++;
	sched->stats.failed += error < 0;
	atomic64_inc(&stats->jobs);
	if (error < 0)
		atomic64_inc(&stats->failed);
	if (objective_ns && now - job->ready_ns > objective_ns)
		atomic64_inc(&stats->misses);
}

/* A lane that was reset is not there until its engine answers. */
static void count_lanes(struct distmind_sched *sched, u32 kind, u64 now)
{
	u32 i, usable = 0;

	for (i = 0; i < sched->lane_count; i++)
		usable += sched->lanes[i].kind == kind && !sched->lanes[i].failed;
	policy_set_lanes(&sched->policy[kind], usable, now);
}

/* The job is no longer the engine's: let it stop whatever it still does for it. */
static void reset(struct distmind_lane *lane)
{
	WRITE_ONCE(lane->page->yield, 1);
	WRITE_ONCE(lane->page->reset, 1);
}

/* The engine has ignored the request to yield for too long. */
static void fail_hanging(struct distmind_sched *sched, struct distmind_lane *lane, u64 now,
			 struct list_head *ended)
{
	struct distmind_job *job = stop(sched, lane, 0, now);

	sched->stats.hangs++;
	count_end(sched, job, -ETIME, now);
	lane->failed = job->id;
	lane->failed_ns = now;
	count_lanes(sched, lane->kind, now);
	reset(lane);
	distmind_job_end(job, -ETIME, ended);
	distmind_queue_advance(job->queue, now, ended);
}

/* Returns false if a lane was reset and its engine has not answered in time. */
static bool check_hangs(struct distmind_sched *sched, u64 now, struct list_head *ended)
{
	bool answers = true;
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		if (lane->job && lane->asked_ns && now - lane->asked_ns >= sched->hang_ns)
			fail_hanging(sched, lane, now, ended);
		else if (lane->failed && now - lane->failed_ns >= sched->hang_ns)
			answers = false;
	}
	return answers;
}

static void work_due(struct work_struct *work)
{
	struct distmind_sched *sched = container_of(work, struct distmind_sched, work);
	struct distmind_gpu *gpu = container_of(sched, struct distmind_gpu, sched);
	LIST_HEAD(ended);
	bool answers;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	answers = sched->error || check_hangs(sched, now, &ended);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	/* If somebody has the pool's lock, later: the timer is due already. */
	if (!answers)
		distmind_gpu_try_lose(gpu);
}

/* What the engine says about the job that it had. */
static int take_back(struct distmind_sched *sched, struct distmind_lane *lane,
		     const struct distmind_engine_exchange *arg, u64 now, struct list_head *ended)
{
	struct distmind_queue *queue;
	struct distmind_job *job;
	int error = arg->status;

	if (lane->failed && lane->failed == arg->done) {
		lane->failed = 0;
		count_lanes(sched, lane->kind, now);
		WRITE_ONCE(lane->page->reset, 0);
		WRITE_ONCE(lane->page->yield, 0);
		return 0;
	}
	if (!lane->job || !lane->delivered || lane->job->id != arg->done)
		return -EPROTO;
	job = stop(sched, lane, arg->ran_ns, now);
	queue = job->queue;
	if (error == DISTMIND_DONE_YIELDED && arg->cookie > job->blocks)
		error = -EPROTO;
	if (error != DISTMIND_DONE_YIELDED)
		count_end(sched, job, error, now);
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

static void deliver(struct distmind_lane *lane, struct distmind_engine_job *out)
{
	struct distmind_job *job = lane->job;

	out->id = job->id;
	out->cookie = job->cookie;
	out->vgpu = job->queue->tenant->vgpu->id;
	out->type = job->type;
	out->operation = job->operation;
	out->blocks = job->blocks;
	out->args = job->arg_count;
	memcpy(out->arg, job->args, job->arg_count * sizeof(*job->args));
	lane->delivered = true;
	lane->started_ns = ktime_get_ns();
	atomic64_add(lane->started_ns - job->since_ns, &stats_of(job)->wait_ns);
	lane->page->job = job->id;
}

/* Up to now: with what is on the lanes. */
void distmind_sched_get_stats(struct distmind_sched *sched, struct distmind_sched_stats *stats)
{
	u64 now;
	u32 i;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	*stats = sched->stats;
	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		if (lane->job && lane->delivered)
			stats->busy_ns[lane->kind] += now - lane->started_ns;
	}
	spin_unlock(&sched->lock);
}

/* Another policy, or another hang limit; what is NULL or 0 stays. */
void distmind_sched_configure(struct distmind_sched *sched, const struct policy *policy,
			      u64 hang_ns)
{
	int kind;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	if (hang_ns)
		sched->hang_ns = hang_ns;
	for (kind = 0; policy && kind < DISTMIND_LANE__COUNT; kind++)
		policy_switch(&sched->policy[kind], policy, now);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}

/* One thread of an engine, for one lane: hand back what is done, wait for the next. */
int distmind_sched_exchange(struct distmind_sched *sched, struct distmind_engine_exchange *arg)
{
	struct distmind_lane *lane;
	LIST_HEAD(ended);
	long left = 1;
	u64 now;
	int err;

	if (arg->pad || arg->lane >= sched->lane_count ||
	    arg->timeout_ms > DISTMIND_TIMEOUT_MAX_MS || arg->status > DISTMIND_DONE_YIELDED ||
	    arg->status < -MAX_ERRNO)
		return -EINVAL;
	memset(&arg->job, 0, sizeof(arg->job));
	lane = &sched->lanes[arg->lane];

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	if (lane->fetching)
		err = -EBUSY;
	else
		err = arg->done ? take_back(sched, lane, arg, now, &ended) : 0;
	if (!err && lane->job && lane->delivered)
		err = -EPROTO;
	if (!err)
		lane->fetching = true;
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	if (err)
		return err;

	if (arg->timeout_ms)
		left = wait_event_interruptible_timeout(lane->wait, READ_ONCE(lane->job) ||
							READ_ONCE(sched->error),
							msecs_to_jiffies(arg->timeout_ms));
	spin_lock(&sched->lock);
	lane->fetching = false;
	if (lane->job)
		deliver(lane, &arg->job);
	else if (sched->error)
		err = -ENODEV;
	else
		err = left < 0 ? -EINTR : -ETIMEDOUT;
	spin_unlock(&sched->lock);
	return err;
}

/* The gpu is lost or removed: nothing runs any more, and everybody is told. */
void distmind_sched_end(struct distmind_sched *sched, int error)
{
	struct distmind_tenant *tenant;
	struct distmind_queue *queue;
	LIST_HEAD(ended);
	u64 now;
	u32 i;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	if (!sched->error)
		sched->error = error;
	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		if (lane->job) {
			distmind_job_end(stop(sched, lane, 0, now), error, &ended);
			reset(lane);
		}
		wake_up_interruptible(&lane->wait);
	}
	list_for_each_entry(tenant, &sched->tenants, in_sched) {
		if (!tenant->error)
			tenant->error = error;
		list_for_each_entry(queue, &tenant->queues, in_tenant)
			distmind_queue_drop_jobs(queue, error, &ended);
	}
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
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
int distmind_sched_mmap(struct distmind_sched *sched, struct vm_area_struct *vma)
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
