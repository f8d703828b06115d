/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_ROOM_H
#define _DISTMIND_ROOM_H

#include <linux/list.h>
#include <linux/types.h>
#include <uapi/linux/distmind.h>

#include "policy/policy.h"

/*
 * How long a job waits for room that others have, J being the longest time from asking a
 * lane to yield until it is free, as in policy.h:
 *
 *   jobs of lower rank have it      J, unless the policy is fifo, which asks nobody
 *   jobs of the same rank           DISTMIND_ROOM_PATIENCE_NS + J
 *   it is pinned, or a buffer of    the gpu's hang limit, then it fails with EBUSY
 *   the job is pinned elsewhere
 *   a job on the gpu that its vgpu  J of that gpu, or twice the hang limit, then it fails
 *   has left uses a buffer of it
 *   a job that hangs had it         until its engine answers, or eight times the hang
 *                                   limit, then it fails
 *
 * It is on no lane meanwhile. As policy.h says of lanes: a job that was asked for its room and
 * has not yielded after the gpu's grace period is no longer counted on, if others that are to
 * make way have enough, and these are asked. So with n jobs that ignore their request J is at
 * most n grace periods plus the J of the others.
 */
#define DISTMIND_ROOM_PATIENCE_NS	POLICY_WINDOW_NS

struct distmind_lane;
struct distmind_queue;
struct distmind_sched;

/*
 * The lists of a tenant in which its queues wait: those that have the place of another, by the
 * rank of that, highest first; those that have their own; and those that are stuck.
 */
#define DISTMIND_ROOM_OWN	POLICY_RANKS
#define DISTMIND_ROOM_STUCK	(DISTMIND_ROOM_OWN + 1)
#define DISTMIND_ROOM_LISTS	(DISTMIND_ROOM_STUCK + 1)

/**
 * struct distmind_room - that the first job of a queue waits for room
 * @in_tenant: in one of the tenant's lists, while it waits
 * @list: in which
 * @again_ns: when it is to try again, whether anything has changed or not
 * @stuck_ns: since when for what nobody can be asked for on this gpu, 0 if not
 * @cause: for whom it waits, or the last one waited that was failed
 * @ready: it has waited, and is to have a lane and try again
 * @foreign: that is another user's, who is not named to everybody
 */
struct distmind_room {
	struct list_head in_tenant;
	u32 list;
	u64 again_ns;
	u64 stuck_ns;
	struct distmind_queue_room cause;
	bool ready;
	bool foreign;
};

static inline bool distmind_room_is_waiting(const struct distmind_room *room)
{
	return !list_empty(&room->in_tenant);
}

void distmind_room_init(struct distmind_sched *sched);
void distmind_room_quiesce(struct distmind_sched *sched);
bool distmind_room_keeps(const struct distmind_sched *sched, const struct distmind_queue *queue);
void distmind_room_wait(struct distmind_sched *sched, struct distmind_queue *queue, bool tried,
			u64 now);
void distmind_room_postpone(struct distmind_sched *sched, u64 now);
void distmind_room_leave(struct distmind_sched *sched, struct distmind_queue *queue);
void distmind_room_place(struct distmind_sched *sched, struct distmind_queue *queue, u64 now);
bool distmind_room_allows(struct distmind_sched *sched, const struct distmind_lane *lane, u64 now);
void distmind_room_delivered(struct distmind_sched *sched, const struct distmind_lane *lane);
void distmind_room_changed(struct distmind_sched *sched);
void distmind_room_freed(struct distmind_sched *sched);
void distmind_room_advance(struct distmind_sched *sched, u64 now);
void distmind_room_kick_all(void);
void distmind_room_show(struct distmind_queue *queue, struct distmind_queue_room *room);
void distmind_room_exit(void);

#endif /* _DISTMIND_ROOM_H */
