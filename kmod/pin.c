// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pins: buffers that importers of their dma-bufs, RDMA devices mostly, want to stay
 * where they are. Nobody can be asked to give a pin up, so what is pinned of a heap
 * is limited such that the others can do with the rest:
 *
 *  - Half of a heap, and PINS_MAX buffers of it, can be pinned. Of these one user has
 *    at most what that leaves free for further ones: alone a quarter of the heap, and
 *    the next one still finds something. Beyond that a pin fails with EDQUOT.
 *
 *  - Pins leave half of the heap in one piece. A buffer that lies where it would cut
 *    that half is put out when it is pinned, and gets another place with the next job
 *    that uses it; if a job uses it now the pin fails with EBUSY.
 *
 * So a job whose buffers fit into half of the heap never waits for a pin. A buffer
 * counts once, however often it is pinned, for the user whose vgpu it belongs to, who has
 * handed out the dma-buf: that is whom the vgpu counts for, see account.c, and of one that
 * an operator has made its owner. Of root's vgpus each counts by itself.
 *
 * A buffer's pins change under the use_lock of its heap, and it stays with that heap
 * as long as it has any.
 */
#include <linux/sched.h>

#include "account.h"
#include "buffer.h"
#include "gpu.h"
#include "pin.h"
#include "residency.h"
#include "room.h"
#include "vgpu.h"

/* Buffers of one heap: who looks for room walks over all of them. */
#define PINS_MAX	1024

static kuid_t user_of(const struct distmind_vgpu *vgpu, const struct user_namespace **container)
{
	*container = vgpu->account ? vgpu->account->ns : NULL;
	return vgpu->account ? vgpu->account->uid : vgpu->owner.uid;
}

static bool same_user(const struct distmind_vgpu *a, const struct distmind_vgpu *b)
{
	const struct user_namespace *ours, *theirs;
	kuid_t uid = user_of(a, &ours);

	if (!uid_eq(uid, user_of(b, &theirs)) || ours != theirs)
		return false;
	return a == b || ours || !uid_eq(uid, GLOBAL_ROOT_UID);
}

/* Whether a user that has @mine can have @more of what @used of @limit are in use of. */
static bool leaves_enough(unsigned long mine, unsigned long more, unsigned long used,
			  unsigned long limit)
{
	return more <= limit && used <= limit - more && mine + more <= limit - more - used;
}

static bool within_limits(const struct distmind_heap *heap, const struct distmind_buffer *buffer)
{
	const struct distmind_buffer *other;
	unsigned long pages = 0, count = 0;

	list_for_each_entry(other, &heap->pinned, in_pinned) {
		if (same_user(other->vgpu, buffer->vgpu)) {
			pages += other->count;
			count++;
		}
	}
	return leaves_enough(pages, buffer->count, heap->pinned_pages, heap->pages / 2) &&
	       leaves_enough(count, 1, heap->pinned_count, PINS_MAX);
}

/* Whether half of the heap is in one piece if @buffer stays at @start. */
bool distmind_pin_leaves_half(const struct distmind_heap *heap,
			      const struct distmind_buffer *buffer, unsigned long start)
{
	unsigned long from = 0, largest = 0;
	struct rb_node *node;
	bool passed = false;

	lockdep_assert_held(&heap->use_lock);
	for (node = rb_first(&heap->held); node; node = rb_next(node)) {
		const struct distmind_buffer *other =
			rb_entry(node, struct distmind_buffer, in_held);

		if (!other->pins || other == buffer)
			continue;
		if (!passed && start < other->start) {
			largest = max(largest, start - from);
			from = start + buffer->count;
			passed = true;
		}
		largest = max(largest, other->start - from);
		from = other->start + other->count;
	}
	if (!passed) {
		largest = max(largest, start - from);
		from = start + buffer->count;
	}
	return max(largest, heap->pages - from) >= heap->pages / 2;
}

/* Under both locks. */
static int pin_first(struct distmind_heap *heap, struct distmind_buffer *buffer)
{
	if (!within_limits(heap, buffer))
		return -EDQUOT;
	if (buffer->resident && !distmind_pin_leaves_half(heap, buffer, buffer->start))
		return -EBUSY;
	list_add_tail(&buffer->in_pinned, &heap->pinned);
	heap->pinned_count++;
	heap->pinned_pages += buffer->count;
	return 0;
}

/* @device is the importer's. */
int distmind_pin_add(struct distmind_buffer *buffer, const char *device)
{
	struct distmind_gpu *gpu = distmind_residency_lock(buffer);
	struct distmind_heap *heap;
	int tries, err;

	if (IS_ERR(gpu))
		return PTR_ERR(gpu);
	heap = &gpu->heap;
	for (tries = 0; tries < 2; tries++) {
		spin_lock(&heap->use_lock);
		err = buffer->pins ? 0 : pin_first(heap, buffer);
		if (!err) {
			WRITE_ONCE(buffer->pins, buffer->pins + 1);
			strscpy(buffer->pinner, device, sizeof(buffer->pinner));
			buffer->pinner_pid = task_tgid_nr(current);
			distmind_heap_settle(heap, buffer);
		}
		spin_unlock(&heap->use_lock);
		/* Where it lies it would be in the way of others: elsewhere it may not be. */
		if (err != -EBUSY || !distmind_heap_evict(heap, buffer))
			break;
	}
	distmind_residency_unlock(gpu);
	return err;
}

void distmind_pin_del(struct distmind_buffer *buffer)
{
	struct distmind_gpu *gpu = buffer->gpu;
	struct distmind_heap *heap = &gpu->heap;
	bool last;

	/* Without the pin, the buffer can leave the gpu, and may have held it last. */
	distmind_gpu_get(gpu);
	spin_lock(&heap->use_lock);
	WRITE_ONCE(buffer->pins, buffer->pins - 1);
	last = !buffer->pins;
	if (last) {
		list_del(&buffer->in_pinned);
		heap->pinned_count--;
		heap->pinned_pages -= buffer->count;
		heap->changes++;
		distmind_heap_settle(heap, buffer);
	}
	spin_unlock(&heap->use_lock);
	if (last) {
		distmind_room_freed(&gpu->sched);
		/* Its vgpu may have gone to another gpu meanwhile. */
		distmind_room_kick_all();
	}
	distmind_gpu_put(gpu);
}
