// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * With k groups to come after a cut, the end is the latest of three paths:
 * compute is free, then all that is left is computed, with k launches; copy is
 * free, then it copies and computes what is left; network is free, then the
 * same with all three stages. The first is a sum. The other two are bounded by
 * tables made from the last cut backwards: the first of k groups goes to a cut
 * j, then either the same stage goes on with k - 1 groups from j, or the next
 * stage begins with this group. That each of the paths may choose other cuts
 * than the others makes it a bound; that all have the same number of groups
 * makes it a good one.
 *
 * A group is left out of the tables if, read after all layers before it, it
 * makes whatever contains it finish at the limit or later.
 */
#include "tails.h"

#include <errno.h>
#include <stdlib.h>

/* Beyond what the tables count, bounds get weaker, not wrong. */
#define COUNTED_MIN 8
#define COUNTED_MAX 96

static int64_t longer(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

struct planner_stages planner_tails_step(const struct planner_tails *tails,
					 struct planner_stages stages, uint32_t from, uint32_t to)
{
	stages.network += tails->network_cost + tails->network[to] - tails->network[from];
	stages.copy = longer(stages.copy, stages.network) + tails->copy_cost + tails->copy[to] -
		      tails->copy[from];
	stages.compute = longer(stages.compute, stages.copy) + tails->launch_cost +
			 tails->compute[to] - tails->compute[from];
	return stages;
}

static int64_t compute_left(const struct planner_tails *tails, uint32_t cut)
{
	return tails->compute[tails->last] - tails->compute[cut];
}

/*
 * No cut before a layer that takes no time in either transfer: in the group
 * before, its compute is no later than in the group after, and nothing else
 * changes.
 */
static bool worth_cutting(const struct planner_pipeline *pipeline, size_t i)
{
	return !i || i == pipeline->layers || pipeline->network[i] != pipeline->network[i + 1] ||
	       pipeline->copy[i] != pipeline->copy[i + 1];
}

/*
 * What layers that are merged may take in the transfers, all together. A path to
 * the end is some of the reading, then of the copying, then of the computing. Move
 * each cut of the optimum to the end of the merged layers that it is in: of the
 * first two parts each gets longer by one such step at most, the third gets
 * shorter, and groups that have become empty cost nothing any more. So the steps
 * are such that both are PLANNER_LOSS of the busier stage, and no finish is
 * earlier than what that takes.
 */
static void find_steps(const struct planner_pipeline *pipeline, int64_t *network, int64_t *copy)
{
	double read = (double)pipeline->network[pipeline->layers];
	double copied = (double)pipeline->copy[pipeline->layers];
	double share = PLANNER_LOSS * (read > copied ? read : copied) / (read + copied);

	*network = (int64_t)(read * share);
	*copy = (int64_t)(copied * share);
}

/* All cuts that are worth it or, if these are too many, the ends of merged layers. */
static void choose_cuts(struct planner_tails *tails, const struct planner_pipeline *pipeline,
			bool merge)
{
	size_t n = pipeline->layers, from = 0, worth = 0;
	int64_t network = 0, copy = 0;
	uint32_t cut = 0;

	for (size_t i = 0; i <= n; i++)
		worth += worth_cutting(pipeline, i);
	merge = merge && worth > PLANNER_CUTS_EXACT;
	if (merge)
		find_steps(pipeline, &network, &copy);
	for (size_t i = 0; i <= n; i++) {
		if (!worth_cutting(pipeline, i))
			continue;
		if (merge && i && i < n &&
		    pipeline->network[i + 1] - pipeline->network[from] <= network &&
		    pipeline->copy[i + 1] - pipeline->copy[from] <= copy)
			continue;
		tails->cuts[cut] = (uint32_t)i;
		tails->network[cut] = pipeline->network[i];
		tails->copy[cut] = pipeline->copy[i];
		tails->compute[cut] = pipeline->compute[i];
		tails->last = cut++;
		from = i;
	}
}

/*
 * Groups of at most so much of a transfer, and of more by a ratio from one to the next: their
 * number, and where they end if there is room for that.
 */
static uint32_t follow_rule(const struct planner_tails *tails, struct planner_rule rule,
			    struct planner_stages *stages, uint32_t *ends)
{
	const int64_t *transfer = tails->copy[tails->last] > tails->network[tails->last] ?
					  tails->copy : tails->network;
	uint32_t from = 0, count = 0;

	*stages = (struct planner_stages){ 0 };
	for (uint32_t to = 1; to <= tails->last; to++) {
		if (to < tails->last && (double)(transfer[to + 1] - transfer[from]) <= rule.first)
			continue;
		*stages = planner_tails_step(tails, *stages, from, to);
		rule.first *= rule.ratio;
		from = to;
		if (ends)
			ends[count] = tails->cuts[to];
		count++;
	}
	return count;
}

static void try_rule(struct planner_tails *tails, struct planner_rule rule)
{
	struct planner_stages stages;
	uint32_t count = follow_rule(tails, rule, &stages, NULL);

	if (stages.compute >= tails->limit)
		return;
	tails->limit = stages.compute;
	tails->rule = rule;
	/* The optimum is not far from it in this, either. */
	tails->counted = count + count / 2 + COUNTED_MIN;
}

static void find_limit(struct planner_tails *tails)
{
	double all = (double)longer(tails->network[tails->last], tails->copy[tails->last]);

	tails->limit = PLANNER_NEVER;
	for (double part = 1; part < 1024; part *= 1.5)
		for (double ratio = 0.9; ratio < 1.5; ratio += 0.05)
			try_rule(tails, (struct planner_rule){ all / part, ratio });
	/* That grouping itself is to be found, too. */
	tails->limit++;
	if (tails->counted > COUNTED_MAX)
		tails->counted = COUNTED_MAX;
	if (tails->counted > tails->last)
		tails->counted = tails->last;
}

int planner_tails_fallback(const struct planner_tails *tails, struct planner_grouping *grouping)
{
	struct planner_stages stages;

	grouping->ends = calloc(tails->last, sizeof(*grouping->ends));
	if (!grouping->ends)
		return -ENOMEM;
	grouping->count = follow_rule(tails, tails->rule, &stages, grouping->ends);
	return 0;
}

/* One first group for all numbers of groups that its end can have after it. */
static void try_group(struct planner_tails *tails, uint32_t i, uint32_t j)
{
	int64_t read = tails->network_cost + tails->network[j] - tails->network[i];
	int64_t copied = tails->copy_cost + tails->copy[j] - tails->copy[i];
	int64_t *best_network = &tails->tail_network[(size_t)i * tails->counted];
	int64_t *best_copy = &tails->tail_copy[(size_t)i * tails->counted];
	const int64_t *tail_network = &tails->tail_network[(size_t)j * tails->counted];
	const int64_t *tail_copy = &tails->tail_copy[(size_t)j * tails->counted];
	int64_t compute = compute_left(tails, i);

	for (uint32_t k = tails->from[j]; k < tails->to[j]; k++) {
		uint32_t more = k + 1 < tails->counted ? k + 1 : k;
		int64_t copy = copied + longer(tail_copy[k],
					       compute + tails->launch_cost * (more + 1));
		int64_t network = read + longer(tail_network[k], copy);

		best_copy[more] = sooner(best_copy[more], copy);
		best_network[more] = sooner(best_network[more], network);
	}
}

static void find_tail(struct planner_tails *tails, uint32_t i)
{
	int64_t *best_network = &tails->tail_network[(size_t)i * tails->counted];
	int64_t *best_copy = &tails->tail_copy[(size_t)i * tails->counted];
	int64_t compute = compute_left(tails, i) + tails->launch_cost;
	/* When this cut can be reached, and when its first layer can be there. */
	int64_t start = tails->network[i] + (i ? tails->network_cost : 0);
	int64_t arrived = start + tails->network_cost + tails->network[i + 1] - tails->network[i];

	for (uint32_t k = 0; k < tails->counted; k++)
		best_network[k] = best_copy[k] = PLANNER_NEVER;
	for (uint32_t j = i + 1; j <= tails->last; j++) {
		int64_t copy = tails->copy_cost + tails->copy[j] - tails->copy[i] + compute;
		int64_t network = tails->network_cost + tails->network[j] - tails->network[i];

		network += copy;
		if (start + network >= tails->limit)
			break;
		if (j < tails->last) {
			try_group(tails, i, j);
		} else {
			best_copy[0] = sooner(best_copy[0], copy);
			best_network[0] = sooner(best_network[0], network);
		}
	}
	tails->from[i] = tails->counted;
	tails->to[i] = 0;
	for (uint32_t k = 0; k < tails->counted; k++) {
		if (start + best_network[k] >= tails->limit ||
		    arrived + best_copy[k] >= tails->limit) {
			best_network[k] = best_copy[k] = PLANNER_NEVER;
			continue;
		}
		if (tails->from[i] == tails->counted)
			tails->from[i] = k;
		tails->to[i] = k + 1;
	}
}

int64_t planner_tails_bound(const struct planner_tails *tails, struct planner_stages stages,
			    uint32_t cut)
{
	const int64_t *tail_network = &tails->tail_network[(size_t)cut * tails->counted];
	const int64_t *tail_copy = &tails->tail_copy[(size_t)cut * tails->counted];
	int64_t compute = stages.compute + compute_left(tails, cut), bound = PLANNER_NEVER;

	for (uint32_t k = tails->from[cut]; k < tails->to[cut]; k++) {
		int64_t transfer = longer(stages.copy + tail_copy[k],
					  stages.network + tail_network[k]);

		bound = sooner(bound, longer(compute + tails->launch_cost * (k + 1), transfer));
	}
	return bound;
}

int planner_tails_create(struct planner_tails *tails, const struct planner_pipeline *pipeline,
			 bool merge)
{
	size_t n = pipeline->layers + 1;

	*tails = (struct planner_tails){
		.network_cost = pipeline->network_cost,
		.copy_cost = pipeline->copy_cost,
		.launch_cost = pipeline->launch_cost,
		.cuts = calloc(n, sizeof(*tails->cuts)),
		.network = calloc(n, sizeof(*tails->network)),
		.copy = calloc(n, sizeof(*tails->copy)),
		.compute = calloc(n, sizeof(*tails->compute)),
		.from = calloc(n, sizeof(*tails->from)),
		.to = calloc(n, sizeof(*tails->to)),
	};
	if (!tails->cuts || !tails->network || !tails->copy || !tails->compute || !tails->from ||
	    !tails->to)
		goto destroy;
	choose_cuts(tails, pipeline, merge);
	find_limit(tails);
	n = (size_t)tails->last * tails->counted;
	tails->tail_network = calloc(n, sizeof(*tails->tail_network));
	tails->tail_copy = calloc(n, sizeof(*tails->tail_copy));
	if (!tails->tail_network || !tails->tail_copy)
		goto destroy;
	for (uint32_t cut = tails->last; cut-- > 0;)
		find_tail(tails, cut);
	return 0;
destroy:
	planner_tails_destroy(tails);
	return -ENOMEM;
}

void planner_tails_destroy(struct planner_tails *tails)
{
	free(tails->cuts);
	free(tails->network);
	free(tails->copy);
	free(tails->compute);
	free(tails->from);
	free(tails->to);
	free(tails->tail_network);
	free(tails->tail_copy);
	*tails = (struct planner_tails){ 0 };
}
