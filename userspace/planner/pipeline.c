// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* 40 hours. Six of it, three stages and the costs of each, are far below PLANNER_NEVER. */
#define TIME_MAX ((double)((int64_t)1 << 57))

static int64_t longer(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int check_rates(const struct planner_rates *rates)
{
	const double positive[] = { rates->network, rates->copy ? rates->copy : 1, rates->compute };
	const double costs[] = { rates->transfer_cost, rates->launch_cost };

	for (size_t i = 0; i < sizeof(positive) / sizeof(*positive); i++)
		if (!isfinite(positive[i]) || positive[i] <= 0)
			return -EINVAL;
	for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++)
		if (!isfinite(costs[i]) || costs[i] < 0)
			return -EINVAL;
	return 0;
}

/* Adds one layer's time to the sum before it. */
static int append(int64_t *sums, size_t i, double work, double rate)
{
	double time = rate ? round(work / rate * PLANNER_SECOND) : 0;

	if (!(time < TIME_MAX) || (double)sums[i] + time >= TIME_MAX)
		return -ERANGE;
	sums[i + 1] = sums[i] + (int64_t)time;
	return 0;
}

static int fill(struct planner_pipeline *pipeline, const struct planner_layer *layers,
		const struct planner_rates *rates)
{
	double transfer = round(rates->transfer_cost * PLANNER_SECOND);
	double launch = round(rates->launch_cost * PLANNER_SECOND);
	int err;

	/* All layers alone are the most groups there can be. */
	if (transfer * (double)pipeline->layers >= TIME_MAX ||
	    launch * (double)pipeline->layers >= TIME_MAX)
		return -ERANGE;
	pipeline->network_cost = (int64_t)transfer;
	pipeline->copy_cost = rates->copy ? (int64_t)transfer : 0;
	pipeline->launch_cost = (int64_t)launch;
	for (size_t i = 0; i < pipeline->layers; i++) {
		if (!isfinite(layers[i].flops) || layers[i].flops < 0)
			return -EINVAL;
		if (__builtin_add_overflow(pipeline->bytes[i], layers[i].bytes,
					   &pipeline->bytes[i + 1]))
			return -ERANGE;
		err = append(pipeline->network, i, (double)layers[i].bytes, rates->network);
		if (!err)
			err = append(pipeline->copy, i, (double)layers[i].bytes, rates->copy);
		if (!err)
			err = append(pipeline->compute, i, layers[i].flops, rates->compute);
		if (err)
			return err;
	}
	return 0;
}

int planner_pipeline_create(struct planner_pipeline *pipeline, const struct planner_layer *layers,
			    size_t count, const struct planner_rates *rates)
{
	int err = check_rates(rates);

	if (err)
		return err;
	if (!count || count >= UINT32_MAX)
		return -EINVAL;
	*pipeline = (struct planner_pipeline){
		.layers = count,
		.network = calloc(count + 1, sizeof(*pipeline->network)),
		.copy = calloc(count + 1, sizeof(*pipeline->copy)),
		.compute = calloc(count + 1, sizeof(*pipeline->compute)),
		.bytes = calloc(count + 1, sizeof(*pipeline->bytes)),
	};
	if (pipeline->network && pipeline->copy && pipeline->compute && pipeline->bytes)
		err = fill(pipeline, layers, rates);
	else
		err = -ENOMEM;
	if (err)
		planner_pipeline_destroy(pipeline);
	return err;
}

void planner_pipeline_destroy(struct planner_pipeline *pipeline)
{
	free(pipeline->network);
	free(pipeline->copy);
	free(pipeline->compute);
	free(pipeline->bytes);
	*pipeline = (struct planner_pipeline){ 0 };
}

void planner_grouping_destroy(struct planner_grouping *grouping)
{
	free(grouping->ends);
	*grouping = (struct planner_grouping){ 0 };
}

/* When each stage is free again. */
struct stages {
	int64_t network, copy, compute;
};

static void pass(const struct planner_pipeline *pipeline, struct stages *free_at, uint32_t from,
		 uint32_t to)
{
	free_at->network += pipeline->network_cost + pipeline->network[to] -
			    pipeline->network[from];
	free_at->copy = longer(free_at->copy, free_at->network) + pipeline->copy_cost +
			pipeline->copy[to] - pipeline->copy[from];
	free_at->compute = longer(free_at->compute, free_at->copy) + pipeline->launch_cost +
			   pipeline->compute[to] - pipeline->compute[from];
}

void planner_schedule(const struct planner_pipeline *pipeline,
		      const struct planner_grouping *grouping, int64_t *network, int64_t *copy,
		      int64_t *compute)
{
	struct stages free_at = { 0 };

	for (size_t g = 0; g < grouping->count; g++) {
		pass(pipeline, &free_at, g ? grouping->ends[g - 1] : 0, grouping->ends[g]);
		network[g] = free_at.network;
		copy[g] = free_at.copy;
		compute[g] = free_at.compute;
	}
}

int64_t planner_finish(const struct planner_pipeline *pipeline,
		       const struct planner_grouping *grouping)
{
	struct stages free_at = { 0 };

	for (size_t g = 0; g < grouping->count; g++)
		pass(pipeline, &free_at, g ? grouping->ends[g - 1] : 0, grouping->ends[g]);
	return free_at.compute;
}

int64_t planner_bound(const struct planner_pipeline *pipeline)
{
	size_t n = pipeline->layers, last = n - 1;
	int64_t read = pipeline->network_cost, copy = pipeline->copy_cost;
	int64_t launch = pipeline->launch_cost;
	/* Before a stage comes at least the first layer in those before, after it the last. */
	int64_t network_bound = read + pipeline->network[n] + copy + pipeline->copy[n] -
				pipeline->copy[last] + launch + pipeline->compute[n] -
				pipeline->compute[last];
	int64_t copy_bound = read + pipeline->network[1] + copy + pipeline->copy[n] + launch +
			     pipeline->compute[n] - pipeline->compute[last];
	int64_t compute_bound = read + pipeline->network[1] + copy + pipeline->copy[1] + launch +
				pipeline->compute[n];

	return longer(network_bound, longer(copy_bound, compute_bound));
}
