// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tenants, queues and jobs.
 *
 * Everything here that can change is guarded by the lock of the gpu's
 * scheduler. A queue belongs to a tenant and with it to one gpu for life: when
 * the vgpu is bound elsewhere the tenant ends, its queues with it, and what they
 * held fails. A job holds its queue, its buffers and its timelines until it has
 * ended.
 *
 * Jobs end in two steps: under the lock they go to a list, distmind_job_end();
 * without it they signal their timelines and are freed, distmind_job_end_all(),
 * which may end further jobs, of other gpus too, and may call a vendor's hook, which
 * takes its time: so it is not under the pool's lock either.
 *
 * The first job of a queue is in one of four states: it waits for a timeline
 * (queue->waiting), is ready (the entity is runnable), is on a lane
 * (queue->running), or ends.
 */
#include <linux/atomic.h>
#include <linux/eventfd.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/slab.h>

#include "buffer.h"
#include "compat.h"
#include "gpu.h"
#include "grant.h"
#include "ladder.h"
#include "ledger.h"
#include "queue.h"
#include "sched.h"
#include "trace.h"
#include "vgpu.h"

/* Not an errno: the job goes with its queue. */
#define JOB_DROPPED 1

/* Jobs and waits of a queue that are looked at before others get the lock. */
#define ADVANCE_MAX 1024
/* Queues of a tenant that are ended before others get the lock. */
#define QUEUES_AT_ONCE 64

static atomic64_t last_job;

/* Tenants */

struct distmind_tenant *distmind_tenant_create(struct distmind_gpu *gpu,
					       struct distmind_vgpu *vgpu)
{
	struct distmind_tenant *tenant;

	tenant = kzalloc(sizeof(*tenant), GFP_KERNEL_ACCOUNT);
	if (!tenant)
		return ERR_PTR(-ENOMEM);
	kref_init(&tenant->ref);
	distmind_gpu_get(gpu);
	tenant->gpu = gpu;
	distmind_vgpu_get(vgpu);
	tenant->vgpu = vgpu;
	INIT_LIST_HEAD(&tenant->queues);
	tenant->error = distmind_sched_add(&gpu->sched, tenant, &vgpu->settings);
	if (tenant->error) {
		int err = tenant->error;

		distmind_tenant_put(tenant);
		return ERR_PTR(err);
	}
	return tenant;
}

static void tenant_release(struct kref *ref)
{
	struct distmind_tenant *tenant = container_of(ref, struct distmind_tenant, ref);

	distmind_sched_del(&tenant->gpu->sched, tenant);
	distmind_gpu_put(tenant->gpu);
	distmind_vgpu_put(tenant->vgpu);
	kfree(tenant);
}

void distmind_tenant_put(struct distmind_tenant *tenant)
{
	kref_put(&tenant->ref, tenant_release);
}

/*
 * All its queues end, and no new ones begin; under the pool's lock, so by one at a time.
 * A queue that is released meanwhile leaves whichever of the two lists it is in.
 */
void distmind_tenant_end(struct distmind_tenant *tenant, int error, struct list_head *ended)
{
	struct distmind_sched *sched = &tenant->gpu->sched;
	struct distmind_queue *queue;
	LIST_HEAD(left);
	u32 count = 0;

	lockdep_assert_held(&distmind_pool_lock);
	spin_lock(&sched->lock);
	if (!tenant->error)
		tenant->error = error;
	list_splice_init(&tenant->queues, &left);
	while ((queue = list_first_entry_or_null(&left, struct distmind_queue, in_tenant))) {
		list_move_tail(&queue->in_tenant, &tenant->queues);
		distmind_queue_drop_jobs(queue, error, ended);
		if (++count % QUEUES_AT_ONCE == 0) {
			spin_unlock(&sched->lock);
			cond_resched();
			spin_lock(&sched->lock);
		}
	}
	distmind_sched_dispatch(sched, ktime_get_ns());
	spin_unlock(&sched->lock);
}

/* Jobs */

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
	job->id = atomic64_inc_return(&last_job);
	distmind_ledger_created(DISTMIND_OBJECT_JOB);
	return job;
}

