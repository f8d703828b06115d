/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_SCHED_H
#define _DISTMIND_SCHED_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <uapi/linux/distmind.h>

#include "debt.h"
#include "lane.h"
#include "policy/policy.h"
#include "request.h"

struct distmind_account;
struct distmind_job;
struct distmind_queue;
struct distmind_tenant;
struct distmind_vgpu_settings;

/**
 * struct distmind_sched_stats - what happened on a gpu so far
 * @jobs: that have ended
 * @failed: of these, with an error
 * @busy_ns: lane time that was used, of each kind, by what has left its lane
 * @preemptions: how often a job was asked to yield
 * @evictions: how often the vendor's hook took one off the device
 * @hangs: how often one did not within the limit
 * @lanes_out: lanes that have failed and are not back, at the moment
 * @latency: of preemptions, from being asked to having yielded: bucket i
 *	counts those below 2^i microseconds that are not in an earlier one
 */
struct distmind_sched_stats {
	u64 jobs;
	u64 failed;
	u64 busy_ns[DISTMIND_LANE__COUNT];
	u64 preemptions;
	u64 evictions;
	u64 hangs;
	u32 lanes_out;
	u64 latency[DISTMIND_LATENCY_BUCKETS];
};

/**
 * struct distmind_keeper - a user who has kept a lane that it had been lent
 * @account: who; held, so that it is still the same when it comes back; or NULL
 * @kept_ns: when it was given up last
 */
struct distmind_keeper {
	struct distmind_account *account;
	u64 kept_ns;
};

/* So many are remembered. */
#define DISTMIND_KEEPERS_MAX 16

/* Until somebody sets them. */
#define DISTMIND_GRACE_NS	(100ULL * NSEC_PER_MSEC)
#define DISTMIND_HANG_NS	(10ULL * NSEC_PER_SEC)

/**
 * struct distmind_sched - who runs next on a gpu
 * @lock: guards everything here, and tenants, queues and jobs; taken inside a
 *	vgpu's lock, and a timeline's lock is taken inside it
 * @error: 0, or why nothing runs any more
 * @policy: arbitration, for each kind of lane
 * @lane_count: how many lanes
 * @lanes_of: how many of each kind
 * @lanes: first those that compute, then those that copy
 * @tenants: whose jobs these are
 * @capabilities: DISTMIND_ENGINE_*; never changes
 * @grace_ns: how long after it was asked to yield a job is left to itself, and others
 *	count on its lane
 * @hang_ns: how long after it was asked to yield a job may stay on its lane
 * @keepers: who is given less time than that, see ladder.c
 * @lanes_out: lanes on which nothing can run: they have failed, or have no thread yet
 * @barred: tenants that get no lane because of one that is out, see sched.c
 * @kept: tenants that get none until their queues have been sent to wait for room
 * @spent: tenants of the latency class whose place is not lent for what is better off without,
 *	because they have used more than their share; those first that were seen so first
 * @debts: what users have had too much whose tenants have gone, see debt.c
 * @stats: what happened
 * @told_out: lanes that had failed when those who watch the gpu were last told
 * @room_tenants: tenants with queues that wait for room in the heap, see room.c
 * @room_tenant_count: how many these are
 * @room_claim: the queue that is to have room next, or NULL
 * @room_claim_until: when its claim ends, if it waits for a lane and not for room
 * @room_rounds: of each rank, how often all of it were tried for the claim
 * @room_is_new: somebody has stopped to use a buffer since that was looked at
 * @room_due_ns: when waiting for room is to be looked at, 0 for never
 * @room_rest_ns: it is not looked at before, see ROOM_REST
 * @room_work: looks at it
 * @timer: wakes @work when something is due by itself
 * @work: what is due
 */
struct distmind_sched {
	spinlock_t lock; /* see above */
	int error;
	struct policy_sched policy[DISTMIND_LANE__COUNT];
	u32 lane_count;
	u32 lanes_of[DISTMIND_LANE__COUNT];
	struct distmind_lane lanes[DISTMIND_LANES_MAX];
	struct list_head tenants;
	u32 capabilities;
	u64 grace_ns;
	u64 hang_ns;
	struct distmind_keeper keepers[DISTMIND_KEEPERS_MAX];
	u32 lanes_out;
	struct list_head barred;
	struct list_head kept;
	struct list_head spent;
	struct distmind_debt debts[DISTMIND_DEBTS_MAX];
	struct distmind_sched_stats stats;
	u32 told_out;
	struct list_head room_tenants;
	u32 room_tenant_count;
	struct distmind_queue *room_claim;
	u64 room_claim_until;
	u64 room_rounds[POLICY_RANKS];
	bool room_is_new;
	u64 room_due_ns;
	u64 room_rest_ns;
	struct work_struct room_work;
	struct hrtimer timer;
	struct work_struct work;
};

int distmind_sched_init(struct distmind_sched *sched, u32 compute, u32 copy, u32 capabilities);
void distmind_sched_destroy(struct distmind_sched *sched);
void distmind_sched_end(struct distmind_sched *sched, int error, struct list_head *ended);
void distmind_sched_reclaim(struct distmind_sched *sched);
void distmind_sched_quiesce(struct distmind_sched *sched);

int distmind_sched_add(struct distmind_sched *sched, struct distmind_tenant *tenant,
		       const struct distmind_vgpu_settings *settings);
void distmind_sched_del(struct distmind_sched *sched, struct distmind_tenant *tenant);
void distmind_sched_retire(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now);
void distmind_sched_change(struct distmind_sched *sched, struct distmind_tenant *tenant,
			   const struct distmind_vgpu_settings *settings);

void distmind_sched_get_stats(struct distmind_sched *sched, struct distmind_sched_stats *stats);
void distmind_sched_configure(struct distmind_sched *sched, const struct policy *policy,
			      u64 grace_ns, u64 hang_ns);
bool distmind_sched_is_out(const struct distmind_sched *sched, const struct distmind_queue *queue);
void distmind_sched_unbar(struct distmind_sched *sched, struct list_head *tenants, u64 now);
void distmind_sched_dispatch(struct distmind_sched *sched, u64 now);
void distmind_sched_ask(struct distmind_sched *sched, struct distmind_job *job);
u64 distmind_sched_busy_ns(struct distmind_sched *sched, const struct distmind_tenant *tenant);

#endif /* _DISTMIND_SCHED_H */
