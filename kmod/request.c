// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests: what an application wants done by a deadline, in several jobs and several
 * queues of a vgpu. What is promised and measured belongs to them, not to the jobs.
 *
 * A request begins with the first submission that names it. It is in the tree of its
 * vgpu until it ends: when the application has said that nothing more comes, and its last
 * job has ended; or when the open file that began it is closed. It is held by the tree
 * and by its jobs, which hold the vgpu too.
 *
 * requests->lock guards everything here. It is taken inside a scheduler's lock, and nothing
 * is taken inside it but that of the table of accounts. A request can have jobs on two gpus,
 * before and after its vgpu has moved, so the time is not that of one scheduler and may seem
 * to go back.
 *
 * A request knows the first turn of it in each of its queues, and with that has its deadline
 * in their lines (policy/line.c): when it is moved, these follow, one for each queue, however
 * many jobs there are. When the first turn of a queue is over the next one takes its place.
 *
 * Its time is counted where it went: at any time a request is in one phase, the furthest
 * that any of its jobs is in. So the parts add up to its latency, also of a request with
 * jobs side by side.
 */
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "account.h"
#include "gpu.h"
#include "job.h"
#include "ledger.h"
#include "queue.h"
#include "request.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

void distmind_requests_init(struct distmind_requests *requests)
{
	spin_lock_init(&requests->lock);
	requests->tree = RB_ROOT;
}

void distmind_requests_get_stats(struct distmind_requests *requests,
				 struct distmind_request_stats *stats)
{
	spin_lock(&requests->lock);
	*stats = requests->stats;
	spin_unlock(&requests->lock);
}

static struct distmind_requests *requests_of(const struct distmind_request *request)
{
	return &request->vgpu->requests;
}

static void request_release(struct kref *ref)
{
	struct distmind_request *request = container_of(ref, struct distmind_request, ref);

	distmind_account_uncharge(request->account, DISTMIND_LIMIT_REQUEST, 1);
	distmind_account_put(request->account);
	kfree(request);
	distmind_ledger_destroyed(DISTMIND_OBJECT_REQUEST);
}

void distmind_request_get(struct distmind_request *request)
{
	kref_get(&request->ref);
}

void distmind_request_put(struct distmind_request *request)
{
	kref_put(&request->ref, request_release);
}

static int request_compare(u64 client, u64 id, const struct rb_node *node)
{
	const struct distmind_request *request = rb_entry(node, struct distmind_request, node);

	if (client != request->client)
		return client < request->client ? -1 : 1;
	return id < request->id ? -1 : id > request->id;
}

/* Where it is in the tree, or where it would have to be. */
static struct rb_node **find_place(struct distmind_requests *requests, u64 client, u64 id,
				   struct rb_node **parent)
{
	struct rb_node **place = &requests->tree.rb_node;
	int order;

	*parent = NULL;
	while (*place) {
		order = request_compare(client, id, *place);
		if (!order)
			break;
		*parent = *place;
		place = order < 0 ? &(*parent)->rb_left : &(*parent)->rb_right;
	}
	return place;
}

/* It has ended: it is counted, and leaves the tree, which may have held it last. */
static void request_finish(struct distmind_request *request)
{
	struct distmind_requests *requests = requests_of(request);
	struct distmind_request_stats *stats = &requests->stats;
	u64 deadline_ns = request->deadline_ns, latency;
	bool missed;
	int i;

	lockdep_assert_held(&requests->lock);
	rb_erase(&request->node, &requests->tree);
	RB_CLEAR_NODE(&request->node);
	stats->open--;
	if (!request->begun)
		goto out;
	if (!deadline_ns && request->objective_ns)
		deadline_ns = request->begin_ns + request->objective_ns;
	missed = deadline_ns && request->since_ns > deadline_ns;
	latency = request->since_ns - request->begin_ns;
	stats->ended++;
	stats->failed += request->error < 0;
	if (missed) {
		stats->missed++;
		atomic64_inc(&request->vgpu->stats.misses);
	}
	stats->latency[min(fls64(div_u64(latency, NSEC_PER_USEC)), DISTMIND_LATENCY_BUCKETS - 1)]++;
	for (i = 0; i < DISTMIND_REQUEST_PHASE__COUNT; i++)
		stats->spent_ns[i] += request->spent_ns[i];
	if (!request->error)
		policy_estimates_update(&requests->work, request->shape, 1, request->ran_ns);
	trace_distmind_request_end(request, latency, missed);
out:
	distmind_request_put(request);
}

