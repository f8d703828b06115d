// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How fast serving is simulated: DistMind's workload with the default policy,
 * training and replication included, on one core; and whether the same seed
 * gives the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../userspace/sim/serve.h"
#include "bench.h"

#define ROUNDS 5
#define WANTED 1e6

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	struct sim_workload_source source = {
		.name = "distmind", .data = sim_workload_data(), .zipf = 0.9,
		.flops = sim_serve_defaults.rates.compute,
		.launch_cost = sim_serve_defaults.rates.launch_cost, .seed = 1,
	};
	static struct sim_serve_result first, result;
	struct sim_workload workload;
	char error[SIM_WORKLOAD_ERROR_LEN];
	double rates[ROUNDS], start;
	int same = 1;

	if (sim_workload_create(&workload, &source, error)) {
		fprintf(stderr, "bench: sim_rate is skipped: %s; set DISTMIND_DATA\n", error);
		return 0;
	}
	for (int i = -1; i < ROUNDS; i++) {
		start = cpu_now();
		if (sim_serve_run(&sim_serve_defaults, &workload, i < 0 ? &first : &result))
			bench_die("sim_rate: the simulation failed");
		if (i < 0)
			continue;
		rates[i] = (double)sim_serve_defaults.requests / (cpu_now() - start);
		same &= !memcmp(&first, &result, sizeof(first));
	}
	qsort(rates, ROUNDS, sizeof(*rates), compare);
	bench_report("sim.rate", rates[ROUNDS / 2], "requests/s", "wanted", WANTED,
		     rates[ROUNDS / 2] / WANTED);
	bench_report("sim.rate.same", same, "of 1", "every run of a seed the same", 1, same);
	sim_workload_destroy(&workload);
	return 0;
}
