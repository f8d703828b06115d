// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/sim/serve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS 20000

static struct sim_serve_result result, other; /* too large for the stack */

/* That many models of 100 to 500 MB that compute for 5 to 15 ms; no files. */
static void make(struct sim_workload *workload, uint32_t models)
{
	double weights[64];

	memset(workload, 0, sizeof(*workload));
	workload->kind_count = 5;
	workload->kinds = calloc(5, sizeof(*workload->kinds));
	workload->model_count = models;
	workload->models = calloc(models, sizeof(*workload->models));
	workload->usual_ns = calloc(models, sizeof(*workload->usual_ns));
	assert_true(workload->kinds && workload->models && workload->usual_ns && models <= 64);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(sim_workload_uniform(&workload->kinds[i], (i + 1) * 100000000ULL,
						      (i + 2) * 35e9), 0);
	for (uint32_t i = 0; i < models; i++) {
		workload->models[i] = i % 5;
		workload->usual_ns[i] = (i % 5 + 2) * 2500000 + 10000;
		weights[i] = 1.0 / (i + 1);
	}
	assert_int_equal(sim_workload_popularity(workload, weights), 0);
}

static struct sim_serve_config config_of(const char *system)
{
	struct sim_serve_config config = sim_serve_defaults;

	config.system = sim_system_find(system);
	assert_non_null(config.system);
	config.hosts = 2;
	config.gpus = 4;
	config.gpu_cache = 2000000000;
	config.host_cache = 16000000000;
	config.requests = REQUESTS;
	config.warm_up = REQUESTS / 10;
	return config;
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
	struct sim_serve_config config;
	struct sim_workload workload;
	const struct sim_system *system;

	(void)state;
	make(&workload, 64);
	for (size_t i = 0; (system = sim_system_at(i)); i++) {
		config = config_of(system->name);
		config.requests = REQUESTS / 4;
		assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
		assert_int_equal(sim_serve_run(&config, &workload, &other), 0);
		assert_memory_equal(&result, &other, sizeof(result));
		config.seed = 2;
		assert_int_equal(sim_serve_run(&config, &workload, &other), 0);
		assert_memory_not_equal(&result, &other, sizeof(result));
	}
	sim_workload_destroy(&workload);
}

static void every_request_ends_once_and_time_adds_up(void **state)
{
	static const double loads[] = { 0.3, 0.8, 1.6 };
	struct sim_serve_config config;
	struct sim_workload workload;
	const struct sim_system *system;

	(void)state;
	make(&workload, 64);
	for (size_t i = 0; (system = sim_system_at(i)); i++) {
		for (size_t j = 0; j < COUNT(loads); j++) {
			uint64_t served = 0;

			config = config_of(system->name);
			config.requests = REQUESTS / 4;
			config.load = loads[j];
			assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
			assert_int_equal(result.requests, config.requests - config.warm_up + 1);
			assert_int_equal(result.latency.count + result.refused, result.requests);
			assert_int_equal(result.latency.never, result.refused);
			for (int tier = 0; tier < ROUTER_TIER__COUNT; tier++)
				served += result.from[tier];
			assert_int_equal(served, result.latency.count);
			assert_true(result.inference > 0 && result.training >= 0);
			assert_true(result.inference + result.training <=
				    result.gpu_seconds * (1 + 1e-9));
			for (int k = 0; k < SIM_SERVE_INTERVALS; k++)
				assert_true(result.inference_over_time[k] +
						    result.training_over_time[k] <= 1 + 1e-6);
		}
	}
	sim_workload_destroy(&workload);
}

/* One server, Poisson arrivals, constant service: the wait is S * load / (2 (1 - load)). */
static void one_gpu_with_one_model_is_the_queue_of_the_books(void **state)
{
	static const double loads[] = { 0.3, 0.5, 0.7 };
	struct sim_serve_config config = config_of("least-loaded");
	struct sim_workload workload;
	double service, expected;

	(void)state;
	make(&workload, 1);
	config.hosts = config.gpus = 1;
	config.requests = 100000;
	config.warm_up = 1000;
	config.training.preemption = SIM_PREEMPT_NONE;
	service = (double)workload.usual_ns[0];
	for (size_t i = 0; i < COUNT(loads); i++) {
		config.load = loads[i];
		expected = service * (1 + config.load / (2 * (1 - config.load)));
		assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
		assert_float_equal(result.latency.sum_ns / (double)result.latency.count / expected,
				   1, 0.04);
		assert_float_equal(result.inference / result.gpu_seconds, config.load, 0.02);
		assert_true(result.training == 0);
	}
	sim_workload_destroy(&workload);
}

