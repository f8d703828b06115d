// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recovery on Alibaba's openb cluster, three quarters full: a gpu, a box, a host fails,
 * and what was on it is placed elsewhere in one decision. The worst of many; that
 * everything which fits is placed is checked with each. Times are of this thread alone.
 */
#include "../../../userspace/placement/plan.h"
#include "../../../userspace/sim/csv.h"
#include "../../../userspace/sim/place_run.h"
#include "../../../userspace/sim/random.h"
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 200
#define ARRIVE 0.75
#define BUDGET 1e-3

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

/* A grant without a place must fit nowhere, now that all others have theirs. */
static void check(struct placement *placement, const struct placement_plan *plan)
{
	struct placement_answer answer;

	for (uint32_t i = 0; i < plan->count; i++)
		if (plan->moves[i].to_box == PLACEMENT_NONE &&
		    !placement_decide(placement, &plan->moves[i].claim, &answer))
			bench_die("a grant has no place, but there is one");
}

static void measure(struct placement *placement, const char *what)
{
	const struct placement_pool *pool = placement->pool;
	double seconds[ROUNDS], start, moves = 0;
	struct sim_random random;
	uint32_t stranded = 0;
	char name[32], baseline[32];

	sim_random_seed(&random, 1);
	for (int i = 0; i < ROUNDS; i++) {
		struct placement_plan plan = PLACEMENT_PLAN_EMPTY;
		uint32_t number = (uint32_t)(sim_random_next(&random) % pool->gpus.count);
		uint32_t box = pool->gpus.rows[number].box;
		int err;

		start = cpu_now();
		if (*what == 'g')
			err = placement_recover_gpu(placement, number, &plan);
		else if (*what == 'b')
			err = placement_recover_box(placement, box, &plan);
		else
			err = placement_recover_host(placement, pool->boxes.rows[box].host, &plan);
		seconds[i] = cpu_now() - start;
		if (err)
			bench_die("out of memory");
		check(placement, &plan);
		moves += (double)plan.count / ROUNDS;
		stranded += plan.stranded;
		placement_plan_undo(&plan, placement);
		placement_plan_free(&plan);
	}
	qsort(seconds, ROUNDS, sizeof(*seconds), compare);
	fprintf(stderr, "recover.%s: %.1f grants in the mean, %u without a place in all; "
		"median %.1f us\n", what, moves, stranded, 1e6 * seconds[ROUNDS / 2]);
	snprintf(name, sizeof(name), "recover.%s", what);
	snprintf(baseline, sizeof(baseline), "budget, worst of %d", ROUNDS);
	bench_report(name, 1e6 * seconds[ROUNDS - 1], "us", baseline, 1e6 * BUDGET,
		     BUDGET / seconds[ROUNDS - 1]);
}

int main(void)
{
	struct place_options options = {
		.policy = placement_policy_by_name("distmind"),
		.seed = 42,
		.arrive = ARRIVE,
		.times = 1,
	};
	const char *root = getenv("DISTMIND_DATA");
	char nodes[512], pods[512], error[CSV_ERROR_LEN];
	struct place_result result;
	struct placement_pool *pool;
	struct placement placement;
	struct openb openb;

	root = root ? root : "../shared/data";
	snprintf(nodes, sizeof(nodes), "%s/openb/openb_node_list_gpu_node.csv", root);
	snprintf(pods, sizeof(pods), "%s/openb/openb_pod_list_default.csv", root);
	if (access(nodes, R_OK)) {
		fprintf(stderr, "recover: skipped: no openb trace in %s; set DISTMIND_DATA\n",
			root);
		return 0;
	}
	if (openb_read(&openb, nodes, pods, error))
		bench_die("%s", error);
	if (place_run(&openb, &options, &result, &pool) ||
	    placement_init(&placement, pool, options.policy, 1))
		bench_die("out of memory");
	/* As a daemon that has been at work: it has seen the claims. */
	for (uint32_t i = 0; i < openb.pod_count; i++)
		placement_observe(&placement, &openb.pods[i]);
	measure(&placement, "gpu");
	measure(&placement, "box");
	measure(&placement, "host");
	placement_free(&placement);
	placement_pool_free(pool);
	openb_free(&openb);
	return 0;
}
