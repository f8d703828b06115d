// SPDX-License-Identifier: GPL-2.0-or-later
/* Jobs on fractions of gpus, against the exact optimum. */
#include "unit.h"

#include "placement_exact.h"

#include <string.h>

static void check_answer(const struct placement_fractions *fractions)
{
	uint32_t left[64], gpus = 0;
	double cost = 0;

	for (uint32_t k = 0; k < fractions->kind_count; k++)
		gpus += fractions->kinds[k].gpus;
	assert_true(gpus <= 64);
	for (uint32_t g = 0; g < gpus; g++)
		left[g] = PLACEMENT_WHOLE;
	for (uint32_t j = 0; j < fractions->job_count; j++) {
		uint32_t g = fractions->gpus[j], share;

		assert_true(g < gpus);
		share = fractions->jobs[j].share[exact_kind(fractions, g)];
		assert_true(share && share <= left[g]);
		if (left[g] == PLACEMENT_WHOLE)
			cost += fractions->kinds[exact_kind(fractions, g)].cost;
		if (fractions->jobs[j].gpu != PLACEMENT_NONE && fractions->jobs[j].gpu != g)
			cost += fractions->jobs[j].move_cost;
		left[g] -= share;
	}
	assert_float_equal(cost, fractions->cost, 1e-9);
}

static void few_jobs_cost_what_the_integer_program_says(void **state)
{
	struct exact_instance instance;
	struct sim_random random;
	double exact;

	(void)state;
	sim_random_seed(&random, 3);
	for (uint32_t i = 0; i < 24; i++) {
		exact_make(&instance, &random, 3 + i % 5);
		assert_int_equal(placement_fractions_solve(&instance.fractions), 0);
		assert_int_equal(instance.fractions.left_out, 0);
		check_answer(&instance.fractions);
		exact = exact_cost(&instance.fractions);
		assert_false(isnan(exact));
		assert_float_equal(instance.fractions.cost, exact, 1e-6);
	}
}

static void a_job_that_is_dear_to_move_stays(void **state)
{
	struct placement_fraction_kind kinds[] = { { 1, 2 }, { 0.5, 2 } };
	struct placement_fraction_job jobs[] = {
		{ .share = { 300, 600 }, .gpu = 1, .move_cost = 0.1 },
		{ .share = { 300, 600 }, .gpu = 1, .move_cost = 10 },
	};
	uint32_t gpus[2];
	struct placement_fractions fractions = {
		.kinds = kinds, .kind_count = 2, .jobs = jobs, .job_count = 2, .gpus = gpus,
	};

	(void)state;
	assert_int_equal(placement_fractions_solve(&fractions), 0);
	assert_int_equal(gpus[0], 1);
	assert_int_equal(gpus[1], 1);
	/* Alone, the first is better off on half the cost. */
	fractions.job_count = 1;
	assert_int_equal(placement_fractions_solve(&fractions), 0);
	assert_float_equal(fractions.cost, 0.6, 1e-9);
}

static void what_has_no_room_is_left_out(void **state)
{
	struct placement_fraction_kind kind = { 1, 1 };
	struct placement_fraction_job jobs[] = {
		{ .share = { 700 }, .gpu = PLACEMENT_NONE },
		{ .share = { 600 }, .gpu = PLACEMENT_NONE },
		{ .share = { 0 }, .gpu = PLACEMENT_NONE },
	};
	uint32_t gpus[3];
	struct placement_fractions fractions = {
		.kinds = &kind, .kind_count = 1, .jobs = jobs, .job_count = 3, .gpus = gpus,
	};

	(void)state;
	assert_int_equal(placement_fractions_solve(&fractions), 0);
	assert_int_equal(fractions.left_out, 2);
	assert_int_equal(gpus[0], 0);
	assert_float_equal(fractions.cost, 1, 1e-9);
}

static void many_jobs_cost_less_than_by_first_fit(void **state)
{
	static struct placement_fraction_job jobs[3000];
	static uint32_t gpus[3000];
	struct placement_fraction_kind kinds[] = { { 0.5, 80 }, { 1, 80 }, { 1.6, 80 } };
	struct placement_fractions fractions = {
		.kinds = kinds, .kind_count = 3, .jobs = jobs, .job_count = 3000, .gpus = gpus,
	};
	struct sim_random random;
	double least = 0, ours;

	(void)state;
	sim_random_seed(&random, 5);
	for (uint32_t j = 0; j < 3000; j++) {
		uint32_t work = 10 + exact_below(&random, 120);

		jobs[j] = (struct placement_fraction_job){
			.share = { 2 * work, work, work * 10 / 17 },
			.gpu = PLACEMENT_NONE,
		};
		least += 0.00094 * work;
	}
	assert_int_equal(placement_fractions_solve(&fractions), 0);
	assert_int_equal(fractions.left_out, 0);
	ours = fractions.cost;
	assert_int_equal(placement_fractions_first_fit(&fractions), 0);
	assert_true(ours < fractions.cost);
	assert_true(ours >= least);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_jobs_cost_what_the_integer_program_says),
		cmocka_unit_test(a_job_that_is_dear_to_move_stays),
		cmocka_unit_test(what_has_no_room_is_left_out),
		cmocka_unit_test(many_jobs_cost_less_than_by_first_fit),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	glp_free_env();
	return failed;
}
