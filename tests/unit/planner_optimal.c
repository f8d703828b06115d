// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/planner/planner.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 14

static uint32_t rnd(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

/* Sizes, FLOPs and costs of every order of magnitude against each other, zeros among them. */
static double magnitude(uint32_t *seed)
{
	return rnd(seed, 8) ? pow(10, rnd(seed, 5)) * (1 + rnd(seed, 1000)) : 0;
}

static size_t random_model(uint32_t *seed, size_t most, struct planner_layer *layers,
			   struct planner_rates *rates)
{
	bool alike = rnd(seed, 2);
	size_t count = 1 + rnd(seed, (uint32_t)most);

	for (size_t i = 0; i < count; i++) {
		layers[i].bytes = alike ? 100000 * rnd(seed, 20) : (uint64_t)magnitude(seed);
		layers[i].flops = alike ? 100000 * rnd(seed, 20) : magnitude(seed);
	}
	*rates = (struct planner_rates){
		.network = 1e9 * (1 + rnd(seed, 30)),
		.copy = rnd(seed, 4) ? 1e9 * (1 + rnd(seed, 30)) : 0,
		.compute = 1e9 * (1 + rnd(seed, 30)),
		.transfer_cost = magnitude(seed) * 1e-9,
		.launch_cost = magnitude(seed) * 1e-9,
	};
	return count;
}

/* The definition, written down once more and without the library's sums. */
static int64_t simulate(const struct planner_pipeline *p, uint32_t cuts, size_t count)
{
	int64_t network = 0, copy = 0, compute = 0;
	size_t from = 0;

	for (size_t i = 0; i < count; i++) {
		if (i + 1 < count && !(cuts >> i & 1))
			continue;
		network += p->network_cost;
		for (size_t l = from; l <= i; l++)
			network += p->network[l + 1] - p->network[l];
		copy = (copy > network ? copy : network) + p->copy_cost;
		for (size_t l = from; l <= i; l++)
			copy += p->copy[l + 1] - p->copy[l];
		compute = (compute > copy ? compute : copy) + p->launch_cost;
		for (size_t l = from; l <= i; l++)
			compute += p->compute[l + 1] - p->compute[l];
		from = i + 1;
	}
	return compute;
}

static int64_t try_all(const struct planner_pipeline *p)
{
	int64_t best = INT64_MAX;

	for (uint32_t cuts = 0; cuts < 1U << (p->layers - 1); cuts++) {
		int64_t finish = simulate(p, cuts, p->layers);

		if (finish < best)
			best = finish;
	}
	return best;
}

static uint32_t cuts_of(const struct planner_grouping *grouping)
{
	uint32_t cuts = 0;

	for (size_t g = 0; g + 1 < grouping->count; g++)
		cuts |= 1U << (grouping->ends[g] - 1);
	return cuts;
}

static void check_form(const struct planner_pipeline *p, const struct planner_grouping *grouping)
{
	assert_true(grouping->count);
	for (size_t g = 0; g < grouping->count; g++)
		assert_true(grouping->ends[g] > (g ? grouping->ends[g - 1] : 0));
	assert_int_equal(grouping->ends[grouping->count - 1], p->layers);
}

/* Small instances are many and cheap, those of 14 layers fewer. */
static void equals_exhaustive_search(void **state)
{
	struct planner_layer layers[LAYERS_MAX];
	struct planner_rates rates;
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t most = round % 50 ? round % 10 ? 8 : 11 : LAYERS_MAX;
		size_t count = random_model(&seed, most, layers, &rates);
		struct planner_grouping grouping;
		struct planner_pipeline p;

		assert_int_equal(planner_pipeline_create(&p, layers, count, &rates), 0);
		assert_int_equal(planner_optimal(&p, &grouping), 0);
		check_form(&p, &grouping);
		if (planner_finish(&p, &grouping) != try_all(&p))
			fail_msg("round %d: %lld, but the optimum is %lld", round,
				 (long long)planner_finish(&p, &grouping), (long long)try_all(&p));
		planner_grouping_destroy(&grouping);
		planner_pipeline_destroy(&p);
	}
}

