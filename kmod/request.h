/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_REQUEST_H
#define _DISTMIND_REQUEST_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <uapi/linux/distmind.h>
#include <uapi/linux/distmind_netlink.h>

#include "policy/policy.h"

struct distmind_account;
struct distmind_job;
struct distmind_queue;
struct distmind_sched;
struct distmind_vgpu;

#define DISTMIND_LATENCY_BUCKETS	24
#define DISTMIND_REQUEST_PHASE__COUNT	(DISTMIND_REQUEST_PHASE_MAX + 1)

/**
 * struct distmind_request_stats - what happened to requests so far
 * @ended: how many have ended
 * @failed: of these, with a job that failed
 * @missed: of these, after their deadline
 * @open: how many have not ended
 * @latency: from the first submission to the end: bucket i counts those below 2^i
 *	microseconds that are not in an earlier one
 * @spent_ns: where the time of those that have ended went, by enum
 *	distmind_request_phase; together their latencies
 */
struct distmind_request_stats {
	u64 ended;
	u64 failed;
	u64 missed;
	u32 open;
	u64 latency[DISTMIND_LATENCY_BUCKETS];
	u64 spent_ns[DISTMIND_REQUEST_PHASE__COUNT];
};

/**
 * struct distmind_requests - the requests of a vgpu
 * @lock: guards these and what follows; see the top of request.c for what nests in it
 * @tree: those that have not ended, by client and number
 * @stats: of all
 * @work: how much lane time requests of a shape take
 */
struct distmind_requests {
	spinlock_t lock; /* see above */
	struct rb_root tree;
	struct distmind_request_stats stats;
	struct policy_estimates work;
};

/**
 * struct distmind_request - what an application wants done by a deadline
 * @ref: held while it is in the tree, by its jobs, and during a submission
 * @node: in the tree of its vgpu
 * @account: for whom it counts; held
 * @vgpu: whose; used only while it is in the tree, or by who holds the vgpu
 * @client: number of the open file that began it
 * @id: what that file calls it
 * @gpu: number of the gpu that its last submission went to, for traces
 * @shape: what tells requests from others of which it can be learned
 * @begun: something was submitted
 * @last: nothing more will be
 * @joining: submissions that are under way
 * @turns: the first turn of it in each queue that it has jobs in, by queue
 * @jobs: that have not ended
 * @error: the first that a job of it ended with, or 0
 * @begin_ns: when the first was submitted
 * @deadline_ns: when it should be done; 0: the objective of the vgpu after @begin_ns
 * @objective_ns: that objective, when it began
 * @left_ns: lane time that the application said was left, 0: it did not say
 * @left_ran_ns: @ran_ns when it said so
 * @ran_ns: lane time that it had so far
 * @in_phase: how many of its jobs are in which phase
 * @spent_ns: how long it was in which phase
 * @since_ns: up to when @spent_ns was counted
 */
struct distmind_request {
	struct kref ref;
	struct rb_node node;
	struct distmind_account *account;
	struct distmind_vgpu *vgpu;
	u64 client;
	u64 id;
	u32 gpu;
	u32 shape;
	bool begun;
	bool last;
	u32 joining;
	struct rb_root turns;
	u32 jobs;
	int error;
	u64 begin_ns;
	u64 deadline_ns;
	u64 objective_ns;
	u64 left_ns;
	u64 left_ran_ns;
	u64 ran_ns;
	u32 in_phase[DISTMIND_REQUEST_PHASE__COUNT];
	u64 spent_ns[DISTMIND_REQUEST_PHASE__COUNT];
	u64 since_ns;
};

/**
 * struct distmind_turn - what was submitted of a request to a queue at once
 * @policy: its place in the line of the queue; under the scheduler's lock
 * @queue: which; the job that has the turn holds it
 * @in_request: of the first in its queue: in the request's tree; else empty
 * @others: of the same request and queue, in order, in a circle without a head
 *
 * The last two are under the lock of the request.
 */
struct distmind_turn {
	struct policy_turn policy;
	struct distmind_queue *queue;
	struct rb_node in_request;
	struct list_head others;
};

void distmind_requests_init(struct distmind_requests *requests);
void distmind_requests_get_stats(struct distmind_requests *requests,
				 struct distmind_request_stats *stats);
void distmind_requests_close(struct distmind_vgpu *vgpu, u64 client);

struct distmind_request *distmind_request_join(struct distmind_vgpu *vgpu,
					       struct distmind_account *account, u64 client,
					       const struct distmind_submit *submit, u32 shape);
void distmind_request_leave(struct distmind_request *request);
int distmind_request_submitted(struct distmind_request *request,
			       const struct distmind_submit *submit, u32 gpu, u64 objective_ns,
			       u64 now, bool *moved);
int distmind_request_close(struct distmind_vgpu *vgpu, u64 client, u64 id);
void distmind_request_get(struct distmind_request *request);
void distmind_request_put(struct distmind_request *request);

struct distmind_turn *distmind_turn_create(struct distmind_queue *queue);
bool distmind_request_add_turn(struct distmind_job *job);
struct distmind_turn *distmind_request_del_turn(struct distmind_job *job);
struct distmind_turn *distmind_request_next_turn(struct distmind_request *request,
						 const struct distmind_sched *sched,
						 unsigned long after);
u64 distmind_request_deadline(struct distmind_request *request, u64 objective_ns);

void distmind_request_describe(const struct distmind_job *job, struct policy_entity *entity);
void distmind_request_enter(struct distmind_job *job, enum distmind_request_phase phase, u64 now);
void distmind_request_ran(struct distmind_job *job, u64 ran_ns);
void distmind_request_job_ended(struct distmind_job *job, int error);

#endif /* _DISTMIND_REQUEST_H */
