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
 * next must not meet page table entries of the one before. A buffer that goes for good
 * is zapped without the lock, while it still covers its range, by a thread of its tenant that
 * may have little of the processor: who needs the range meanwhile puts it out like others.
 * The lock nests inside mmap_lock and outside of the mapping's own, and is never held around
 * user access.
 * When the gpu is lost or removed the heap is closed in the same way, as a whole and for
 * good: the engine's next access is a SIGBUS, while those who have buffers keep them.
 *
 * Ranges are a tree whose nodes are in the buffers, each of which knows how much is
 * free before it. So neither coming nor going allocates anything, and neither can
 * fail for lack of memory; a place is found in O(log n) of the buffers.
 *
 * heap->use_lock is a spinlock inside heap->lock and inside the scheduler's lock. It
 * guards who uses a buffer and, from that, whether it is held or idle. buffer->resident
 * changes under both locks and may be read under either.
 *
 * A heap is part of its gpu and lives as long; each buffer holds its gpu.
 */
#include <linux/mm.h>
#include <linux/rbtree_augmented.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>

#include "buffer.h"
#include "compat.h"
#include "heap.h"

/*
 * Pages are allocated in runs of up to 64 KiB and then split. They are cleared as they are
 * allocated, a run at a time without a chance for others to have the processor.
 */
#define RUN_ORDER	4
/* A fault fills in at most as much as one page table holds. */
#define FAULT_PAGES	(PMD_SIZE >> PAGE_SHIFT)
/* Of a buffer that goes, how much is unmapped before it is looked whether others have done it. */
#define UNMAP_PAGES	(SZ_16M >> PAGE_SHIFT)

static unsigned long end_of(const struct distmind_buffer *buffer)
{
	return buffer->start + buffer->count;
}

static unsigned long gap_of(const struct distmind_buffer *buffer)
{
	return buffer->gap;
}

RB_DECLARE_CALLBACKS_MAX(static, gaps, struct distmind_buffer, in_ranges, unsigned long,
			 largest_gap, gap_of);

static struct distmind_buffer *range_entry(const struct rb_node *node)
{
	return rb_entry_safe(node, struct distmind_buffer, in_ranges);
}

void distmind_heap_init(struct distmind_heap *heap, unsigned long pages, int node,
			struct inode *inode)
{
	int kind;

	mutex_init(&heap->lock);
	spin_lock_init(&heap->use_lock);
	heap->ranges = RB_ROOT;
	heap->held = RB_ROOT;
	for (kind = 0; kind < DISTMIND_BUFFER__COUNT; kind++)
		INIT_LIST_HEAD(&heap->idle[kind]);
	INIT_LIST_HEAD(&heap->pinned);
	heap->pages = pages;
	heap->used = 0;
	heap->closed = false;
	heap->node = node;
	ihold(inode);
	heap->inode = inode;
}

void distmind_heap_destroy(struct distmind_heap *heap)
{
	WARN_ON(!RB_EMPTY_ROOT(&heap->ranges) || heap->pinned_count);
	iput(heap->inode);
}

/* From now on the engine reaches no buffer here, whatever it still does. */
void distmind_heap_close(struct distmind_heap *heap)
{
	mutex_lock(&heap->lock);
	if (!heap->closed) {
		heap->closed = true;
		unmap_mapping_range(heap->inode->i_mapping, 0, (loff_t)heap->pages << PAGE_SHIFT,
				    1);
	}
	mutex_unlock(&heap->lock);
}

static void range_insert(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	struct rb_node **link = &heap->ranges.rb_node, *parent = NULL;
	struct distmind_buffer *before = NULL, *after = NULL;

	while (*link) {
		struct distmind_buffer *other = range_entry(*link);

		parent = *link;
		if (buffer->start < other->start) {
			after = other;
			link = &parent->rb_left;
		} else {
			before = other;
			link = &parent->rb_right;
		}
	}
	buffer->gap = buffer->start - (before ? end_of(before) : 0);
	buffer->largest_gap = buffer->gap;
	rb_link_node(&buffer->in_ranges, parent, link);
	gaps.propagate(parent, NULL);
	rb_insert_augmented(&buffer->in_ranges, &heap->ranges, &gaps);
	if (after) {
		after->gap = after->start - end_of(buffer);
		gaps.propagate(&after->in_ranges, NULL);
	}
}

