// SPDX-License-Identifier: GPL-2.0-or-later
#include "score.h"

#include <math.h>

#define FRAGMENT_WEIGHT 0.05
#define SCARCITY_WEIGHT 0.2
#define PACKING_WEIGHT 0.001
/* A gpu that is faster than needed could have served somebody who needs it. */
#define SPEED_WEIGHT 0.5
/* Too slow is worse than any waste, but not forbidden: nobody is refused for it. */
#define OBJECTIVE_WEIGHT 10
#define CACHE_WEIGHT 0.2
#define MIGRATION_WEIGHT 0.1
#define MIGRATION_FAR_WEIGHT 0.2

const char *const placement_term_names[PLACEMENT_TERMS] = {
	[PLACEMENT_TERM_HOLE] = "hole",
	[PLACEMENT_TERM_SHORTAGE] = "shortage",
	[PLACEMENT_TERM_FRAGMENT] = "fragment",
	[PLACEMENT_TERM_SCARCITY] = "scarcity",
	[PLACEMENT_TERM_PACKING] = "packing",
	[PLACEMENT_TERM_DISTANCE] = "distance",
	[PLACEMENT_TERM_SPEED] = "speed",
	[PLACEMENT_TERM_CACHE] = "cache",
	[PLACEMENT_TERM_INTERFERENCE] = "interference",
	[PLACEMENT_TERM_MIGRATION] = "migration",
};

static double hole_value(const struct placement_prices *prices, uint32_t share, uint64_t memory)
{
	double value = prices->hole[share % PLACEMENT_WHOLE] +
		       share / PLACEMENT_WHOLE * prices->hole[PLACEMENT_WHOLE];

	if (prices->gpu_memory > 0)
		value = fmin(value, (double)memory / prices->gpu_memory);
	return value;
}

/* As much of a value as there is cpu and memory for. */
static double usable_value(const struct placement_prices *prices, bool hosted, double value,
			   uint64_t cpu, uint64_t memory)
{
	if (!hosted)
		return value;
	if (prices->cpu > 0)
		value = fmin(value, (double)cpu / prices->cpu);
	if (prices->memory > 0)
		value = fmin(value, (double)memory / prices->memory);
	return value;
}

/* FGD's measure for claims of whole gpus: free shares that they cannot use. */
static double fragments(const struct placement_prices *prices, uint32_t kind, double share,
			uint32_t whole, uint64_t cpu)
{
	return share * prices->whole -
	       PLACEMENT_WHOLE * (double)whole *
		       placement_prices_served(prices, kind, whole, cpu);
}

/* What does not depend on the claim, once for each epoch. */
static void refresh(const struct placement_scorer *scorer, uint32_t number)
{
	struct placement_class *class = &scorer->pool->classes->rows[number];
	const struct placement_hole *holes = placement_class_holes(scorer->pool->classes, number);
	const struct placement_prices *prices = scorer->prices;

	class->epoch = prices->epoch;
	class->value = class->scarcity = class->unwhole = 0;
	for (uint32_t i = 0; i < class->hole_count; i++) {
		class->value += hole_value(prices, holes[i].share, holes[i].memory);
		class->scarcity += prices->scarcity[holes[i].kind];
	}
	if (class->hole_count) {
		class->scarcity *= SCARCITY_WEIGHT / class->hole_count;
		class->unwhole = fragments(prices, holes[0].kind, (double)class->share,
					   class->whole, class->cpu);
	}
	class->usable = usable_value(prices, class->hosted, class->value, class->cpu,
				     class->memory);
}

bool placement_fits_hole(const struct placement_pool *pool, const struct placement_hole *hole,
			 const struct placement_need *need)
{
	if (need->kinds && !(need->kinds & 1ULL << hole->kind))
		return false;
	return hole->share >= placement_kind_share(&pool->kinds[hole->kind], need->share) &&
	       hole->memory >= need->gpu_memory && hole->memory_one >= need->gpu_memory;
}

/* What can be told without looking at the holes. */
static bool fits_sums(const struct placement_class *class, const struct placement_need *need)
{
	return class->cpu >= need->cpu && class->memory >= need->memory &&
	       class->hole_count >= need->count &&
	       class->share >= placement_need_milli(need) &&
	       (need->share < PLACEMENT_WHOLE || class->whole >= need->count) &&
	       (!need->kinds || !need->count || need->kinds & class->kinds);
}

bool placement_fits_class(const struct placement_pool *pool, uint32_t number,
			  const struct placement_need *need)
{
	const struct placement_class *class = &pool->classes->rows[number];
	const struct placement_hole *holes = placement_class_holes(pool->classes, number);
	uint32_t fits = 0;

	if (!fits_sums(class, need))
		return false;
	for (uint32_t i = 0; i < class->hole_count && fits < need->count; i++)
		fits += placement_fits_hole(pool, &holes[i], need);
	return fits == need->count;
}

