// SPDX-License-Identifier: GPL-2.0-or-later
/* distmind-sim serve: requests for models, served by a pool. */
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve_options.h"
#include "serve_plot.h"
#include "serve_print.h"
#include "sim.h"

#define WARM_UP 10 /* one of so many requests */
/* Of gpus and hosts with models: the router remembers something about each. */
#define PAIRS_MAX 50000000

static int run(const struct sim_serve_options *options, struct sim_workload *workload,
	       struct sim_serve_result *results, double *loads)
{
	struct sim_serve_config config = options->config;
	uint64_t caches = (uint64_t)config.hosts * config.gpus + config.hosts;
	int err;

	if (caches * workload->model_count > PAIRS_MAX) {
		fprintf(stderr,
			"distmind-sim serve: %u models in %llu caches are too many pairs: use less "
			"of either, at most %d in all\n",
			workload->model_count, (unsigned long long)caches, PAIRS_MAX);
		return SIM_FAILED;
	}
	config.warm_up = (config.requests ? config.requests : workload->trace_count) / WARM_UP;
	for (size_t i = 0; i < options->system_count; i++) {
		config.system = options->systems[i];
		loads[i] = config.load;
		err = options->capacity ?
			      sim_serve_capacity(&config, workload, options->capacity, &results[i],
						 &loads[i]) :
			      sim_serve_run(&config, workload, &results[i]);
		if (err) {
			fprintf(stderr, "distmind-sim serve: %s: %s\n", config.system->name,
				err == -ERANGE ? "a load would take days: check --net and --h2d" :
						 strerror(-err));
			return SIM_FAILED;
		}
	}
	return SIM_OK;
}

int sim_serve(int argc, char **argv)
{
	struct sim_serve_options options;
	struct sim_serve_result *results;
	struct sim_workload workload;
	char error[SIM_WORKLOAD_ERROR_LEN];
	double loads[SIM_SERVE_SYSTEMS_MAX];
	int code = sim_serve_options_parse(&options, argc, argv);

	if (code || options.help)
		return code;
	if (sim_workload_create(&workload, &options.source, error)) {
		fprintf(stderr, "distmind-sim serve: %s\n", error);
		return SIM_FAILED;
	}
	results = calloc(options.system_count, sizeof(*results));
	if (results) {
		code = run(&options, &workload, results, loads);
		if (!code)
			code = sim_serve_print(&options, results, loads);
		if (!code && options.svg)
			code = sim_serve_plot(&options, results);
	} else {
		fprintf(stderr, "distmind-sim serve: %s\n", strerror(ENOMEM));
		code = SIM_FAILED;
	}
	free(results);
	sim_workload_destroy(&workload);
	return code;
}
