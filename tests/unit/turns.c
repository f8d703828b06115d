// SPDX-License-Identifier: GPL-2.0-or-later
/* The account of the loop's turns, on a real loop. */
#include "unit.h"

#include "../../userspace/distmindd/common/log.h"
#include "../../userspace/distmindd/common/turns.h"

#include <time.h>

static const char *doing;
static unsigned int sleep_ms;
static bool was_over;

/* Others are not served, whether it computes or sleeps. */
static int on_turn(sd_event_source *source, void *arg)
{
	struct timespec time = { .tv_nsec = (long)sleep_ms * 1000000 };

	(void)source;
	(void)arg;
	if (doing)
		turns_name(doing);
	while (nanosleep(&time, &time))
		;
	was_over = turns_over();
	return 0;
}

static void take_turn(unsigned int ms, const char *what)
{
	sd_event_source *source;
	sd_event *loop;

	sleep_ms = ms;
	doing = what;
	assert_true(sd_event_new(&loop) >= 0);
	assert_true(sd_event_add_defer(loop, &source, on_turn, NULL) >= 0);
	assert_int_equal(turns_run(loop, UINT64_MAX), 1);
	sd_event_source_unref(source);
	sd_event_unref(loop);
}

static uint64_t counted(void)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i < TURNS_BUCKETS; i++)
		count += turns_account()->buckets[i];
	return count;
}

static void the_longest_turn_is_kept_with_what_it_did(void **state)
{
	const struct turns *turns = turns_account();

	(void)state;
	turns_reset();
	take_turn(0, "little");
	assert_int_equal(turns->count, 1);
	take_turn(30, "much");
	take_turn(1, NULL);
	assert_int_equal(turns->count, 3);
	assert_int_equal(counted(), 3);
	assert_string_equal(turns->longest.what, "much");
	assert_true(turns->longest.us >= 30000);
	assert_true(turns->late >= 1);
	/* 2^14 us are 16 ms. */
	for (unsigned int i = 15; i < TURNS_BUCKETS; i++)
		if (turns->buckets[i])
			return;
	fail_msg("a turn of 30 ms is in no bucket that could have it");
}

static void waiting_for_something_to_do_is_no_turn(void **state)
{
	sd_event *loop;

	(void)state;
	turns_reset();
	assert_true(sd_event_new(&loop) >= 0);
	assert_int_equal(turns_run(loop, 1000), 0);
	sd_event_unref(loop);
	assert_int_equal(turns_account()->count, 0);
}

static void a_turn_knows_when_it_has_had_its_share(void **state)
{
	(void)state;
	take_turn(0, NULL);
	take_turn(10, NULL);
	assert_true(was_over);
	/* Whoever calls from outside of the loop holds nobody up. */
	assert_false(turns_over());
}

static void the_account_is_described(void **state)
{
	json_t *described;

	(void)state;
	turns_reset();
	take_turn(0, "little");
	described = turns_describe();
	assert_int_equal(json_integer_value(json_object_get(described, "count")), 1);
	assert_int_equal(json_array_size(json_object_get(described, "buckets")), TURNS_BUCKETS);
	assert_string_equal(json_string_value(json_object_get(described, "longest_what")),
			    "little");
	json_decref(described);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_turn_is_kept_with_what_it_did),
		cmocka_unit_test(waiting_for_something_to_do_is_no_turn),
		cmocka_unit_test(a_turn_knows_when_it_has_had_its_share),
		cmocka_unit_test(the_account_is_described),
	};

	log_set_target(LOG_TO_NOTHING);
	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
