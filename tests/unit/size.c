// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/common/size.h"

#include <errno.h>
#include <string.h>

#define G (1ULL << 30)

static void parses_what_people_write(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "100B", 100 },
		{ "1K", 1024 },
		{ "1k", 1024 },
		{ "512M", 512ULL << 20 },
		{ "512MB", 512ULL << 20 },
		{ "512MiB", 512ULL << 20 },
		{ "512mib", 512ULL << 20 },
		{ "1.5G", G + G / 2 },
		{ "0.5G", G / 2 },
		{ "1.25GiB", G + G / 4 },
		{ "2T", 2048 * G },
		{ "0.1K", 102 },
		{ "1.5000000000000000000000000000G", G + G / 2 },
		{ "18446744073709551615", UINT64_MAX },
		{ "16777215T", 16777215ULL << 40 },
	};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (size_parse(cases[i].text, &bytes))
			fail_msg("%s was refused", cases[i].text);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void refuses_what_is_not_a_size(void **state)
{
	static const char *const cases[] = {
		"", " ", "M", "-1M", "+1M", " 1M", "1M ", "1X", "1MM", "1iB", "1Bi", "1.M",
		".5M", "1.5", "1.5B", "1e3", "0x10", "1,5G", "1KiBs", "1Ki",
	};
	uint64_t bytes = 42;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		if (size_parse(cases[i], &bytes) != -EINVAL)
			fail_msg("\"%s\" was not refused", cases[i]);
	assert_int_equal(bytes, 42);
}

static void refuses_what_does_not_fit(void **state)
{
	static const char *const cases[] = {
		"18446744073709551616", "16777216T", "16777215.9999999T",
		"99999999999999999999999999999999", "18014398509481984K",
	};
	uint64_t bytes = 42;

	(void)state;
	assert_int_equal(size_parse(cases[0], &bytes), -ERANGE);
	assert_int_equal(size_parse(cases[1], &bytes), -ERANGE);
	assert_int_equal(size_parse(cases[3], &bytes), -ERANGE);
	assert_int_equal(size_parse(cases[4], &bytes), -ERANGE);
	assert_int_equal(bytes, 42);
	assert_int_equal(size_parse(cases[2], &bytes), 0);
}

static void formats_short(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 1, "1B" },
		{ 1023, "1023B" },
		{ 1024, "1K" },
		{ 1536, "1.5K" },
		{ 512ULL << 20, "512M" },
		{ G + G / 2, "1.5G" },
		{ G + 1, "1.0G" },
		{ G - 1, "1.0G" },
		{ 1023 * G + G / 2, "1023.5G" },
		{ 1024 * G, "1T" },
		{ 2048ULL * 1024 * G, "2048T" },
		{ UINT64_MAX, "16777216.0T" },
	};
	char text[SIZE_TEXT_LEN];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		size_format(cases[i].bytes, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
}

static void whole_sizes_survive_a_round_trip(void **state)
{
	char text[SIZE_TEXT_LEN];
	uint64_t bytes, back;

	(void)state;
	for (unsigned int shift = 0; shift < 50; shift += 10)
		for (uint64_t n = 1; n < 1024; n += 7) {
			bytes = n << shift;
			size_format(bytes, text, sizeof(text));
			assert_int_equal(size_parse(text, &back), 0);
			assert_int_equal(back, bytes);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_what_people_write),
		cmocka_unit_test(refuses_what_is_not_a_size),
		cmocka_unit_test(refuses_what_does_not_fit),
		cmocka_unit_test(formats_short),
		cmocka_unit_test(whole_sizes_survive_a_round_trip),
	};

	return cmocka_run_group_tests_name("size", tests, NULL, NULL);
}
