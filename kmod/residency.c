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
 * Who goes first: what belongs to vgpus that are not on this gpu any more, then
 * weights, which cost nobody anything, then whatever was not used for longest.
 *
 * buffer->resident and the ranges are changed under heap->lock. The usual case, all
 * of a job's buffers are there, takes no lock: active is raised, then resident is
 * looked at. Eviction does it the other way round, with a full barrier between, so
 * one of the two sees the other. buffer->gpu changes under move_lock and the lock of
 * the heap that is left, and only of a buffer that is neither resident nor active: so
 * under a heap's lock, what is for that heap stays so.
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
#include "queue.h"
#include "residency.h"
#include "tenant.h"
#include "vgpu.h"

/*
 * Who is to go is chosen among all, again for each: with many buffers that takes too
 * long to do it often. After so many looks whoever can go goes.
 */
#define LOOKS_MAX 65536

static DEFINE_MUTEX(move_lock);
static DECLARE_WAIT_QUEUE_HEAD(changed_wait);
static atomic_t changes;

void distmind_residency_wake(void)
{
	atomic_inc(&changes);
	if (wq_has_sleeper(&changed_wait))
		wake_up_all(&changed_wait);
}

static void activate(struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i])
			atomic_inc(&job->buffers[i]->active);
	}
}

static bool deactivate(struct distmind_job *job)
{
	bool idle = false;
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i])
			idle |= atomic_dec_and_test(&job->buffers[i]->active);
	}
	return idle;
}

/*
 * Are all its buffers there? Then they stay, until it is released. Under the
 * scheduler's lock.
 */
bool distmind_residency_try(struct distmind_gpu *gpu, struct distmind_job *job, u64 now)
{
	u32 i;

	activate(job);
	/* Pairs with put_out(). */
	smp_mb();
	for (i = 0; i < job->arg_count; i++) {
		struct distmind_buffer *buffer = job->buffers[i];

		if (!buffer)
			continue;
		/* In this order: it is resident on the gpu, and at the place, seen then. */
		if (!smp_load_acquire(&buffer->resident) || READ_ONCE(buffer->gpu) != gpu) {
			if (deactivate(job))
				distmind_residency_wake();
			return false;
		}
		WRITE_ONCE(buffer->used_ns, now);
	}
	job->admitted = true;
	return true;
}

/* The job has left its lane. */
void distmind_residency_release(struct distmind_job *job)
{
	if (!job->admitted)
		return;
	job->admitted = false;
	if (deactivate(job))
		distmind_residency_wake();
}

/* A job on a lane uses it, or somebody has pinned it. */
static bool stays(const struct distmind_buffer *buffer)
{
	return atomic_read(&buffer->active) || atomic_read(&buffer->pins);
}

/* Returns false if it is in use. */
static bool put_out(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	lockdep_assert_held(&heap->lock);
	WRITE_ONCE(buffer->resident, false);
	/* Pairs with distmind_residency_try(). */
	smp_mb();
	if (stays(buffer)) {
		WRITE_ONCE(buffer->resident, true);
		return false;
	}
	distmind_heap_withdraw(heap, buffer);
	heap->evictions++;
	return true;
}

/* Whether @a is to go rather than @b. */
static bool goes_first(const struct distmind_gpu *gpu, const struct distmind_buffer *a,
		       const struct distmind_buffer *b)
{
	bool a_gone = READ_ONCE(a->vgpu->gpu) != gpu, b_gone = READ_ONCE(b->vgpu->gpu) != gpu;

	if (a_gone != b_gone)
		return a_gone;
	if (a->kind != b->kind)
		return a->kind == DISTMIND_BUFFER_WEIGHTS;
	return READ_ONCE(a->used_ns) < READ_ONCE(b->used_ns);
}

