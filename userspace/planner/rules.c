// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Other rules for the same task, to compare with.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>

int planner_greedy(const struct planner_pipeline *pipeline, uint64_t limit,
		   struct planner_grouping *grouping)
{
	size_t n = pipeline->layers, count = 0;
	uint32_t from = 0, *ends = calloc(n, sizeof(*ends));

	if (!ends)
		return -ENOMEM;
	for (uint32_t to = 1; to <= n; to++) {
		if (to < n && pipeline->bytes[to + 1] - pipeline->bytes[from] <= limit)
			continue;
		ends[count++] = to;
		from = to;
	}
	*grouping = (struct planner_grouping){ .count = count, .ends = ends };
	return 0;
}

int planner_two_stage(const struct planner_pipeline *pipeline, struct planner_grouping *grouping)
{
	size_t n = pipeline->layers;
	struct planner_pipeline two = *pipeline;
	int err;

	/* The other arrays are still those of the pipeline. */
	if (pipeline->copy[n] > pipeline->network[n])
		two.network = pipeline->copy;
	if (pipeline->copy_cost > pipeline->network_cost)
		two.network_cost = pipeline->copy_cost;
	two.copy_cost = 0;
	two.copy = calloc(n + 1, sizeof(*two.copy));
	if (!two.copy)
		return -ENOMEM;
	err = planner_optimal(&two, grouping);
	free(two.copy);
	return err;
}

int planner_whole(const struct planner_pipeline *pipeline, struct planner_grouping *grouping)
{
	uint32_t *ends = malloc(sizeof(*ends));

	if (!ends)
		return -ENOMEM;
	ends[0] = (uint32_t)pipeline->layers;
	*grouping = (struct planner_grouping){ .count = 1, .ends = ends };
	return 0;
}
