// SPDX-License-Identifier: GPL-2.0-or-later
#include "class.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct placement_classes *placement_classes_new(void)
{
	struct placement_classes *classes = calloc(1, sizeof(*classes));

	if (classes)
		classes->free_class = PLACEMENT_NONE;
	return classes;
}

void placement_classes_free(struct placement_classes *classes)
{
	if (!classes)
		return;
	free(classes->rows);
	free(classes->holes);
	hash_free(&classes->table);
	free(classes->births);
	free(classes->moved);
	free(classes);
}

static int grow_holes(struct placement_classes *classes, uint32_t room, uint32_t stride)
{
	struct placement_hole *holes;

	if (stride < 8)
		stride = 8;
	if (stride < classes->stride)
		stride = classes->stride;
	holes = calloc((size_t)room + 1, stride * sizeof(*holes));
	if (!holes)
		return -ENOMEM;
	for (uint32_t i = 0; i < classes->count; i++)
		memcpy(holes + (size_t)i * stride, placement_class_holes(classes, i),
		       classes->rows[i].hole_count * sizeof(*holes));
	free(classes->holes);
	classes->holes = holes;
	classes->stride = stride;
	return 0;
}

static int grow_rows(struct placement_classes *classes, uint32_t room)
{
	struct placement_birth *births;
	struct placement_class *rows;
	uint32_t *moved;

	rows = realloc(classes->rows, room * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	classes->rows = rows;
	births = realloc(classes->births, 4 * (size_t)room * sizeof(*births));
	if (!births)
		return -ENOMEM;
	classes->births = births;
	classes->birth_room = 4 * room;
	moved = realloc(classes->moved, (4 * (size_t)room + 1) * sizeof(*moved));
	if (!moved)
		return -ENOMEM;
	classes->moved = moved;
	/* So many classes there can be, and what puts a box into one cannot fail. */
	return hash_reserve(&classes->table, room);
}

int placement_classes_reserve(struct placement_classes *classes, uint32_t boxes, uint32_t gpus)
{
	uint32_t room = classes->room ? classes->room : 16;
	int err;

	while (room < boxes)
		room *= 2;
	if (room > classes->room || gpus > classes->stride) {
		err = grow_holes(classes, room, gpus > classes->stride ? 2 * gpus : gpus);
		if (err)
			return err;
	}
	if (room > classes->room) {
		err = grow_rows(classes, room);
		if (err)
			return err;
		classes->room = room;
	}
	return 0;
}

static int compare_holes(const struct placement_hole *a, const struct placement_hole *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->share != b->share)
		return a->share < b->share ? -1 : 1;
	if (a->memory != b->memory)
		return a->memory < b->memory ? -1 : 1;
	return a->memory_one < b->memory_one ? -1 : a->memory_one > b->memory_one;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9fb21c651e98df25ULL;
	return hash ^ hash >> 29;
}

/* The state of a box into *state and the holes of scratch. */
static void describe(const struct placement_pool *pool, const struct placement_box *box,
		     struct placement_class *state, struct placement_hole *holes)
{
	uint32_t count = 0, k;

	*state = (struct placement_class){ .rtt_ns = box->rtt_ns, .ns_per_mib = box->ns_per_mib };
	if (box->host != PLACEMENT_NONE) {
		const struct placement_host *host = &pool->hosts.rows[box->host];

		state->hosted = true;
		state->cpu = host->cpu_used < host->cpu ? host->cpu - host->cpu_used : 0;
		state->memory =
			host->memory_used < host->memory ? host->memory - host->memory_used : 0;
		if (host->failed)
			state->cpu = state->memory = 0;
	}
	for (uint32_t i = box->first_gpu; i != PLACEMENT_NONE; i = pool->gpus.rows[i].next_in_box) {
		const struct placement_gpu *gpu = &pool->gpus.rows[i];
		struct placement_hole hole = placement_gpu_hole(gpu);

		if (gpu->state != PLACEMENT_READY || gpu->isolated)
			continue;
		for (k = count++; k && compare_holes(&hole, &holes[k - 1]) < 0; k--)
			holes[k] = holes[k - 1];
		holes[k] = hole;
	}
	state->hole_count = count;
	state->hash = mix(mix(mix(count << 1 | state->hosted, state->cpu), state->memory),
			  (uint64_t)state->rtt_ns << 32 | state->ns_per_mib);
	for (k = 0; k < count; k++)
		state->hash = mix(state->hash, (uint64_t)holes[k].kind << 32 | holes[k].share) +
			      holes[k].memory;
}

