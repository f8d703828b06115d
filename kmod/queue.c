// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues: ordered streams of jobs.
 *
 * Everything here that can change is guarded by the lock of the gpu's scheduler. A
 * queue belongs to a tenant and with it to one gpu for life, and holds it.
 *
 * The first job of a queue is in one of five states: it waits for a timeline
 * (queue->waiting), is ready (the entity is runnable), is on a lane
 * (queue->running), waits for room in the heap (queue->room), or ends.
 */
#include <linux/eventfd.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "gpu.h"
#include "grant.h"
#include "inherit.h"
#include "job.h"
#include "ledger.h"
#include "queue.h"
#include "request.h"
#include "sched.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

/* Jobs and waits of a queue that are looked at before others get the lock. */
#define ADVANCE_MAX 1024

/* Others have had the lock. */
void distmind_queue_resume(struct distmind_queue *queue, struct list_head *ended)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	distmind_queue_advance(queue, now, ended);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}

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
	distmind_inherit_stops(queue, now);
	distmind_queue_advance(queue, now, ended);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_queue_put(queue);
}

/* Whose waiter it is, or NULL: it is not a queue's. */
struct distmind_queue *distmind_queue_of_waiter(struct distmind_timeline_waiter *waiter)
{
	if (waiter->reached != waiter_reached)
		return NULL;
	return container_of(waiter, struct distmind_queue, waiter);
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
	distmind_inherit_init(queue);
	queue->waiter.hold = waiter_hold;
	queue->waiter.reached = waiter_reached;
	RB_CLEAR_NODE(&queue->waiter.node);
	INIT_LIST_HEAD(&queue->jobs);
	INIT_LIST_HEAD(&queue->room.in_tenant);
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
	distmind_inherit_drop(queue, ktime_get_ns());
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
	distmind_room_leave(sched, queue);
	distmind_inherit_drop(queue, ktime_get_ns());
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
	struct policy_tenant *tenant = &queue->tenant->policy[queue->kind];
	struct distmind_job *job;
	u32 looks = 0;

	lockdep_assert_held(&sched->lock);
	WRITE_ONCE(queue->paused, false);
	while (!queue->running && !queue->waiting && !distmind_room_is_waiting(&queue->room) &&
	       queue->entity.state == POLICY_IDLE &&
	       (job = list_first_entry_or_null(&queue->jobs, struct distmind_job, link))) {
		struct distmind_job_wait *wait = NULL;
		int state = 1;

		while (job->waited < job->wait_count) {
			wait = &job->waits[job->waited];
			state = distmind_timeline_arm(wait->timeline, &queue->waiter, wait->value);
			if (state <= 0)
				break;
			job->waited++;
		}
		if (!state) {
			queue->waiting = true;
			distmind_request_enter(job, wait->weights ? DISTMIND_REQUEST_PHASE_WEIGHTS :
					       DISTMIND_REQUEST_PHASE_ORDER, now);
			distmind_inherit_waits(queue, job, now);
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
			/* What it waited for room it was not on a lane either. */
			if (!job->room_ns)
				job->since_ns = now;
			queue->entity.arrival_ns = job->ready_ns;
			queue->entity.expected_ns =
				policy_estimate_get(tenant, job->operation,
						    max_t(u32, job->blocks - job->cookie, 1));
			distmind_request_describe(job, &queue->entity);
			distmind_inherit_ready(queue);
			distmind_request_enter(job, DISTMIND_REQUEST_PHASE_LANE, now);
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

/*
 * All or none; on success the queue has taken them. They belong to @request, unless that is
 * NULL, for which the caller has joined it.
 */
int distmind_queue_submit(struct distmind_queue *queue, struct list_head *jobs,
			  const struct distmind_submit *submit, struct distmind_request *request)
{
	struct distmind_tenant *tenant = queue->tenant;
	struct distmind_sched *sched = &tenant->gpu->sched;
	u32 count = submit->job_count;
	struct distmind_inherit_found found;
	struct distmind_job *job;
	LIST_HEAD(ended);
	u64 now;
	int err;

	list_for_each_entry(job, jobs, link) {
		distmind_queue_get(queue);
		job->queue = queue;
		if (request)
			distmind_request_get(request);
		job->request = request;
	}
	distmind_inherit_attach(jobs, &found);
	spin_lock(&sched->lock);
	now = ktime_get_ns();
	err = queue->error;
	if (!err && count > queue->depth - queue->count)
		err = -EAGAIN;
	if (!err && request)
		err = distmind_request_submitted(request, submit, tenant->gpu->id,
						 tenant->policy[queue->kind].settings.objective_ns,
						 now);
	if (!err) {
		atomic64_add(count, &tenant->vgpu->stats.queued);
		queue->count += count;
		list_splice_tail_init(jobs, &queue->jobs);
		distmind_inherit_submitted(queue, &found, now);
		distmind_queue_advance(queue, now, &ended);
		distmind_sched_dispatch(sched, now);
	}
	spin_unlock(&sched->lock);
	if (err)
		distmind_inherit_refused(queue, jobs);
	distmind_inherit_put(&found);
	distmind_job_end_all(&ended);
	return err;
}
