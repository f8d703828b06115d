// SPDX-License-Identifier: GPL-2.0-or-later
/* Prices of holes against the linear program that they are the dual of. */
#include "unit.h"

#include "../../userspace/placement/cutting.h"
#include "../../userspace/placement/claim.h"
#include "../../userspace/sim/random.h"

#include <glpk.h>
#include <string.h>

/* The best that can be made of a hole, by trying everything. */
static double best_use(const struct placement_cutting *cutting, uint32_t room, uint32_t from)
{
	double best = 0, use;

	for (uint32_t i = from; i < cutting->count; i++) {
		if (cutting->size[i] > room)
			continue;
		use = cutting->price[i] + best_use(cutting, room - cutting->size[i], i);
		best = use > best ? use : best;
	}
	return best;
}

/* Every way to cut a gpu is a column. */
struct columns {
	glp_prob *problem;
	uint32_t count[PLACEMENT_CUTTING_SIZES];
};

static void add_columns(struct columns *columns, const struct placement_cutting *cutting,
			uint32_t at, uint32_t room)
{
	double value[PLACEMENT_CUTTING_SIZES + 1];
	int index[PLACEMENT_CUTTING_SIZES + 1], length = 0, column;

	if (at < cutting->count) {
		for (columns->count[at] = 0;; columns->count[at]++) {
			add_columns(columns, cutting, at + 1, room);
			if (room < cutting->size[at])
				return;
			room -= cutting->size[at];
		}
	}
	for (uint32_t i = 0; i < cutting->count; i++)
		if (columns->count[i]) {
			index[++length] = (int)i + 1;
			value[length] = columns->count[i];
		}
	column = glp_add_cols(columns->problem, 1);
	glp_set_col_bnds(columns->problem, column, GLP_LO, 0, 0);
	glp_set_obj_coef(columns->problem, column, 1);
	glp_set_mat_col(columns->problem, column, length, index, value);
}

static double exact_gpus(const struct placement_cutting *cutting)
{
	struct columns columns = { .problem = glp_create_prob() };
	double gpus;

	glp_term_out(GLP_OFF);
	glp_add_rows(columns.problem, (int)cutting->count);
	for (uint32_t i = 0; i < cutting->count; i++)
		glp_set_row_bnds(columns.problem, (int)i + 1, GLP_LO, cutting->demand[i], 0);
	add_columns(&columns, cutting, 0, PLACEMENT_WHOLE);
	assert_int_equal(glp_simplex(columns.problem, NULL), 0);
	gpus = glp_get_obj_val(columns.problem);
	glp_delete_prob(columns.problem);
	return gpus;
}

static void check(struct placement_cutting *cutting)
{
	double values[PLACEMENT_WHOLE + 1], worth = 0;

	placement_cutting_solve(cutting, values);
	assert_float_equal(cutting->gpus, exact_gpus(cutting), 1e-5);
	for (uint32_t i = 0; i < cutting->count; i++) {
		assert_true(cutting->price[i] >= 0);
		worth += cutting->price[i] * cutting->demand[i];
	}
	/* Strong duality: what is asked for is worth the gpus that it takes. */
	assert_float_equal(worth, cutting->gpus, 1e-5);
	assert_float_equal(values[PLACEMENT_WHOLE], 1, 1e-6);
	assert_float_equal(values[0], 0, 1e-9);
	for (uint32_t r = 0; r <= PLACEMENT_WHOLE; r += 50)
		assert_float_equal(values[r], best_use(cutting, r, 0), 1e-6);
}

static void prices_are_the_dual_of_the_least_number_of_gpus(void **state)
{
	struct placement_cutting cutting;
	struct sim_random random;

	(void)state;
	sim_random_seed(&random, 7);
	for (int round = 0; round < 40; round++) {
		cutting.count = 1 + (uint32_t)(sim_random_next(&random) % 6);
		for (uint32_t i = 0; i < cutting.count; i++) {
			/* Each size once. */
			cutting.size[i] = 140 + 10 * i +
					  60 * (uint32_t)(sim_random_next(&random) % 14);
			for (uint32_t k = 0; k < i; k++)
				if (cutting.size[k] == cutting.size[i]) {
					cutting.size[i] += 3;
					k = UINT32_MAX;
				}
			cutting.demand[i] = 1 + (double)(sim_random_next(&random) % 100);
		}
		check(&cutting);
	}
}

static void a_hole_is_worth_nothing_if_what_fits_it_is_rare(void **state)
{
	struct placement_cutting cutting = {
		.count = 2, .size = { 810, 160 }, .demand = { 1000, 10 },
	};
	double values[PLACEMENT_WHOLE + 1];

	(void)state;
	placement_cutting_solve(&cutting, values);
	assert_float_equal(values[190], 0, 1e-9);
	assert_float_equal(values[810], 1, 1e-9);
	/* And something if there are enough of it. */
	cutting.demand[1] = 20000;
	placement_cutting_solve(&cutting, values);
	assert_true(values[190] > 0.1);
}

static void sixty_four_sizes_are_solved_quickly(void **state)
{
	struct placement_cutting cutting = { .count = PLACEMENT_CUTTING_SIZES };
	double values[PLACEMENT_WHOLE + 1], worth = 0;

	(void)state;
	for (uint32_t i = 0; i < cutting.count; i++) {
		cutting.size[i] = 37 + 15 * i;
		cutting.demand[i] = 1 + i * 7 % 13;
	}
	placement_cutting_solve(&cutting, values);
	assert_true(cutting.pivots < 40 * PLACEMENT_CUTTING_SIZES);
	for (uint32_t i = 0; i < cutting.count; i++)
		worth += cutting.price[i] * cutting.demand[i];
	assert_float_equal(worth, cutting.gpus, 1e-4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prices_are_the_dual_of_the_least_number_of_gpus),
		cmocka_unit_test(a_hole_is_worth_nothing_if_what_fits_it_is_rare),
		cmocka_unit_test(sixty_four_sizes_are_solved_quickly),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	glp_free_env();
	return failed;
}
