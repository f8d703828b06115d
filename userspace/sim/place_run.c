// SPDX-License-Identifier: GPL-2.0-or-later
#include "place_run.h"

#include "random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Conspirator's fractions of an A100, in thousandths. */
static const uint32_t fractions[] = { 142, 285, 428, 571, 1000 };

struct run {
	const struct openb *openb;
	const struct place_options *options;
	struct sim_random random;
	uint32_t *order; /* of pods */
	uint32_t count;
	uint32_t *nodes; /* permutation */
	struct placement_pool *pool;
	struct placement placement;
	float *seconds;
};

static uint32_t below(struct sim_random *random, uint32_t limit)
{
	return (uint32_t)(((sim_random_next(random) >> 32) * limit) >> 32);
}

static uint32_t *shuffled(struct sim_random *random, uint32_t count, uint32_t room)
{
	uint32_t *order = calloc(room ? room : 1, sizeof(*order));

	for (uint32_t i = 0; order && i < count; i++) {
		uint32_t k = below(random, i + 1);

		order[i] = order[k];
		order[k] = i;
	}
	return order;
}

static double milli_of(const struct run *run, uint32_t i)
{
	return (double)placement_need_milli(&run->openb->pods[run->order[i]]);
}

/* Enough for every seed: the mean pod asks for what the list says, but none less than 0. */
static int make_arrivals(struct run *run)
{
	double wanted = run->options->arrive * (double)run->openb->milli * run->options->times;
	uint32_t room = run->openb->pod_count, *grown, gone;
	double milli = 0;

	run->count = run->openb->pod_count;
	run->order = shuffled(&run->random, run->count, room);
	if (!run->order)
		return -ENOMEM;
	for (uint32_t i = 0; i < run->count; i++)
		milli += milli_of(run, i);
	while (milli < wanted) {
		if (run->count == room) {
			room *= 2;
			grown = reallocarray(run->order, room, sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			run->order = grown;
		}
		run->order[run->count] = below(&run->random, run->openb->pod_count);
		milli += milli_of(run, run->count++);
	}
	/* Removed from anywhere; the order of the others stays random. */
	while (run->count > 1) {
		gone = below(&run->random, run->count);
		if (milli - milli_of(run, gone) < wanted)
			break;
		milli -= milli_of(run, gone);
		run->order[gone] = run->order[--run->count];
	}
	return 0;
}

static int prepare(struct run *run)
{
	const struct placement_policy *policy = run->options->policy;
	int err;

	sim_random_seed(&run->random, run->options->seed);
	err = make_arrivals(run);
	if (err)
		return err;
	run->nodes = shuffled(&run->random, run->openb->node_count, run->openb->node_count);
	run->seconds = calloc(run->count, sizeof(*run->seconds));
	if (!run->nodes || !run->seconds)
		return -ENOMEM;
	run->pool = openb_pool(run->openb, run->options->times, run->nodes);
	if (!run->pool)
		return -ENOMEM;
	for (uint32_t i = 0; policy->fractions && i < run->pool->kind_count; i++) {
		memcpy(run->pool->kinds[i].shapes, fractions, sizeof(fractions));
		run->pool->kinds[i].shape_count = sizeof(fractions) / sizeof(*fractions);
	}
	err = placement_init(&run->placement, run->pool, policy, run->options->seed);
	run->placement.terse = true;
	for (uint32_t i = 0; !err && policy->knows_demand && i < run->openb->pod_count; i++)
		placement_observe(&run->placement, &run->openb->pods[i]);
	return err;
}

/* Of this thread alone: what else the machine does is not part of a decision. */
static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Whether it was placed, or -ENOMEM. */
static int place_one(struct run *run, const struct placement_need *need)
{
	struct placement_claim claim = { .need = *need };
	struct placement_answer answer;
	int err;

	if (!run->options->policy->knows_demand)
		placement_observe(&run->placement, need);
	err = placement_decide(&run->placement, &claim, &answer);
	if (!err)
		err = placement_pool_grant(run->pool, &claim, answer.box, answer.gpus);
	if (err < 0 && err != -ENOSPC)
		return err;
	return err >= 0;
}

static int compare_float(const void *left, const void *right)
{
	float a = *(const float *)left, b = *(const float *)right;

	return a < b ? -1 : a > b;
}

static int go(struct run *run, struct place_result *result)
{
	double capacity = (double)run->pool->milli, arrived = 0, start, end;
	int placed;

	result->allocated_100 = -1;
	start = now();
	for (uint32_t i = 0; i < run->count; i++) {
		placed = place_one(run, &run->openb->pods[run->order[i]]);
		if (placed < 0)
			return placed;
		result->refused += !placed;
		arrived += milli_of(run, i);
		while (result->point_count < PLACE_POINTS_MAX &&
		       arrived >= result->point_count * capacity / 100)
			result->points[result->point_count++] =
				(double)run->pool->milli_used / capacity;
		if (result->allocated_100 < 0 && arrived >= capacity)
			result->allocated_100 = (double)run->pool->milli_used / capacity;
		end = now();
		run->seconds[i] = (float)(end - start);
		result->seconds += end - start;
		start = end;
	}
	result->pods = run->count;
	result->allocated = (double)run->pool->milli_used / capacity;
	qsort(run->seconds, run->count, sizeof(*run->seconds), compare_float);
	result->p99_seconds = run->seconds[(size_t)(run->count * 0.99)];
	return 0;
}

int place_run(const struct openb *openb, const struct place_options *options,
	      struct place_result *result, struct placement_pool **pool)
{
	struct run run = { .openb = openb, .options = options };
	int err;

	*result = (struct place_result){ .seed = options->seed };
	err = prepare(&run);
	if (!err)
		err = go(&run, result);
	placement_free(&run.placement);
	if (!err && pool)
		*pool = run.pool;
	else
		placement_pool_free(run.pool);
	free(run.order);
	free(run.nodes);
	free(run.seconds);
	return err;
}