/* Whatever of it was filled in. */
void distmind_job_free(struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i])
			distmind_buffer_put(job->buffers[i]);
	}
	for (i = 0; i < job->wait_count; i++) {
		if (job->waits[i].timeline)
			distmind_timeline_put(job->waits[i].timeline);
	}
	if (job->signal)
		distmind_timeline_put(job->signal);
	if (job->queue)
		distmind_queue_put(job->queue);
	put_pid(job->pid);
	kfree(job);
	distmind_ledger_destroyed(DISTMIND_OBJECT_JOB);
}

/* Under the scheduler's lock. */
void distmind_job_end(struct distmind_job *job, int error, struct list_head *ended)
{
	job->error = error;
	job->queue->count--;
	list_move_tail(&job->link, ended);
}

/* Others have had the lock. */
static void queue_resume(struct distmind_queue *queue, struct list_head *ended)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	distmind_queue_advance(queue, now, ended);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
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
			distmind_ladder_resume(job);
		if (job->signal)
			distmind_timeline_signal(job->signal, job->signal_value, error, ended);
		if (READ_ONCE(job->queue->paused))
			queue_resume(job->queue, ended);
		distmind_job_free(job);
		cond_resched();
	}
}

/* Queues */

static void waiter_hold(struct distmind_timeline_waiter *waiter)
{
	distmind_queue_get(container_of(waiter, struct distmind_queue, waiter));
}

static void waiter_reached(struct distmind_timeline_waiter *waiter, struct list_head *ended)
{
	struct distmind_queue *queue = container_of(waiter, struct distmind_queue, waiter);
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	queue->waiting = false;
	distmind_queue_advance(queue, now, ended);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_queue_put(queue);
}

struct distmind_queue *distmind_queue_create(struct distmind_tenant *tenant, u32 kind, u32 depth)
{
	struct distmind_sched *sched = &tenant->gpu->sched;
	struct distmind_queue *queue;
	int err;

	queue = kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	if (!queue)
		return ERR_PTR(-ENOMEM);
	kref_init(&queue->ref);
	queue->kind = kind;
	queue->depth = depth;
	queue->tenant = tenant;
	queue->entity.tenant = &tenant->policy[kind];
	queue->waiter.hold = waiter_hold;
	queue->waiter.reached = waiter_reached;
	RB_CLEAR_NODE(&queue->waiter.node);
	INIT_LIST_HEAD(&queue->jobs);
	spin_lock(&sched->lock);
	err = tenant->error;
	if (!err)
		list_add_tail(&queue->in_tenant, &tenant->queues);
	spin_unlock(&sched->lock);
	if (err) {
		kfree(queue);
		return ERR_PTR(err);
	}
	kref_get(&tenant->ref);
	distmind_ledger_created(DISTMIND_OBJECT_QUEUE);
	return queue;
}

static void queue_release(struct kref *ref)
{
	struct distmind_queue *queue = container_of(ref, struct distmind_queue, ref);
	struct distmind_sched *sched = &queue->tenant->gpu->sched;

	WARN_ON(queue->count || queue->running || queue->waiting);
	spin_lock(&sched->lock);
	list_del(&queue->in_tenant);
	spin_unlock(&sched->lock);
	distmind_tenant_put(queue->tenant);
	if (queue->page)
		put_page(virt_to_page(queue->page));
	if (queue->eventfd)
		eventfd_ctx_put(queue->eventfd);
	kfree(queue);
	distmind_ledger_destroyed(DISTMIND_OBJECT_QUEUE);
}

void distmind_queue_get(struct distmind_queue *queue)
{
	kref_get(&queue->ref);
}

void distmind_queue_put(struct distmind_queue *queue)
{
	kref_put(&queue->ref, queue_release);
}

/*
 * It takes no more jobs, and those that it has end. One that is on a lane is
 * asked to yield and ends when the engine hands it back.
 */
void distmind_queue_drop_jobs(struct distmind_queue *queue, int error, struct list_head *ended)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct list_head *running = NULL;

	lockdep_assert_held(&sched->lock);
	if (!queue->error)
		queue->error = error;
	if (queue->waiting && distmind_timeline_disarm(&queue->waiter))
		queue->waiting = false;
	if (queue->running) {
		running = queue->jobs.next;
		distmind_sched_ask(sched, list_entry(running, struct distmind_job, link));
		list_del(running);
	} else {
		policy_remove(&sched->policy[queue->kind], &queue->entity, ktime_get_ns());
	}
	/* At once, however many there are. */
	list_splice_tail_init(&queue->jobs, ended);
	queue->count = 0;
	if (running) {
		list_add(running, &queue->jobs);
		queue->count = 1;
	}
}

