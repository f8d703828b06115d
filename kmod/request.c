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
 * requests->lock guards everything here. It is a leaf: it is taken inside a scheduler's
 * lock, and nothing is taken inside it. A request can have jobs on two gpus, before and
 * after its vgpu has moved, so the time is not that of one scheduler and may seem to go
 * back.
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

#include "job.h"
#include "ledger.h"
#include "queue.h"
#include "request.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

/* Requests of a vgpu that have not ended. */
#define REQUESTS_MAX 4096

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
	kfree(container_of(ref, struct distmind_request, ref));
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

static int compare(u64 client, u64 id, const struct rb_node *node)
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
		order = compare(client, id, *place);
		if (!order)
			break;
		*parent = *place;
		place = order < 0 ? &(*parent)->rb_left : &(*parent)->rb_right;
	}
	return place;
}

/* It has ended: it is counted, and leaves the tree, which may have held it last. */
static void request_end(struct distmind_request *request)
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

/*
 * A submission to the request that it names begins: the request does not end before
 * distmind_request_leave(). Returns a reference. -EBUSY: it has had its last submission.
 */
struct distmind_request *distmind_request_join(struct distmind_vgpu *vgpu, u64 client,
					       const struct distmind_submit *submit, u32 shape)
{
	struct distmind_requests *requests = &vgpu->requests;
	struct distmind_request *request, *fresh;
	struct rb_node *parent, **place;

	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return ERR_PTR(-ENOMEM);
	kref_init(&fresh->ref);
	fresh->vgpu = vgpu;
	fresh->client = client;
	fresh->id = submit->request;
	fresh->shape = shape;

	spin_lock(&requests->lock);
	place = find_place(requests, client, submit->request, &parent);
	request = rb_entry_safe(*place, struct distmind_request, node);
	if (!request && requests->stats.open >= REQUESTS_MAX) {
		request = ERR_PTR(-EMFILE);
	} else if (!request) {
		swap(request, fresh);
		rb_link_node(&request->node, parent, place);
		rb_insert_color(&request->node, &requests->tree);
		requests->stats.open++;
		distmind_ledger_created(DISTMIND_OBJECT_REQUEST);
	} else if (request->last) {
		request = ERR_PTR(-EBUSY);
	}
	if (!IS_ERR(request)) {
		distmind_request_get(request);
		request->joining++;
	}
	spin_unlock(&requests->lock);
	kfree(fresh);
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
		request_end(request);
	spin_unlock(&requests->lock);
	distmind_request_put(request);
}

/*
 * The queue has taken the jobs, and they are not advanced yet. Under a scheduler's lock.
 * -EBUSY: another submission was the last meanwhile.
 */
int distmind_request_submitted(struct distmind_request *request,
			       const struct distmind_submit *submit, u32 gpu, u64 objective_ns,
			       u64 now)
{
	struct distmind_requests *requests = requests_of(request);
	int err = -EBUSY;

	spin_lock(&requests->lock);
	if (request->last)
		goto unlock;
	err = 0;
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
			request_end(request);
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
			next = compare(client, id, parent) < 0 ? parent : rb_next(parent);
		request = rb_entry_safe(next, struct distmind_request, node);
		if (!request || request->client != client) {
			spin_unlock(&requests->lock);
			return;
		}
		id = request->id;
		request->last = true;
		request_account(request, ktime_get_ns());
		if (is_over(request))
			request_end(request);
		spin_unlock(&requests->lock);
		if (!++id)
			return;
		cond_resched();
	}
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
	if (!request->error)
		request->error = error;
	if (is_over(request))
		request_end(request);
	spin_unlock(&requests_of(request)->lock);
}
