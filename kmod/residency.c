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
 * Who goes first: what goes for good, and what belongs to vgpus that are not on this gpu
 * any more, as far as it is among the GONE_LOOKS that were not used for longest, then
 * weights, which cost nobody anything, then whatever was not used for longest. If that has
 * put out EVICT_MAX and there is no contiguous range yet, one is cleared, whoever is in it.
 * So what an admission does is bounded by the buffers that must go, and the small ones of
 * one tenant do not slow down the others.
 *
 * buffer->gpu changes under move_lock and both locks of the heap that is left, and only
 * of a buffer that has no place there and is neither active nor pinned: so under
 * either lock of a heap, what is for that heap stays so. move_lock, a spinlock inside
 * the others, is for those who have none of these yet and want a reference to the gpu.
 *
 * A job that has no room because of the jobs on other lanes, or of what is pinned,
 * waits, on no lane and holding nothing, see room.c. It puts nobody out before there is
 * room for all that it needs: it is looked at whenever a buffer is idle, and others
 * would be put out, and brought back, each time.
 *
 * buffer->wanted: its own vgpu, on another gpu now, has a job that needs it. Those who
 * have imported it get it no more; the jobs that have it are asked to yield.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "buffer.h"
#include "gpu.h"
#include "job.h"
#include "lane.h"
#include "pin.h"
#include "queue.h"
#include "residency.h"
#include "room.h"
#include "tenant.h"
#include "vgpu.h"

#define GONE_LOOKS	32
#define EVICT_MAX	16
/* How often a range is cleared that somebody begins to use meanwhile. */
#define CLEAR_TRIES	3

static DEFINE_SPINLOCK(move_lock);

/* Under use_lock of the heap that they are for, as whoever counts those of the job expects. */
static void activate(struct distmind_heap *heap, struct distmind_job *job)
{
	u32 i;

	lockdep_assert_held(&heap->use_lock);
	WRITE_ONCE(job->admitted, true);
	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i]) {
			WRITE_ONCE(job->buffers[i]->active, job->buffers[i]->active + 1);
			distmind_heap_settle(heap, job->buffers[i]);
		}
	}
}

/* Returns whether one of them has become idle; *wanted: by another gpu. */
static bool deactivate(struct distmind_heap *heap, struct distmind_job *job, bool *wanted)
{
	bool idle = false;
	u32 i;

	lockdep_assert_held(&heap->use_lock);
	WRITE_ONCE(job->admitted, false);
	for (i = 0; i < job->arg_count; i++) {
		struct distmind_buffer *buffer = job->buffers[i];

		if (!buffer)
			continue;
		WRITE_ONCE(buffer->active, buffer->active - 1);
		if (!buffer->active) {
			idle = true;
			*wanted |= buffer->wanted;
		}
		distmind_heap_settle(heap, buffer);
	}
	heap->changes += idle;
	return idle;
}

