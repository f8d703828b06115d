/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_TENANT_H
#define _DISTMIND_TENANT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <uapi/linux/distmind.h>

#include "account.h"
#include "policy/policy.h"
#include "room.h"

struct distmind_gpu;
struct distmind_queue;
struct distmind_vgpu;

/**
 * struct distmind_tenant - a vgpu, as the scheduler of its gpu sees it
 * @ref: held by the vgpu while it is bound, and by each queue
 * @gpu: whose scheduler; held
 * @vgpu: whose; held
 * @policy: what the policies know of it, for each kind of lane
 * @in_sched: in the scheduler's list
 * @queues: its queues
 * @ending: those of them that are still to be ended, after @error
 * @end: ends some of these
 * @room_queues: of these, those that wait for room in the heap, see room.h
 * @in_room: in the scheduler's list of tenants that have such
 * @room_next: of these, where the next look at them begins, or NULL for the first
 * @room_due_ns: when the first of those that were looked at since that was NULL is to be looked
 *	at again, 0: none is
 * @room_ready: queues that have waited and are to try again
 * @room_round: of its rank, in which it was last tried for the claim in vain
 * @guests: queues of others that have its place, see inherit.c
 * @guest_count: how many, at most DISTMIND_GUESTS_MAX
 * @in_barred: in one of the scheduler's lists of those that get no lane, or empty
 * @in_spent: in the scheduler's list of those that have used more than their share, or empty
 * @spent_ns: when that was last seen to be so
 * @error: 0, or why all its queues have ended, or are about to
 */
struct distmind_tenant {
	struct kref ref;
	struct distmind_gpu *gpu;
	struct distmind_vgpu *vgpu;
	struct policy_tenant policy[DISTMIND_LANE__COUNT];
	struct list_head in_sched;
	struct list_head queues;
	struct list_head ending;
	struct distmind_chore end;
	struct list_head room_queues[DISTMIND_ROOM_LISTS];
	struct list_head in_room;
	struct distmind_queue *room_next;
	u64 room_due_ns;
	u32 room_ready;
	u64 room_round;
	struct list_head guests;
	u32 guest_count;
	struct list_head in_barred;
	struct list_head in_spent;
	u64 spent_ns;
	int error;
};

struct distmind_tenant *distmind_tenant_create(struct distmind_gpu *gpu,
					       struct distmind_vgpu *vgpu);
void distmind_tenant_end(struct distmind_tenant *tenant, int error, struct list_head *ended);
void distmind_tenant_put(struct distmind_tenant *tenant);

#endif /* _DISTMIND_TENANT_H */
