/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_VGPU_H
#define _DISTMIND_VGPU_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <uapi/linux/distmind.h>
#include <uapi/linux/distmind_netlink.h>

#include "gpu.h"
#include "request.h"
#include "table.h"

struct distmind_account;
struct distmind_client;
struct distmind_tenant;
struct netlink_ext_ack;

/**
 * struct distmind_vgpu_settings - what a tenant is promised
 * @memory: quota in bytes
 * @objective_ns: latency objective, 0 for none
 * @share: of the gpu, in thousandths
 * @class: enum distmind_class
 * @capped: @share is a limit, also of an idle gpu
 */
struct distmind_vgpu_settings {
	u64 memory;
	u64 objective_ns;
	u32 share;
	u32 class;
	bool capped;
};

/**
 * struct distmind_vgpu_stats - what happened to its jobs so far
 * @jobs: that have ended
 * @failed: of these, with an error
 * @busy_ns: lane time that they used, by what has left its lane
 * @wait_ns: time that they were ready and not on a lane, by what has got one
 * @preemptions: how often one was asked to yield
 * @misses: requests that ended after their deadline, and jobs of no request that took
 *	longer than the objective
 * @queued: jobs that have not ended
 * @running: of these, on a lane
 *
 * Changed under the lock of whichever gpu's scheduler it concerns.
 */
struct distmind_vgpu_stats {
	atomic64_t jobs;
	atomic64_t failed;
	atomic64_t busy_ns;
	atomic64_t wait_ns;
	atomic64_t preemptions;
	atomic64_t misses;
	atomic64_t queued;
	atomic64_t running;
};

/**
 * struct distmind_vgpu_owner - whose it is
 * @name: label, may be empty
 * @lease: enum distmind_vgpu_lease: what ends it
 * @uid: owner of the node
 * @gid: group of the node
 * @pid: process that acquired it, or 0
 */
struct distmind_vgpu_owner {
	char name[DISTMIND_NAME_LEN];
	u32 lease;
	kuid_t uid;
	kgid_t gid;
	pid_t pid;
};

/**
 * struct distmind_vgpu - what a tenant sees
 * @dev: its device; counts the references, see the top of vgpu.c
 * @cdev: its node
 * @id: the N of vgpuN
 * @owner: whose it is, never changes
 * @account: of its user, or NULL: an operator has made it; held
 * @counted: it is one of the user's vgpus: what the claim was charged for that is its own
 * @on_gpu: in @gpu->vgpus; under distmind_pool_lock
 * @gpu: what backs it, or NULL; changed under distmind_pool_lock and @lock
 * @lock: guards what follows; a spinlock, so that nobody allocates memory under it
 * @dead: its lease has ended
 * @settings: promises
 * @used: bytes that are charged to it: its buffers, and others that it pays for
 * @buffer_count: how many these are
 * @clients: open files
 * @client_count: length of @clients
 * @stats: what happened to its jobs
 * @requests: what these belong to; has a lock of its own
 * @tenant: what its gpu's scheduler knows of it, or NULL before its first queue
 */
struct distmind_vgpu {
	struct device dev;
	struct cdev cdev;
	u32 id;
	struct distmind_vgpu_owner owner;
	struct distmind_account *account;
	bool counted;
	struct list_head on_gpu;
	struct distmind_gpu *gpu;
	spinlock_t lock; /* see above */
	bool dead;
	struct distmind_vgpu_settings settings;
	u64 used;
	u32 buffer_count;
	struct list_head clients;
	u32 client_count;
	struct distmind_vgpu_stats stats;
	struct distmind_requests requests;
	struct distmind_tenant *tenant;
};

extern struct distmind_table distmind_vgpus;

int distmind_vgpu_check_settings(const struct distmind_vgpu_settings *settings,
				 const char **problem);
struct distmind_vgpu *distmind_vgpu_create(const struct distmind_vgpu_owner *owner,
					   const struct distmind_vgpu_settings *settings, u32 gpu,
					   struct distmind_account *account,
					   struct netlink_ext_ack *extack);
void distmind_vgpu_change(struct distmind_vgpu *vgpu,
			  const struct distmind_vgpu_settings *settings);
void distmind_vgpu_kill(struct distmind_vgpu *vgpu);
void distmind_vgpu_bind(struct distmind_vgpu *vgpu, struct distmind_gpu *gpu,
			struct list_head *ended);
struct distmind_gpu *distmind_vgpu_bindable_gpu(u32 id, struct netlink_ext_ack *extack);
struct distmind_vgpu *distmind_vgpu_find(u32 id);
struct distmind_gpu *distmind_vgpu_get_gpu(struct distmind_vgpu *vgpu);
struct distmind_tenant *distmind_vgpu_get_tenant(struct distmind_vgpu *vgpu);
u32 distmind_vgpu_state(const struct distmind_vgpu *vgpu);

int distmind_vgpu_charge(struct distmind_vgpu *vgpu, u64 bytes);
void distmind_vgpu_uncharge(struct distmind_vgpu *vgpu, u64 bytes);

static inline void distmind_vgpu_get(struct distmind_vgpu *vgpu)
{
	get_device(&vgpu->dev);
}

static inline void distmind_vgpu_put(struct distmind_vgpu *vgpu)
{
	put_device(&vgpu->dev);
}

void distmind_vgpu_exit(void);

#endif /* _DISTMIND_VGPU_H */