static void range_erase(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	struct distmind_buffer *before = range_entry(rb_prev(&buffer->in_ranges));
	struct distmind_buffer *after = range_entry(rb_next(&buffer->in_ranges));

	rb_erase_augmented(&buffer->in_ranges, &heap->ranges, &gaps);
	if (after) {
		after->gap = after->start - (before ? end_of(before) : 0);
		gaps.propagate(&after->in_ranges, NULL);
	}
}

/* The first range of so many pages that no buffer covers. */
static bool find_gap(const struct distmind_heap *heap, unsigned long count, unsigned long *start)
{
	const struct distmind_buffer *buffer = range_entry(heap->ranges.rb_node);
	const struct distmind_buffer *left;

	if (!buffer || buffer->largest_gap < count) {
		buffer = range_entry(rb_last(&heap->ranges));
		*start = buffer ? end_of(buffer) : 0;
		return heap->pages - *start >= count;
	}
	/* Below each that is looked at there is one: on the left, itself, or on the right. */
	for (;;) {
		left = range_entry(buffer->in_ranges.rb_left);
		if (left && left->largest_gap >= count) {
			buffer = left;
			continue;
		}
		if (buffer->gap >= count)
			break;
		buffer = range_entry(buffer->in_ranges.rb_right);
	}
	*start = buffer->start - buffer->gap;
	return true;
}

/* The buffer that covers a page, or the first one after it. */
static struct distmind_buffer *range_from(const struct distmind_heap *heap, unsigned long page)
{
	struct rb_node *node = heap->ranges.rb_node;
	struct distmind_buffer *found = NULL;

