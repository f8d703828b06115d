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
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "account.h"
#include "compat.h"
#include "gpu.h"
#include "grant.h"
#include "inherit.h"
#include "job.h"
#include "ledger.h"
#include "queue.h"
#include "request.h"
#include "room.h"
#include "sched.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

/* Jobs and waits of a queue that are looked at before others get the lock. */
#define ADVANCE_MAX 64
/* Queues that follow their request to another deadline before others get the lock. */
#define FOLLOW_MAX 16

/*
 * It has jobs that have ended, or more that may: whoever has it in @ended sees to that, or
 * already has it elsewhere. Under the scheduler's lock.
 */
void distmind_queue_settle_later(struct distmind_queue *queue, struct list_head *ended)
{
	if (queue->settling)
		return;
	queue->settling = true;
	distmind_queue_get(queue);
	list_add_tail(&queue->in_ended, ended);
}

/*
 * The next of its jobs that has ended, for who has the queue in a list of ended ones. If
 * there is none, and none can be found that ends by itself, the queue leaves that list.
 */
struct distmind_job *distmind_queue_take_ended(struct distmind_queue *queue, u32 *budget)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct distmind_job *job;
	bool settled;
	u64 now;

	spin_lock(&sched->lock);
	if (queue->paused && list_empty(&queue->ended)) {
		now = ktime_get_ns();
		--*budget;
		distmind_queue_advance(queue, now, NULL);
		distmind_sched_dispatch(sched, now);
	}
	job = list_first_entry_or_null(&queue->ended, struct distmind_job, link);
	if (job)
		list_del_init(&job->link);
	settled = !job && !queue->paused;
	if (settled) {
		queue->settling = false;
		list_del(&queue->in_ended);
	}
	spin_unlock(&sched->lock);
	if (settled)
		distmind_queue_put(queue);
	return job;
}

/* At the expense of who submits to it. */
static void queue_settle(struct distmind_chore *chore)
{
	struct distmind_queue *queue = container_of(chore, struct distmind_queue, settle);
	LIST_HEAD(ended);

	list_add(&queue->in_ended, &ended);
	distmind_job_end_all(&ended);
}

/* Tell its eventfd as often as there was something to tell. */
static void tell(struct distmind_chore *chore)
{
	struct distmind_queue *queue = container_of(chore, struct distmind_queue, tell);
	int count;

	mutex_lock(&queue->eventfd_lock);
	for (count = atomic_xchg(&queue->tells, 0); count && queue->eventfd; count--)
		distmind_eventfd_signal(queue->eventfd);
	mutex_unlock(&queue->eventfd_lock);
	distmind_queue_put(queue);
}

/*
 * Whoever watches it, later: how many wait for its eventfd is its owner's business. Under
 * the scheduler's lock.
 */
void distmind_queue_tell(struct distmind_queue *queue)
{
	if (!queue->eventfd)
		return;
	atomic_inc(&queue->tells);
	distmind_queue_get(queue);
	if (!distmind_account_post(queue->account, &queue->tell))
		distmind_queue_put(queue);
}

/**
 * struct distmind_queue_board - the page of a queue, which outlives it while it is mapped
 * @ref: held by the queue and by each mapping
 * @account: for whom the queue, or what is left of it, counts; held
 * @page: or NULL: nobody watches
 */
struct distmind_queue_board {
	struct kref ref;
	struct distmind_account *account;
	void *page;
};

static struct distmind_queue_board *board_create(struct distmind_account *account)
{
	struct distmind_queue_board *board;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_QUEUE, 1);
	if (err)
		return ERR_PTR(err);
	board = kzalloc(sizeof(*board), GFP_KERNEL_ACCOUNT);
	if (!board) {
		distmind_account_uncharge(account, DISTMIND_LIMIT_QUEUE, 1);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&board->ref);
	distmind_account_get(account);
	board->account = account;
	return board;
}

static void board_release(struct kref *ref)
{
	struct distmind_queue_board *board = container_of(ref, struct distmind_queue_board, ref);

	if (board->page)
		put_page(virt_to_page(board->page));
	distmind_account_uncharge(board->account, DISTMIND_LIMIT_QUEUE, 1);
	distmind_account_put(board->account);
	kfree(board);
}

