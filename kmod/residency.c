// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: which buffers have a place in their gpu's heap. There may be more
 * buffers than the heap has room for, as long as each fits alone. A buffer that is
 * used by a job on a lane is active and stays where it is; so does one that an
 * importer has pinned. Others can be put out: the range in the heap goes, the
 * contents stay in the buffer's pages, which are host memory, and the application
 * does not notice. When a job that uses it gets a lane, it comes back, maybe
 * elsewhere, and, if its vgpu has been bound to another gpu meanwhile, there.
 *
 * Who goes first: what belongs to vgpus that are not on this gpu any more, as far as it
 * is among the GONE_LOOKS that were not used for longest, then weights, which cost
 * nobody anything, then whatever was not used for longest. If that has put out
 * EVICT_MAX and there is no contiguous range yet, one is cleared, whoever is in it. So
 * what an admission does is bounded by the buffers that must go, and the small ones of
 * one tenant do not slow down the others.
 *
 * buffer->gpu changes under move_lock and both locks of the heap that is left, and only
 * of a buffer that has no place there and is neither active nor pinned: so under
 * either lock of a heap, what is for that heap stays so.
 *
 * A job that has no room because of the jobs on other lanes, or of what is pinned,
 * waits, on its lane and holding nothing, until one of them goes. It puts nobody out
 * before there is room for all that it needs: it looks again whenever a buffer is idle,
 * and others would be put out, and brought back, each time.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "buffer.h"
#include "gpu.h"
#include "job.h"
#include "pin.h"
#include "queue.h"
#include "residency.h"
#include "tenant.h"
#include "vgpu.h"

#define GONE_LOOKS	32
#define EVICT_MAX	16
/* How often a range is cleared that somebody begins to use meanwhile. */
#define CLEAR_TRIES	3

static DEFINE_MUTEX(move_lock);
static DECLARE_WAIT_QUEUE_HEAD(changed_wait);
static atomic_t changes;

void distmind_residency_wake(void)
{
	atomic_inc(&changes);
	if (wq_has_sleeper(&changed_wait))
		wake_up_all(&changed_wait);
}

/* Under use_lock of the heap that they are for. */
static void activate(struct distmind_heap *heap, struct distmind_job *job)
{
	u32 i;

	lockdep_assert_held(&heap->use_lock);
	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i]) {
			job->buffers[i]->active++;
			distmind_heap_settle(heap, job->buffers[i]);
		}
	}
}

/* Returns whether one of them has become idle. */
static bool deactivate(struct distmind_heap *heap, struct distmind_job *job)
{
	bool idle = false;
	u32 i;

	lockdep_assert_held(&heap->use_lock);
	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i]) {
			idle |= !--job->buffers[i]->active;
			distmind_heap_settle(heap, job->buffers[i]);
		}
	}
	return idle;
}

/* Whether all its buffers are for this heap; under one of its locks. */
static bool are_here(const struct distmind_gpu *gpu, const struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		/* Pairs with move(): it is then resident only if it is here. */
		if (job->buffers[i] && smp_load_acquire(&job->buffers[i]->gpu) != gpu)
			return false;
	}
	return true;
}

/*
 * Are all its buffers there? Then they stay, until it is released. Under the
 * scheduler's lock.
 */
bool distmind_residency_try(struct distmind_gpu *gpu, struct distmind_job *job)
{
	struct distmind_heap *heap = &gpu->heap;
	bool all;
	u32 i;

	spin_lock(&heap->use_lock);
	all = are_here(gpu, job);
	for (i = 0; all && i < job->arg_count; i++)
		all = !job->buffers[i] || job->buffers[i]->resident;
	if (all)
		activate(heap, job);
	spin_unlock(&heap->use_lock);
	job->admitted = all;
	return all;
}

/* The job, which may have ended long before, has left its lane of this gpu. */
void distmind_residency_release(struct distmind_gpu *gpu, struct distmind_job *job)
{
	struct distmind_heap *heap = &gpu->heap;
	bool idle;

	if (!job->admitted)
		return;
	job->admitted = false;
	spin_lock(&heap->use_lock);
	idle = deactivate(heap, job);
	spin_unlock(&heap->use_lock);
	if (idle)
		distmind_residency_wake();
}

/* Who is to go next, or NULL. */
static struct distmind_buffer *find_victim(struct distmind_gpu *gpu)
{
	/* In the order in which the kinds go. */
	struct list_head *lists[] = {
		&gpu->heap.idle[DISTMIND_BUFFER_WEIGHTS], &gpu->heap.idle[DISTMIND_BUFFER_DATA],
	};
	struct distmind_buffer *buffer, *victim = NULL;
	u32 i, looks;

	lockdep_assert_held(&gpu->heap.use_lock);
	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		looks = 0;
		list_for_each_entry(buffer, lists[i], in_idle) {
			if (READ_ONCE(buffer->vgpu->gpu) != gpu)
				return buffer;
			if (!victim)
				victim = buffer;
			if (++looks == GONE_LOOKS)
				break;
		}
	}
	return victim;
}

