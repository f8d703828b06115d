// SPDX-License-Identifier: GPL-2.0-or-later
#include "baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TYPICAL_PART 0.95

static int compare_part(const void *left, const void *right)
{
	const struct placement_typical *a = left, *b = right;

	if (a->part != b->part)
		return a->part > b->part ? -1 : 1;
	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	if (a->share != b->share)
		return a->share < b->share ? -1 : 1;
	return a->kinds < b->kinds ? -1 : a->kinds > b->kinds;
}

static void add_typical(struct placement_memo *memo, const struct placement_demand_row *row)
{
	const struct placement_need *need = &row->need;
	struct placement_typical *typical;
	uint32_t i;

	for (i = 0; i < memo->typical_count; i++) {
		typical = &memo->typical[i];
		if (typical->cpu == need->cpu && typical->kinds == need->kinds &&
		    typical->count == need->count && typical->share == need->share)
			break;
	}
	typical = &memo->typical[i];
	if (i == memo->typical_count) {
		*typical = (struct placement_typical){ need->cpu, need->kinds, need->count,
						       need->share, 0 };
		memo->typical_count++;
	}
	typical->part += row->count;
}

static bool prepare(struct placement *placement)
{
	const struct placement_demand *demand = &placement->demand;
	struct placement_memo *memo = placement->memo;
	uint32_t room = placement->pool->classes->room, count = 0;
	double sum = 0;

	if (memo->typical && memo->fragments_room >= room)
		return true;
	free(memo->typical);
	free(memo->fragments);
	free(memo->fragments_of);
	memo->typical = calloc(demand->count + 1, sizeof(*memo->typical));
	memo->fragments = calloc(room, sizeof(*memo->fragments));
	memo->fragments_of = calloc(room, sizeof(*memo->fragments_of));
	memo->fragments_room = room;
	if (!memo->typical || !memo->fragments || !memo->fragments_of) {
		memo->fragments_room = 0;
		return false;
	}
	memo->typical_count = 0;
	for (uint32_t i = 0; i < demand->count; i++)
		add_typical(memo, &demand->rows[i]);
	qsort(memo->typical, memo->typical_count, sizeof(*memo->typical), compare_part);
	while (count < memo->typical_count && sum < TYPICAL_PART * demand->total)
		sum += memo->typical[count++].part;
	memo->typical_count = count;
	for (uint32_t i = 0; i < count; i++)
		memo->typical[i].part /= sum;
	return true;
}

/* What a box would be with a hole that is smaller and less cpu. */
struct view {
	const struct placement_hole *holes;
	uint32_t count;
	uint64_t cpu;
	uint32_t smaller; /* number of a hole */
	uint32_t by;
	uint32_t gone; /* whole gpus that are not there any more */
};

static double fragments(const struct placement_memo *memo, const struct view *view)
{
	uint32_t left[PLACEMENT_GPUS_MAX], whole = 0, most = 0, gone = view->gone;
	uint64_t kinds = view->count ? 1ULL << view->holes[0].kind : 0;
	double all = 0, sum = 0, small;

	for (uint32_t i = 0; i < view->count; i++) {
		left[i] = view->holes[i].share - (i == view->smaller ? view->by : 0);
		if (gone && left[i] >= PLACEMENT_WHOLE) {
			left[i] -= PLACEMENT_WHOLE;
			gone--;
		}
		all += left[i];
		whole += left[i] >= PLACEMENT_WHOLE;
		most = left[i] > most ? left[i] : most;
	}
	for (uint32_t k = 0; all > 0 && k < memo->typical_count; k++) {
		const struct placement_typical *typical = &memo->typical[k];
		bool fits = typical->count && view->cpu >= typical->cpu &&
			    (!typical->kinds || typical->kinds & kinds) &&
			    (typical->share < PLACEMENT_WHOLE ? most >= typical->share :
								whole >= typical->count);

		small = 0;
		for (uint32_t i = 0; fits && i < view->count; i++)
			small += left[i] < typical->share ? left[i] : 0;
		sum += typical->part * (fits ? small : all);
	}
	return sum;
}

static double quantised(double before, double after)
{
	return floor(100 / (1 + exp((after - before) / 1000)));
}

double placement_fgd_score(struct placement *placement, uint32_t box,
			   const struct placement_need *need, uint32_t *hole)
{
	const struct placement_classes *classes = placement->pool->classes;
	uint32_t number = placement->pool->boxes.rows[box].class;
	const struct placement_class *class = &classes->rows[number];
	struct placement_memo *memo = placement->memo;
	double before, score, best = -1;
	struct view view = {
		.holes = placement_class_holes(classes, number),
		.count = class->hole_count,
		.cpu = class->cpu,
		.smaller = PLACEMENT_NONE,
	};

	/* FGD is about nodes of some gpus, all of one kind. */
	if (view.count > PLACEMENT_GPUS_MAX || !prepare(placement))
		return 0;
	if (memo->fragments_of[number] != class->generation) {
		memo->fragments_of[number] = class->generation;
		memo->fragments[number] = fragments(memo, &view);
	}
	before = memo->fragments[number];
	view.cpu -= need->cpu;
	if (need->count != 1 || need->share >= PLACEMENT_WHOLE) {
		view.gone = need->count;
		for (*hole = 0; need->count == 1 &&
				!placement_fits_hole(placement->pool, &view.holes[*hole], need);)
			++*hole;
		return quantised(before, fragments(memo, &view));
	}
	view.by = need->share;
	for (uint32_t i = 0; i < view.count; i++) {
		if (!placement_fits_hole(placement->pool, &view.holes[i], need))
			continue;
		view.smaller = i;
		score = quantised(before, fragments(memo, &view));
		if (score > best) {
			best = score;
			*hole = i;
		}
	}
	return best;
}