/* Up to now it was in the furthest phase of any of its jobs. */
static void request_account(struct distmind_request *request, u64 now)
{
	int phase = DISTMIND_REQUEST_PHASE__COUNT - 1;

	if (now <= request->since_ns)
		return;
	while (phase && !request->in_phase[phase])
		phase--;
	request->spent_ns[phase] += now - request->since_ns;
	request->since_ns = now;
}

static bool is_over(const struct distmind_request *request)
{
	return !RB_EMPTY_NODE(&request->node) && request->last && !request->jobs &&
	       !request->joining;
}

/* It counts for @account. */
static struct distmind_request *request_create(struct distmind_vgpu *vgpu,
					       struct distmind_account *account, u64 client,
					       u64 id, u32 shape)
{
	struct distmind_request *request;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_REQUEST, 1);
	if (err)
		return ERR_PTR(err);
	request = kzalloc(sizeof(*request), GFP_KERNEL_ACCOUNT);
	if (!request) {
		distmind_account_uncharge(account, DISTMIND_LIMIT_REQUEST, 1);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&request->ref);
	distmind_account_get(account);
	request->account = account;
	request->vgpu = vgpu;
	request->client = client;
	request->id = id;
	request->shape = shape;
	RB_CLEAR_NODE(&request->node);
	distmind_ledger_created(DISTMIND_OBJECT_REQUEST);
	return request;
}

/*
 * The one of that number, or else @fresh, which is in the tree then, unless that is NULL.
 * It is joined, with a reference for who does.
 */
static struct distmind_request *join(struct distmind_requests *requests, u64 client, u64 id,
				     struct distmind_request *fresh)
{
	struct distmind_request *request;
	struct rb_node *parent, **place;

	spin_lock(&requests->lock);
	place = find_place(requests, client, id, &parent);
	request = rb_entry_safe(*place, struct distmind_request, node);
	if (!request && fresh) {
		request = fresh;
		distmind_request_get(request);
		rb_link_node(&request->node, parent, place);
		rb_insert_color(&request->node, &requests->tree);
		requests->stats.open++;
	}
	if (request && request->last) {
		request = ERR_PTR(-EBUSY);
	} else if (request) {
		distmind_request_get(request);
		request->joining++;
	}
	spin_unlock(&requests->lock);
	return request;
}

/*
 * A submission to the request that it names begins: the request does not end before
 * distmind_request_leave(). Returns a reference. -EBUSY: it has had its last submission.
 */
struct distmind_request *distmind_request_join(struct distmind_vgpu *vgpu,
					       struct distmind_account *account, u64 client,
					       const struct distmind_submit *submit, u32 shape)
{
	struct distmind_request *request, *fresh;

	/* One that is there takes more jobs, also of a user who has all that it may have. */
	request = join(&vgpu->requests, client, submit->request, NULL);
	if (request)
		return request;
	fresh = request_create(vgpu, account, client, submit->request, shape);
	if (IS_ERR(fresh))
		return fresh;
	request = join(&vgpu->requests, client, submit->request, fresh);
	distmind_request_put(fresh);
	return request;
}

/* The submission is over, well or not; by who holds the vgpu. */
void distmind_request_leave(struct distmind_request *request)
{
	struct distmind_requests *requests = requests_of(request);

	spin_lock(&requests->lock);
	request->joining--;
	if (is_over(request) ||
	    (!request->begun && !request->joining && !RB_EMPTY_NODE(&request->node)))
		request_finish(request);
	spin_unlock(&requests->lock);
	distmind_request_put(request);
}

/*
 * The queue has taken the jobs, and they are not advanced yet. Under a scheduler's lock.
 * -EBUSY: another submission was the last meanwhile. *@moved: it has another deadline than
 * before.
 */