static bool is_own(const struct distmind_job *job, const struct distmind_buffer *buffer)
{
	return buffer->vgpu == job->queue->tenant->vgpu;
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

/* Whether all its buffers are there: a guess, as they may come and go. */
bool distmind_residency_is_in(struct distmind_gpu *gpu, const struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		const struct distmind_buffer *buffer = job->buffers[i];

		if (buffer && (READ_ONCE(buffer->gpu) != gpu || !READ_ONCE(buffer->resident)))
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
	for (i = 0; all && i < job->arg_count; i++) {
		struct distmind_buffer *buffer = job->buffers[i];

		all = !buffer || (buffer->resident && !buffer->wanted);
	}
	if (all)
		activate(heap, job);
	spin_unlock(&heap->use_lock);
	return all;
}

/*
 * The job, which may have ended long before, has left its lane of this gpu, or does not
 * get it. Under the scheduler's lock.
 */
void distmind_residency_release(struct distmind_gpu *gpu, struct distmind_job *job)
{
	bool idle, wanted = false;

	if (!job->admitted)
		return;
	spin_lock(&gpu->heap.use_lock);
	idle = deactivate(&gpu->heap, job, &wanted);
	spin_unlock(&gpu->heap.use_lock);
	if (idle)
		distmind_room_changed(&gpu->sched);
	if (wanted)
		distmind_room_kick_all();
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
			if (buffer->going || READ_ONCE(buffer->vgpu->gpu) != gpu)
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

/* Where it is, whoever makes way: those who do are counted in buffer->leaving. */
static bool stays(const struct distmind_buffer *buffer)
{
	return buffer->pins || buffer->active > buffer->leaving;
}

/* The first range of so many pages between those that stay. */
static bool find_first(const struct distmind_heap *heap, unsigned long count,
		       unsigned long *start)
{
	struct rb_node *node;

	*start = 0;
	for (node = rb_first(&heap->held); node; node = rb_next(node)) {
		struct distmind_buffer *buffer = rb_entry(node, struct distmind_buffer, in_held);

		if (!stays(buffer))
			continue;
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

		if (!stays(buffer))
			continue;
		if (end - buffer->start - buffer->count >= count)
			break;
		end = buffer->start;
	}
	*start = end - count;
	return end >= count;
}

/* What is pinned goes to the end of the heap, so that it cuts it in as few as possible. */
static bool find_for_pinned(const struct distmind_heap *heap, const struct distmind_buffer *buffer,
			    unsigned long *start)
{
	return find_last(heap, buffer->count, start) &&
	       distmind_pin_leaves_half(heap, buffer, *start);
}

static bool find_clearable(struct distmind_heap *heap, const struct distmind_buffer *buffer,
			   unsigned long *start)
{
	bool found;

	spin_lock(&heap->use_lock);
	if (buffer->pins)
		found = find_for_pinned(heap, buffer, start);
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
	unsigned long from = 0, start;
	struct rb_node *node;

	lockdep_assert_held(&gpu->heap.use_lock);
	for (i = 0; i < job->arg_count; i++) {
		const struct distmind_buffer *buffer = job->buffers[i];

		if (!(mask & BIT(i)))
			continue;
		if (buffer->resident && stays(buffer))
			mask &= ~BIT(i);
		else if (buffer->pins && !find_for_pinned(&gpu->heap, buffer, &start))
			return false;
	}
	for (node = rb_first(&gpu->heap.held); mask && node; node = rb_next(node)) {
		struct distmind_buffer *buffer = rb_entry(node, struct distmind_buffer, in_held);

		if (!stays(buffer))
			continue;
		if (buffer->start > from)
			mask = fill_gap(job, mask, buffer->start - from);
		from = buffer->start + buffer->count;
	}
	return !fill_gap(job, mask, gpu->heap.pages - from);
}

/*
 * Both times under one hold of use_lock, and of the scheduler's: no job comes onto a lane, is
 * admitted or leaves between them.
 */
static void count_leaving(struct distmind_sched *sched, u32 lanes, int change)
{
	u32 i, j;

	lockdep_assert_held(&sched->lock);
	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_job *job = lanes & BIT(i) ? sched->lanes[i].job : NULL;

		for (j = 0; job && job->admitted && j < job->arg_count; j++) {
			if (job->buffers[j])
				job->buffers[j]->leaving += change;
		}
	}
}

/*
 * Whether there would be room for a job if those on @lanes left. All its buffers are for
 * this heap, or it is not for this to say. Under the scheduler's lock.
 */
bool distmind_residency_fits(struct distmind_gpu *gpu, const struct distmind_job *job, u32 lanes)
{
	bool fits;

	spin_lock(&gpu->heap.use_lock);
	count_leaving(&gpu->sched, lanes, 1);
	fits = !are_here(gpu, job) || fits_around(gpu, job);
	count_leaving(&gpu->sched, lanes, -1);
	spin_unlock(&gpu->heap.use_lock);
	return fits;
}

static int blame(struct distmind_room *room, const struct distmind_job *job, u32 cause,
		 const struct distmind_gpu *gpu, const struct distmind_buffer *buffer)
{
	struct distmind_queue_room *told = &room->cause;

	memset(told, 0, sizeof(*told));
	room->foreign = buffer && buffer->account != job->account;
	told->cause = cause;
	told->gpu = gpu ? gpu->id : buffer->gpu_id;
	if (buffer) {
		told->buffer = buffer->id;
		told->vgpu = buffer->vgpu->id;
	}
	if (cause == DISTMIND_ROOM_PINNED) {
		told->pid = buffer->pinner_pid;
		memcpy(told->device, buffer->pinner, sizeof(told->device));
	}
	return cause == DISTMIND_ROOM_JOBS ? 0 : -EBUSY;
}

/* The largest that is in the way. */
static const struct distmind_buffer *largest_staying(const struct distmind_heap *heap)
{
	const struct distmind_buffer *buffer, *largest = NULL;
	struct rb_node *node;

	for (node = rb_first(&heap->held); node; node = rb_next(node)) {
		buffer = rb_entry(node, struct distmind_buffer, in_held);
		if (stays(buffer) && (!largest || buffer->count > largest->count))
			largest = buffer;
	}
	return largest;
}

/* How it stands among those who hold buffers in the heap. */
static int look_around(struct distmind_gpu *gpu, const struct distmind_job *job, bool again,
		       struct distmind_room *room)
{
	struct distmind_heap *heap = &gpu->heap;
	const struct distmind_buffer *buffer;
	bool never;

	if ((again || heap->changes != job->room_seen) && fits_around(gpu, job))
		return 1;
	/* If all jobs left that can, and not those that hang. */
	count_leaving(&gpu->sched, U32_MAX, 1);
	never = !fits_around(gpu, job);
	buffer = never ? largest_staying(heap) : NULL;
	count_leaving(&gpu->sched, U32_MAX, -1);
	if (!buffer)
		return blame(room, job, DISTMIND_ROOM_JOBS, gpu, largest_staying(heap));
	return blame(room, job, buffer->pins ? DISTMIND_ROOM_PINNED : DISTMIND_ROOM_HUNG, gpu,
		     buffer);
}

/*
 * How a job stands that found no room. 1: it is worth another try; 0: others are to
 * leave first; -EBUSY: it is kept out by what nobody on this gpu can be asked for.
 * *room says who is in the way. If there seems to be room but nothing has changed since
 * it found none, it tries only @again. Under the scheduler's lock.
 */
int distmind_residency_look(struct distmind_gpu *gpu, const struct distmind_job *job, bool again,
			    struct distmind_room *room)
{
	struct distmind_heap *heap = &gpu->heap;
	const struct distmind_buffer *buffer;
	u32 i;
	int ret;

	for (i = 0; i < job->arg_count; i++) {
		buffer = job->buffers[i];
		if (!buffer || READ_ONCE(buffer->gpu) == gpu)
			continue;
		/* Only guesses, as to another heap; when it changes, this is asked again. */
		if (is_own(job, buffer) && READ_ONCE(buffer->pins))
			return blame(room, job, DISTMIND_ROOM_PINNED, NULL, buffer);
		if (is_own(job, buffer) && READ_ONCE(buffer->active))
			return blame(room, job, DISTMIND_ROOM_ELSEWHERE, NULL, buffer);
		return 1;
	}
	spin_lock(&heap->use_lock);
	ret = look_around(gpu, job, again, room);
	spin_unlock(&heap->use_lock);
	return ret;
}

/* The gpu that it is for at the moment, with a reference. */
static struct distmind_gpu *buffer_get_gpu(struct distmind_buffer *buffer)
{
	struct distmind_gpu *gpu;

	spin_lock(&move_lock);
	gpu = buffer->gpu;
	distmind_gpu_get(gpu);
	spin_unlock(&move_lock);
	return gpu;
}

/* Have those jobs yield that use it on the gpu that its vgpu has left. Without any lock. */
void distmind_residency_ask_users(struct distmind_buffer *buffer)
{
	struct distmind_gpu *gpu = buffer_get_gpu(buffer);
	struct distmind_sched *sched = &gpu->sched;
	u64 now;
	u32 i, j;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	for (i = 0; i < sched->lane_count && READ_ONCE(buffer->wanted); i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		for (j = 0; lane->job && j < lane->job->arg_count; j++) {
			if (READ_ONCE(lane->job->admitted) && lane->job->buffers[j] == buffer)
				distmind_lane_ask(sched, lane, now);
		}
	}
	/* Who does not yield is looked at again in time. */
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
	distmind_gpu_put(gpu);
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
	bool wanted = false;
	int err;

	if (anew)
		put_out_own(heap, job);
	spin_lock(&heap->use_lock);
	activate(heap, job);
	spin_unlock(&heap->use_lock);
	err = place_missing(gpu, job, anew);
	if (err) {
		spin_lock(&heap->use_lock);
		deactivate(heap, job, &wanted);
		spin_unlock(&heap->use_lock);
		/* Who waits on this gpu looks when the job is sent back. */
		if (wanted)
			distmind_room_kick_all();
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
	job->room_seen = gpu->heap.changes;
	fits = fits_around(gpu, job);
	spin_unlock(&gpu->heap.use_lock);
	if (!fits)
		return -EAGAIN;
	err = bring_in_as(gpu, job, false);
	if (err == -ENOSPC)
		err = bring_in_as(gpu, job, true);
	return err ? -EAGAIN : 0;
}

/*
 * The gpu that the buffer is for, with a reference and the lock of its heap: it is for that
 * one until distmind_residency_unlock(). -EINTR.
 */
struct distmind_gpu *distmind_residency_lock(struct distmind_buffer *buffer)
{
	struct distmind_gpu *gpu;

	for (;;) {
		gpu = buffer_get_gpu(buffer);
		if (mutex_lock_killable(&gpu->heap.lock)) {
			distmind_gpu_put(gpu);
			return ERR_PTR(-EINTR);
		}
		if (READ_ONCE(buffer->gpu) == gpu)
			return gpu;
		/* It has gone elsewhere meanwhile. */
		distmind_residency_unlock(gpu);
	}
}

void distmind_residency_unlock(struct distmind_gpu *gpu)
{
	mutex_unlock(&gpu->heap.lock);
	distmind_gpu_put(gpu);
}

/* To the heap of another gpu, where its vgpu is now. */
static int move(struct distmind_buffer *buffer, struct distmind_gpu *gpu)
{
	struct distmind_gpu *old = distmind_residency_lock(buffer);
	int err = 0;

	if (IS_ERR(old))
		return PTR_ERR(old);
	if (old == gpu)
		goto out;
	if (buffer->count > gpu->heap.pages)
		err = -ENOSPC;
	else if (buffer->resident && !distmind_heap_evict(&old->heap, buffer))
		err = -EAGAIN;
	spin_lock(&old->heap.use_lock);
	if (!err && (buffer->active || buffer->pins))
		err = -EAGAIN;
	buffer->wanted = err == -EAGAIN && buffer->active;
	if (!err) {
		distmind_gpu_get(gpu);
		spin_lock(&move_lock);
		buffer->gpu_id = gpu->id;
		/* Pairs with are_here(). */
		smp_store_release(&buffer->gpu, gpu);
		spin_unlock(&move_lock);
	}
	spin_unlock(&old->heap.use_lock);
	/* The buffer's reference; it is locked with another. */
	if (!err)
		distmind_gpu_put(old);
out:
	distmind_residency_unlock(old);
	return err;
}

/* Its own are for it to have, whatever was wanted of them before. */
static int take_in(struct distmind_gpu *gpu, const struct distmind_job *job,
		   struct distmind_buffer *buffer)
{
	bool wanted;

	if (READ_ONCE(buffer->gpu) != gpu)
		/* It follows its own vgpu, not whoever has imported it. */
		return is_own(job, buffer) ? move(buffer, gpu) : -EXDEV;
	spin_lock(&gpu->heap.use_lock);
	if (is_own(job, buffer))
		buffer->wanted = false;
	wanted = buffer->wanted;
	spin_unlock(&gpu->heap.use_lock);
	return wanted ? -EXDEV : 0;
}

/*
 * Bring in what a job needs; sleeps, but waits for nobody's job. -EAGAIN: others are in
 * the way; -EINTR; -ENOSPC: it does not fit even alone; -EXDEV: an imported buffer has
 * gone to another gpu since it was submitted, or is to.
 */
int distmind_residency_admit(struct distmind_gpu *gpu, struct distmind_job *job)
{
	int err = 0;
	u32 i;

	for (i = 0; !err && i < job->arg_count; i++) {
		if (job->buffers[i])
			err = take_in(gpu, job, job->buffers[i]);
	}
	if (err)
		return err;
	if (mutex_lock_killable(&gpu->heap.lock))
		return -EINTR;
	err = bring_in(gpu, job);
	mutex_unlock(&gpu->heap.lock);
	return err;
}
