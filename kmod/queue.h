/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_QUEUE_H
#define _DISTMIND_QUEUE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <uapi/linux/distmind.h>

#include "account.h"
#include "inherit.h"
#include "policy/policy.h"
#include "room.h"
#include "timeline.h"

struct distmind_queue_board;
struct distmind_queue_page;
struct distmind_request;
struct distmind_tenant;
struct eventfd_ctx;
struct vm_area_struct;

/**
 * struct distmind_queue - an ordered stream of jobs
 * @ref: held by its handle, by its jobs, and while its waiter is being called
 * @tenant: whose; held
 * @kind: which lanes run it
 * @depth: how many jobs it may have
 * @count: how many it has
 * @board: has its page, and counts for the account; held
 * @account: who pays for what it causes; held by @board
 * @jobs: in order; the first one may be running
 * @ended: jobs that have ended and are still to be signalled, in order
 * @settling: it is in a list of queues that have such, or its chore is: whoever has it
 *	there ends them, and advances it if it is paused
 * @in_ended: in such a list
 * @settle: does it later
 * @entity: stands for the first job in the policies
 * @line: the requests that its jobs belong to; nothing is added or taken out after @error
 * @inherit: whom it lends its place to by waiting, and whose it has
 * @waiter: waits for what the first job waits for
 * @waiting: @waiter is armed or about to be called, or @go_on is to run
 * @go_on: what it waited for is there, at the expense of who submits to it
 * @running: the first job is on a lane
 * @room: the first job waits for room in the heap, see room.c
 * @paused: its jobs were not advanced as far as they could be
 * @in_tenant: in the tenant's list
 * @error: 0, or why it has ended
 * @page: what its owner sees, or NULL: nobody watches
 * @eventfd: whom to tell, or NULL; changed under @eventfd_lock too
 * @eventfd_lock: held while it is told
 * @tell: tells it
 * @tells: how often
 * @grant: number of the grant that has a lane, or that is suspended; 0 for none
 * @grants: the last such number
 */
struct distmind_queue {
	struct kref ref;
	struct distmind_tenant *tenant;
	u32 kind;
	u32 depth;
	u32 count;
	struct distmind_queue_board *board;
	struct distmind_account *account;
	struct list_head jobs;
	struct list_head ended;
	bool settling;
	struct list_head in_ended;
	struct distmind_chore settle;
	struct policy_entity entity;
	struct policy_line line;
	struct distmind_inherit inherit;
	struct distmind_timeline_waiter waiter;
	bool waiting;
	struct distmind_chore go_on;
	bool running;
	struct distmind_room room;
	bool paused;
	struct list_head in_tenant;
	int error;
	struct distmind_queue_page *page;
	struct eventfd_ctx *eventfd;
	struct mutex eventfd_lock; /* see above */
	struct distmind_chore tell;
	atomic_t tells;
	u64 grant;
	u64 grants;
};

struct distmind_queue *distmind_queue_create(struct distmind_tenant *tenant,
					     struct distmind_account *account, u32 kind,
					     u32 depth);
void distmind_queue_end(struct distmind_queue *queue, int error);
void distmind_queue_get(struct distmind_queue *queue);
void distmind_queue_put(struct distmind_queue *queue);
int distmind_queue_submit(struct distmind_queue *queue, struct list_head *jobs,
			  const struct distmind_submit *submit, struct distmind_request *request);
void distmind_queue_settle_later(struct distmind_queue *queue, struct list_head *ended);
struct distmind_job *distmind_queue_take_ended(struct distmind_queue *queue, u32 *budget);
void distmind_queue_leave_line(struct distmind_queue *queue, struct distmind_job *job);
void distmind_queue_tell(struct distmind_queue *queue);
void distmind_queue_advance(struct distmind_queue *queue, u64 now, struct list_head *ended);
int distmind_queue_watch(struct distmind_queue *queue, int eventfd);
int distmind_queue_mmap(struct distmind_queue *queue, struct vm_area_struct *vma);
void distmind_queue_drop_jobs(struct distmind_queue *queue, int error, struct list_head *ended);

#endif /* _DISTMIND_QUEUE_H */
