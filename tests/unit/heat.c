// SPDX-License-Identifier: GPL-2.0-or-later
/* Heat: which models a host reads often, at times that the test makes up. */
#include "unit.h"

#include "../../userspace/distmindd/pool/heat.h"

#include <stdio.h>
#include <string.h>

#define S 1000000ULL

static struct heat heat;

static int setup(void **state)
{
	(void)state;
	heat_init(&heat, 60 * S);
	return 0;
}

static bool is_hot(const char *model, uint64_t at)
{
	const char *names[CATALOG_HOT_MAX];
	size_t count = heat_hot(&heat, at, names);
	bool found = false;

	for (size_t i = 0; i < count; i++)
		found |= !strcmp(names[i], model);
	return found;
}

static void three_loads_in_a_minute_make_a_model_hot(void **state)
{
	(void)state;
	heat_load(&heat, "net", true, 0);
	assert_false(is_hot("net", 0));
	heat_load(&heat, "net", true, 30 * S);
	assert_false(is_hot("net", 30 * S));
	heat_load(&heat, "other", true, 40 * S);
	heat_load(&heat, "net", true, 60 * S);
	assert_true(is_hot("net", 60 * S));
	assert_false(is_hot("other", 60 * S));
}

/* Two gpus that load it at once are not yet reason enough. */
static void two_loads_are_not_enough(void **state)
{
	(void)state;
	heat_load(&heat, "net", true, 5 * S);
	heat_load(&heat, "net", true, 5 * S);
	assert_false(is_hot("net", 5 * S));
}

static void rare_loads_never_make_a_model_hot(void **state)
{
	(void)state;
	for (uint64_t at = 0; at < 3600 * S; at += 60 * S) {
		heat_load(&heat, "net", true, at);
		assert_false(is_hot("net", at));
	}
}

static void a_pause_does_not_end_it(void **state)
{
	(void)state;
	for (uint64_t at = 0; at < 3 * S; at += S)
		heat_load(&heat, "net", true, at);
	assert_true(is_hot("net", 3 * S));
	assert_true(is_hot("net", 120 * S));
	/* One load a minute does not make it hot, but keeps it so. */
	for (uint64_t at = 120 * S; at < 1200 * S; at += 60 * S) {
		heat_load(&heat, "net", true, at);
		assert_true(is_hot("net", at + 59 * S));
	}
	assert_false(is_hot("net", 1400 * S));
}

static void it_cools_in_four_half_lives_however_hot_it_was(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		heat_load(&heat, "net", true, 0);
	assert_true(is_hot("net", 230 * S));
	assert_false(is_hot("net", 250 * S));
	/* And has to be read as often as ever to be hot again. */
	heat_load(&heat, "net", true, 251 * S);
	assert_false(is_hot("net", 251 * S));
}

static void the_own_copy_keeps_hot_but_does_not_make_hot(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		heat_load(&heat, "net", false, 0);
	assert_false(is_hot("net", 0));
	for (int i = 0; i < 3; i++)
		heat_load(&heat, "net", true, 0);
	for (uint64_t at = 0; at < 600 * S; at += 30 * S)
		heat_load(&heat, "net", false, at);
	assert_true(is_hot("net", 600 * S));
}

static void the_coldest_makes_room(void **state)
{
	char name[32];

	(void)state;
	for (int i = 0; i < 3; i++)
		heat_load(&heat, "net", true, 0);
	for (int i = 0; i < 3 * HEAT_MODELS; i++) {
		snprintf(name, sizeof(name), "rare-%d", i);
		heat_load(&heat, name, true, S);
	}
	assert_true(is_hot("net", S));
}

static void no_more_are_named_than_a_host_can_say(void **state)
{
	const char *first[CATALOG_HOT_MAX], *again[CATALOG_HOT_MAX];
	char name[32];

	(void)state;
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "net-%d", i % 20);
		heat_load(&heat, name, true, 0);
	}
	assert_int_equal(heat_hot(&heat, 0, first), CATALOG_HOT_MAX);
	assert_int_equal(heat_hot(&heat, S, again), CATALOG_HOT_MAX);
	for (int i = 0; i < CATALOG_HOT_MAX; i++)
		assert_string_equal(first[i], again[i]);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(three_loads_in_a_minute_make_a_model_hot),
		TEST(two_loads_are_not_enough),
		TEST(rare_loads_never_make_a_model_hot),
		TEST(a_pause_does_not_end_it),
		TEST(it_cools_in_four_half_lives_however_hot_it_was),
		TEST(the_own_copy_keeps_hot_but_does_not_make_hot),
		TEST(the_coldest_makes_room),
		TEST(no_more_are_named_than_a_host_can_say),
	};

	return cmocka_run_group_tests_name("heat", tests, NULL, NULL);
}