static void board_put(struct distmind_queue_board *board)
{
	kref_put(&board->ref, board_release);
}

static void waiter_hold(struct distmind_timeline_waiter *waiter)
{
	distmind_queue_get(container_of(waiter, struct distmind_queue, waiter));
}

/* What its first job waited for is there, or has failed. With the waiter's reference. */
static void go_on(struct distmind_queue *queue, struct list_head *ended)
{
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

static void go_on_later(struct distmind_chore *chore)
{
	LIST_HEAD(ended);

	go_on(container_of(chore, struct distmind_queue, go_on), &ended);
	distmind_job_end_all(&ended);
}

static void waiter_reached(struct distmind_timeline_waiter *waiter, u32 *budget,
			   struct list_head *ended)
{
	struct distmind_queue *queue = container_of(waiter, struct distmind_queue, waiter);

	if (ended)
		go_on(queue, ended);
	else
		/* Not posted already: until that has run the queue waits for nothing else. */
		distmind_account_post(queue->account, &queue->go_on);
}

/* It counts for @account. */
struct distmind_queue *distmind_queue_create(struct distmind_tenant *tenant,
					     struct distmind_account *account, u32 kind, u32 depth)
{
	struct distmind_sched *sched = &tenant->gpu->sched;
	struct distmind_queue *queue;
	int err;

	queue = kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	if (!queue)
		return ERR_PTR(-ENOMEM);
	queue->board = board_create(account);
	if (IS_ERR(queue->board)) {
		err = PTR_ERR(queue->board);
		goto err_free;
	}
	kref_init(&queue->ref);
	queue->kind = kind;
	queue->depth = depth;
	queue->tenant = tenant;
	queue->entity.tenant = &tenant->policy[kind];
	policy_line_init(&queue->line);
	distmind_inherit_init(queue);
	queue->waiter.hold = waiter_hold;
	queue->waiter.reached = waiter_reached;
	RB_CLEAR_NODE(&queue->waiter.node);
	INIT_LIST_HEAD(&queue->jobs);
	INIT_LIST_HEAD(&queue->room.in_tenant);
	INIT_LIST_HEAD(&queue->ended);
	distmind_chore_init(&queue->settle, queue_settle);
	distmind_chore_init(&queue->tell, tell);
	distmind_chore_init(&queue->go_on, go_on_later);
	mutex_init(&queue->eventfd_lock);
	spin_lock(&sched->lock);
	err = tenant->error;
	if (!err)
		list_add_tail(&queue->in_tenant, &tenant->queues);
	spin_unlock(&sched->lock);
	if (err)
		goto err_board;
	kref_get(&tenant->ref);
	queue->account = account;
	distmind_ledger_created(DISTMIND_OBJECT_QUEUE);
	return queue;

err_board:
	board_put(queue->board);
err_free:
	kfree(queue);
	return ERR_PTR(err);
}

static void queue_release(struct kref *ref)
{
	struct distmind_queue *queue = container_of(ref, struct distmind_queue, ref);
	struct distmind_sched *sched = &queue->tenant->gpu->sched;

	WARN_ON(queue->count || queue->running || queue->waiting || queue->settling);
	spin_lock(&sched->lock);
	distmind_inherit_drop(queue, ktime_get_ns());
	list_del(&queue->in_tenant);
	spin_unlock(&sched->lock);
	distmind_tenant_put(queue->tenant);
	if (queue->eventfd)
		eventfd_ctx_put(queue->eventfd);
	board_put(queue->board);
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
		queue->error = queue->tenant->error ? queue->tenant->error : error;
	policy_line_init(&queue->line);
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
	if (!list_empty(&queue->jobs)) {
		list_splice_tail_init(&queue->jobs, &queue->ended);
		distmind_queue_settle_later(queue, ended);
	}
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

/* The shortest of the requests in it, for the policies. */
static void describe_line(const struct distmind_queue *queue, u64 *behind_ns, u64 *left_ns)
{
	if (!policy_line_shortest(&queue->line, behind_ns, left_ns)) {
		*behind_ns = 0;
		*left_ns = 0;
	}
}

static u64 objective_of(const struct distmind_queue *queue)
{
	return queue->tenant->policy[queue->kind].settings.objective_ns;
}

/* It is the first of its request in its queue: the line knows the deadline by this one. */
static void set_deadline(struct distmind_turn *turn, struct distmind_request *request)
{
	policy_turn_set_deadline(&turn->policy,
				 distmind_request_deadline(request, objective_of(turn->queue)));
}

/* The job is about to end: if it is the last of a submission, that is done. */
void distmind_queue_leave_line(struct distmind_queue *queue, struct distmind_job *job)
{
	struct distmind_turn *next;

	if (queue->error)
		return;
	if (job->turn) {
		next = distmind_request_del_turn(job);
		policy_line_del(&queue->line, &job->turn->policy);
		if (next)
			set_deadline(next, job->request);
	}
	policy_line_went(&queue->line, job->work_ns);
}

/* Jobs, of a request or not, come behind what there is. */
static void join_line(struct distmind_queue *queue, struct list_head *jobs, u32 count)
{
	struct distmind_job *first = list_first_entry(jobs, struct distmind_job, link);
	struct distmind_job *last = list_last_entry(jobs, struct distmind_job, link);
	struct policy_tenant *tenant = &queue->tenant->policy[queue->kind];
	struct policy_entity entity = { 0 };

	/* Those of one submission are taken to be alike. */
	if (first->type != DISTMIND_JOB_BARRIER)
		entity.expected_ns = policy_estimate_get(tenant, first->operation, first->blocks);
	if (last->turn) {
		distmind_request_describe(last, &entity);
		policy_line_add(&queue->line, &last->turn->policy, entity.request_ns, U64_MAX,
				entity.left_ns);
		if (distmind_request_add_turn(last))
			set_deadline(last->turn, last->request);
	}
	last->work_ns = entity.expected_ns * count;
	policy_line_came(&queue->line, last->work_ns);
}

/* There are jobs before those that came: they may be in more of a hurry now. */
static void hurry(struct distmind_queue *queue, u64 now)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	u64 behind_ns, left_ns;

	describe_line(queue, &behind_ns, &left_ns);
	policy_set_behind(&sched->policy[queue->kind], &queue->entity, behind_ns, left_ns, now);
	distmind_inherit_hurry(queue, now);
}

/*
 * The request has another deadline: its queues after *@after follow, and *@after is the last
 * one that did. Returns whether that was all. Under the scheduler's lock.
 */
static bool follow_some(struct distmind_request *request, struct distmind_sched *sched,
			unsigned long *after, u64 now)
{
	struct distmind_turn *turn;
	u32 i;

	for (i = 0; i < FOLLOW_MAX; i++) {
		turn = distmind_request_next_turn(request, sched, *after);
		if (!turn)
			return true;
		*after = (unsigned long)turn->queue;
		set_deadline(turn, request);
		distmind_inherit_renew(turn->queue, now);
	}
	return false;
}

/* The rest of them, at the expense of who submits; who is killed leaves them as they are. */
static void follow_all(struct distmind_request *request, struct distmind_sched *sched,
		       unsigned long after)
{
	bool done;
	u64 now;

	do {
		cond_resched();
		spin_lock(&sched->lock);
		now = ktime_get_ns();
		done = follow_some(request, sched, &after, now);
		distmind_sched_dispatch(sched, now);
		spin_unlock(&sched->lock);
	} while (!done && !fatal_signal_pending(current));
}

/*
 * Bring the first job as far as it gets without a lane: to a wait, to being
 * ready, or to its end, and then the next one. If there are many it pauses, and goes on
 * when others have had the lock: the caller must see to that, by distmind_job_end_all().
 * @ended may be NULL if the queue is in such a list.
 */
void distmind_queue_advance(struct distmind_queue *queue, u64 now, struct list_head *ended)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct policy_tenant *tenant = &queue->tenant->policy[queue->kind];
	struct distmind_job *job;
	u32 looks = 0;

	lockdep_assert_held(&sched->lock);
	queue->paused = false;
	while (!queue->running && !queue->waiting && !distmind_room_is_waiting(&queue->room) &&
	       queue->entity.state == POLICY_IDLE &&
	       (job = list_first_entry_or_null(&queue->jobs, struct distmind_job, link))) {
		struct distmind_job_wait *wait = NULL;
		int state = 1;

		while (job->waited < job->wait_count) {
			if (++looks > ADVANCE_MAX)
				goto pause;
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
			distmind_job_end(job, min(state, 0), ended);
			if (++looks > ADVANCE_MAX)
				goto pause;
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
			describe_line(queue, &queue->entity.behind_ns,
				      &queue->entity.behind_left_ns);
			distmind_inherit_ready(queue);
			if (distmind_room_keeps(sched, queue)) {
				distmind_room_wait(sched, queue, false, now);
				return;
			}
			distmind_request_enter(job, DISTMIND_REQUEST_PHASE_LANE, now);
			policy_enqueue(&sched->policy[queue->kind], &queue->entity, now);
			trace_distmind_job_ready(job);
		}
	}
	return;

pause:
	queue->paused = true;
	distmind_queue_settle_later(queue, ended);
}

