/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_TIMELINE_H
#define _DISTMIND_TIMELINE_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <uapi/linux/distmind.h>

#include "account.h"

struct distmind_timeline;

/**
 * struct distmind_timeline_waiter - somebody to call when a value is reached
 * @node: in the timeline's tree; empty while it is not armed
 * @value: which value
 * @timeline: which timeline it is armed on
 * @hold: called under the timeline's lock just before the waiter is taken out
 *	of the tree: keeps whatever @reached needs alive; may be NULL
 * @reached: called without a lock, once; does a bounded amount of work, and takes what
 *	exceeds that of a queue from *budget; what ends by it goes to @ended. If that is NULL
 *	it is at somebody else's expense, and does as little as it can
 */
struct distmind_timeline_waiter {
	struct rb_node node;
	u64 value;
	struct distmind_timeline *timeline;
	void (*hold)(struct distmind_timeline_waiter *waiter);
	void (*reached)(struct distmind_timeline_waiter *waiter, u32 *budget,
			struct list_head *ended);
};

/**
 * struct distmind_timeline - a monotonic counter
 * @ref: held by handles, files, jobs that name it
 * @writers: who may still signal it: handles, files and jobs
 * @account: who has made it; held
 * @chore: calls the waiters that a signaller had no budget for
 * @id: tells this timeline from others, for traces
 * @vgpu: whose client has made it, by number, for traces; it may be gone
 * @lock: guards everything below; nests inside a gpu's scheduler lock
 * @page: what user space maps: the value and the failure
 * @waiters: by value
 * @signallers: jobs that will signal it, by value, see inherit.c
 * @queues: that are in @waiters, by gpu and value, see inherit.c
 * @told_ns: when a process has last signalled it, or it was made
 */
struct distmind_timeline {
	struct kref ref;
	atomic_t writers;
	struct distmind_account *account;
	struct distmind_chore chore;
	u64 id;
	u32 vgpu;
	spinlock_t lock; /* see above */
	struct distmind_timeline_page *page;
	struct rb_root_cached waiters;
	struct rb_root_cached signallers;
	struct rb_root queues;
	u64 told_ns;
};

struct distmind_timeline *distmind_timeline_create(struct distmind_account *account, u64 value,
						   u32 vgpu);
void distmind_timeline_get(struct distmind_timeline *timeline);
void distmind_timeline_put(struct distmind_timeline *timeline);

void distmind_timeline_writer_get(struct distmind_timeline *timeline);
void distmind_timeline_writer_put(struct distmind_timeline *timeline);
void distmind_timeline_writer_end(struct distmind_timeline *timeline, u32 *budget,
				  struct list_head *ended);

int distmind_timeline_signal(struct distmind_timeline *timeline, u64 value, int error,
			     u32 *budget, struct list_head *ended);
int distmind_timeline_status(struct distmind_timeline *timeline, u64 value);
int distmind_timeline_arm(struct distmind_timeline *timeline,
			  struct distmind_timeline_waiter *waiter, u64 value);
bool distmind_timeline_disarm(struct distmind_timeline_waiter *waiter);

int distmind_timeline_export(struct distmind_account *account, struct distmind_timeline *timeline,
			     u32 flags);
struct distmind_timeline *distmind_timeline_import(int fd, bool *writable);

#endif /* _DISTMIND_TIMELINE_H */
