// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/planner/planner.h"

#include <errno.h>
#include <math.h>

#define LAYERS 40
#define SPREAD 0.2

static uint32_t rnd(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

/* Layers of 1 ms on the network, and so much of it in compute. */
static void even_model(struct planner_layer *layers, struct planner_rates *rates, double compute)
{
	for (int i = 0; i < LAYERS; i++)
		layers[i] = (struct planner_layer){ .bytes = 1000000, .flops = 1e6 * compute };
	*rates = (struct planner_rates){ .network = 1e9, .compute = 1e9, .transfer_cost = 1e-5 };
}

static int64_t finish_at(const struct planner_layer *layers, size_t count,
			 const struct planner_rates *rates, double factor,
			 const struct planner_grouping *grouping)
{
	struct planner_rates varied = *rates;
	struct planner_pipeline pipeline;
	int64_t finish;

	varied.network *= factor;
	assert_int_equal(planner_pipeline_create(&pipeline, layers, count, &varied), 0);
	finish = planner_finish(&pipeline, grouping);
	planner_pipeline_destroy(&pipeline);
	return finish;
}

static int64_t average(const struct planner_layer *layers, size_t count,
		       const struct planner_rates *rates, double spread,
		       const struct planner_grouping *grouping)
{
	return (finish_at(layers, count, rates, 1, grouping) +
		finish_at(layers, count, rates, 1 - spread, grouping) +
		finish_at(layers, count, rates, 1 + spread, grouping)) / 3;
}

static void optimum(const struct planner_layer *layers, size_t count,
		    const struct planner_rates *rates, struct planner_grouping *grouping)
{
	struct planner_pipeline pipeline;

	assert_int_equal(planner_pipeline_create(&pipeline, layers, count, rates), 0);
	assert_int_equal(planner_optimal(&pipeline, grouping), 0);
	planner_pipeline_destroy(&pipeline);
}

static void without_spread_it_is_the_optimum(void **state)
{
	struct planner_grouping robust, optimal;
	struct planner_layer layers[LAYERS];
	struct planner_rates rates;
	int64_t finish;

	(void)state;
	even_model(layers, &rates, 0.9);
	optimum(layers, LAYERS, &rates, &optimal);
	assert_int_equal(planner_robust(layers, LAYERS, &rates, 0, &robust, &finish), 0);
	assert_true(finish == finish_at(layers, LAYERS, &rates, 1, &optimal));
	assert_true(finish == finish_at(layers, LAYERS, &rates, 1, &robust));
	planner_grouping_destroy(&robust);
	planner_grouping_destroy(&optimal);
}

/* It begins early for a network that is faster, and ends in small groups for one that is slower. */
static void a_rate_that_varies_is_met_at_both_ends(void **state)
{
	struct planner_grouping robust, optimal;
	struct planner_layer layers[LAYERS];
	struct planner_rates rates;
	int64_t finish;

	(void)state;
	even_model(layers, &rates, 0.9);
	optimum(layers, LAYERS, &rates, &optimal);
	assert_int_equal(planner_robust(layers, LAYERS, &rates, SPREAD, &robust, &finish), 0);
	assert_true(finish == average(layers, LAYERS, &rates, SPREAD, &robust));
	assert_true(robust.ends[0] < optimal.ends[0]);
	assert_int_equal(robust.ends[0], 1);
	assert_int_equal(robust.ends[robust.count - 1], LAYERS);
	assert_int_equal(robust.ends[robust.count - 2], LAYERS - 1);
	/* What the optimum loses when the network is faster, and this does not. */
	assert_true(finish_at(layers, LAYERS, &rates, 1 + SPREAD, &robust) <
		    finish_at(layers, LAYERS, &rates, 1 + SPREAD, &optimal));
	planner_grouping_destroy(&robust);
	planner_grouping_destroy(&optimal);
}

static void on_average_it_is_never_later_than_the_optima(void **state)
{
	struct planner_layer layers[LAYERS];
	uint32_t seed = 7;

	(void)state;
	for (int i = 0; i < 500; i++) {
		double spread = 0.01 * (1 + rnd(&seed, 60));
		struct planner_rates rates = {
			.network = 1e9 * (1 + rnd(&seed, 8)),
			.copy = rnd(&seed, 2) ? 1e9 * (1 + rnd(&seed, 8)) : 0,
			.compute = 1e9 * (1 + rnd(&seed, 8)),
			.transfer_cost = 1e-6 * rnd(&seed, 500),
			.launch_cost = 1e-6 * rnd(&seed, 50),
		};
		const double factors[] = { 1, 1 - spread, 1 + spread };
		size_t count = 1 + rnd(&seed, LAYERS);
		struct planner_grouping robust;
		int64_t finish;

		for (size_t l = 0; l < count; l++)
			layers[l] = (struct planner_layer){
				.bytes = 10000 * rnd(&seed, 400), .flops = 1e4 * rnd(&seed, 400),
			};
		assert_int_equal(planner_robust(layers, count, &rates, spread, &robust, &finish), 0);
		assert_int_equal(robust.ends[robust.count - 1], count);
		for (size_t g = 1; g < robust.count; g++)
			assert_true(robust.ends[g] > robust.ends[g - 1]);
		assert_true(finish == average(layers, count, &rates, spread, &robust));
		for (int f = 0; f < 3; f++) {
			struct planner_rates varied = rates;
			struct planner_grouping optimal;

			varied.network *= factors[f];
			optimum(layers, count, &varied, &optimal);
			assert_true(finish <= average(layers, count, &rates, spread, &optimal));
			planner_grouping_destroy(&optimal);
		}
		planner_grouping_destroy(&robust);
	}
}

static void a_spread_that_cannot_be_is_refused(void **state)
{
	const double bad[] = { -0.1, 1, 2, NAN };
	struct planner_layer layers[LAYERS];
	struct planner_grouping grouping;
	struct planner_rates rates;
	int64_t finish;

	(void)state;
	even_model(layers, &rates, 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(planner_robust(layers, LAYERS, &rates, bad[i], &grouping, &finish),
				 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_spread_it_is_the_optimum),
		cmocka_unit_test(a_rate_that_varies_is_met_at_both_ends),
		cmocka_unit_test(on_average_it_is_never_later_than_the_optima),
		cmocka_unit_test(a_spread_that_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