/* From now on its owner is told; @fd names whom, or is -1. */
int distmind_queue_watch(struct distmind_queue *queue, int fd)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	struct eventfd_ctx *eventfd = NULL;
	struct distmind_queue_page *page;
	int err = 0;

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
	/* Its worker may be telling the old one, and whoever polls that. */
	if (mutex_lock_killable(&queue->eventfd_lock)) {
		err = -EINTR;
		goto out;
	}
	spin_lock(&sched->lock);
	swap(queue->eventfd, eventfd);
	if (!queue->page) {
		queue->board->page = page;
		swap(queue->page, page);
	}
	spin_unlock(&sched->lock);
	mutex_unlock(&queue->eventfd_lock);
out:
	if (page)
		put_page(virt_to_page(page));
	if (eventfd)
		eventfd_ctx_put(eventfd);
	return err;
}

static void board_vma_open(struct vm_area_struct *vma)
{
	struct distmind_queue_board *board = vma->vm_private_data;

	kref_get(&board->ref);
}

static void board_vma_close(struct vm_area_struct *vma)
{
	board_put(vma->vm_private_data);
}

static const struct vm_operations_struct board_vm_ops = {
	.open = board_vma_open,
	.close = board_vma_close,
};

/* The page, read-only; it stays when the queue goes. */
int distmind_queue_mmap(struct distmind_queue *queue, struct vm_area_struct *vma)
{
	int err;

	if (!queue->page)
		return -EBADFD;
	if (!(vma->vm_flags & VM_MAYSHARE) || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	err = vm_insert_page(vma, vma->vm_start, virt_to_page(queue->page));
	if (err)
		return err;
	kref_get(&queue->board->ref);
	vma->vm_private_data = queue->board;
	vma->vm_ops = &board_vm_ops;
	return 0;
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
	bool moved = false, followed = true;
	unsigned long after = 0;
	struct distmind_job *job;
	LIST_HEAD(ended);
	u64 now;
	int err;

	if (request) {
		job = list_last_entry(jobs, struct distmind_job, link);
		job->turn = distmind_turn_create(queue);
		if (!job->turn)
			return -ENOMEM;
	}
	list_for_each_entry(job, jobs, link) {
		distmind_queue_get(queue);
		job->queue = queue;
		if (request)
			distmind_request_get(request);
		job->request = request;
	}
	distmind_inherit_attach(queue, jobs, &found);
	spin_lock(&sched->lock);
	now = ktime_get_ns();
	err = queue->error ? queue->error : tenant->error;
	if (!err && count > queue->depth - queue->count)
		err = -EAGAIN;
	if (!err && request)
		err = distmind_request_submitted(request, submit, tenant->gpu->id,
						 objective_of(queue), now, &moved);
	if (!err) {
		atomic64_add(count, &tenant->vgpu->stats.queued);
		join_line(queue, jobs, count);
		if (queue->count && request)
			hurry(queue, now);
		queue->count += count;
		list_splice_tail_init(jobs, &queue->jobs);
		distmind_inherit_submitted(queue, &found, now);
		if (moved)
			followed = follow_some(request, sched, &after, now);
		distmind_queue_advance(queue, now, &ended);
		distmind_sched_dispatch(sched, now);
	}
	spin_unlock(&sched->lock);
	if (err)
		distmind_inherit_refused(queue, jobs);
	distmind_inherit_put(&found);
	if (!followed)
		follow_all(request, sched, after);
	distmind_job_end_all(&ended);
	return err;
}
