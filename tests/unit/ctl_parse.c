// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "../../userspace/distmindctl/parse.h"

static void a_duration_has_a_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "10ms", 10000000 },
		{ "2s", 2000000000 },
		{ "1min", 60000000000 },
		{ "1.5s", 1500000000 },
		{ "0.25min", 15000000000 },
		{ "1h", 3600000000000 },
		{ "500us", 500000 },
		{ "7ns", 7 },
		{ "0s", 0 },
		{ "1.000000001s", 1000000001 },
		{ "18446744073709551615ns", UINT64_MAX },
	};
	uint64_t ns;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(good); i++) {
		assert_int_equal(duration_parse(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
}

static void what_is_no_duration_is_refused(void **state)
{
	static const char *const bad[] = { "",	    "10",	    "ms",    "10 ms", "-1s",
					   "+1s",   "1.s",	    "1..5s", ".5s",   "1e3s",
					   "0x10s", "10msec",	    "1m",    "infs",  "nans",
					   "1.5ns", "1.0000000001s" };
	uint64_t ns;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(duration_parse(bad[i], &ns), -EINVAL);
	assert_int_equal(duration_parse("18446744073709551616ns", &ns), -ERANGE);
	assert_int_equal(duration_parse("99999999999s", &ns), -ERANGE);
	assert_int_equal(duration_parse("9999999999h", &ns), -ERANGE);
}

static void a_duration_is_printed_in_its_largest_unit(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 999, "999ns" },
		{ 10000000, "10ms" },
		{ 1500000000, "1.5s" },
		{ 29999000000, "29.9s" },
		{ 30001000000, "30s" },
		{ 60000000000, "1min" },
		{ 7200000000000, "2h" },
	};
	char text[32];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		duration_format(cases[i].ns, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
}

static void a_share_is_a_percentage(void **state)
{
	static const struct {
		const char *text;
		uint32_t share;
	} good[] = {
		{ "50", 500 },	 { "50%", 500 }, { "12.5", 125 },  { "12.5%", 125 },
		{ "100", 1000 }, { "0.1", 1 },	 { "12.50", 125 }, { "12.500", 125 },
	};
	static const char *const bad[] = { "",	    "%",      "50%%", "half", "-1",
					   "12.55", "12.505", "1e1",  "50 %" };
	static const char *const out[] = { "0", "0.0", "100.1", "101", "99999999999999999999" };
	uint32_t share;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(good); i++) {
		assert_int_equal(share_parse(good[i].text, &share), 0);
		assert_int_equal(share, good[i].share);
	}
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(share_parse(bad[i], &share), -EINVAL);
	for (i = 0; i < COUNT(out); i++)
		assert_int_equal(share_parse(out[i], &share), -ERANGE);
}

static void a_share_is_printed_as_it_is_read(void **state)
{
	uint32_t share, again;
	char text[16];

	(void)state;
	for (share = 1; share <= 1000; share++) {
		share_format(share, text, sizeof(text));
		assert_int_equal(share_parse(text, &again), 0);
		assert_int_equal(again, share);
	}
}

static void a_number_stays_in_its_range(void **state)
{
	uint32_t number;

	(void)state;
	assert_int_equal(number_parse("64", 1, 64, &number), 0);
	assert_int_equal(number, 64);
	assert_int_equal(number_parse("0", 1, 64, &number), -ERANGE);
	assert_int_equal(number_parse("65", 1, 64, &number), -ERANGE);
	assert_int_equal(number_parse("4294967296", 0, UINT32_MAX, &number), -ERANGE);
	assert_int_equal(number_parse("1.0", 1, 64, &number), -EINVAL);
	assert_int_equal(number_parse("3x", 1, 64, &number), -EINVAL);
	assert_int_equal(number_parse("", 1, 64, &number), -EINVAL);
}

static void a_label_is_what_the_kernel_takes(void **state)
{
	(void)state;
	assert_int_equal(label_check("a-b_c.9"), 0);
	assert_int_equal(label_check("0123456789012345678901234567890"), 0);
	assert_int_equal(label_check("01234567890123456789012345678901"), -ERANGE);
	assert_int_equal(label_check(""), -EINVAL);
	assert_int_equal(label_check("a b"), -EINVAL);
	assert_int_equal(label_check("a/b"), -EINVAL);
	assert_int_equal(label_check("\303\244"), -EINVAL);
}

static void a_user_is_a_name_or_a_number(void **state)
{
	uint32_t id;

	(void)state;
	assert_int_equal(user_parse("root", &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(user_parse("1000", &id), 0);
	assert_int_equal(id, 1000);
	assert_int_equal(user_parse("no-such-user-here", &id), -ENOENT);
	assert_int_equal(user_parse("4294967295", &id), -ENOENT);
	assert_int_equal(group_parse("root", &id), 0);
	assert_int_equal(id, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_duration_has_a_unit),
		cmocka_unit_test(what_is_no_duration_is_refused),
		cmocka_unit_test(a_duration_is_printed_in_its_largest_unit),
		cmocka_unit_test(a_share_is_a_percentage),
		cmocka_unit_test(a_share_is_printed_as_it_is_read),
		cmocka_unit_test(a_number_stays_in_its_range),
		cmocka_unit_test(a_label_is_what_the_kernel_takes),
		cmocka_unit_test(a_user_is_a_name_or_a_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