/* Returns false if there is nobody to put out. Under the heap's lock: victims stay alive. */
static bool evict_one(struct distmind_gpu *gpu)
{
	struct distmind_heap *heap = &gpu->heap;
	struct distmind_buffer *victim;

	do {
		spin_lock(&heap->use_lock);
		victim = find_victim(gpu);
		spin_unlock(&heap->use_lock);
	} while (victim && !distmind_heap_evict(heap, victim));
	return victim;
}

/* The first range of so many pages between those that stay. */
static bool find_first(const struct distmind_heap *heap, unsigned long count,
		       unsigned long *start)
{
	struct rb_node *node;

	*start = 0;
	for (node = rb_first(&heap->held); node; node = rb_next(node)) {
		struct distmind_buffer *buffer = rb_entry(node, struct distmind_buffer, in_held);

		if (buffer->start - *start >= count)
			return true;
		*start = buffer->start + buffer->count;
	}
	return heap->pages - *start >= count;
}

/* The last one. */
static bool find_last(const struct distmind_heap *heap, unsigned long count, unsigned long *start)
{
	unsigned long end = heap->pages;
	struct rb_node *node;

	for (node = rb_last(&heap->held); node; node = rb_prev(node)) {
		struct distmind_buffer *buffer = rb_entry(node, struct distmind_buffer, in_held);

		if (end - buffer->start - buffer->count >= count)
			break;
		end = buffer->start;
	}
	*start = end - count;
	return end >= count;
}

/* What is pinned goes to the end of the heap, so that it cuts it in as few as possible. */
static bool find_clearable(struct distmind_heap *heap, const struct distmind_buffer *buffer,
			   unsigned long *start)
{
	bool found;

	spin_lock(&heap->use_lock);
	if (buffer->pins)
		found = find_last(heap, buffer->count, start) &&
			distmind_pin_leaves_half(heap, buffer, *start);
	else
		found = find_first(heap, buffer->count, start);
	spin_unlock(&heap->use_lock);
	return found;
}

static int place_around(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	unsigned long start;
	int i;

	for (i = 0; i < CLEAR_TRIES; i++) {
		if (!find_clearable(heap, buffer, &start))
			return -ENOSPC;
		if (distmind_heap_clear(heap, start, buffer->count)) {
			distmind_heap_place_at(heap, buffer, start);
			return 0;
		}
	}
	return -EAGAIN;
}

static int place(struct distmind_gpu *gpu, struct distmind_buffer *buffer)
{
	int i;

	if (READ_ONCE(buffer->pins))
		return place_around(&gpu->heap, buffer);
	for (i = 0; distmind_heap_place(&gpu->heap, buffer); i++) {
		if (i == EVICT_MAX || !evict_one(gpu))
			return place_around(&gpu->heap, buffer);
	}
	return 0;
}

/* All that the job needs, where there is room, or else @anew: one behind the other. */
static int place_missing(struct distmind_gpu *gpu, struct distmind_job *job, bool anew)
{
	int err = 0;
	u32 i;

	for (i = 0; !err && i < job->arg_count; i++) {
		struct distmind_buffer *buffer = job->buffers[i];

		if (buffer && !buffer->resident)
			err = anew ? place_around(&gpu->heap, buffer) : place(gpu, buffer);
	}
	return err;
}

/* Bit i: argument i is in a buffer that no argument before it is in. */
static u32 buffers_of(const struct distmind_job *job)
{
	u32 i, j, mask = 0;

	for (i = 0; i < job->arg_count; i++) {
		for (j = 0; j < i && job->buffers[j] != job->buffers[i]; j++)
			;
		if (job->buffers[i] && j == i)
			mask |= BIT(i);
	}
	return mask;
}

/* Which of the buffers in @mask are left when a gap of so many pages is filled with them. */
static u32 fill_gap(const struct distmind_job *job, u32 mask, unsigned long pages)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		if (mask & BIT(i) && job->buffers[i]->count <= pages) {
			pages -= job->buffers[i]->count;
			mask &= ~BIT(i);
		}
	}
	return mask;
}

/*
 * Whether there is room for all of its buffers if all go that can: else nobody has to.
 * The gaps between those that stay are filled in the order in which place_missing()
 * does it. Before the job's own are active. What stays is what at most
 * DISTMIND_LANES_MAX jobs use, and what is pinned, see pin.c: that is not many.
 */
static bool fits_around(struct distmind_gpu *gpu, const struct distmind_job *job)
{
	u32 i, mask = buffers_of(job);
	unsigned long from = 0;
	struct rb_node *node;

	lockdep_assert_held(&gpu->heap.use_lock);
	for (i = 0; i < job->arg_count; i++) {
		if (mask & BIT(i) && job->buffers[i]->use == DISTMIND_BUFFER_HELD)
			mask &= ~BIT(i);
	}
	for (node = rb_first(&gpu->heap.held); mask && node; node = rb_next(node)) {
		struct distmind_buffer *buffer = rb_entry(node, struct distmind_buffer, in_held);

		if (buffer->start > from)
			mask = fill_gap(job, mask, buffer->start - from);
		from = buffer->start + buffer->count;
	}
	return !fill_gap(job, mask, gpu->heap.pages - from);
}

