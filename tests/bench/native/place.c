// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Placement: how much of Alibaba's openb cluster gets used, beside FGD; how many
 * decisions in a second; and jobs on fractions of gpus against the exact optimum.
 * Times are of this thread alone.
 */
#include "../../unit/placement_exact.h"
#include "../../../userspace/sim/csv.h"
#include "../../../userspace/sim/place_run.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FIRST_SEED 42
#define SEEDS 10
#define ARRIVE 1.3
#define INSTANCES 200

/* Published figures and what is asked for, in percent. */
static const struct list {
	const char *name;
	double fgd; /* FGD's, at 130 % */
	double least;
} lists[] = {
	{ "default", 95.39, 96.2 },    { "gpushare40", 94.15, 94.8 },
	{ "multigpu20", 95.65, 96.6 }, { "cpu200", 95.05, 96.2 },
	{ "gpuspec33", 94.55, 96.0 },
};

static bool read_list(struct openb *openb, const char *list)
{
	const char *root = getenv("DISTMIND_DATA");
	char nodes[512], pods[512], error[CSV_ERROR_LEN];

	root = root ? root : "../shared/data";
	snprintf(nodes, sizeof(nodes), "%s/openb/openb_node_list_gpu_node.csv", root);
	snprintf(pods, sizeof(pods), "%s/openb/openb_pod_list_%s.csv", root, list);
	if (access(nodes, R_OK)) {
		fprintf(stderr, "place: skipped: no openb trace in %s; set DISTMIND_DATA\n", root);
		return false;
	}
	if (openb_read(openb, nodes, pods, error))
		bench_die("%s", error);
	return true;
}

struct mean {
	double allocated, allocated_100, rate, p99;
};

static struct mean run(const struct openb *openb, const char *policy, uint32_t seeds,
		       uint32_t times)
{
	struct place_options options = {
		.policy = placement_policy_by_name(policy),
		.arrive = ARRIVE,
		.times = times,
	};
	double decisions = 0, seconds = 0;
	struct place_result result;
	struct mean mean = { 0 };

	for (uint32_t i = 0; i < seeds; i++) {
		options.seed = FIRST_SEED + i;
		if (place_run(openb, &options, &result, NULL))
			bench_die("out of memory");
		mean.allocated += 100 * result.allocated / seeds;
		mean.allocated_100 += 100 * result.allocated_100 / seeds;
		mean.p99 = fmax(mean.p99, result.p99_seconds);
		decisions += result.pods;
		seconds += result.seconds;
	}
	mean.rate = decisions / seconds;
	return mean;
}

/* The worst of the lists is what counts. */
struct worst {
	const char *name, *baseline, *unit;
	double value, baseline_value, ratio;
};

static void keep_worst(struct worst *worst, const char *list, double value, double baseline_value,
		       double ratio)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%s", worst->name, list);
	bench_report(name, value, worst->unit, worst->baseline, baseline_value, ratio);
	if (worst->ratio && worst->ratio <= ratio)
		return;
	worst->value = value;
	worst->baseline_value = baseline_value;
	worst->ratio = ratio;
}

static void measure_openb(void)
{
	struct worst openb_worst = { "place.openb", "asked for", "%", 0, 0, 0 };
	struct worst arrived = { "place.arrived", "FGD at 100 %", "%", 0, 0, 0 };
	struct worst same = { "place.fgd", "published, 0.3 either way", "%", 0, 0, 0 };
	const struct worst *const all[] = { &openb_worst, &arrived, &same };
	struct mean ours, fgd, many;
	struct openb openb;

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		if (!read_list(&openb, lists[i].name))
			return;
		ours = run(&openb, "distmind", SEEDS, 1);
		fgd = run(&openb, "fgd", SEEDS, 1);
		keep_worst(&openb_worst, lists[i].name, ours.allocated, lists[i].least,
			   ours.allocated / lists[i].least);
		keep_worst(&arrived, lists[i].name, ours.allocated_100, fgd.allocated_100,
			   ours.allocated_100 / fgd.allocated_100);
		keep_worst(&same, lists[i].name, fgd.allocated, lists[i].fgd,
			   0.3 / fmax(fabs(fgd.allocated - lists[i].fgd), 0.003));
		if (!i) {
			many = run(&openb, "distmind", 1, 100);
			bench_report("place.rate", ours.rate, "/s", "asked for", 50000,
				     ours.rate / 50000);
			bench_report("place.rate.p99", 1e6 * ours.p99, "us", "asked for", 200,
				     200e-6 / ours.p99);
			bench_report("place.rate.100x", many.rate, "/s", "a quarter of it",
				     ours.rate / 4, many.rate / (ours.rate / 4));
		}
		openb_free(&openb);
	}
	bench_report("place.rate.gpuspec33", ours.rate, "/s", "asked for", 25000,
		     ours.rate / 25000);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		bench_report(all[i]->name, all[i]->value, all[i]->unit, all[i]->baseline,
			     all[i]->baseline_value, all[i]->ratio);
}

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void measure_optimal(void)
{
	double ours = 0, exact = 0, first_fit = 0, cost;
	struct exact_instance instance;
	struct sim_random random;

	sim_random_seed(&random, 1);
	for (uint32_t i = 0; i < INSTANCES; i++) {
		exact_make(&instance, &random, 4 + i % (EXACT_JOBS_MAX - 3));
		first_fit += instance.fractions.cost;
		if (placement_fractions_solve(&instance.fractions))
			bench_die("out of memory");
		cost = exact_cost(&instance.fractions);
		if (isnan(cost) || instance.fractions.left_out)
			bench_die("instance %u has no solution", i);
		ours += instance.fractions.cost;
		exact += cost;
	}
	bench_report("place.optimal", ours / INSTANCES, "cost", "exact, 1 % more",
		     1.01 * exact / INSTANCES, 1.01 * exact / ours);
	bench_report("place.optimal.first-fit", ours / INSTANCES, "cost", "first fit",
		     first_fit / INSTANCES, first_fit / ours);
}

static void measure_many(void)
{
	static const struct placement_fraction_kind kinds[] = {
		{ 0.5, 250 }, { 1, 250 }, { 1.6, 250 }, { 2.6, 250 },
	};
	static const double speeds[] = { 0.5, 1, 1.7, 3 };
	static struct placement_fraction_job jobs[10000];
	static uint32_t gpus[10000];
	struct placement_fractions fractions = {
		.kinds = kinds, .kind_count = 4, .jobs = jobs, .job_count = 10000, .gpus = gpus,
	};
	double best = INFINITY, start;
	struct sim_random random;

	sim_random_seed(&random, 2);
	for (uint32_t j = 0; j < 10000; j++) {
		uint32_t work = 10 + exact_below(&random, 220);

		jobs[j].gpu = PLACEMENT_NONE;
		for (int k = 0; k < 4; k++)
			jobs[j].share[k] = (uint32_t)ceil(work / speeds[k]);
	}
	for (int i = 0; i < 5; i++) {
		start = cpu_now();
		if (placement_fractions_solve(&fractions))
			bench_die("out of memory");
		best = fmin(best, cpu_now() - start);
		if (fractions.left_out)
			bench_die("%u jobs have no room", fractions.left_out);
	}
	bench_report("place.optimal.10000", 1e3 * best, "ms", "asked for", 50, 0.05 / best);
}

int main(void)
{
	measure_openb();
	measure_optimal();
	measure_many();
	return 0;
}