struct times {
	int64_t network, copy, compute;
};

/* All groupings of all prefixes, less those that another one is nowhere later than. */
static int64_t try_prefixes(const struct planner_pipeline *p)
{
	struct front {
		struct times *times;
		size_t count;
	} *fronts = calloc(p->layers + 1, sizeof(*fronts));
	int64_t best = INT64_MAX;

	assert_non_null(fronts);
	fronts[0].times = calloc(1, sizeof(struct times));
	fronts[0].count = 1;
	for (size_t j = 1; j <= p->layers; j++)
		for (size_t i = 0; i < j; i++)
			for (size_t s = 0; s < fronts[i].count; s++) {
				struct times t = fronts[i].times[s];
				struct front *front = &fronts[j];
				size_t kept = 0;
				bool worse = false;

				t.network += p->network_cost + p->network[j] - p->network[i];
				t.copy = (t.copy > t.network ? t.copy : t.network) + p->copy_cost +
					 p->copy[j] - p->copy[i];
				t.compute = (t.compute > t.copy ? t.compute : t.copy) +
					    p->launch_cost + p->compute[j] - p->compute[i];
				for (size_t k = 0; k < front->count && !worse; k++)
					worse = front->times[k].network <= t.network &&
						front->times[k].copy <= t.copy &&
						front->times[k].compute <= t.compute;
				if (worse)
					continue;
				for (size_t k = 0; k < front->count; k++)
					if (front->times[k].network < t.network ||
					    front->times[k].copy < t.copy ||
					    front->times[k].compute < t.compute)
						front->times[kept++] = front->times[k];
				front->times = reallocarray(front->times, kept + 1, sizeof(t));
				assert_non_null(front->times);
				front->times[kept] = t;
				front->count = kept + 1;
			}
	for (size_t s = 0; s < fronts[p->layers].count; s++)
		if (fronts[p->layers].times[s].compute < best)
			best = fronts[p->layers].times[s].compute;
	for (size_t j = 0; j <= p->layers; j++)
		free(fronts[j].times);
	free(fronts);
	return best;
}

/* With many small groups, so that there are more of them than the search counts. */
static void equals_a_plain_search_on_larger_models(void **state)
{
	struct planner_layer layers[90];
	struct planner_rates rates;
	uint32_t seed = 5;

	(void)state;
	for (int round = 0; round < 60; round++) {
		size_t count = random_model(&seed, COUNT(layers), layers, &rates);
		struct planner_grouping grouping;
		struct planner_pipeline p;

		if (round % 2) {
			rates.transfer_cost = 1e-9 * rnd(&seed, 2000);
			rates.launch_cost = 1e-9 * rnd(&seed, 2000);
		}
		assert_int_equal(planner_pipeline_create(&p, layers, count, &rates), 0);
		assert_int_equal(planner_optimal(&p, &grouping), 0);
		assert_int_equal(planner_finish(&p, &grouping), try_prefixes(&p));
		planner_grouping_destroy(&grouping);
		planner_pipeline_destroy(&p);
	}
}

static void predicts_what_the_definition_says(void **state)
{
	struct planner_layer layers[LAYERS_MAX];
	struct planner_rates rates;
	uint32_t seed = 2;

	(void)state;
	for (int round = 0; round < 1000; round++) {
		size_t count = random_model(&seed, LAYERS_MAX, layers, &rates);
		int64_t network[LAYERS_MAX], copy[LAYERS_MAX], compute[LAYERS_MAX];
		struct planner_grouping grouping;
		struct planner_pipeline p;

		assert_int_equal(planner_pipeline_create(&p, layers, count, &rates), 0);
		assert_int_equal(planner_greedy(&p, rnd(&seed, 10000000), &grouping), 0);
		check_form(&p, &grouping);
		assert_int_equal(planner_finish(&p, &grouping),
				 simulate(&p, cuts_of(&grouping), count));
		planner_schedule(&p, &grouping, network, copy, compute);
		assert_int_equal(compute[grouping.count - 1], planner_finish(&p, &grouping));
		for (size_t g = 0; g < grouping.count; g++)
			assert_true(network[g] <= copy[g] && copy[g] <= compute[g]);
		planner_grouping_destroy(&grouping);
		planner_pipeline_destroy(&p);
	}
}

