/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_GPU_H
#define _DISTMIND_GPU_H

#include <linux/container_of.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/wait.h>
#include <uapi/linux/distmind.h>
#include <uapi/linux/distmind_netlink.h>

#include "heap.h"
#include "sched.h"
#include "table.h"

struct netlink_ext_ack;

/**
 * struct distmind_gpu - a physical GPU in the pool
 * @ref: see the top of gpu.c
 * @id: number
 * @name: unique among the gpus that are not lost
 * @kind: what kind of GPU
 * @box: chassis that it is in
 * @engine_pid: process that registered it
 * @state: enum distmind_gpu_state; under distmind_pool_lock
 * @removed: no longer in the table; under distmind_pool_lock
 * @vgpus: bound to it; under distmind_pool_lock
 * @vgpu_count: length of @vgpus; under distmind_pool_lock
 * @wait: where the engine sleeps; woken when the gpu is lost or removed
 * @heap: its memory
 * @sched: its lanes and who gets them
 */
struct distmind_gpu {
	struct kref ref;
	u32 id;
	char name[DISTMIND_NAME_LEN];
	char kind[DISTMIND_NAME_LEN];
	u32 box;
	pid_t engine_pid;
	u32 state;
	bool removed;
	struct list_head vgpus;
	u32 vgpu_count;
	wait_queue_head_t wait;
	struct distmind_heap heap;
	struct distmind_sched sched;
};

/* A gpu's scheduler is part of it. */
static inline struct distmind_gpu *distmind_gpu_of(struct distmind_sched *sched)
{
	return container_of(sched, struct distmind_gpu, sched);
}

extern struct mutex distmind_pool_lock;
extern struct distmind_table distmind_gpus;

/**
 * struct distmind_gpu_change - what to set of a gpu; what is NULL or 0 stays
 * @drain: 1 to drain it, 0 to take it back into use
 * @policy: who runs next
 * @grace_ns: see struct distmind_sched
 * @hang_ns: likewise
 */
struct distmind_gpu_change {
	const u32 *drain;
	const struct policy *policy;
	u64 grace_ns;
	u64 hang_ns;
};

struct distmind_gpu *distmind_gpu_register(struct distmind_engine_register *arg,
					   struct inode *inode);
void distmind_gpu_lose(struct distmind_gpu *gpu);
void distmind_gpu_tell(struct distmind_gpu *gpu);
int distmind_gpu_set(u32 id, const struct distmind_gpu_change *change,
		     struct netlink_ext_ack *extack);
int distmind_gpu_remove(u32 id, struct netlink_ext_ack *extack);
void distmind_gpu_get(struct distmind_gpu *gpu);
void distmind_gpu_put(struct distmind_gpu *gpu);

void distmind_gpu_exit(void);

#endif /* _DISTMIND_GPU_H */