static bool same_state(const struct placement_classes *classes, uint32_t number,
		       const struct placement_class *state, const struct placement_hole *holes)
{
	const struct placement_class *class = &classes->rows[number];
	const struct placement_hole *own = placement_class_holes(classes, number);

	if (class->hash != state->hash || class->hosted != state->hosted ||
	    class->cpu != state->cpu ||
	    class->memory != state->memory || class->rtt_ns != state->rtt_ns ||
	    class->ns_per_mib != state->ns_per_mib || class->hole_count != state->hole_count)
		return false;
	for (uint32_t i = 0; i < state->hole_count; i++)
		if (compare_holes(&own[i], &holes[i]))
			return false;
	return true;
}

static uint32_t find(const struct placement_classes *classes, const struct placement_class *state,
		     const struct placement_hole *holes)
{
	const struct hash_slot *slot;

	hash_each_of(&classes->table, state->hash, slot)
		if (same_state(classes, (uint32_t)slot->value - 1, state, holes))
			return (uint32_t)slot->value - 1;
	return PLACEMENT_NONE;
}

static void tidy_births(struct placement_classes *classes)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < classes->birth_count; i++) {
		struct placement_birth birth = classes->births[i];

		classes->moved[i] = kept;
		if (placement_class_alive(classes, birth.class, birth.generation))
			classes->births[kept++] = birth;
	}
	classes->moved[classes->birth_count] = kept;
	classes->birth_count = kept;
	classes->tidied++;
}

static uint32_t create(struct placement_classes *classes, const struct placement_class *state,
		       const struct placement_hole *holes)
{
	struct placement_class *class;
	uint32_t number, generation = 1;

	if (classes->birth_count == classes->birth_room)
		tidy_births(classes);
	if (classes->free_class != PLACEMENT_NONE) {
		number = classes->free_class;
		classes->free_class = classes->rows[number].first_box;
		generation = classes->rows[number].generation + 1;
	} else {
		number = classes->count++;
	}
	class = &classes->rows[number];
	*class = *state;
	class->generation = generation;
	class->first_box = PLACEMENT_NONE;
	memcpy(placement_class_holes(classes, number), holes, state->hole_count * sizeof(*holes));
	for (uint32_t i = 0; i < state->hole_count; i++) {
		class->share += holes[i].share;
		class->whole += holes[i].share >= PLACEMENT_WHOLE;
		class->kinds |= 1ULL << holes[i].kind;
	}
	hash_add(&classes->table, state->hash, number + 1);
	classes->live++;
	classes->births[classes->birth_count++] = (struct placement_birth){ number, generation };
	return number;
}

static void leave(struct placement_pool *pool, uint32_t number)
{
	struct placement_box *box = &pool->boxes.rows[number];
	struct placement_classes *classes = pool->classes;
	struct placement_class *class = &classes->rows[box->class];

	if (box->class_prev != PLACEMENT_NONE)
		pool->boxes.rows[box->class_prev].class_next = box->class_next;
	else
		class->first_box = box->class_next;
	if (box->class_next != PLACEMENT_NONE)
		pool->boxes.rows[box->class_next].class_prev = box->class_prev;
	if (--class->boxes)
		return;
	hash_remove(&classes->table, class->hash, box->class + 1);
	class->first_box = classes->free_class;
	classes->free_class = box->class;
	classes->live--;
}

static void join(struct placement_pool *pool, uint32_t number, uint32_t class)
{
	struct placement_box *box = &pool->boxes.rows[number];
	struct placement_class *joined = &pool->classes->rows[class];

	box->class = class;
	box->class_prev = PLACEMENT_NONE;
	box->class_next = joined->first_box;
	if (box->class_next != PLACEMENT_NONE)
		pool->boxes.rows[box->class_next].class_prev = number;
	joined->first_box = number;
	joined->boxes++;
}

void placement_classes_update(struct placement_pool *pool, uint32_t number)
{
	struct placement_classes *classes = pool->classes;
	struct placement_box *box = &pool->boxes.rows[number];
	struct placement_hole *holes = placement_class_holes(classes, classes->room);
	struct placement_class state;
	uint32_t class;

	describe(pool, box, &state, holes);
	if (box->class != PLACEMENT_NONE) {
		if (same_state(classes, box->class, &state, holes))
			return;
		leave(pool, number);
	}
	class = find(classes, &state, holes);
	if (class == PLACEMENT_NONE)
		class = create(classes, &state, holes);
	join(pool, number, class);
}
