// SPDX-License-Identifier: GPL-2.0-or-later
#include "baseline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4096

/* What one need got of each class. */
struct seen {
	uint32_t generation;
	uint32_t hole;
	double score; /* NAN: does not fit */
};

struct placement_memo_row {
	struct placement_need need;
	uint64_t hash;
	struct seen *seen; /* by class */
	uint32_t room;
};

void placement_memo_free(struct placement_memo *memo)
{
	if (!memo)
		return;
	for (uint32_t i = 0; i < memo->count; i++)
		free(memo->rows[i].seen);
	free(memo->rows);
	free(memo->typical);
	free(memo->fragments);
	free(memo->fragments_of);
	free(memo);
}

static struct placement_memo_row *find_row(struct placement_memo *memo,
					   const struct placement_need *need)
{
	uint64_t hash = placement_need_hash(need);
	struct placement_memo_row *rows;

	for (uint32_t i = 0; i < memo->count; i++)
		if (memo->rows[i].hash == hash && placement_need_equal(&memo->rows[i].need, need))
			return &memo->rows[i];
	if (memo->count == ROWS_MAX)
		free(memo->rows[--memo->count].seen);
	if (memo->count == memo->room) {
		rows = reallocarray(memo->rows, memo->room ? 2 * memo->room : 64, sizeof(*rows));
		if (!rows)
			return NULL;
		memo->rows = rows;
		memo->room = memo->room ? 2 * memo->room : 64;
	}
	memo->rows[memo->count] = (struct placement_memo_row){ .need = *need, .hash = hash };
	return &memo->rows[memo->count++];
}