/* What a box is after a need was put into some of its holes. */
struct after {
	double value, share;
	uint32_t whole;
	double memory; /* of the gpus taken, as thousandths of a gpu that it goes with */
};

static void take_hole(const struct placement_scorer *scorer, const struct placement_hole *hole,
		      const struct placement_need *need, struct after *after)
{
	uint32_t share = placement_kind_share(&scorer->pool->kinds[hole->kind], need->share);

	after->value -= hole_value(scorer->prices, hole->share, hole->memory) -
			hole_value(scorer->prices, hole->share - share,
				   hole->memory - need->gpu_memory);
	after->share -= share;
	if (scorer->prices->gpu_memory > 0)
		after->memory +=
			(double)(hole->memory - need->gpu_memory) / scorer->prices->gpu_memory;
	after->whole -= hole->share >= PLACEMENT_WHOLE && hole->share - share < PLACEMENT_WHOLE;
}

/* Distance and speed: by the kind of the gpu and the path to it. */
static void score_time(const struct placement_scorer *scorer, const struct placement_class *class,
		       const struct placement_hole *hole, const struct placement_need *need,
		       double *terms)
{
	double speed = scorer->pool->kinds[hole->kind].speed, slack, needed;
	double work = (double)need->work_ns / speed;
	double path = (double)need->launches * class->rtt_ns +
		      (double)need->bytes / (1 << 20) * class->ns_per_mib;

	terms[PLACEMENT_TERM_DISTANCE] += need->share * path / work;
	if (!need->objective_ns)
		return;
	slack = (double)need->objective_ns - path;
	if (slack < work) {
		terms[PLACEMENT_TERM_SPEED] += OBJECTIVE_WEIGHT * need->share;
		return;
	}
	needed = (double)need->work_ns / slack;
	terms[PLACEMENT_TERM_SPEED] += SPEED_WEIGHT * need->share * (1 - needed / speed);
}

static void score_after(const struct placement_scorer *scorer, const struct placement_class *class,
			uint32_t kind, const struct placement_need *need,
			const struct after *after, double *terms)
{
	const struct placement_prices *prices = scorer->prices;
	double usable = usable_value(prices, class->hosted, after->value, class->cpu - need->cpu,
				     class->memory - need->memory);

	terms[PLACEMENT_TERM_HOLE] = class->value - after->value;
	terms[PLACEMENT_TERM_SHORTAGE] = (after->value - usable) - (class->value - class->usable);
	terms[PLACEMENT_TERM_FRAGMENT] =
		class->hole_count ? FRAGMENT_WEIGHT * (fragments(prices, kind, after->share,
								 after->whole,
								 class->cpu - need->cpu) -
						       class->unwhole) :
				    0;
	terms[PLACEMENT_TERM_SCARCITY] =
		class->scarcity * (class->usable - usable + terms[PLACEMENT_TERM_FRAGMENT]);
	terms[PLACEMENT_TERM_PACKING] = PACKING_WEIGHT * (after->share + after->memory);
}

static double sum(const double *terms)
{
	double total = 0;

	for (int i = 0; i < PLACEMENT_TERMS; i++)
		total += terms[i];
	return total;
}

void placement_score_holes(const struct placement_scorer *scorer, uint32_t number,
			   const struct placement_need *need, const uint32_t *chosen,
			   uint32_t count, struct placement_score *score)
{
	const struct placement_class *class = &scorer->pool->classes->rows[number];
	const struct placement_hole *holes = placement_class_holes(scorer->pool->classes, number);
	struct after after;

	if (class->epoch != scorer->prices->epoch)
		refresh(scorer, number);
	*score = (struct placement_score){ 0 };
	after = (struct after){ class->value, (double)class->share, class->whole, 0 };
	for (uint32_t i = 0; i < count; i++) {
		take_hole(scorer, &holes[chosen[i]], need, &after);
		if (need->work_ns)
			score_time(scorer, class, &holes[chosen[i]], need, score->terms);
	}
	score_after(scorer, class, class->hole_count ? holes[0].kind : 0, need, &after,
		    score->terms);
	score->total = sum(score->terms);
}

/* The same sum as placement_score_holes(), for one hole and the usual need. */
static double total_one(const struct placement_scorer *scorer, const struct placement_class *class,
			const struct placement_hole *holes, uint32_t hole,
			const struct placement_need *need)
{
	struct after after = { class->value, (double)class->share, class->whole, 0 };
	double terms[PLACEMENT_TERMS] = { 0 };

	take_hole(scorer, &holes[hole], need, &after);
	if (need->work_ns)
		score_time(scorer, class, &holes[hole], need, terms);
	score_after(scorer, class, holes[0].kind, need, &after, terms);
	return sum(terms);
}

