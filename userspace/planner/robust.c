// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A grouping for a network whose rate varies. The optimum for one rate has nothing to
 * spare: where the network is the slowest stage it lets the first group be large, as
 * compute has time, and if the bytes then come sooner they wait for each other; where
 * compute is, it lets the groups come just in time, and if they are late compute waits.
 * The cuts of both together are fine at both ends.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>

#define CASES 3

struct cases {
	int count;
	struct planner_pipeline pipelines[CASES];
	struct planner_grouping optima[CASES];
};

static int make_cases(struct cases *cases, const struct planner_layer *layers, size_t count,
		      const struct planner_rates *rates, double spread)
{
	const double factors[CASES] = { 1, 1 - spread, 1 + spread };
	int wanted = spread > 0 ? CASES : 1, err = 0;

	for (int i = 0; i < wanted && !err; i++) {
		struct planner_rates varied = *rates;

		varied.network *= factors[i];
		err = planner_pipeline_create(&cases->pipelines[i], layers, count, &varied);
		if (err)
			break;
		cases->count++;
		err = planner_bounded(&cases->pipelines[i], &cases->optima[i]);
	}
	return err;
}

static void clear_cases(struct cases *cases)
{
	for (int i = 0; i < cases->count; i++) {
		planner_pipeline_destroy(&cases->pipelines[i]);
		planner_grouping_destroy(&cases->optima[i]);
	}
}

static int64_t average_finish(const struct cases *cases, const struct planner_grouping *grouping)
{
	int64_t sum = 0;

	for (int i = 0; i < cases->count; i++)
		sum += planner_finish(&cases->pipelines[i], grouping);
	return sum / cases->count;
}

/* A cut that any of the optima has. */
static int unite(const struct cases *cases, struct planner_grouping *grouping)
{
	size_t at[CASES] = { 0 }, layers = cases->pipelines[0].layers;

	grouping->ends = calloc(layers, sizeof(*grouping->ends));
	if (!grouping->ends)
		return -ENOMEM;
	for (uint32_t end = 0; end < layers;) {
		uint32_t next = (uint32_t)layers;

		for (int i = 0; i < cases->count; i++) {
			const struct planner_grouping *optimum = &cases->optima[i];

			at[i] += optimum->ends[at[i]] == end;
			if (optimum->ends[at[i]] < next)
				next = optimum->ends[at[i]];
		}
		grouping->ends[grouping->count++] = next;
		end = next;
	}
	return 0;
}

int planner_robust(const struct planner_layer *layers, size_t count,
		   const struct planner_rates *rates, double spread,
		   struct planner_grouping *grouping, int64_t *finish)
{
	struct planner_grouping united = { 0 }, *best = &united;
	struct cases cases = { 0 };
	int64_t average;
	int err;

	if (!(spread >= 0 && spread < 1))
		return -EINVAL;
	err = make_cases(&cases, layers, count, rates, spread);
	if (!err)
		err = unite(&cases, &united);
	if (err)
		goto out;
	*finish = average_finish(&cases, &united);
	for (int i = 0; i < cases.count; i++) {
		average = average_finish(&cases, &cases.optima[i]);
		if (average >= *finish)
			continue;
		*finish = average;
		best = &cases.optima[i];
	}
	*grouping = *best;
	*best = (struct planner_grouping){ 0 };
out:
	planner_grouping_destroy(&united);
	clear_cases(&cases);
	return err;
}
