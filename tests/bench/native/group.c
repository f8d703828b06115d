// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an exact plan costs, and what it is worth: the five models of DistMind's
 * evaluation at 100 Gbit/s, PCIe 3 and the FLOPS of a V100. What a load of a model of
 * 20,000 layers plans in, and how far from exact that is where exact can be had.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../../userspace/planner/layers.h"
#include "bench.h"

#define BUDGET 10e-3
#define ROUNDS 21
#define LARGE_BUDGET 50e-3
#define LARGE_LAYERS 20000
#define LARGE_SPREAD 0.1
#define LOSS_LAYERS 400
#define LOSS_ROUNDS 100

static const char *const models[] = {
	"resnet152", "densenet201", "inception_v3", "bert_base", "gpt2",
};

static const struct planner_rates rates = {
	.network = 12.5e9, .copy = 12e9, .compute = 14e12,
	.transfer_cost = 20e-6, .launch_cost = 10e-6,
};

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static double plan(void *arg)
{
	struct planner_grouping grouping;
	double start = cpu_now();

	if (planner_optimal(arg, &grouping))
		bench_die("out of memory");
	planner_grouping_destroy(&grouping);
	return cpu_now() - start;
}

static double budget(void *arg)
{
	(void)arg;
	return BUDGET;
}

static void load(const char *model, struct planner_pipeline *pipeline)
{
	const char *data = getenv("DISTMIND_DATA");
	char path[4096], error[PLANNER_ERROR_LEN];
	struct planner_layers layers;

	snprintf(path, sizeof(path), "%s/models/%s.tsv", data ? data : "../shared/data", model);
	if (access(path, R_OK)) {
		fprintf(stderr, "bench: group: skipped, there is no %s: set DISTMIND_DATA\n", path);
		exit(0);
	}
	if (planner_layers_read(path, &layers, error))
		bench_die("%s", error);
	if (planner_pipeline_create(pipeline, layers.layers, layers.count, &rates))
		bench_die("%s: no pipeline", path);
	planner_layers_destroy(&layers);
}

/* Experts, a gate and norms, as today's mixtures have them. */
static struct planner_layer *make_large(size_t count)
{
	struct planner_layer *layers = calloc(count, sizeof(*layers));

	if (!layers)
		bench_die("out of memory");
	for (size_t i = 0; i < count; i++) {
		size_t part = i % 393;

		layers[i].bytes = part < 4 ? 8 << 20 : part < 9 ? 4096 : 3 << 20;
		layers[i].flops = part < 9 ? 2e7 : 4e5;
	}
	return layers;
}

/* As a load does: for a network whose rate varies. */
static double plan_large(void *arg)
{
	struct planner_grouping grouping;
	double start = cpu_now();
	int64_t finish;

	if (planner_robust(arg, LARGE_LAYERS, &rates, LARGE_SPREAD, &grouping, &finish))
		bench_die("out of memory");
	planner_grouping_destroy(&grouping);
	return cpu_now() - start;
}

static double large_budget(void *arg)
{
	(void)arg;
	return LARGE_BUDGET;
}

static double random_share(void)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(seed >> 11) / (double)(1ULL << 53);
}

/* The largest loss of many models that are small enough for the optimum. */
static void report_loss(void)
{
	struct planner_layer layers[LOSS_LAYERS];
	struct planner_grouping near, best;
	struct planner_pipeline pipeline;
	double worst = 1;

	for (int round = 0; round < LOSS_ROUNDS; round++) {
		struct planner_rates varied = rates;
		double ratio;

		varied.copy = round % 2 ? rates.copy : 0;
		varied.transfer_cost = 1e-6 * (1 + 200 * random_share());
		varied.compute = rates.compute * (0.05 + random_share());
		for (size_t i = 0; i < LOSS_LAYERS; i++) {
			layers[i].bytes = (uint64_t)(1e3 + 2e6 * random_share() * random_share());
			layers[i].flops = 2e9 * random_share() * random_share();
		}
		if (planner_pipeline_create(&pipeline, layers, LOSS_LAYERS, &varied) ||
		    planner_bounded(&pipeline, &near) || planner_optimal(&pipeline, &best))
			bench_die("out of memory");
		ratio = (double)planner_finish(&pipeline, &near) /
			(double)planner_finish(&pipeline, &best);
		worst = ratio > worst ? ratio : worst;
		planner_grouping_destroy(&near);
		planner_grouping_destroy(&best);
		planner_pipeline_destroy(&pipeline);
	}
	bench_report("group.large.loss", worst, "of the optimum", "allowed", 1 + PLANNER_LOSS,
		     (1 + PLANNER_LOSS) / worst);
}

static void measure_large(void)
{
	struct bench bench = {
		.name = "group.large", .unit = "ms", .baseline = "budget", .work = 1,
		.rounds = ROUNDS, .ours = plan_large, .theirs = large_budget, .scale = 1e3,
	};

	bench.arg = make_large(LARGE_LAYERS);
	bench_run(&bench);
	free(bench.arg);
	report_loss();
}

struct gain {
	double ours, theirs; /* ms */
};

static void report_gain(const char *name, const char *rule, const struct gain *gain)
{
	bench_report(name, gain->ours, "ms", rule, gain->theirs, gain->theirs / gain->ours);
}

/* How much earlier than with another rule the end is; least keeps the smallest such gain. */
static void compare(const char *model, const char *rule, const struct planner_pipeline *pipeline,
		    struct planner_grouping *other, struct gain *least)
{
	struct planner_grouping best;
	struct gain gain;
	char name[64];

	if (planner_optimal(pipeline, &best))
		bench_die("out of memory");
	gain.ours = (double)planner_finish(pipeline, &best) / PLANNER_SECOND * 1e3;
	gain.theirs = (double)planner_finish(pipeline, other) / PLANNER_SECOND * 1e3;
	snprintf(name, sizeof(name), "group.gain.%s.%s", model, rule);
	report_gain(name, rule, &gain);
	if (!least->ours || gain.theirs / gain.ours < least->theirs / least->ours)
		*least = gain;
	planner_grouping_destroy(&best);
	planner_grouping_destroy(other);
}

int main(void)
{
	struct gain least = { 0 };

	measure_large();
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		struct bench bench = {
			.unit = "ms", .baseline = "budget", .work = 1, .rounds = ROUNDS,
			.ours = plan, .theirs = budget, .scale = 1e3,
		};
		struct planner_grouping greedy, two_stage;
		struct planner_pipeline pipeline;
		char name[64];

		load(models[i], &pipeline);
		snprintf(name, sizeof(name), "group.plan%s%s", i ? "." : "", i ? models[i] : "");
		bench.name = name;
		bench.arg = &pipeline;
		bench_run(&bench);
		if (planner_greedy(&pipeline, PLANNER_GREEDY_LIMIT, &greedy) ||
		    planner_two_stage(&pipeline, &two_stage))
			bench_die("out of memory");
		compare(models[i], "greedy", &pipeline, &greedy, &least);
		compare(models[i], "two-stage", &pipeline, &two_stage, &least);
		planner_pipeline_destroy(&pipeline);
	}
	report_gain("group.gain", "the best other rule, smallest gain", &least);
	return 0;
}
