/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_QUEUE_H
#define _DISTMIND_QUEUE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <uapi/linux/distmind.h>

#include "policy/policy.h"
#include "timeline.h"

struct distmind_buffer;
struct distmind_gpu;
struct eventfd_ctx;
struct pid;
struct vm_area_struct;
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
 * @error: 0, or why all its queues have ended
 */
struct distmind_tenant {
	struct kref ref;
	struct distmind_gpu *gpu;
	struct distmind_vgpu *vgpu;
	struct policy_tenant policy[DISTMIND_LANE__COUNT];
	struct list_head in_sched;
	struct list_head queues;
	int error;
};

/**
 * struct distmind_job_wait - what a job waits for
 * @timeline: held
 * @value: which must be reached
 */
struct distmind_job_wait {
	struct distmind_timeline *timeline;
	u64 value;
};

/**
 * struct distmind_job - one piece of work
 * @link: in its queue, or in a list of jobs that have ended
 * @queue: held
 * @id: what engines know it by
 * @type: enum distmind_job_type
 * @operation: of a launch
 * @blocks: how many
 * @cookie: where to go on
 * @ready_ns: when it had nothing left to wait for
 * @since_ns: since when it is ready and not on a lane
 * @ran_ns: for how long it has run so far
 * @admitted: its buffers are active, see residency.c
 * @error: with what it ended; JOB_DROPPED: with what its queue ended
 * @suspended: a grant whose work the vendor's hook has stopped; whoever lets it
 *	go on or ends it must have the hook resume it
 * @pid: of a grant, the process that submitted it; held
 * @signal: what it signals, or NULL; held
 * @signal_value: to which value
 * @wait_count: length of @waits, as far as they are used
 * @waited: how many of these are reached
 * @arg_count: length of @args and @buffers
 * @read_only: bit i: the range in argument i must not be written
 * @args: as engines see them, but for ranges: those are offsets into their buffers
 * @buffers: that the arguments are in, or NULL; each held
 * @waits: what must be reached before it is ready
 */
struct distmind_job {
	struct list_head link;
	struct distmind_queue *queue;
	u64 id;
	u32 type;
	u32 operation;
	u32 blocks;
	u64 cookie;
	u64 ready_ns;
	u64 since_ns;
	u64 ran_ns;
	int error;
	bool admitted;
	bool suspended;
	struct pid *pid;
	struct distmind_timeline *signal;
	u64 signal_value;
	u32 wait_count;
	u32 waited;
	u32 arg_count;
	u32 read_only;
	struct distmind_engine_arg *args;
	struct distmind_buffer **buffers;
	struct distmind_job_wait *waits;
};

/**
 * struct distmind_queue - an ordered stream of jobs
 * @ref: held by its handle, by its jobs, and while its waiter is being called
 * @tenant: whose; held
 * @kind: which lanes run it
 * @depth: how many jobs it may have
 * @count: how many it has
 * @jobs: in order; the first one may be running
 * @entity: stands for the first job in the policies
 * @waiter: waits for what the first job waits for
 * @waiting: @waiter is armed or about to be called
 * @running: the first job is on a lane
 * @paused: its jobs were not advanced as far as they could be: whoever ends the ones
 *	before goes on
 * @in_tenant: in the tenant's list
 * @error: 0, or why it has ended
 * @page: what its owner sees, or NULL: nobody watches
 * @eventfd: whom to tell, or NULL
 * @grant: number of the grant that has a lane, or that is suspended; 0 for none
 * @grants: the last such number
 */
struct distmind_queue {
	struct kref ref;
	struct distmind_tenant *tenant;
	u32 kind;
	u32 depth;
	u32 count;
	struct list_head jobs;
	struct policy_entity entity;
	struct distmind_timeline_waiter waiter;
	bool waiting;
	bool running;
	bool paused;
	struct list_head in_tenant;
	int error;
	struct distmind_queue_page *page;
	struct eventfd_ctx *eventfd;
	u64 grant;
	u64 grants;
};

struct distmind_tenant *distmind_tenant_create(struct distmind_gpu *gpu,
					       struct distmind_vgpu *vgpu);
void distmind_tenant_end(struct distmind_tenant *tenant, int error, struct list_head *ended);
void distmind_tenant_put(struct distmind_tenant *tenant);

struct distmind_queue *distmind_queue_create(struct distmind_tenant *tenant, u32 kind, u32 depth);
void distmind_queue_end(struct distmind_queue *queue, int error);
void distmind_queue_get(struct distmind_queue *queue);
void distmind_queue_put(struct distmind_queue *queue);
int distmind_queue_submit(struct distmind_queue *queue, struct list_head *jobs, u32 count);
void distmind_queue_advance(struct distmind_queue *queue, u64 now, struct list_head *ended);
int distmind_queue_watch(struct distmind_queue *queue, int eventfd);
int distmind_queue_mmap(struct distmind_queue *queue, struct vm_area_struct *vma);
void distmind_queue_drop_jobs(struct distmind_queue *queue, int error, struct list_head *ended);

struct distmind_job *distmind_job_alloc(u32 args, u32 waits);
void distmind_job_free(struct distmind_job *job);
void distmind_job_end(struct distmind_job *job, int error, struct list_head *ended);
void distmind_job_end_all(struct list_head *ended);

#endif /* _DISTMIND_QUEUE_H */