/* Larger ones, where only comparisons are possible. */
static void is_never_worse_than_other_rules(void **state)
{
	struct planner_layer layers[120];
	struct planner_rates rates;
	uint32_t seed = 3;

	(void)state;
	for (int round = 0; round < 60; round++) {
		size_t count = random_model(&seed, COUNT(layers), layers, &rates);
		struct planner_grouping best, other[3];
		struct planner_pipeline p;

		assert_int_equal(planner_pipeline_create(&p, layers, count, &rates), 0);
		assert_int_equal(planner_optimal(&p, &best), 0);
		assert_int_equal(planner_greedy(&p, PLANNER_GREEDY_LIMIT, &other[0]), 0);
		assert_int_equal(planner_two_stage(&p, &other[1]), 0);
		assert_int_equal(planner_whole(&p, &other[2]), 0);
		assert_true(planner_bound(&p) <= planner_finish(&p, &best));
		for (size_t i = 0; i < COUNT(other); i++) {
			check_form(&p, &other[i]);
			assert_true(planner_finish(&p, &best) <= planner_finish(&p, &other[i]));
			planner_grouping_destroy(&other[i]);
		}
		planner_grouping_destroy(&best);
		planner_pipeline_destroy(&p);
	}
}

static void two_stages_are_optimal_where_there_are_two(void **state)
{
	struct planner_layer layers[LAYERS_MAX];
	struct planner_rates rates;
	uint32_t seed = 4;

	(void)state;
	for (int round = 0; round < 300; round++) {
		size_t count = random_model(&seed, 9, layers, &rates);
		struct planner_grouping grouping;
		struct planner_pipeline p;

		rates.copy = 0;
		assert_int_equal(planner_pipeline_create(&p, layers, count, &rates), 0);
		assert_int_equal(planner_two_stage(&p, &grouping), 0);
		assert_int_equal(planner_finish(&p, &grouping), try_all(&p));
		planner_grouping_destroy(&grouping);
		planner_pipeline_destroy(&p);
	}
}

static void free_transfers_make_every_layer_a_group_of_its_own(void **state)
{
	struct planner_layer layers[40];
	struct planner_rates rates = { .network = 1e9, .copy = 1e9, .compute = 1e12 };
	struct planner_grouping grouping;
	struct planner_pipeline p;

	(void)state;
	for (size_t i = 0; i < COUNT(layers); i++)
		layers[i] = (struct planner_layer){ .bytes = 1000000, .flops = 1e9 };
	assert_int_equal(planner_pipeline_create(&p, layers, COUNT(layers), &rates), 0);
	assert_int_equal(planner_optimal(&p, &grouping), 0);
	/* A layer takes 1 ms in each stage, and each layer follows the one before at once. */
	assert_int_equal(planner_finish(&p, &grouping), 42 * (PLANNER_SECOND / 1000));
	assert_int_equal(planner_finish(&p, &grouping), planner_bound(&p));
	planner_grouping_destroy(&grouping);
	planner_pipeline_destroy(&p);
}

static void dear_transfers_make_one_group(void **state)
{
	struct planner_layer layers[40];
	struct planner_rates rates = {
		.network = 1e9, .copy = 1e9, .compute = 1e12, .transfer_cost = 10,
	};
	struct planner_grouping grouping;
	struct planner_pipeline p;

	(void)state;
	for (size_t i = 0; i < COUNT(layers); i++)
		layers[i] = (struct planner_layer){ .bytes = 1000000, .flops = 1e9 };
	assert_int_equal(planner_pipeline_create(&p, layers, COUNT(layers), &rates), 0);
	assert_int_equal(planner_optimal(&p, &grouping), 0);
	assert_int_equal(grouping.count, 1);
	planner_grouping_destroy(&grouping);
	planner_pipeline_destroy(&p);
}