	while (node) {
		struct distmind_buffer *buffer = range_entry(node);

		if (end_of(buffer) > page) {
			found = buffer;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

static bool held_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct distmind_buffer, in_held)->start <
	       rb_entry(b, struct distmind_buffer, in_held)->start;
}

/* After its place or its users have changed; under use_lock. */
void distmind_heap_settle(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	enum distmind_buffer_use use = DISTMIND_BUFFER_OUT;

	lockdep_assert_held(&heap->use_lock);
	if (buffer->resident)
		use = buffer->active || buffer->pins ? DISTMIND_BUFFER_HELD : DISTMIND_BUFFER_IDLE;
	if (use == buffer->use)
		return;
	if (buffer->use == DISTMIND_BUFFER_HELD)
		rb_erase(&buffer->in_held, &heap->held);
	else if (buffer->use == DISTMIND_BUFFER_IDLE)
		list_del(&buffer->in_idle);
	buffer->use = use;
	if (use == DISTMIND_BUFFER_HELD)
		rb_add(&buffer->in_held, &heap->held, held_less);
	else if (use == DISTMIND_BUFFER_IDLE)
		list_add_tail(&buffer->in_idle, &heap->idle[buffer->kind]);
}

/* Under the lock; nobody covers the range. */
void distmind_heap_place_at(struct distmind_heap *heap, struct distmind_buffer *buffer,
			    unsigned long start)
{
	lockdep_assert_held(&heap->lock);
	buffer->start = start;
	range_insert(heap, buffer);
	heap->used += buffer->count;
	spin_lock(&heap->use_lock);
	/* Whoever sees it resident sees where. */
	smp_store_release(&buffer->resident, true);
	distmind_heap_settle(heap, buffer);
	spin_unlock(&heap->use_lock);
}

/* -ENOSPC: there is no contiguous range of that size. Under the lock. */
int distmind_heap_place(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	unsigned long start;

	lockdep_assert_held(&heap->lock);
	if (!find_gap(heap, buffer->count, &start))
		return -ENOSPC;
	distmind_heap_place_at(heap, buffer, start);
	return 0;
}

/* Without the engine's mapping of it; false if somebody uses it. */
static bool buffer_take_out(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	bool idle;

	spin_lock(&heap->use_lock);
	idle = buffer->use == DISTMIND_BUFFER_IDLE;
	if (idle) {
		WRITE_ONCE(buffer->resident, false);
		distmind_heap_settle(heap, buffer);
	}
	spin_unlock(&heap->use_lock);
	if (!idle)
		return false;
	range_erase(heap, buffer);
	heap->used -= buffer->count;
	return true;
}

/* The same, to make room for others. */
static bool buffer_put_out(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	bool out = buffer_take_out(heap, buffer);

	/* One that goes would not have stayed. */
	heap->evictions += out && !buffer->going;
	return out;
}

static void unmap_range(struct distmind_heap *heap, unsigned long start, unsigned long count)
{
	unmap_mapping_range(heap->inode->i_mapping, (loff_t)start << PAGE_SHIFT,
			    (loff_t)count << PAGE_SHIFT, 1);
}

/* Put a resident buffer out; returns false if it is in use. Under the lock. */
bool distmind_heap_evict(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	lockdep_assert_held(&heap->lock);
	if (!buffer_put_out(heap, buffer))
		return false;
	unmap_range(heap, buffer->start, buffer->count);
	return true;
}

/* Put out whatever is in a range; returns false if one of these is in use. Under the lock. */
bool distmind_heap_clear(struct distmind_heap *heap, unsigned long start, unsigned long count)
{
	struct distmind_buffer *buffer = range_from(heap, start), *next;
	unsigned long from = start, end = start + count;
	bool clear = true;

	lockdep_assert_held(&heap->lock);
	for (; clear && buffer && buffer->start < end; buffer = next) {
		next = range_entry(rb_next(&buffer->in_ranges));
		clear = buffer_put_out(heap, buffer);
		if (clear) {
			from = min(from, buffer->start);
			end = max(end, end_of(buffer));
		}
		cond_resched();
	}
	/* As one: it costs much the same for one buffer as for thousands. */
	unmap_range(heap, from, end - from);
	return clear;
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

/* Whoever needs a range finds it before others. */
static void set_going(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	lockdep_assert_held(&heap->lock);
	spin_lock(&heap->use_lock);
	buffer->going = true;
	if (!WARN_ON(buffer->use != DISTMIND_BUFFER_IDLE))
		list_move(&buffer->in_idle, &heap->idle[buffer->kind]);
	spin_unlock(&heap->use_lock);
}

/*
 * The buffer goes for good. Emptying the engine's page tables takes time by its size, and is
 * done without the lock: until then it has its range, idle, and is not found there by faults.
 * If it is put out meanwhile, the last of this may hit who has the range next: that is but a
 * few more faults. Who wanted the range is to look again, which is the caller's to see to.
 */
void distmind_heap_del(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	unsigned long done;
	bool there;

	mutex_lock(&heap->lock);
	there = buffer->resident;
	if (there)
		set_going(heap, buffer);
	mutex_unlock(&heap->lock);
	if (!there)
		return;
	for (done = 0; done < buffer->count && READ_ONCE(buffer->resident); done += UNMAP_PAGES)
		unmap_range(heap, buffer->start + done,
			    min_t(unsigned long, buffer->count - done, UNMAP_PAGES));
	/* Also until who has put it out is done with its page tables. */
	mutex_lock(&heap->lock);
	if (buffer->resident)
		buffer_take_out(heap, buffer);
	spin_lock(&heap->use_lock);
	heap->changes++;
	spin_unlock(&heap->use_lock);
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
static int insert_run(struct vm_fault *vmf, unsigned long address, struct page **pages,
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

	err = insert_run(vmf, address - (before << PAGE_SHIFT), pages + index - before,
			 before + after);
	if (err == -EBUSY && before)
		err = insert_run(vmf, address, pages + index, after);
	if (err == -ENOMEM)
		return VM_FAULT_OOM;
	return err && err != -EBUSY ? VM_FAULT_SIGBUS : VM_FAULT_NOPAGE;
}

static vm_fault_t heap_fault(struct vm_fault *vmf)
{
	struct distmind_heap *heap = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	struct distmind_buffer *buffer;

	if (mutex_lock_killable(&heap->lock))
		return VM_FAULT_NOPAGE;
	buffer = heap->closed ? NULL : range_from(heap, vmf->pgoff);
	if (buffer && buffer->start <= vmf->pgoff && !buffer->going)
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
