// SPDX-License-Identifier: GPL-2.0-only
/*
 * A heap is an address space, not a stock of memory. A buffer takes a
 * contiguous range of it and brings pages of its own, fresh from the page
 * allocator: zero, and charged to the memory cgroup of whoever creates the
 * buffer. When the buffer goes, the range can be used again at once with other
 * pages, while a page that an RDMA device still has pinned stays allocated
 * until the pin is gone, and only then returns to the page allocator. So no
 * page is ever handed out again that somebody can still write to.
 *
 * The engine maps the whole address space once. Its page tables are filled by
 * faults and emptied when a buffer leaves its range. heap->lock orders the two: a
 * fault finds the buffer and inserts its pages under the lock, and a departure
 * frees the range and zaps the mapping of it under the lock: whoever gets the range
 * next must not meet page table entries of the one before. The lock nests inside
 * mmap_lock and outside of the mapping's own, and is never held around user access.
 *
 * A heap is part of its gpu and lives as long; each buffer holds its gpu.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "buffer.h"
#include "compat.h"
#include "heap.h"

/* Pages are allocated in runs of up to 2 MiB and then split. */
#define RUN_ORDER	9
/* A fault fills in at most as much as one page table holds. */
#define FAULT_PAGES	(PMD_SIZE >> PAGE_SHIFT)

void distmind_heap_init(struct distmind_heap *heap, unsigned long pages, int node,
			struct inode *inode)
{
	mutex_init(&heap->lock);
	mt_init_flags(&heap->ranges, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN);
	mt_set_external_lock(&heap->ranges, &heap->lock);
	heap->pages = pages;
	heap->used = 0;
	heap->node = node;
	ihold(inode);
	heap->inode = inode;
}

void distmind_heap_destroy(struct distmind_heap *heap)
{
	mutex_lock(&heap->lock);
	__mt_destroy(&heap->ranges);
	mutex_unlock(&heap->lock);
	iput(heap->inode);
}

/* -ENOSPC: there is no contiguous range of that size. Under the lock. */
int distmind_heap_place(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	MA_STATE(mas, &heap->ranges, 0, 0);
	int err = -EBUSY;

	lockdep_assert_held(&heap->lock);
	if (buffer->count <= heap->pages)
		err = mas_empty_area(&mas, 0, heap->pages - 1, buffer->count);
	if (!err) {
		buffer->start = mas.index;
		mas_set_range(&mas, buffer->start, buffer->start + buffer->count - 1);
		err = mas_store_gfp(&mas, buffer, GFP_KERNEL);
	}
	if (err)
		return err == -EBUSY ? -ENOSPC : err;
	heap->used += buffer->count;
	/* Whoever sees it resident sees where. */
	smp_store_release(&buffer->resident, true);
	return 0;
}

/* Under the lock; the caller has seen to it that nobody uses it. */
void distmind_heap_withdraw(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	MA_STATE(mas, &heap->ranges, buffer->start, buffer->start + buffer->count - 1);

	lockdep_assert_held(&heap->lock);
	WRITE_ONCE(buffer->resident, false);
	mas_erase(&mas);
	heap->used -= buffer->count;
	unmap_mapping_range(heap->inode->i_mapping, (loff_t)buffer->start << PAGE_SHIFT,
			    (loff_t)buffer->count << PAGE_SHIFT, 1);
}

/* If there is no room it stays outside until a job needs it. */
int distmind_heap_add(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	int err;

	if (mutex_lock_killable(&heap->lock))
		return -EINTR;
	err = distmind_heap_place(heap, buffer);
	mutex_unlock(&heap->lock);
	return err == -ENOSPC ? 0 : err;
}

void distmind_heap_del(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	mutex_lock(&heap->lock);
	if (buffer->resident)
		distmind_heap_withdraw(heap, buffer);
	mutex_unlock(&heap->lock);
}

u64 distmind_heap_bytes_used(struct distmind_heap *heap)
{
	return (u64)READ_ONCE(heap->used) << PAGE_SHIFT;
}

static struct page *alloc_run(int node, unsigned int order)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN;

	/*
	 * Long runs are a bonus, not worth any effort. For single pages try
	 * hard, but do not have anyone killed: the caller can be told.
	 */
	gfp |= order ? __GFP_NORETRY : __GFP_RETRY_MAYFAIL;
	return alloc_pages_node(node, gfp, order);
}