static void greedy_stops_before_the_limit(void **state)
{
	const struct planner_layer layers[] = {
		{ .bytes = 10000000 }, { .bytes = 22768000 }, { .bytes = 1 },
		{ .bytes = 40000000 }, { .bytes = 0 },	      { .bytes = 5 },
	};
	const struct planner_rates rates = { .network = 1e9, .copy = 1e9, .compute = 1e12 };
	static const uint32_t ends[] = { 2, 3, 4, 6 };
	struct planner_grouping grouping;
	struct planner_pipeline p;

	(void)state;
	assert_int_equal(planner_pipeline_create(&p, layers, COUNT(layers), &rates), 0);
	assert_int_equal(planner_greedy(&p, PLANNER_GREEDY_LIMIT, &grouping), 0);
	assert_int_equal(grouping.count, COUNT(ends));
	assert_memory_equal(grouping.ends, ends, sizeof(ends));
	planner_grouping_destroy(&grouping);
	planner_pipeline_destroy(&p);
}

static void refuses_rates_that_are_none(void **state)
{
	const struct planner_layer layer = { .bytes = 1000, .flops = 1000 };
	const struct planner_rates good = { .network = 1, .copy = 1, .compute = 1 };
	struct planner_rates bad[8];
	struct planner_pipeline p;

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		bad[i] = good;
	bad[0].network = 0;
	bad[1].network = -1;
	bad[2].copy = NAN;
	bad[3].copy = -1;
	bad[4].compute = INFINITY;
	bad[5].compute = 0;
	bad[6].transfer_cost = -1e-9;
	bad[7].launch_cost = NAN;
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(planner_pipeline_create(&p, &layer, 1, &bad[i]), -EINVAL);
	assert_int_equal(planner_pipeline_create(&p, &layer, 0, &good), -EINVAL);
	assert_int_equal(planner_pipeline_create(&p, &layer, 1, &good), 0);
	planner_pipeline_destroy(&p);
}

static void refuses_what_takes_days(void **state)
{
	const struct planner_layer layers[] = {
		{ .bytes = UINT64_MAX, .flops = 1 },
		{ .bytes = UINT64_MAX, .flops = 1 },
	};
	const struct planner_layer endless = { .bytes = 1, .flops = 1e300 };
	struct planner_rates rates = { .network = 1e15, .copy = 1e15, .compute = 1e12 };
	struct planner_pipeline p;

	(void)state;
	assert_int_equal(planner_pipeline_create(&p, layers, 1, &rates), 0);
	planner_pipeline_destroy(&p);
	assert_int_equal(planner_pipeline_create(&p, layers, 2, &rates), -ERANGE);
	assert_int_equal(planner_pipeline_create(&p, &endless, 1, &rates), -ERANGE);
	rates.transfer_cost = 1e6;
	assert_int_equal(planner_pipeline_create(&p, layers, 1, &rates), -ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_exhaustive_search),
		cmocka_unit_test(equals_a_plain_search_on_larger_models),
		cmocka_unit_test(predicts_what_the_definition_says),
		cmocka_unit_test(is_never_worse_than_other_rules),
		cmocka_unit_test(two_stages_are_optimal_where_there_are_two),
		cmocka_unit_test(free_transfers_make_every_layer_a_group_of_its_own),
		cmocka_unit_test(dear_transfers_make_one_group),
		cmocka_unit_test(greedy_stops_before_the_limit),
		cmocka_unit_test(refuses_rates_that_are_none),
		cmocka_unit_test(refuses_what_takes_days),
	};

	return cmocka_run_group_tests_name("planner_optimal", tests, NULL, NULL);
}
