/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_INHERIT_H
#define _DISTMIND_INHERIT_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

struct distmind_job;
struct distmind_queue;
struct distmind_tenant;
struct distmind_timeline;

/* Queues that lend a helper their place, and that a submission finds. */
#define DISTMIND_LENDERS_MAX	16
/* Queues that have the place of one tenant: if it gets no lane, all of them are placed anew. */
#define DISTMIND_GUESTS_MAX	256

/**
 * struct distmind_place - where a queue stands among others
 * @tenant: as one of whose; the queue's own, or that of one that waits for it, which is
 *	there as long as it does
 * @deadline_ns: by when, of class latency; U64_MAX otherwise
 * @depth: how often it was lent on until it came here; 0 of the queue's own
 */
struct distmind_place {
	struct distmind_tenant *tenant;
	u64 deadline_ns;
	u32 depth;
};

/**
 * struct distmind_inherit - who waits for whom; part of a queue, under the scheduler's lock
 * @timeline: what its first job waits for, or NULL: nothing
 * @value: of that
 * @in_timeline: in @timeline's tree of queues
 * @urgency: of @place, as it is in that tree; under the timeline's lock too
 * @most_urgent: the most of any below it there; under the timeline's lock too
 * @helper: the queue with the job that this one's first job waits for, or NULL
 * @job: number of that job
 * @in_helper: in @lenders of @helper
 * @lenders: queues that wait for a job of this one
 * @lender_count: how many, at most DISTMIND_LENDERS_MAX
 * @crowded: there may be others who would lend, and were too many
 * @in_guests: in the list of the tenant whose place it has, if that is not its own
 * @own: its own place, since it last waited or was ready
 * @place: the best of @own and those of @lenders
 * @deadline_ns: what the entity's is without lenders
 * @since_ns: when its first job began to wait, or was ready
 */
struct distmind_inherit {
	struct distmind_timeline *timeline;
	u64 value;
	struct rb_node in_timeline;
	u64 urgency;
	u64 most_urgent;
	struct distmind_queue *helper;
	u64 job;
	struct list_head in_helper;
	struct list_head lenders;
	u32 lender_count;
	bool crowded;
	struct list_head in_guests;
	struct distmind_place own;
	struct distmind_place place;
	u64 deadline_ns;
	u64 since_ns;
};

/**
 * struct distmind_inherit_found - queues that wait for what is being submitted
 * @queues: each held; for each job the most urgent one
 * @urgencies: of each
 * @count: how many
 */
struct distmind_inherit_found {
	struct distmind_queue *queues[DISTMIND_LENDERS_MAX];
	u64 urgencies[DISTMIND_LENDERS_MAX];
	u32 count;
};

void distmind_inherit_init(struct distmind_queue *queue);
void distmind_inherit_attach(struct distmind_queue *queue, struct list_head *jobs,
			     struct distmind_inherit_found *found);
void distmind_inherit_submitted(struct distmind_queue *queue, struct distmind_inherit_found *found,
				u64 now);
void distmind_inherit_refused(struct distmind_queue *queue, struct list_head *jobs);
void distmind_inherit_put(struct distmind_inherit_found *found);
void distmind_inherit_detach(struct distmind_job *job);

void distmind_inherit_waits(struct distmind_queue *queue, struct distmind_job *job, u64 now);
void distmind_inherit_ready(struct distmind_queue *queue);
void distmind_inherit_renew(struct distmind_queue *queue, u64 now);
void distmind_inherit_hurry(struct distmind_queue *queue, u64 now);
void distmind_inherit_stops(struct distmind_queue *queue, u64 now);
void distmind_inherit_job_ends(struct distmind_job *job, u64 now);
void distmind_inherit_drop(struct distmind_queue *queue, u64 now);
void distmind_inherit_place_guests(struct distmind_tenant *tenant, u64 now);

#endif /* _DISTMIND_INHERIT_H */