/* So that its own can be placed anew: they may lie so that nothing fits between them. */
static void put_out_own(struct distmind_heap *heap, struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i] && job->buffers[i]->resident)
			distmind_heap_evict(heap, job->buffers[i]);
	}
}

static int bring_in_as(struct distmind_gpu *gpu, struct distmind_job *job, bool anew)
{
	struct distmind_heap *heap = &gpu->heap;
	int err;

	if (anew)
		put_out_own(heap, job);
	spin_lock(&heap->use_lock);
	activate(heap, job);
	spin_unlock(&heap->use_lock);
	err = place_missing(gpu, job, anew);
	if (err) {
		spin_lock(&heap->use_lock);
		deactivate(heap, job);
		spin_unlock(&heap->use_lock);
	}
	return err;
}

/*
 * 0: all its buffers are there, and active. -EAGAIN: others are in the way, or have
 * taken one of them elsewhere.
 */
static int bring_in(struct distmind_gpu *gpu, struct distmind_job *job)
{
	bool fits;
	int err;

	if (!are_here(gpu, job))
		return -EAGAIN;
	if (fill_gap(job, buffers_of(job), gpu->heap.pages))
		return -ENOSPC;
	spin_lock(&gpu->heap.use_lock);
	fits = fits_around(gpu, job);
	spin_unlock(&gpu->heap.use_lock);
	if (!fits)
		return -EAGAIN;
	err = bring_in_as(gpu, job, false);
	if (err == -ENOSPC)
		err = bring_in_as(gpu, job, true);
	return err ? -EAGAIN : 0;
}

/* To the heap of another gpu, where its vgpu is now. */
static int move(struct distmind_buffer *buffer, struct distmind_gpu *gpu)
{
	struct distmind_gpu *old;
	int err = 0;

	if (mutex_lock_killable(&move_lock))
		return -EINTR;
	old = buffer->gpu;
	if (old == gpu)
		goto out;
	mutex_lock(&old->heap.lock);
	if (buffer->count > gpu->heap.pages)
		err = -ENOSPC;
	else if (buffer->resident && !distmind_heap_evict(&old->heap, buffer))
		err = -EAGAIN;
	spin_lock(&old->heap.use_lock);
	if (!err && (buffer->active || buffer->pins))
		err = -EAGAIN;
	if (!err) {
		distmind_gpu_get(gpu);
		buffer->gpu_id = gpu->id;
		/* Pairs with are_here(). */
		smp_store_release(&buffer->gpu, gpu);
	}
	spin_unlock(&old->heap.use_lock);
	mutex_unlock(&old->heap.lock);
	if (!err) {
		distmind_gpu_put(old);
		/* Who wanted it there is to look again. */
		distmind_residency_wake();
	}
out:
	mutex_unlock(&move_lock);
	return err;
}

/* From here on the buffer is for this heap until distmind_residency_unlock(). */
int distmind_residency_lock(struct distmind_buffer *buffer)
{
	if (mutex_lock_killable(&move_lock))
		return -EINTR;
	if (mutex_lock_killable(&buffer->gpu->heap.lock)) {
		mutex_unlock(&move_lock);
		return -EINTR;
	}
	return 0;
}

void distmind_residency_unlock(struct distmind_buffer *buffer)
{
	mutex_unlock(&buffer->gpu->heap.lock);
	mutex_unlock(&move_lock);
}

static int admit_now(struct distmind_gpu *gpu, struct distmind_job *job)
{
	u32 i;
	int err;

	for (i = 0; i < job->arg_count; i++) {
		struct distmind_buffer *buffer = job->buffers[i];

		if (!buffer || READ_ONCE(buffer->gpu) == gpu)
			continue;
		/* It follows its own vgpu, not whoever has imported it. */
		err = buffer->vgpu == job->queue->tenant->vgpu ? move(buffer, gpu) : -EXDEV;
		if (err)
			return err;
	}
	if (mutex_lock_killable(&gpu->heap.lock))
		return -EINTR;
	err = bring_in(gpu, job);
	mutex_unlock(&gpu->heap.lock);
	return err;
}

/*
 * Bring in what the job on @lane needs; sleeps. -EAGAIN: it was asked to yield, or
 * its gpu was lost, before there was room; -EINTR; -ENOSPC: it does not fit even
 * alone; -EXDEV: an imported buffer has gone to another gpu since it was submitted.
 */
int distmind_residency_admit(struct distmind_gpu *gpu, struct distmind_job *job,
			     const struct distmind_lane *lane)
{
	int before, err;

	for (;;) {
		before = atomic_read(&changes);
		err = admit_now(gpu, job);
		if (err != -EAGAIN)
			break;
		err = wait_event_interruptible(changed_wait, atomic_read(&changes) != before ||
					       READ_ONCE(lane->asked_ns) ||
					       READ_ONCE(gpu->sched.error));
		if (err)
			return -EINTR;
		if (READ_ONCE(lane->asked_ns) || READ_ONCE(gpu->sched.error))
			return -EAGAIN;
	}
	if (!err)
		job->admitted = true;
	return err;
}