int distmind_request_submitted(struct distmind_request *request,
			       const struct distmind_submit *submit, u32 gpu, u64 objective_ns,
			       u64 now, bool *moved)
{
	struct distmind_requests *requests = requests_of(request);
	int err = -EBUSY;

	spin_lock(&requests->lock);
	if (request->last)
		goto unlock;
	err = 0;
	*moved = request->begun && submit->deadline_ns &&
		 submit->deadline_ns != request->deadline_ns;
	request->gpu = gpu;
	if (!request->begun) {
		request->begun = true;
		request->begin_ns = now;
		request->since_ns = now;
		request->objective_ns = objective_ns;
		trace_distmind_request_begin(request);
	}
	request_account(request, now);
	if (submit->deadline_ns)
		request->deadline_ns = submit->deadline_ns;
	if (submit->left_ns) {
		request->left_ns = submit->left_ns;
		request->left_ran_ns = request->ran_ns;
	}
	request->jobs += submit->job_count;
	request->in_phase[DISTMIND_REQUEST_PHASE_ORDER] += submit->job_count;
	request->last = submit->flags & DISTMIND_SUBMIT_LAST;
unlock:
	spin_unlock(&requests->lock);
	return err;
}

/* Nothing more comes: it ends with its last job, or now. */
int distmind_request_close(struct distmind_vgpu *vgpu, u64 client, u64 id)
{
	struct distmind_requests *requests = &vgpu->requests;
	struct distmind_request *request;
	struct rb_node *parent;
	int err = 0;

	spin_lock(&requests->lock);
	request = rb_entry_safe(*find_place(requests, client, id, &parent),
				struct distmind_request, node);
	if (!request || !request->begun) {
		err = -ENOENT;
	} else {
		request->last = true;
		request_account(request, ktime_get_ns());
		if (is_over(request))
			request_finish(request);
	}
	spin_unlock(&requests->lock);
	return err;
}

/* The open file is gone, and its jobs are ending. */
void distmind_requests_close(struct distmind_vgpu *vgpu, u64 client)
{
	struct distmind_requests *requests = &vgpu->requests;
	struct distmind_request *request;
	struct rb_node *parent, *next;
	u64 id = 0;

	for (;;) {
		spin_lock(&requests->lock);
		next = *find_place(requests, client, id, &parent);
		/* If there is none of that number, what comes after it is behind its place. */
		if (!next && parent)
			next = request_compare(client, id, parent) < 0 ? parent : rb_next(parent);
		request = rb_entry_safe(next, struct distmind_request, node);
		if (!request || request->client != client) {
			spin_unlock(&requests->lock);
			return;
		}
		id = request->id;
		request->last = true;
		request_account(request, ktime_get_ns());
		if (is_over(request))
			request_finish(request);
		spin_unlock(&requests->lock);
		if (!++id)
			return;
		cond_resched();
	}
}

struct distmind_turn *distmind_turn_create(struct distmind_queue *queue)
{
	struct distmind_turn *turn = kzalloc(sizeof(*turn), GFP_KERNEL_ACCOUNT);

	if (!turn)
		return NULL;
	turn->queue = queue;
	RB_CLEAR_NODE(&turn->in_request);
	INIT_LIST_HEAD(&turn->others);
	return turn;
}

static struct distmind_turn *request_turn_at(struct rb_node *node)
{
	return rb_entry_safe(node, struct distmind_turn, in_request);
}

/*
 * The job's turn comes behind those of its request that are in the same queue. Returns
 * whether there is none. Under the scheduler's lock, as the next three.
 */
bool distmind_request_add_turn(struct distmind_job *job)
{
	struct distmind_request *request = job->request;
	struct rb_node **place = &request->turns.rb_node, *parent = NULL;
	struct distmind_turn *turn = job->turn, *first = NULL;

	spin_lock(&requests_of(request)->lock);
	while (*place) {
		parent = *place;
		first = request_turn_at(parent);
		if (first->queue == turn->queue)
			break;
		place = turn->queue < first->queue ? &parent->rb_left : &parent->rb_right;
		first = NULL;
	}
	if (first) {
		list_add_tail(&turn->others, &first->others);
	} else {
		rb_link_node(&turn->in_request, parent, place);
		rb_insert_color(&turn->in_request, &request->turns);
	}
	spin_unlock(&requests_of(request)->lock);
	return !first;
}

/* Under the lock of the request; what is not there, or not any more, is left alone. */
static struct distmind_turn *turn_leave(struct distmind_request *request,
					struct distmind_turn *turn)
{
	struct distmind_turn *next = NULL;

	if (!RB_EMPTY_NODE(&turn->in_request)) {
		if (list_empty(&turn->others)) {
			rb_erase(&turn->in_request, &request->turns);
		} else {
			next = list_next_entry(turn, others);
			rb_replace_node(&turn->in_request, &next->in_request, &request->turns);
		}
		RB_CLEAR_NODE(&turn->in_request);
	}
	list_del_init(&turn->others);
	return next;
}