/* Returns false if there is nobody to put out. Takes what it looked at from *looks. */
static bool evict_one(struct distmind_gpu *gpu, u32 *looks)
{
	struct distmind_heap *heap = &gpu->heap;
	struct distmind_buffer *buffer, *victim = NULL;

	MA_STATE(mas, &heap->ranges, 0, 0);

	mas_for_each(&mas, buffer, ULONG_MAX) {
		*looks -= min(*looks, 1U);
		cond_resched();
		if (stays(buffer))
			continue;
		if (!victim || goes_first(gpu, buffer, victim))
			victim = buffer;
	}
	return victim && put_out(heap, victim);
}

/* Whoever is not in use, in one walk. */
static void evict_all(struct distmind_gpu *gpu)
{
	struct distmind_heap *heap = &gpu->heap;
	struct distmind_buffer *buffer;

	MA_STATE(mas, &heap->ranges, 0, 0);

	mas_for_each(&mas, buffer, ULONG_MAX) {
		/* The tree changes below it: go on from the next range. */
		mas_pause(&mas);
		if (!stays(buffer))
			put_out(heap, buffer);
		cond_resched();
	}
}

static int place_missing(struct distmind_gpu *gpu, struct distmind_job *job)
{
	u32 i, looks = LOOKS_MAX;
	int err;

	for (i = 0; i < job->arg_count; i++) {
		struct distmind_buffer *buffer = job->buffers[i];

		if (!buffer || buffer->resident)
			continue;
		while ((err = distmind_heap_place(&gpu->heap, buffer)) == -ENOSPC) {
			if (!looks || !evict_one(gpu, &looks))
				return err;
		}
		if (err)
			return err;
	}
	return 0;
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
 * does it. Before the job's own are active.
 */
static bool fits_around(struct distmind_gpu *gpu, const struct distmind_job *job)
{
	u32 i, mask = buffers_of(job);
	struct distmind_buffer *buffer;
	unsigned long from = 0;

	MA_STATE(mas, &gpu->heap.ranges, 0, 0);

	for (i = 0; i < job->arg_count; i++) {
		if (mask & BIT(i) && job->buffers[i]->resident && stays(job->buffers[i]))
			mask &= ~BIT(i);
	}
	mas_for_each(&mas, buffer, ULONG_MAX) {
		if (stays(buffer)) {
			mask = fill_gap(job, mask, buffer->start - from);
			from = buffer->start + buffer->count;
		}
		cond_resched();
	}
	return !fill_gap(job, mask, gpu->heap.pages - from);
}

/* Whether all its buffers are for this heap; under its lock. */
static bool are_here(const struct distmind_gpu *gpu, const struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i] && READ_ONCE(job->buffers[i]->gpu) != gpu)
			return false;
	}
	return true;
}

/*
 * 0: all its buffers are there, and active. -EAGAIN: others are in the way, or have
 * taken one of them elsewhere.
 */
static int bring_in(struct distmind_gpu *gpu, struct distmind_job *job)
{
	int err;

	if (!are_here(gpu, job))
		return -EAGAIN;
	if (fill_gap(job, buffers_of(job), gpu->heap.pages))
		return -ENOSPC;
	if (!fits_around(gpu, job))
		return -EAGAIN;
	activate(job);
	err = place_missing(gpu, job);
	if (err == -ENOSPC) {
		/* Its own may lie so that nothing fits between them, or there are too many. */
		deactivate(job);
		evict_all(gpu);
		activate(job);
		err = place_missing(gpu, job);
	}
	if (!err)
		return 0;
	deactivate(job);
	return err == -ENOSPC ? -EAGAIN : err;
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
	if (buffer->resident ? !put_out(&old->heap, buffer) : atomic_read(&buffer->active))
		err = -EAGAIN;
	else if (buffer->count > gpu->heap.pages)
		err = -ENOSPC;
	if (!err) {
		distmind_gpu_get(gpu);
		buffer->gpu_id = gpu->id;
		WRITE_ONCE(buffer->gpu, gpu);
	}
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