static bool same_hole(const struct placement_hole *a, const struct placement_hole *b)
{
	return a->share == b->share && a->kind == b->kind && a->memory == b->memory &&
	       a->memory_one == b->memory_one;
}

/* The holes that lose least, each by itself. */
static bool choose_several(const struct placement_scorer *scorer, uint32_t number,
			   const struct placement_need *need, struct placement_place *place)
{
	const struct placement_class *class = &scorer->pool->classes->rows[number];
	const struct placement_hole *holes = placement_class_holes(scorer->pool->classes, number);
	double loss[PLACEMENT_GPUS_MAX], this;
	struct placement_score score;
	uint32_t count = 0, k;

	for (uint32_t i = 0; i < class->hole_count; i++) {
		struct after after = { 0 };
		double terms[PLACEMENT_TERMS] = { 0 };

		if (!placement_fits_hole(scorer->pool, &holes[i], need))
			continue;
		take_hole(scorer, &holes[i], need, &after);
		if (need->work_ns)
			score_time(scorer, class, &holes[i], need, terms);
		this = sum(terms) - after.value;
		if (count == need->count && this >= loss[count - 1])
			continue;
		for (k = count < need->count ? count++ : count - 1; k && this < loss[k - 1]; k--) {
			loss[k] = loss[k - 1];
			place->holes[k] = place->holes[k - 1];
		}
		loss[k] = this;
		place->holes[k] = i;
	}
	if (count < need->count)
		return false;
	placement_score_holes(scorer, number, need, place->holes, count, &score);
	place->total = score.total;
	return true;
}

bool placement_score_class(const struct placement_scorer *scorer, uint32_t number,
			   const struct placement_need *need, struct placement_place *place)
{
	const struct placement_class *class = &scorer->pool->classes->rows[number];
	const struct placement_hole *holes = placement_class_holes(scorer->pool->classes, number);
	struct placement_score score;
	double total;

	if (!fits_sums(class, need))
		return false;
	if (class->epoch != scorer->prices->epoch)
		refresh(scorer, number);
	place->total = INFINITY;
	if (!need->count) {
		placement_score_holes(scorer, number, need, NULL, 0, &score);
		place->total = score.total;
	} else if (need->count > 1) {
		return choose_several(scorer, number, need, place);
	}
	for (uint32_t i = 0; need->count && i < class->hole_count; i++) {
		if (i && same_hole(&holes[i], &holes[i - 1]))
			continue;
		if (!placement_fits_hole(scorer->pool, &holes[i], need))
			continue;
		total = total_one(scorer, class, holes, i, need);
		if (total < place->total) {
			place->total = total;
			place->holes[0] = i;
		}
	}
	return place->total < INFINITY;
}

/*
 * On one gpu
 */

static void score_move(const struct placement_pool *pool, uint32_t gpu,
		       const struct placement_claim *claim, double *terms)
{
	const struct placement_gpu *from = &pool->gpus.rows[claim->from];

	if (gpu == claim->from)
		return;
	terms[PLACEMENT_TERM_MIGRATION] +=
		claim->need.share * (from->box == pool->gpus.rows[gpu].box ?
					       MIGRATION_WEIGHT :
					       MIGRATION_FAR_WEIGHT);
}

void placement_score_gpu(const struct placement_pool *pool, uint32_t number,
			 const struct placement_claim *claim, struct placement_score *score)
{
	const struct placement_gpu *gpu = &pool->gpus.rows[number];
	uint32_t profile = claim->profile;

	for (size_t i = 0; claim->model && i < sizeof(gpu->models) / sizeof(*gpu->models); i++)
		if (gpu->models[i] == claim->model)
			score->terms[PLACEMENT_TERM_CACHE] = -CACHE_WEIGHT * PLACEMENT_WHOLE;
	if (claim->moves)
		score_move(pool, number, claim, score->terms);
	for (uint32_t i = gpu->first_hold; profile && i != PLACEMENT_NONE;
	     i = pool->holds.rows[i].next_on_gpu) {
		const struct placement_claim *other =
			&pool->grants.rows[pool->holds.rows[i].grant].claim;

		/* What both lose by the other. */
		score->terms[PLACEMENT_TERM_INTERFERENCE] +=
			claim->need.share * pool->interference[profile][other->profile] +
			other->need.share * pool->interference[other->profile][profile];
	}
	score->total = sum(score->terms);
}