/* The job's turn is over. Returns the one that is the first in its place, or NULL. */
struct distmind_turn *distmind_request_del_turn(struct distmind_job *job)
{
	struct distmind_request *request = job->request;
	struct distmind_turn *next;

	spin_lock(&requests_of(request)->lock);
	next = turn_leave(request, job->turn);
	spin_unlock(&requests_of(request)->lock);
	return next;
}

/*
 * The first turn in the next queue, by address, after @after, that is of this scheduler and
 * has not ended: it stays for as long as the caller has the scheduler's lock.
 */
struct distmind_turn *distmind_request_next_turn(struct distmind_request *request,
						 const struct distmind_sched *sched,
						 unsigned long after)
{
	struct distmind_turn *turn = NULL, *here;
	struct rb_node *node;

	spin_lock(&requests_of(request)->lock);
	node = request->turns.rb_node;
	while (node) {
		here = request_turn_at(node);
		if ((unsigned long)here->queue > after) {
			turn = here;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	while (turn && (&turn->queue->tenant->gpu->sched != sched || turn->queue->error))
		turn = request_turn_at(rb_next(&turn->in_request));
	spin_unlock(&requests_of(request)->lock);
	return turn;
}

/* When it should be done: as it was said, or by that objective. */
u64 distmind_request_deadline(struct distmind_request *request, u64 objective_ns)
{
	u64 deadline_ns;

	spin_lock(&requests_of(request)->lock);
	deadline_ns = request->deadline_ns;
	if (!deadline_ns)
		deadline_ns = request->begin_ns + min_t(u64, objective_ns, S64_MAX);
	spin_unlock(&requests_of(request)->lock);
	return deadline_ns;
}

/* What is left of it, as far as that is known: said, or learned from others like it. */
static u64 left_of(struct distmind_request *request, u64 expected_ns)
{
	u64 total = request->left_ns, had = request->ran_ns;

	if (total)
		had -= request->left_ran_ns;
	else
		total = policy_estimates_get(&requests_of(request)->work, request->shape, 1);
	if (!total)
		return expected_ns * min_t(u32, request->jobs, DISTMIND_SUBMIT_MAX);
	return total > had ? total - had : 0;
}

/* For the policies: the job's entity, which is idle, and whose @expected_ns is set. */
void distmind_request_describe(const struct distmind_job *job, struct policy_entity *entity)
{
	struct distmind_request *request = job->request;

	if (!request) {
		entity->request_ns = 0;
		entity->deadline_ns = 0;
		entity->left_ns = 0;
		return;
	}
	spin_lock(&requests_of(request)->lock);
	entity->request_ns = request->begin_ns;
	entity->deadline_ns = request->deadline_ns;
	entity->left_ns = left_of(request, entity->expected_ns);
	spin_unlock(&requests_of(request)->lock);
}

/* The job, which has not ended, has got into another phase. */
void distmind_request_enter(struct distmind_job *job, enum distmind_request_phase phase, u64 now)
{
	struct distmind_request *request = job->request;

	if (!request || job->phase == phase)
		return;
	spin_lock(&requests_of(request)->lock);
	request_account(request, now);
	request->in_phase[job->phase]--;
	request->in_phase[phase]++;
	job->phase = phase;
	spin_unlock(&requests_of(request)->lock);
}

/* The job has left a lane. */
void distmind_request_ran(struct distmind_job *job, u64 ran_ns)
{
	struct distmind_request *request = job->request;

	if (!request)
		return;
	spin_lock(&requests_of(request)->lock);
	request->ran_ns += ran_ns;
	spin_unlock(&requests_of(request)->lock);
}

/* Before it signals: who is told that the job is done finds its request counted. */
void distmind_request_job_ended(struct distmind_job *job, int error)
{
	struct distmind_request *request = job->request;

	if (!request)
		return;
	spin_lock(&requests_of(request)->lock);
	request_account(request, ktime_get_ns());
	request->in_phase[job->phase]--;
	request->jobs--;
	/* That of a queue that has ended is still there. */
	if (job->turn)
		turn_leave(request, job->turn);
	if (!request->error)
		request->error = error;
	if (is_over(request))
		request_finish(request);
	spin_unlock(&requests_of(request)->lock);
}
