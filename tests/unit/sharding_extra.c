// SPDX-License-Identifier: GPL-2.0-or-later
/* More copies than the replicas: of what is asked for, what there is room for. */
#include "unit.h"

#include "../../userspace/sharding/sharding.h"

#include <string.h>

#define DONORS 4
#define MEMORY 1000

static struct sharding_model hot(uint64_t bytes, uint32_t copies, uint32_t asked)
{
	return (struct sharding_model){
		.bytes = bytes, .replicas = 1, .copies = copies, .asked = asked, .extra = 99,
	};
}

static uint32_t extra_of(struct sharding_model model, uint64_t needed)
{
	sharding_extra(&model, 1, DONORS, MEMORY, needed);
	return model.extra;
}

static void a_copy_is_made_while_half_of_the_memory_stays_free(void **state)
{
	(void)state;
	assert_int_equal(extra_of(hot(100, 1, 1), 400), 1);
	assert_int_equal(extra_of(hot(100, 1, 1), 401), 0);
	assert_int_equal(extra_of(hot(100, 1, 0), 100), 0);
}

static void a_copy_stays_while_a_quarter_stays_free(void **state)
{
	(void)state;
	assert_int_equal(extra_of(hot(100, 2, 1), 650), 1);
	assert_int_equal(extra_of(hot(100, 2, 1), 651), 0);
	/* What is not asked for any more goes, whatever the room. */
	assert_int_equal(extra_of(hot(100, 2, 0), 100), 0);
}

static void memory_that_the_replicas_fill_is_no_room(void **state)
{
	(void)state;
	assert_int_equal(extra_of(hot(0, 2, 1), 1000), 0);
	assert_int_equal(extra_of(hot(1, 2, 1), 5000), 0);
	assert_int_equal(extra_of(hot(UINT64_MAX, 2, 1), 0), 0);
}

static void there_are_never_more_copies_than_donors(void **state)
{
	struct sharding_model model = hot(1, 1, 100);

	(void)state;
	assert_int_equal(extra_of(model, 100), DONORS - 1);
	model.replicas = DONORS + 1;
	assert_int_equal(extra_of(model, 100), 0);
	model.replicas = 2;
	sharding_extra(&model, 1, 100, MEMORY, 100);
	assert_int_equal(model.extra, SHARDING_COPIES_MAX - 2);
	sharding_extra(&model, 1, 0, 0, 0);
	assert_int_equal(model.extra, 0);
}

static void each_gets_one_before_one_gets_two(void **state)
{
	struct sharding_model models[] = { hot(100, 1, 3), hot(100, 1, 1) };

	(void)state;
	sharding_extra(models, 2, DONORS, MEMORY, 200);
	assert_int_equal(models[0].extra, 2);
	assert_int_equal(models[1].extra, 1);
}

static void what_is_there_comes_before_what_is_new(void **state)
{
	struct sharding_model models[] = { hot(200, 1, 1), hot(200, 2, 1) };

	(void)state;
	sharding_extra(models, 2, DONORS, MEMORY, 200);
	assert_int_equal(models[0].extra, 0);
	assert_int_equal(models[1].extra, 1);
}

static void a_small_one_fits_where_a_large_one_does_not(void **state)
{
	struct sharding_model models[] = { hot(600, 1, 1), hot(100, 1, 1) };

	(void)state;
	sharding_extra(models, 2, DONORS, MEMORY, 0);
	assert_int_equal(models[0].extra, 0);
	assert_int_equal(models[1].extra, 1);
}

/* Whatever there is: acting on the answer leads to a state that has the same answer. */
static void acting_on_the_answer_does_not_change_it(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct sharding_model models[5];
		uint32_t extra[5];
		uint64_t needed = 0;

		for (int i = 0; i < 5; i++) {
			seed = seed * 1664525 + 1013904223;
			models[i] = hot(seed >> 8 & 255, 1 + (seed >> 16 & 3), seed >> 20 & 3);
			needed += models[i].bytes;
		}
		sharding_extra(models, 5, DONORS, MEMORY, needed);
		for (int i = 0; i < 5; i++) {
			extra[i] = models[i].extra;
			models[i].copies = 1 + extra[i];
		}
		sharding_extra(models, 5, DONORS, MEMORY, needed);
		for (int i = 0; i < 5; i++)
			assert_int_equal(models[i].extra, extra[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_made_while_half_of_the_memory_stays_free),
		cmocka_unit_test(a_copy_stays_while_a_quarter_stays_free),
		cmocka_unit_test(memory_that_the_replicas_fill_is_no_room),
		cmocka_unit_test(there_are_never_more_copies_than_donors),
		cmocka_unit_test(each_gets_one_before_one_gets_two),
		cmocka_unit_test(what_is_there_comes_before_what_is_new),
		cmocka_unit_test(a_small_one_fits_where_a_large_one_does_not),
		cmocka_unit_test(acting_on_the_answer_does_not_change_it),
	};

	return cmocka_run_group_tests_name("sharding_extra", tests, NULL, NULL);
}
