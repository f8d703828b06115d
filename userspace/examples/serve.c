// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Inference on a vgpu with an objective: requests arrive at random, each is
 * a forward pass of a network, and what counts is how long each takes from its
 * arrival to its result.
 *
 * The vgpu is of the latency class. Under the policy slo its jobs take the gpu
 * from jobs of other classes, between two blocks of what runs; the share of the
 * vgpu says how much of the gpu it can have like this. Arrivals do not wait for
 * results: a request that comes while another one is served waits, and its
 * latency says so. The kernel is told which jobs are one request, and by when it should
 * be done, so that it is that, and not each job, which is in time or late.
 */
#include "net/net.h"
#include "net/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define INPUTS	16
#define CLASSES 10
#define WARM_UP_SECONDS 60

static const char usage[] =
	"usage: serve [options]\n"
	"\n"
	"Serves requests on a vgpu: that of \"distmindctl run\", or one of the latency\n"
	"class.\n"
	"\n"
	"  --rate R         requests per second, on average (default 20)\n"
	"  --seconds N      for so long (default 10)\n"
	"  --objective MS   in which each is to be answered (default 20)\n"
	"  --hidden N       width of the hidden layers (default 64)\n"
	"  --batch N        rows of a request (default 1)\n"
	"  --json           one line at the end, nothing else\n"
	"\n"
	"Exit status: 0 if all requests were answered, in time or not.\n";

struct options {
	double rate, seconds, objective_ms;
	uint32_t hidden, batch;
	bool json;
};

/* Latencies, in seconds. */
struct record {
	double *latency;
	size_t count, room;
};

static void parse(int argc, char **argv, struct options *options)
{
	const struct net_option known[] = {
		{ "rate", .real = &options->rate, .min = 0.01 },
		{ "seconds", .real = &options->seconds, .min = 0.1 },
		{ "objective", .real = &options->objective_ms, .min = 0.001 },
		{ "hidden", .count = &options->hidden, .min = 1 },
		{ "batch", .count = &options->batch, .min = 1 },
		{ "json", .flag = &options->json },
		{ 0 },
	};

	net_options(argc, argv, known, usage);
}

static void sleep_until(double when)
{
	struct timespec until = { .tv_sec = (time_t)when };

	until.tv_nsec = (long)((when - (double)until.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
}

/* A forward pass in one batch. The input is written and the answer read where they are. */
static void serve(struct net *net, const struct tensor *answer, double deadline)
{
	struct distmind_request request = { .id = 1, .last = true };
	const struct tensor *logits = &net->layers[NET_LAYERS - 1].h;
	float *input = net_memory(net, &net->x);
	const float *chances = net_memory(net, answer);

	for (uint64_t i = 0; i < net->x.rows * INPUTS; i++)
		input[i] = (float)net_normal();
	for (uint64_t row = 0; row < answer->rows; row++)
		((float *)net_memory(net, answer))[row * CLASSES] = NAN;
	net_forward(net, &net->x);
	LAUNCH(net, SOFTMAX, TENSOR(*answer), TENSOR(*logits), NUMBER(answer->rows),
	       NUMBER(CLASSES), NUMBER(0));
	request.deadline_ns = (uint64_t)(deadline * 1e9);
	distmind_batch_request(net->batch, &request);
	net_wait(net, net_submit(net));

	for (uint64_t row = 0; row < answer->rows; row++) {
		double sum = 0;

		for (int i = 0; i < CLASSES; i++)
			sum += (double)chances[row * CLASSES + i];
		if (!(fabs(sum - 1) < 1e-3))
			net_die("an answer is not a distribution", 0);
	}
}

static void note(struct record *record, double latency)
{
	if (record->count == record->room) {
		record->room = record->room ? record->room * 2 : 1024;
		record->latency = realloc(record->latency,
					  record->room * sizeof(*record->latency));
		if (!record->latency)
			net_die("out of memory", 0);
	}
	record->latency[record->count++] = latency;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

/* The smallest latency that so many of a hundred requests stayed within; in ms. */
static double percentile(const struct record *sorted, double percent)
{
	size_t rank = (size_t)ceil(percent / 100 * (double)sorted->count);

	return sorted->latency[rank ? rank - 1 : 0] * 1e3;
}

static void report(struct record *record, const struct options *options)
{
	size_t misses = 0;

	qsort(record->latency, record->count, sizeof(*record->latency), compare);
	for (size_t i = 0; i < record->count; i++)
		misses += record->latency[i] * 1e3 > options->objective_ms;
	printf(options->json ? "{\"requests\": %zu, \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
			       "\"max_ms\": %.3f, \"objective_ms\": %.3f, \"misses\": %zu}\n" :
			       "%zu requests: p50 %.2f ms, p99 %.2f ms, max %.2f ms; "
			       "objective of %g ms missed %zu times\n",
	       record->count, percentile(record, 50), percentile(record, 99),
	       percentile(record, 100), options->objective_ms, misses);
}

int main(int argc, char **argv)
{
	struct options options = { .rate = 20, .seconds = 10, .objective_ms = 20, .hidden = 64,
				   .batch = 1 };
	struct distmind_claim claim = {
		.share = DISTMIND_SHARE_WHOLE / 2,
		.sched_class = DISTMIND_CLASS_LATENCY,
		.name = "serve",
	};
	struct record record = { 0 };
	struct tensor answer;
	double arrival, end;
	struct net net;

	parse(argc, argv, &options);
	claim.objective_ns = (uint64_t)(options.objective_ms * 1e6);
	net_init(&net, options.batch, INPUTS, options.hidden, CLASSES, false);
	answer = net_tensor(&net, options.batch, CLASSES);
	net_acquire(&net, &claim);
	net_weights(&net);
	/* Warm up: the first one pays for faults on new memory. */
	serve(&net, &answer, net_now() + WARM_UP_SECONDS);

	arrival = net_now();
	end = arrival + options.seconds;
	for (;;) {
		/* The time between arrivals that know nothing of each other. */
		arrival += -log(1 - net_uniform()) / options.rate;
		if (arrival >= end && record.count)
			break;
		sleep_until(arrival);
		serve(&net, &answer, arrival + options.objective_ms * 1e-3);
		note(&record, net_now() - arrival);
	}
	report(&record, &options);
	free(record.latency);
	return 0;
}
