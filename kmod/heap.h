/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_HEAP_H
#define _DISTMIND_HEAP_H

#include <linux/fs.h>
#include <linux/maple_tree.h>
#include <linux/mutex.h>

struct distmind_buffer;

/**
 * struct distmind_heap - the memory of a gpu, as an address space of pages
 * @lock: guards @ranges, @used and @evictions, and orders the engine's page faults
 *	against the departure of a buffer
 * @ranges: page offset to the buffer that covers it
 * @pages: size in pages
 * @used: pages that buffers cover
 * @evictions: how often a buffer was put out to make room
 * @node: NUMA node that pages come from
 * @inode: owns the address space in which the engine has the heap mapped
 */
struct distmind_heap {
	struct mutex lock; /* see above */
	struct maple_tree ranges;
	unsigned long pages;
	unsigned long used;
	u64 evictions;
	int node;
	struct inode *inode;
};

void distmind_heap_init(struct distmind_heap *heap, unsigned long pages, int node,
			struct inode *inode);
void distmind_heap_destroy(struct distmind_heap *heap);

int distmind_heap_add(struct distmind_heap *heap, struct distmind_buffer *buffer);
void distmind_heap_del(struct distmind_heap *heap, struct distmind_buffer *buffer);
int distmind_heap_place(struct distmind_heap *heap, struct distmind_buffer *buffer);
void distmind_heap_withdraw(struct distmind_heap *heap, struct distmind_buffer *buffer);

struct page **distmind_heap_alloc_pages(struct distmind_heap *heap, unsigned long count);
void distmind_heap_free_pages(struct page **pages, unsigned long count);

int distmind_heap_mmap(struct distmind_heap *heap, struct vm_area_struct *vma);
vm_fault_t distmind_heap_insert(struct vm_fault *vmf, struct page **pages, unsigned long count,
				unsigned long index);

u64 distmind_heap_bytes_used(struct distmind_heap *heap);

#endif /* _DISTMIND_HEAP_H */