/*
 * Each page has its own reference count, whatever run it came from, so that a
 * pinned page keeps nothing but itself.
 */
struct page **distmind_heap_alloc_pages(struct distmind_heap *heap, unsigned long count)
{
	unsigned int order = RUN_ORDER;
	unsigned long done = 0;
	struct page **pages;
	struct page *run;
	int err;

	pages = kvmalloc_array(count, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pages)
		return ERR_PTR(-ENOMEM);
	while (done < count) {
		unsigned long i;

		err = -EINTR;
		if (fatal_signal_pending(current))
			goto err_free;
		cond_resched();
		while (order && count - done < 1UL << order)
			order--;
		run = alloc_run(heap->node, order);
		if (!run) {
			err = -ENOMEM;
			if (!order)
				goto err_free;
			order--;
			continue;
		}
		if (order)
			split_page(run, order);
		for (i = 0; i < 1UL << order; i++)
			pages[done++] = run + i;
	}
	return pages;

err_free:
	distmind_heap_free_pages(pages, done);
	return ERR_PTR(err);
}

void distmind_heap_free_pages(struct page **pages, unsigned long count)
{
	unsigned long i;

	for (i = 0; i < count; i++) {
		put_page(pages[i]);
		if (i % 1024 == 1023)
			cond_resched();
	}
	kvfree(pages);
}

/* Under the lock of the page table. */
static int mark_dirty(pte_t *entry, unsigned long address, void *mm)
{
	pte_t old = ptep_get(entry);

	if (pte_present(old) && pte_write(old))
		set_pte_at(mm, address, entry, pte_mkdirty(old));
	return 0;
}

/*
 * Pages from @address on. Who writes to one page goes on to the next, and these pages
 * are never written back. Where dirty bits are kept by software, as in User-Mode
 * Linux, each first write would be a fault although the page is there.
 */
static int insert(struct vm_fault *vmf, unsigned long address, struct page **pages,
		  unsigned long count)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	unsigned long left = count;
	int err;

	err = vm_insert_pages(vmf->vma, address, pages, &left);
	if (!err && vmf->flags & FAULT_FLAG_WRITE)
		err = apply_to_page_range(mm, address, count << PAGE_SHIFT, mark_dirty, mm);
	return err;
}

/*
 * Answer a fault on page @index of @count: fill in the page table around it. A
 * neighbour that is there already stops the first try; the second begins at
 * the page that is wanted. -EBUSY then means that another thread was faster.
 */
vm_fault_t distmind_heap_insert(struct vm_fault *vmf, struct page **pages, unsigned long count,
				unsigned long index)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long address = vmf->address & PAGE_MASK;
	unsigned long before, after;
	int err;

	before = (vmf->address & ~PMD_MASK) >> PAGE_SHIFT;
	before = min3(before, index, (vmf->address - vma->vm_start) >> PAGE_SHIFT);
	after = FAULT_PAGES - ((vmf->address & ~PMD_MASK) >> PAGE_SHIFT);
	after = min3(after, count - index, (vma->vm_end - vmf->address) >> PAGE_SHIFT);

	err = insert(vmf, address - (before << PAGE_SHIFT), pages + index - before,
		     before + after);
	if (err == -EBUSY && before)
		err = insert(vmf, address, pages + index, after);
	if (err == -ENOMEM)
		return VM_FAULT_OOM;
	return err && err != -EBUSY ? VM_FAULT_SIGBUS : VM_FAULT_NOPAGE;
}

static vm_fault_t heap_fault(struct vm_fault *vmf)
{
	struct distmind_heap *heap = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	struct distmind_buffer *buffer;

	MA_STATE(mas, &heap->ranges, vmf->pgoff, vmf->pgoff);

	if (mutex_lock_killable(&heap->lock))
		return VM_FAULT_NOPAGE;
	buffer = mas_walk(&mas);
	if (buffer)
		ret = distmind_heap_insert(vmf, buffer->pages, buffer->count,
					   vmf->pgoff - buffer->start);
	mutex_unlock(&heap->lock);
	return ret;
}

static const struct vm_operations_struct heap_vm_ops = {
	.fault = heap_fault,
};

/* The mapping's file holds the gpu, and so the heap. */
int distmind_heap_mmap(struct distmind_heap *heap, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_pgoff > heap->pages || vma_pages(vma) > heap->pages - vma->vm_pgoff)
		return -EINVAL;
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = heap;
	vma->vm_ops = &heap_vm_ops;
	return 0;
}