static void the_default_is_better_than_the_four_steps(void **state)
{
	struct sim_serve_config ours = config_of("aware"), theirs = config_of("four-step");
	struct sim_workload workload;

	(void)state;
	make(&workload, 64);
	assert_int_equal(sim_serve_run(&ours, &workload, &result), 0);
	assert_int_equal(sim_serve_run(&theirs, &workload, &other), 0);
	assert_true(sim_histogram_quantile(&result.latency, 0.99) <=
		    0.8 * sim_histogram_quantile(&other.latency, 0.99));
	assert_true(sim_serve_misses(&result) <= 0.5 * sim_serve_misses(&other));
	sim_workload_destroy(&workload);
}

static void what_was_admitted_is_answered_in_time(void **state)
{
	struct sim_serve_config config = config_of("aware");
	struct sim_workload workload;

	(void)state;
	make(&workload, 64);
	config.load = 1.3;
	assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
	/* Overloaded: many are refused, with a reason, but hardly any is late. */
	assert_true(result.refused > result.requests / 5);
	assert_true(result.late < result.requests / 200);
	assert_contains(result.refusal, "no gpu can do this in");
	assert_true(isinf(sim_histogram_quantile(&result.latency, 0.99)));
	sim_workload_destroy(&workload);
}

static void training_gets_what_inference_leaves(void **state)
{
	struct sim_serve_config config = config_of("aware");
	struct sim_workload workload;

	(void)state;
	make(&workload, 64);
	assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
	assert_true(sim_serve_harvest(&result) >= 0.97);
	assert_true(sim_serve_utilisation(&result) >= 0.98);
	assert_true(result.preemptions > 0);
	/* A gpu that loads only what it runs leaves nothing while it waits. */
	config = config_of("distmind");
	config.host_cache = 0;
	config.load = 0.2;
	assert_int_equal(sim_serve_run(&config, &workload, &other), 0);
	assert_true(sim_serve_harvest(&other) < 0.97);
	sim_workload_destroy(&workload);
}

static void an_iteration_is_waited_for_to_its_end(void **state)
{
	struct sim_serve_config config = config_of("aware");
	struct sim_workload workload;
	double block;

	(void)state;
	make(&workload, 8);
	config.load = 0.1;
	assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
	block = sim_histogram_quantile(&result.latency, 0.5);
	config.training.preemption = SIM_PREEMPT_ITERATION;
	config.training.iteration_ns = 50000000;
	assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
	/* Half of one in the middle, never more than a whole one. */
	assert_in_range((uint64_t)((sim_histogram_quantile(&result.latency, 0.5) - block) * 1e6),
			15000, 35000);
	assert_true(sim_histogram_quantile(&result.latency, 0.5) > block + 0.015);
	sim_workload_destroy(&workload);
}

static void the_capacity_is_the_highest_load_that_keeps_the_objective(void **state)
{
	struct sim_serve_config config = config_of("aware");
	struct sim_workload workload;
	double load;

	(void)state;
	make(&workload, 64);
	config.requests = REQUESTS / 2;
	assert_int_equal(sim_serve_capacity(&config, &workload, 0.01, &result, &load), 0);
	assert_true(load > 0.5 && load < 1.1);
	assert_true(sim_serve_misses(&result) <= 0.01);
	config.load = load * 1.1;
	assert_int_equal(sim_serve_run(&config, &workload, &result), 0);
	assert_true(sim_serve_misses(&result) > 0.01);
	sim_workload_destroy(&workload);
}

static void impossible_configurations_are_refused(void **state)
{
	struct sim_serve_config config;
	struct sim_workload workload;

	(void)state;
	make(&workload, 8);
	config = config_of("aware");
	config.gpus = 0;
	assert_int_equal(sim_serve_run(&config, &workload, &result), -EINVAL);
	config = config_of("aware");
	config.hosts = config.gpus = 65536;
	assert_int_equal(sim_serve_run(&config, &workload, &result), -EINVAL);
	config = config_of("aware");
	config.load = NAN;
	assert_int_equal(sim_serve_run(&config, &workload, &result), -EINVAL);
	config = config_of("aware");
	config.requests = 0;
	assert_int_equal(sim_serve_run(&config, &workload, &result), -EINVAL);
	config = config_of("aware");
	config.warm_up = config.requests;
	assert_int_equal(sim_serve_run(&config, &workload, &result), -EINVAL);
	config = config_of("aware");
	config.rates.network = 0;
	assert_int_equal(sim_serve_run(&config, &workload, &result), -EINVAL);
	assert_null(sim_system_find("no such"));
	sim_workload_destroy(&workload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_seed_gives_the_same_bytes),
		cmocka_unit_test(every_request_ends_once_and_time_adds_up),
		cmocka_unit_test(one_gpu_with_one_model_is_the_queue_of_the_books),
		cmocka_unit_test(the_default_is_better_than_the_four_steps),
		cmocka_unit_test(what_was_admitted_is_answered_in_time),
		cmocka_unit_test(training_gets_what_inference_leaves),
		cmocka_unit_test(an_iteration_is_waited_for_to_its_end),
		cmocka_unit_test(the_capacity_is_the_highest_load_that_keeps_the_objective),
		cmocka_unit_test(impossible_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
