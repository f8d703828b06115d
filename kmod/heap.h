/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_HEAP_H
#define _DISTMIND_HEAP_H

#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <uapi/linux/distmind.h>

struct distmind_buffer;

/**
 * struct distmind_heap - the memory of a gpu, as an address space of pages
 * @lock: guards @ranges, @used, @evictions and @closed, and orders the engine's page faults
 *	against the departure of a buffer
 * @ranges: the buffers that have a place, by where it is, and those that are going
 * @pages: size in pages
 * @used: pages that buffers cover
 * @evictions: how often a buffer was put out to make room
 * @closed: the engine has no business here any more
 * @use_lock: guards which buffers are in use, and what follows up to @node
 * @held: buffers with a place that must stay there: active or pinned; by where it is
 * @idle: the other ones with a place, of each kind: those that are going, and then the
 *	least recently used first
 * @changes: how often one that was held became idle, or one has gone
 * @pinned: buffers that importers have pinned, with a place or without
 * @pinned_count: length of @pinned
 * @pinned_pages: their pages
 * @node: NUMA node that pages come from
 * @inode: owns the address space in which the engine has the heap mapped
 */
struct distmind_heap {
	struct mutex lock; /* see above */
	struct rb_root ranges;
	unsigned long pages;
	unsigned long used;
	u64 evictions;
	bool closed;
	spinlock_t use_lock; /* see above */
	struct rb_root held;
	struct list_head idle[DISTMIND_BUFFER__COUNT];
	u64 changes;
	struct list_head pinned;
	u32 pinned_count;
	unsigned long pinned_pages;
	int node;
	struct inode *inode;
};

void distmind_heap_init(struct distmind_heap *heap, unsigned long pages, int node,
			struct inode *inode);
void distmind_heap_destroy(struct distmind_heap *heap);
void distmind_heap_close(struct distmind_heap *heap);

int distmind_heap_add(struct distmind_heap *heap, struct distmind_buffer *buffer);
void distmind_heap_del(struct distmind_heap *heap, struct distmind_buffer *buffer);
int distmind_heap_place(struct distmind_heap *heap, struct distmind_buffer *buffer);
void distmind_heap_place_at(struct distmind_heap *heap, struct distmind_buffer *buffer,
			    unsigned long start);
bool distmind_heap_evict(struct distmind_heap *heap, struct distmind_buffer *buffer);
bool distmind_heap_clear(struct distmind_heap *heap, unsigned long start, unsigned long count);
void distmind_heap_settle(struct distmind_heap *heap, struct distmind_buffer *buffer);

struct page **distmind_heap_alloc_pages(struct distmind_heap *heap, unsigned long count);
void distmind_heap_free_pages(struct page **pages, unsigned long count);

int distmind_heap_mmap(struct distmind_heap *heap, struct vm_area_struct *vma);
vm_fault_t distmind_heap_insert(struct vm_fault *vmf, struct page **pages, unsigned long count,
				unsigned long index);

u64 distmind_heap_bytes_used(struct distmind_heap *heap);

#endif /* _DISTMIND_HEAP_H */
