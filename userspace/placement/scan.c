// SPDX-License-Identifier: GPL-2.0-or-later
#include "scan.h"

#include <string.h>

bool placement_suits_gpu(const struct placement_pool *pool, uint32_t gpu,
			 const struct placement_request *request)
{
	for (uint32_t i = pool->gpus.rows[gpu].first_hold; i != PLACEMENT_NONE;
	     i = pool->holds.rows[i].next_on_gpu) {
		const struct placement_request *other =
			&pool->grants.rows[pool->holds.rows[i].grant].request;

		if ((request->isolate || other->isolate) && request->tenant != other->tenant)
			return false;
		if (request->group && request->group == other->group)
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
		       const struct placement_request *request, struct placement_candidate *place,
		       uint32_t count)
{
	uint32_t holes[PLACEMENT_GPUS_MAX] = { 0 }, open = 0;

	for (uint32_t i = 0; i < count; i++) {
		holes[open] = find_hole(scorer->pool, place->gpus[i]);
		open += holes[open] != PLACEMENT_NONE;
	}
	placement_score_holes(scorer, scorer->pool->boxes.rows[place->box].class, &request->need,
			      holes, open, &place->score);
	for (uint32_t i = 0; i < count; i++)
		placement_score_gpu(scorer->pool, place->gpus[i], request, &place->score);
}

static bool usable(const struct placement_scorer *scorer, uint32_t number,
		   const struct placement_request *request, const uint8_t *except)
{
	const struct placement_gpu *gpu = &scorer->pool->gpus.rows[number];
	struct placement_hole hole = placement_gpu_hole(gpu);

	return gpu->state == PLACEMENT_READY &&
	       !(except && except[number / 8] & 1U << number % 8) &&
	       placement_fits_hole(scorer->pool, &hole, &request->need) &&
	       placement_suits_gpu(scorer->pool, number, request);
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
			   const struct placement_request *request, const uint8_t *except,
			   struct placement_candidate *place)
{
	uint32_t wanted = request->need.count, count = 0, at;
	struct placement_candidate one = { .box = place->box };
	double totals[PLACEMENT_GPUS_MAX];

	placement_each_gpu(scorer->pool, place->box, gpu) {
		if (!usable(scorer, gpu, request, except))
			continue;
		one.gpus[0] = gpu;
		score_gpus(scorer, request, &one, 1);
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
	score_gpus(scorer, request, place, wanted);
	return true;
}

uint32_t placement_scan(const struct placement_scorer *scorer,
			const struct placement_request *request, const uint8_t *except,
			struct placement_candidate *best, uint32_t room)
{
	const struct placement_pool *pool = scorer->pool;
	struct placement_candidate place;
	uint32_t count = 0;

	for (uint32_t box = 0; box < pool->boxes.count; box++) {
		const struct placement_class *class =
			&pool->classes->rows[pool->boxes.rows[box].class];

		if (class->cpu < request->need.cpu || class->memory < request->need.memory)
			continue;
		place.box = box;
		if (!request->need.count) {
			score_gpus(scorer, request, &place, 0);
			keep(best, &count, room, &place);
		} else if (request->need.count > 1) {
			if (choose_several(scorer, request, except, &place))
				keep(best, &count, room, &place);
		} else {
			placement_each_gpu(pool, box, gpu) {
				if (!usable(scorer, gpu, request, except))
					continue;
				place.gpus[0] = gpu;
				score_gpus(scorer, request, &place, 1);
				keep(best, &count, room, &place);
			}
		}
	}
	return count;
}