/* Its handle is gone: a lane that it had been lent is given back by that. */
void distmind_queue_end(struct distmind_queue *queue, int error)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	LIST_HEAD(ended);

	spin_lock(&sched->lock);
	distmind_grant_revoke(sched, queue, error, &ended);
	distmind_queue_drop_jobs(queue, error, &ended);
	distmind_sched_dispatch(sched, ktime_get_ns());
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
}

/*
 * Bring the first job as far as it gets without a lane: to a wait, to being
 * ready, or to its end, and then the next one. If there are many it pauses when
 * some have ended, and goes on when these are: the caller must see to that, by
 * distmind_job_end_all().
 */
void distmind_queue_advance(struct distmind_queue *queue, u64 now, struct list_head *ended)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct policy_tenant *tenant = queue->entity.tenant;
	struct distmind_job *job;
	u32 looks = 0;

	lockdep_assert_held(&sched->lock);
	WRITE_ONCE(queue->paused, false);
	while (!queue->running && !queue->waiting && queue->entity.state == POLICY_IDLE &&
	       (job = list_first_entry_or_null(&queue->jobs, struct distmind_job, link))) {
		int state = 1;

		while (job->waited < job->wait_count) {
			struct distmind_job_wait *wait = &job->waits[job->waited];

			state = distmind_timeline_arm(wait->timeline, &queue->waiter, wait->value);
			if (state <= 0)
				break;
			job->waited++;
		}
		if (!state) {
			queue->waiting = true;
		} else if (state < 0 || job->type == DISTMIND_JOB_BARRIER) {
			looks += 1 + job->waited;
			distmind_job_end(job, min(state, 0), ended);
			if (looks >= ADVANCE_MAX) {
				WRITE_ONCE(queue->paused, true);
				break;
			}
		} else {
			if (!job->ready_ns)
				job->ready_ns = now;
			job->since_ns = now;
			queue->entity.arrival_ns = job->ready_ns;
			queue->entity.expected_ns =
				policy_estimate_get(tenant, job->operation,
						    max_t(u32, job->blocks - job->cookie, 1));
			policy_enqueue(&sched->policy[queue->kind], &queue->entity, now);
			trace_distmind_job_ready(job);
		}
	}
}

/* From now on its owner is told; @fd names whom, or is -1. */
int distmind_queue_watch(struct distmind_queue *queue, int fd)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct eventfd_ctx *eventfd = NULL;
	struct distmind_queue_page *page;

	if (fd != -1) {
		eventfd = eventfd_ctx_fdget(fd);
		if (IS_ERR(eventfd))
			return PTR_ERR(eventfd);
	}
	page = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!page) {
		if (eventfd)
			eventfd_ctx_put(eventfd);
		return -ENOMEM;
	}
	spin_lock(&sched->lock);
	swap(queue->eventfd, eventfd);
	if (!queue->page)
		swap(queue->page, page);
	spin_unlock(&sched->lock);
	if (page)
		put_page(virt_to_page(page));
	if (eventfd)
		eventfd_ctx_put(eventfd);
	return 0;
}

/* The page, read-only; it stays when the queue goes. */
int distmind_queue_mmap(struct distmind_queue *queue, struct vm_area_struct *vma)
{
	if (!queue->page)
		return -EBADFD;
	if (!(vma->vm_flags & VM_MAYSHARE) || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	return vm_insert_page(vma, vma->vm_start, virt_to_page(queue->page));
}

/* All or none; on success the queue has taken them. */
int distmind_queue_submit(struct distmind_queue *queue, struct list_head *jobs, u32 count)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct distmind_job *job;
	LIST_HEAD(ended);
	u64 now;
	int err;

	list_for_each_entry(job, jobs, link) {
		distmind_queue_get(queue);
		job->queue = queue;
	}
	spin_lock(&sched->lock);
	now = ktime_get_ns();
	err = queue->error;
	if (!err && count > queue->depth - queue->count)
		err = -EAGAIN;
	if (!err) {
		atomic64_add(count, &queue->tenant->vgpu->stats.queued);
		queue->count += count;
		list_splice_tail_init(jobs, &queue->jobs);
		distmind_queue_advance(queue, now, &ended);
		distmind_sched_dispatch(sched, now);
	}
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	return err;
}
