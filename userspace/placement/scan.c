// SPDX-License-Identifier: GPL-2.0-or-later
#include "scan.h"

#include <string.h>

bool placement_suits_gpu(const struct placement_pool *pool, uint32_t gpu,
			 const struct placement_claim *claim)
{
	for (uint32_t i = pool->gpus.rows[gpu].first_hold; i != PLACEMENT_NONE;
	     i = pool->holds.rows[i].next_on_gpu) {
		const struct placement_claim *other =
			&pool->grants.rows[pool->holds.rows[i].grant].claim;

		if ((claim->isolate || other->isolate) && claim->tenant != other->tenant)
			return false;
		if (claim->group && claim->group == other->group)
			return false;
	}
	return true;
}

/* The number of a gpu's hole in the class of its box; PLACEMENT_NONE: not part of it. */
static uint32_t find_hole(const struct placement_pool *pool, uint32_t number)
{
	const struct placement_gpu *gpu = &pool->gpus.rows[number];
	uint32_t class = pool->boxes.rows[gpu->box].class;
	const struct placement_hole *holes = placement_class_holes(pool->classes, class);
	struct placement_hole hole = placement_gpu_hole(gpu);

	for (uint32_t i = 0; !gpu->isolated && i < pool->classes->rows[class].hole_count; i++)
		if (holes[i].share == hole.share && holes[i].kind == hole.kind &&
		    holes[i].memory == hole.memory && holes[i].memory_one == hole.memory_one)
			return i;
	return PLACEMENT_NONE;
}

/* A gpu that its tenant has to itself is of no value to others: it costs nothing. */
static void score_gpus(const struct placement_scorer *scorer,
		       const struct placement_claim *claim, struct placement_candidate *place,
		       uint32_t count)
{
	uint32_t holes[PLACEMENT_GPUS_MAX] = { 0 }, open = 0;

	for (uint32_t i = 0; i < count; i++) {
		holes[open] = find_hole(scorer->pool, place->gpus[i]);
		open += holes[open] != PLACEMENT_NONE;
	}
	placement_score_holes(scorer, scorer->pool->boxes.rows[place->box].class, &claim->need,
			      holes, open, &place->score);
	for (uint32_t i = 0; i < count; i++)
		placement_score_gpu(scorer->pool, place->gpus[i], claim, &place->score);
}

static bool usable(const struct placement_scorer *scorer, uint32_t number,
		   const struct placement_claim *claim, const uint8_t *except)
{
	const struct placement_gpu *gpu = &scorer->pool->gpus.rows[number];
	struct placement_hole hole = placement_gpu_hole(gpu);

	return gpu->state == PLACEMENT_READY &&
	       !(except && except[number / 8] & 1U << number % 8) &&
	       placement_fits_hole(scorer->pool, &hole, &claim->need) &&
	       placement_suits_gpu(scorer->pool, number, claim);
}

static void keep(struct placement_candidate *best, uint32_t *count, uint32_t room,
		 const struct placement_candidate *new)
{
	uint32_t at;

	if (*count == room && new->score.total >= best[room - 1].score.total)
		return;
	at = *count < room ? (*count)++ : room - 1;
	for (; at && new->score.total < best[at - 1].score.total; at--)
		best[at] = best[at - 1];
	best[at] = *new;
}

/* The gpus of a box that cost least, each by itself; false: not enough. */
static bool choose_several(const struct placement_scorer *scorer,
			   const struct placement_claim *claim, const uint8_t *except,
			   struct placement_candidate *place)
{
	uint32_t wanted = claim->need.count, count = 0, at;
	struct placement_candidate one = { .box = place->box };
	double totals[PLACEMENT_GPUS_MAX];

	placement_each_gpu(scorer->pool, place->box, gpu) {
		if (!usable(scorer, gpu, claim, except))
			continue;
		one.gpus[0] = gpu;
		score_gpus(scorer, claim, &one, 1);
		if (count == wanted && one.score.total >= totals[count - 1])
			continue;
		at = count < wanted ? count++ : count - 1;
		for (; at && one.score.total < totals[at - 1]; at--) {
			totals[at] = totals[at - 1];
			place->gpus[at] = place->gpus[at - 1];
		}
		totals[at] = one.score.total;
		place->gpus[at] = gpu;
	}
	if (count < wanted)
		return false;
	score_gpus(scorer, claim, place, wanted);
	return true;
}

uint32_t placement_scan(const struct placement_scorer *scorer,
			const struct placement_claim *claim, const uint8_t *except,
			struct placement_candidate *best, uint32_t room)
{
	const struct placement_pool *pool = scorer->pool;
	struct placement_candidate place;
	uint32_t count = 0;

	for (uint32_t box = 0; box < pool->boxes.count; box++) {
		const struct placement_class *class =
			&pool->classes->rows[pool->boxes.rows[box].class];

		if (class->cpu < claim->need.cpu || class->memory < claim->need.memory)
			continue;
		place.box = box;
		if (!claim->need.count) {
			score_gpus(scorer, claim, &place, 0);
			keep(best, &count, room, &place);
		} else if (claim->need.count > 1) {
			if (choose_several(scorer, claim, except, &place))
				keep(best, &count, room, &place);
		} else {
			placement_each_gpu(pool, box, gpu) {
				if (!usable(scorer, gpu, claim, except))
					continue;
				place.gpus[0] = gpu;
				score_gpus(scorer, claim, &place, 1);
				keep(best, &count, room, &place);
			}
		}
	}
	return count;
}
