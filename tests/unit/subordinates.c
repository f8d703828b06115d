// SPDX-License-Identifier: GPL-2.0-or-later
/* As whom subordinate uids count. */
#include "unit.h"

#include "../../userspace/distmindd/pool/subordinates.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64], users[64];

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int setup(void **state)
{
	static struct subordinates subordinates;

	snprintf(path, sizeof(path), "/tmp/distmind-subuid-%d", getpid());
	snprintf(users, sizeof(users), "/tmp/distmind-passwd-%d", getpid());
	write_file(users, "root:x:0:0::/:/bin/sh\n"
			  "alice:x:1000:1000::/:/bin/sh\n"
			  "bob:x:1001:1001::/:/bin/sh\n");
	subordinates_init(&subordinates, path, users);
	*state = &subordinates;
	return 0;
}

static int teardown(void **state)
{
	subordinates_clear(*state);
	unlink(path);
	unlink(users);
	return 0;
}

static void uids_of_a_range_count_as_its_user(void **state)
{
	write_file(path, "alice:100000:65536\n"
			 "bob:165536:65536\n"
			 "alice:300000:10\n"
			 "1002:400000:10\n");
	assert_int_equal(subordinates_owner(*state, 99999), 99999);
	assert_int_equal(subordinates_owner(*state, 100000), 1000);
	assert_int_equal(subordinates_owner(*state, 165535), 1000);
	assert_int_equal(subordinates_owner(*state, 165536), 1001);
	assert_int_equal(subordinates_owner(*state, 231072), 231072);
	assert_int_equal(subordinates_owner(*state, 300009), 1000);
	assert_int_equal(subordinates_owner(*state, 400000), 1002);
	/* Users themselves. */
	assert_int_equal(subordinates_owner(*state, 1000), 1000);
}

static void what_belongs_to_nobody_known_counts_as_one(void **state)
{
	write_file(path, "elsewhere:100000:65536\n");
	assert_int_equal(subordinates_owner(*state, 100000), 100000);
	assert_int_equal(subordinates_owner(*state, 165535), 100000);
}

static void roots_own_count_each_for_itself(void **state)
{
	write_file(path, "root:100000:65536\n0:200000:65536\nalice:0:10\n");
	assert_int_equal(subordinates_owner(*state, 100007), 100007);
	assert_int_equal(subordinates_owner(*state, 200007), 200007);
	/* Nobody has root's uid as a subordinate one. */
	assert_int_equal(subordinates_owner(*state, 0), 0);
}

static void a_file_that_changes_is_read_again(void **state)
{
	assert_int_equal(subordinates_owner(*state, 100000), 100000);
	write_file(path, "alice:100000:65536\n");
	assert_int_equal(subordinates_owner(*state, 100000), 1000);
	write_file(path, "bob:100000:65536\n");
	assert_int_equal(subordinates_owner(*state, 100000), 1001);
	unlink(path);
	assert_int_equal(subordinates_owner(*state, 100000), 100000);
}

static void lines_that_make_no_sense_are_left_out(void **state)
{
	write_file(path, "\n#alice\n:100000:65536\nalice\nalice:100000\nalice:100000:\n"
			 "alice:-1:65536\nalice:100000:5000000000\nalice:100000:65536:7\n"
			 "alice:4294967290:100\n"
			 "bob:200000:65536");
	assert_int_equal(subordinates_owner(*state, 100000), 100000);
	assert_int_equal(subordinates_owner(*state, 5), 5);
	assert_int_equal(subordinates_owner(*state, 4294967294), 1000);
	assert_int_equal(subordinates_owner(*state, 200000), 1001);
}

#define SUBORDINATES_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SUBORDINATES_TEST(uids_of_a_range_count_as_its_user),
		SUBORDINATES_TEST(what_belongs_to_nobody_known_counts_as_one),
		SUBORDINATES_TEST(roots_own_count_each_for_itself),
		SUBORDINATES_TEST(a_file_that_changes_is_read_again),
		SUBORDINATES_TEST(lines_that_make_no_sense_are_left_out),
	};

	return cmocka_run_group_tests_name("subordinates", tests, NULL, NULL);
}
