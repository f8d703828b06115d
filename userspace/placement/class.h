/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A class: all boxes that are in the same state, so that a score is computed for
 * the state once. A class never changes; a box moves from one to another. A class
 * without boxes is gone: its number is reused with another generation. The pool
 * owns its classes, and tells them of every change of a box.
 *
 * Only ready gpus that are open to all tenants are part of the state. Room is made when
 * boxes and gpus are added, for there are never more classes than boxes: an update cannot
 * fail.
 */
#ifndef DISTMIND_PLACEMENT_CLASS_H
#define DISTMIND_PLACEMENT_CLASS_H

#include "../common/hash.h"
#include "pool.h"

/* What is left of a gpu. */
struct placement_hole {
	uint32_t share;
	uint32_t kind;
	uint64_t memory;
	uint64_t memory_one;
};

static inline struct placement_hole placement_gpu_hole(const struct placement_gpu *gpu)
{
	return (struct placement_hole){
		.share = placement_gpu_share_left(gpu),
		.kind = gpu->kind,
		.memory = placement_gpu_memory_left(gpu),
		.memory_one = gpu->memory_one,
	};
}

struct placement_class {
	uint32_t generation;
	uint32_t boxes;	    /* how many; 0: unused */
	uint32_t first_box; /* or the next unused class */
	uint64_t hash;
	bool hosted;	      /* in a host: else there is no cpu and memory to be short of */
	uint64_t cpu, memory; /* left of the host */
	uint32_t rtt_ns, ns_per_mib;
	uint32_t hole_count;
	/* Sums over the holes. */
	uint64_t share;
	uint32_t whole; /* holes of a whole gpu or more */
	uint64_t kinds;
	/* Of the score, by the prices of that epoch. */
	uint32_t epoch;
	double value, usable, unwhole, scarcity;
};

/* A class that came to be. */
struct placement_birth {
	uint32_t class, generation;
};

struct placement_classes {
	struct placement_class *rows;
	uint32_t count, room;
	struct placement_hole *holes; /* stride for each class, and for the state looked for */
	uint32_t stride;
	struct hash table; /* numbers of classes that have boxes, plus one */
	uint32_t free_class;
	uint32_t live;
	/*
	 * Births since the start, without those dead by the time that it was tidied:
	 * whoever has read it up to some place need only look at what follows.
	 */
	struct placement_birth *births;
	uint32_t birth_count, birth_room;
	uint32_t tidied; /* how often */
	uint32_t *moved; /* by the last tidying: from old places to new ones */
};

struct placement_classes *placement_classes_new(void);
void placement_classes_free(struct placement_classes *classes);

/* Make room for that many boxes of so many gpus each. */
int placement_classes_reserve(struct placement_classes *classes, uint32_t boxes, uint32_t gpus);

/* Put a box into the class of its state. */
void placement_classes_update(struct placement_pool *pool, uint32_t box);

/* By kind, share, memory. */
static inline struct placement_hole *placement_class_holes(const struct placement_classes *classes,
							   uint32_t class)
{
	return classes->holes + (size_t)class * classes->stride;
}

static inline bool placement_class_alive(const struct placement_classes *classes, uint32_t class,
					 uint32_t generation)
{
	return classes->rows[class].generation == generation && classes->rows[class].boxes;
}

#endif
