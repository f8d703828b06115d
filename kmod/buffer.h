/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_BUFFER_H
#define _DISTMIND_BUFFER_H

#include <linux/kref.h>
#include <linux/mm_types.h>
#include <linux/rcupdate.h>
#include <uapi/linux/distmind.h>

#include "table.h"

struct distmind_extents;
struct distmind_gpu;
struct distmind_vgpu;

#define DISTMIND_BUFFER_MAX_SHIFT	40
#define DISTMIND_BUFFER_MAX		BIT_ULL(DISTMIND_BUFFER_MAX_SHIFT)

/**
 * struct distmind_buffer - memory of a vgpu
 * @ref: see the top of buffer.c
 * @id: number
 * @kind: enum distmind_buffer_kind
 * @vgpu: whose quota it is charged to; held
 * @gpu: whose heap it is for; held; see the top of residency.c for who changes it
 * @gpu_id: number of that gpu, for those who only show it
 * @resident: it has a place in the heap; under the heap's lock
 * @start: first page in the heap, if it has a place there
 * @count: how many pages
 * @pages: the pages
 * @active: jobs on lanes that use it, once for each argument
 * @used_ns: when one last did
 * @pins: how often dma-buf importers have pinned it
 * @exports: how many dma-bufs of it there are
 * @extents: how it is being filled, or NULL; see extent.c
 * @rcu: dumps read the table of buffers without a lock
 */
struct distmind_buffer {
	struct kref ref;
	u32 id;
	u32 kind;
	struct distmind_vgpu *vgpu;
	struct distmind_gpu *gpu;
	u32 gpu_id;
	bool resident;
	unsigned long start;
	unsigned long count;
	struct page **pages;
	atomic_t active;
	u64 used_ns;
	atomic_t pins;
	atomic_t exports;
	struct distmind_extents *extents;
	struct rcu_head rcu;
};

extern struct distmind_table distmind_buffers;

struct distmind_buffer *distmind_buffer_create(struct distmind_vgpu *vgpu, u64 size, u32 kind);
struct distmind_buffer *distmind_buffer_from(unsigned long *id);
void distmind_buffer_get(struct distmind_buffer *buffer);
void distmind_buffer_put(struct distmind_buffer *buffer);
int distmind_buffer_mmap(struct distmind_buffer *buffer, struct vm_area_struct *vma);

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
