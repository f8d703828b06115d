// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/planner/planner.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#define MANY 20000
/* Under the sanitizers, on a busy machine; without merging it takes minutes. */
#define SECONDS 1.0

static double share(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(*seed >> 11) / (double)(1ULL << 53);
}

static uint32_t below(uint64_t *seed, uint32_t most)
{
	return (uint32_t)(share(seed) * most);
}

static double cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

enum shape { ALIKE, EVEN, WILD, SPARSE, SLOPE, RARE, SHAPES };

/* Layers of many shapes, and a path on which either of the stages may be the slowest. */
static void random_model(uint64_t *seed, enum shape shape, struct planner_layer *layers,
			 size_t count, struct planner_rates *rates)
{
	uint32_t every = 1 + below(seed, 9), other = 1 + below(seed, 9);
	double wild = 8 * share(seed), bytes = 0, flops = 1;

	for (size_t i = 0; i < count; i++) {
		struct planner_layer *layer = &layers[i];
		double at = (double)i / (double)count;

		switch (shape) {
		case ALIKE:
			*layer = (struct planner_layer){ 3000000, 3e6 };
			break;
		case EVEN:
			*layer = (struct planner_layer){ 1 + below(seed, 6000000),
							 6e6 * share(seed) };
			break;
		case WILD:
			layer->bytes = (uint64_t)exp(10 + wild * share(seed));
			layer->flops = exp(10 + 8 * share(seed));
			break;
		case SPARSE:
			layer->bytes = i % every ? 0 : 20000000;
			layer->flops = i % other ? 0 : 2e7;
			break;
		case SLOPE:
			layer->bytes = (uint64_t)(1e6 * (1 + wild * at));
			layer->flops = 1e6 * (9 - wild * at);
			break;
		default:
			layer->bytes = below(seed, share(seed) < 0.9 ? 1000 : 10000000);
			layer->flops = share(seed) < 0.9 ? 0 : 1e9 * share(seed);
		}
		bytes += (double)layer->bytes;
		flops += layer->flops;
	}
	*rates = (struct planner_rates){
		.network = 1e9 * exp(4 * share(seed)),
		.transfer_cost = exp(10 * share(seed) - 14) * bytes / 1e9 / (double)count,
		.launch_cost = below(seed, 2) ? 1e-6 * exp(6 * share(seed)) : 0,
	};
	rates->copy = below(seed, 2) ? rates->network * exp(3 * share(seed) - 1.5) : 0;
	rates->compute = flops / ((bytes + 1) / rates->network * exp(5 * share(seed) - 2.5));
}

static void check_form(size_t layers, const struct planner_grouping *grouping)
{
	assert_true(grouping->count);
	for (size_t g = 0; g < grouping->count; g++)
		assert_true(grouping->ends[g] > (g ? grouping->ends[g - 1] : 0));
	assert_int_equal(grouping->ends[grouping->count - 1], layers);
}

/* How much later than the optimum, as a part of it. */
static double loss(const struct planner_layer *layers, size_t count,
		   const struct planner_rates *rates)
{
	struct planner_grouping near, best;
	struct planner_pipeline pipeline;
	int64_t finish, optimum;

	assert_int_equal(planner_pipeline_create(&pipeline, layers, count, rates), 0);
	assert_int_equal(planner_bounded(&pipeline, &near), 0);
	assert_int_equal(planner_optimal(&pipeline, &best), 0);
	check_form(count, &near);
	finish = planner_finish(&pipeline, &near);
	optimum = planner_finish(&pipeline, &best);
	assert_true(finish >= optimum);
	planner_grouping_destroy(&near);
	planner_grouping_destroy(&best);
	planner_pipeline_destroy(&pipeline);
	return (double)(finish - optimum) / (double)optimum;
}

static void of_few_layers_it_is_the_optimum(void **state)
{
	struct planner_layer layers[120];
	struct planner_rates rates;
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 200; round++) {
		size_t count = 1 + below(&seed, COUNT(layers));

		random_model(&seed, round % SHAPES, layers, count, &rates);
		assert_true(loss(layers, count, &rates) == 0);
	}
}

static void of_many_layers_it_is_close_to_the_optimum(void **state)
{
	struct planner_layer layers[600];
	struct planner_rates rates;
	double worst = 0, now;
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < 60; round++) {
		size_t count = 257 + below(&seed, COUNT(layers) - 257);

		random_model(&seed, round % SHAPES, layers, count, &rates);
		now = loss(layers, count, &rates);
		if (now > PLANNER_LOSS)
			fail_msg("round %d: %zu layers: %g later than the optimum", round, count,
				 now);
		worst = fmax(worst, now);
	}
	/* Layers have been merged, or this test says nothing. */
	assert_true(worst > 0);
}

/* Two of these have more states than can be looked at. */
static void a_search_that_is_given_up_is_close_to_the_optimum(void **state)
{
	struct planner_layer layers[256];
	struct planner_rates rates;
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 40; round++) {
		size_t count = 200 + below(&seed, COUNT(layers) - 200);

		random_model(&seed, WILD, layers, count, &rates);
		rates.copy = rates.network * (0.8 + 0.4 * share(&seed));
		assert_true(loss(layers, count, &rates) <= PLANNER_LOSS);
	}
}

static void twenty_thousand_layers_are_grouped_at_once(void **state)
{
	struct planner_layer *layers = calloc(MANY, sizeof(*layers));
	struct planner_rates rates;
	uint64_t seed = 4;

	(void)state;
	assert_non_null(layers);
	for (int round = 0; round < 4 * SHAPES; round++) {
		struct planner_grouping grouping;
		double begin;
		int64_t finish;

		random_model(&seed, round % SHAPES, layers, MANY, &rates);
		begin = cpu_now();
		assert_int_equal(planner_robust(layers, MANY, &rates, 0.1, &grouping, &finish), 0);
		assert_true(cpu_now() - begin < SECONDS);
		check_form(MANY, &grouping);
		planner_grouping_destroy(&grouping);
	}
	free(layers);
}

static void layers_without_parameters_do_not_count(void **state)
{
	const struct planner_rates rates = { .network = 1e9, .copy = 1e9, .compute = 1e12 };
	struct planner_layer *layers = calloc(MANY, sizeof(*layers));
	static const size_t places[] = { 0, MANY / 2, MANY - 1 };
	struct planner_grouping grouping;
	struct planner_pipeline pipeline;

	(void)state;
	assert_non_null(layers);
	for (size_t i = 0; i < MANY; i++)
		layers[i].flops = 1e6;
	assert_int_equal(planner_pipeline_create(&pipeline, layers, MANY, &rates), 0);
	assert_int_equal(planner_bounded(&pipeline, &grouping), 0);
	assert_int_equal(grouping.count, 1);
	check_form(MANY, &grouping);
	planner_grouping_destroy(&grouping);
	planner_pipeline_destroy(&pipeline);
	for (size_t i = 0; i < COUNT(places); i++) {
		layers[places[i]].bytes = 1000000000;
		assert_true(loss(layers, MANY, &rates) == 0);
		layers[places[i]].bytes = 0;
	}
	free(layers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_few_layers_it_is_the_optimum),
		cmocka_unit_test(of_many_layers_it_is_close_to_the_optimum),
		cmocka_unit_test(a_search_that_is_given_up_is_close_to_the_optimum),
		cmocka_unit_test(twenty_thousand_layers_are_grouped_at_once),
		cmocka_unit_test(layers_without_parameters_do_not_count),
	};

	return cmocka_run_group_tests_name("planner_bounded", tests, NULL, NULL);
}