static int make_room(struct placement_memo_row *row, uint32_t room)
{
	struct seen *seen;

	if (room <= row->room)
		return 0;
	seen = reallocarray(row->seen, room, sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	memset(seen + row->room, 0, (room - row->room) * sizeof(*seen));
	row->seen = seen;
	row->room = room;
	return 0;
}

static const struct seen *look(struct placement *placement, struct placement_memo_row *row,
			       uint32_t box)
{
	uint32_t class = placement->pool->boxes.rows[box].class;
	struct seen *seen = &row->seen[class];

	if (seen->generation == placement->pool->classes->rows[class].generation &&
	    !placement->policy->by_box)
		return seen;
	seen->generation = placement->pool->classes->rows[class].generation;
	seen->hole = PLACEMENT_NONE;
	seen->score = NAN;
	if (placement_fits_class(placement->pool, class, &row->need))
		seen->score = placement->policy->score(placement, box, &row->need, &seen->hole);
	return seen;
}

int placement_compare(struct placement *placement, const struct placement_need *need,
		      uint32_t *box, uint32_t *holes)
{
	const struct placement_pool *pool = placement->pool;
	const struct placement_hole *of_class;
	struct placement_memo_row *row;
	const struct seen *seen;
	double best = -INFINITY;
	uint32_t count = 0;

	if (!placement->memo)
		placement->memo = calloc(1, sizeof(*placement->memo));
	row = placement->memo ? find_row(placement->memo, need) : NULL;
	if (!row || make_room(row, pool->classes->room))
		return -ENOMEM;
	*box = PLACEMENT_NONE;
	for (uint32_t i = 0; i < pool->boxes.count; i++) {
		seen = look(placement, row, i);
		if (!(seen->score > best))
			continue;
		best = seen->score;
		*box = i;
		holes[0] = seen->hole;
	}
	if (*box == PLACEMENT_NONE)
		return -ENOSPC;
	of_class = placement_class_holes(pool->classes, pool->boxes.rows[*box].class);
	for (uint32_t i = 0; need->count > 1 && count < need->count; i++)
		if (placement_fits_hole(pool, &of_class[i], need))
			holes[count++] = i;
	return 0;
}

/*
 * The scores
 */

static const struct placement_class *class_of(const struct placement *placement, uint32_t box)
{
	return &placement->pool->classes->rows[placement->pool->boxes.rows[box].class];
}

/* The smallest hole that fits, which is what most of them take. */
static uint32_t tightest(const struct placement *placement, uint32_t box,
			 const struct placement_need *need)
{
	const struct placement_class *class = class_of(placement, box);
	const struct placement_hole *holes = placement_class_holes(
		placement->pool->classes, placement->pool->boxes.rows[box].class);
	uint32_t best = PLACEMENT_NONE;

	for (uint32_t i = 0; need->count == 1 && i < class->hole_count; i++)
		if (placement_fits_hole(placement->pool, &holes[i], need) &&
		    (best == PLACEMENT_NONE || holes[i].share < holes[best].share))
			best = i;
	return best;
}

static double random_unit(struct placement *placement)
{
	placement->random ^= placement->random << 13;
	placement->random ^= placement->random >> 7;
	placement->random ^= placement->random << 17;
	return (double)(placement->random >> 11) * 0x1p-53;
}

static double score_random(struct placement *placement, uint32_t box,
			   const struct placement_need *need, uint32_t *hole)
{
	*hole = tightest(placement, box, need);
	return random_unit(placement);
}

static double score_first_fit(struct placement *placement, uint32_t box,
			      const struct placement_need *need, uint32_t *hole)
{
	const struct placement_hole *holes = placement_class_holes(
		placement->pool->classes, placement->pool->boxes.rows[box].class);

	for (*hole = 0; need->count == 1 && !placement_fits_hole(placement->pool, &holes[*hole],
								 need);)
		++*hole;
	return 0;
}

/* Of the largest box there is, which the artefact of FGD normalises by. */
static void largest(const struct placement *placement, double *cpu, double *share)
{
	const struct placement_pool *pool = placement->pool;

	*cpu = *share = 1;
	for (uint32_t i = 0; i < pool->boxes.count; i++) {
		const struct placement_box *box = &pool->boxes.rows[i];

		if (box->host != PLACEMENT_NONE)
			*cpu = fmax(*cpu, (double)pool->hosts.rows[box->host].cpu);
		*share = fmax(*share, (double)box->gpu_count * PLACEMENT_WHOLE);
	}
}

static double score_best_fit(struct placement *placement, uint32_t box,
			     const struct placement_need *need, uint32_t *hole)
{
	const struct placement_class *class = class_of(placement, box);
	double cpu, share;

	largest(placement, &cpu, &share);
	*hole = tightest(placement, box, need);
	return floor(100 * (1 - 0.5 * (double)(class->cpu - need->cpu) / cpu -
			    0.5 * (double)(class->share - placement_need_milli(need)) / share));
}

/* Tetris' alignment turned around, as FGD's artefact has it: the less alike, the better. */
static double score_dot_product(struct placement *placement, uint32_t box,
				const struct placement_need *need, uint32_t *hole)
{
	const struct placement_class *class = class_of(placement, box);
	double cpu, share;

	largest(placement, &cpu, &share);
	*hole = tightest(placement, box, need);
	return floor(100 * (1 - 0.5 * ((double)class->cpu / cpu * (double)need->cpu / cpu +
				       (double)class->share / share *
					       (double)placement_need_milli(need) / share)));
}

/* Shared gpus first, then free gpus of used boxes, then free boxes. */
static double score_packing(struct placement *placement, uint32_t box,
			    const struct placement_need *need, uint32_t *hole)
{
	const struct placement_class *class = class_of(placement, box);
	const struct placement_hole *holes = placement_class_holes(
		placement->pool->classes, placement->pool->boxes.rows[box].class);

	*hole = tightest(placement, box, need);
	if (!need->count)
		return 0;
	if (class->whole == class->hole_count)
		return 33 - (double)class->whole;
	if (need->count > 1 || holes[*hole].share >= PLACEMENT_WHOLE)
		return 50 - (double)need->count;
	return 100 - floor(holes[*hole].share / 100.0);
}

/* Of needs: shares, one gpu, two, four, eight and more. */
static uint32_t affinity(const struct placement_need *need)
{
	if (!need->count)
		return 0;
	if (need->share < PLACEMENT_WHOLE)
		return 1;
	return 2U << (need->count > 1) << (need->count > 2) << (need->count > 4);
}

/* Boxes that have only the like of it first, then those that have it, then free ones. */
static double score_clustering(struct placement *placement, uint32_t box,
			       const struct placement_need *need, uint32_t *hole)
{
	const struct placement_class *class = class_of(placement, box);
	const struct placement_pool *pool = placement->pool;
	uint32_t there = 0, own = affinity(need);

	*hole = tightest(placement, box, need);
	if (!need->count)
		return 0;
	for (uint32_t i = pool->boxes.rows[box].first_grant; i != PLACEMENT_NONE;
	     i = pool->grants.rows[i].next_in_box)
		there |= affinity(&pool->grants.rows[i].claim.need);
	return floor(25 * (8 - (double)class->share / PLACEMENT_WHOLE) / 8) +
	       (there == own ? 75 : there & own ? 50 : there ? 0 : 25);
}

const struct placement_policy placement_policies[] = {
	{ .name = "distmind", .summary = "prices of holes, shortages and kinds (the default)" },
	{ .name = "random", .summary = "any box that it fits into", .score = score_random,
	  .by_box = true },
	{ .name = "first-fit", .summary = "the first box, the first gpu",
	  .score = score_first_fit },
	{ .name = "best-fit", .summary = "the box that has least left",
	  .score = score_best_fit },
	{ .name = "dot-product", .summary = "the box that is least like the claim",
	  .score = score_dot_product },
	{ .name = "packing", .summary = "shared gpus, then used boxes, then free ones",
	  .score = score_packing },
	{ .name = "clustering", .summary = "boxes with claims of the same sort",
	  .score = score_clustering, .by_box = true },
	{ .name = "fgd", .summary = "fragmentation gradient descent (ATC '23)",
	  .score = placement_fgd_score, .knows_demand = true },
	{ .name = "conspirator", .summary = "first fit with fixed fractions (ATC '24)",
	  .score = score_first_fit, .fractions = true },
};
const size_t placement_policy_count = sizeof(placement_policies) / sizeof(placement_policies[0]);

const struct placement_policy *placement_policy_by_name(const char *name)
{
	for (size_t i = 0; i < placement_policy_count; i++)
		if (!strcmp(placement_policies[i].name, name))
			return &placement_policies[i];
	return NULL;
}
