/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_BUFFER_H
#define _DISTMIND_BUFFER_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <uapi/linux/distmind.h>

#include "account.h"
#include "table.h"

struct distmind_extents;
struct distmind_gpu;
struct distmind_payment;
struct distmind_vgpu;

#define DISTMIND_BUFFER_MAX_SHIFT	40
#define DISTMIND_BUFFER_MAX		BIT_ULL(DISTMIND_BUFFER_MAX_SHIFT)

#define DISTMIND_PINNER_LEN		32

/* Whether a buffer has a place in the heap, and whether it must stay there. */
enum distmind_buffer_use {
	DISTMIND_BUFFER_OUT,
	DISTMIND_BUFFER_IDLE,
	DISTMIND_BUFFER_HELD,
};

/**
 * struct distmind_buffer - memory of a vgpu
 * @ref: see the top of buffer.c
 * @id: number
 * @kind: enum distmind_buffer_kind
 * @account: for whom it counts; held
 * @chore: frees it, if a job, or who only looked at it, was the last that held it
 * @vgpu: whose quota it is charged to; held
 * @gpu: whose heap it is for; held; see the top of residency.c for who changes it
 * @gpu_id: number of that gpu, for those who only show it
 * @resident: it has a place in the heap; under the heap's lock and its use_lock
 * @start: first page in the heap, if it has a place there
 * @count: how many pages
 * @pages: the pages
 * @in_ranges: in the heap's tree of ranges, if it has a place there
 * @gap: free pages before it there
 * @largest_gap: the largest such gap of the tree below it
 * @use: what it is in; this and the next eight are under the heap's use_lock
 * @in_held: if it is held: in the heap's tree of those
 * @in_idle: if it is idle: in the heap's list of those
 * @active: jobs on lanes that use it, once for each argument
 * @leaving: of these, those that are supposed to leave, while somebody looks for room
 * @going: it is about to give up its place for good; set under the heap's lock, too
 * @wanted: its vgpu has gone to another gpu and has a job that needs it there
 * @pins: how often dma-buf importers have pinned it
 * @in_pinned: in the heap's list of pinned ones, if it is
 * @pinner: the device that pinned it last; under use_lock
 * @pinner_pid: the process that had it do so
 * @mappings: of its dma-bufs by devices; under @mappings_lock
 * @mappings_lock: see dmabuf.c
 * @exports: how many dma-bufs of it there are
 * @payments: by vgpus that are not its own; under @payments_lock
 * @payments_lock: see payment.c
 * @extents: how it is being filled, or NULL; see extent.c
 * @rcu: dumps read the table of buffers without a lock
 */
struct distmind_buffer {
	struct kref ref;
	u32 id;
	u32 kind;
	struct distmind_account *account;
	struct distmind_chore chore;
	struct distmind_vgpu *vgpu;
	struct distmind_gpu *gpu;
	u32 gpu_id;
	bool resident;
	unsigned long start;
	unsigned long count;
	struct page **pages;
	struct rb_node in_ranges;
	unsigned long gap;
	unsigned long largest_gap;
	enum distmind_buffer_use use;
	union {
		struct rb_node in_held;
		struct list_head in_idle;
	};
	u32 active;
	u32 leaving;
	bool going;
	bool wanted;
	u32 pins;
	struct list_head in_pinned;
	char pinner[DISTMIND_PINNER_LEN];
	pid_t pinner_pid;
	struct list_head mappings;
	struct mutex mappings_lock; /* see above */
	atomic_t exports;
	struct list_head payments;
	spinlock_t payments_lock; /* see above */
	struct distmind_extents *extents;
	struct rcu_head rcu;
};

extern struct distmind_table distmind_buffers;

struct distmind_buffer *distmind_buffer_create(struct distmind_vgpu *vgpu,
					       struct distmind_account *account, u64 size,
					       u32 kind);
struct distmind_buffer *distmind_buffer_from(unsigned long *id);
void distmind_buffer_get(struct distmind_buffer *buffer);
void distmind_buffer_put(struct distmind_buffer *buffer);
void distmind_buffer_put_later(struct distmind_buffer *buffer);
int distmind_buffer_mmap(struct distmind_buffer *buffer, struct distmind_payment *payment,
			 struct vm_area_struct *vma);

/* Where in the heap it is; DISTMIND_OFFSET_NONE: nowhere at the moment. */
static inline u64 distmind_buffer_offset(const struct distmind_buffer *buffer)
{
	return READ_ONCE(buffer->resident) ? (u64)READ_ONCE(buffer->start) << PAGE_SHIFT :
					     DISTMIND_OFFSET_NONE;
}

static inline u64 distmind_buffer_size(const struct distmind_buffer *buffer)
{
	return (u64)buffer->count << PAGE_SHIFT;
}

#endif /* _DISTMIND_BUFFER_H */
