/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plans: moves of grants, each explained, made on the pool as they are planned. Who
 * only wants to see a plan makes it on a pool and takes it back (placement_plan_undo).
 *
 * Recovery: what a failed gpu, box or host leaves without a place. Spares first; for
 * a grant of several gpus in one box another gpu of the box, else all of it elsewhere;
 * the largest grants first, for they find a place least easily.
 *
 * Repacking: gpus freed wholly with the fewest moves, into what is left of used ones.
 */
#ifndef DISTMIND_PLACEMENT_PLAN_H
#define DISTMIND_PLACEMENT_PLAN_H

#include "decision.h"

struct placement_move {
	uint32_t grant;
	struct placement_claim claim;
	uint32_t from_box, to_box; /* to_box PLACEMENT_NONE: there is no place */
	uint32_t from[PLACEMENT_GPUS_MAX], to[PLACEMENT_GPUS_MAX];
	bool spare; /* onto a spare */
	char why[DISTMIND_REASON_LEN];
};

struct placement_plan {
	struct placement_move *moves;
	uint32_t count, room;
	uint32_t stranded; /* grants without a place */
	uint32_t freed;	   /* gpus that nothing is on any more */
	/* Spares that were taken into use, and gpus that failed: what they were. */
	struct {
		uint32_t gpu;
		enum placement_state state;
	} *changed;
	uint32_t changed_count, changed_room;
	uint32_t host; /* that failed, or PLACEMENT_NONE */
};

void placement_plan_free(struct placement_plan *plan);

/* Takes back what a plan did to the pool. */
void placement_plan_undo(struct placement_plan *plan, struct placement *placement);

#define PLACEMENT_PLAN_EMPTY { .host = PLACEMENT_NONE }

/*
 * What fails is marked so, and what was on it placed elsewhere in the same decision; a
 * grant that finds no place is gone from the pool and counted as stranded. 0 or -ENOMEM.
 */
int placement_recover_gpu(struct placement *placement, uint32_t gpu, struct placement_plan *plan);
int placement_recover_box(struct placement *placement, uint32_t box, struct placement_plan *plan);
int placement_recover_host(struct placement *placement, uint32_t host,
			   struct placement_plan *plan);

/* Up to that many moves. */
int placement_repack(struct placement *placement, uint32_t most, struct placement_plan *plan);

/*
 * For those who make plans: room first, then what cannot fail. A grant is taken off its
 * gpus and put elsewhere, which leaves it its number, or back where it was.
 */
int placement_plan_reserve(struct placement_plan *plan, uint32_t moves, uint32_t changes);
void placement_plan_change(struct placement_plan *plan, struct placement_pool *pool, uint32_t gpu,
			   enum placement_state state);
struct placement_move *placement_plan_take(struct placement_plan *plan,
					   struct placement_pool *pool, uint32_t grant);
void placement_plan_put(struct placement_move *move, struct placement_pool *pool, uint32_t box,
			const uint32_t *gpus);
void placement_plan_back(struct placement_plan *plan, struct placement_pool *pool);

#endif
