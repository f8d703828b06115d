// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/memory/rate.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static void too_few_samples_say_nothing(void **state)
{
	struct memory_rate rate = { 0 };

	(void)state;
	for (int i = 0; i < 31; i++)
		memory_rate_sample(&rate, 1000);
	assert_int_equal(memory_rate_quantile(&rate, 990), 0);
	memory_rate_sample(&rate, 1000);
	assert_true(memory_rate_quantile(&rate, 990) >= 1000);
}

static void a_quantile_is_that_of_the_recent_samples_within_an_eighth(void **state)
{
	struct memory_rate rate = { 0 };
	uint64_t recent[MEMORY_RATE_WINDOW], sorted[MEMORY_RATE_WINDOW];
	static const unsigned int permille[] = { 500, 900, 990 };
	unsigned int seed = 9;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		uint64_t sample = (uint64_t)rand_r(&seed) << (rand_r(&seed) % 12);

		recent[i % MEMORY_RATE_WINDOW] = sample;
		memory_rate_sample(&rate, sample);
		if (i < MEMORY_RATE_WINDOW || i % 97)
			continue;
		memcpy(sorted, recent, sizeof(sorted));
		qsort(sorted, MEMORY_RATE_WINDOW, sizeof(sorted[0]), compare);
		for (size_t q = 0; q < COUNT(permille); q++) {
			/* As many above it as its share allows. */
			uint64_t above = MEMORY_RATE_WINDOW * (1000 - permille[q]) / 1000;
			uint64_t exact = sorted[MEMORY_RATE_WINDOW - 1 - above];

			assert_in_range(memory_rate_quantile(&rate, permille[q]), exact,
					exact + exact / 8 + 1);
		}
	}
}

static void old_samples_are_forgotten(void **state)
{
	struct memory_rate rate = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++)
		memory_rate_sample(&rate, 1000 * MS);
	for (int i = 0; i < MEMORY_RATE_WINDOW; i++)
		memory_rate_sample(&rate, MS);
	assert_in_range(memory_rate_p99(&rate), MS, MS * 9 / 8 + 1);
}

static void any_latency_has_a_class(void **state)
{
	struct memory_rate rate = { 0 };

	(void)state;
	for (int bit = 0; bit < 64; bit++)
		memory_rate_sample(&rate, 1ULL << bit);
	memory_rate_sample(&rate, 0);
	memory_rate_sample(&rate, UINT64_MAX);
	assert_true(memory_rate_quantile(&rate, 999) > 0);
}

static void bandwidth_counts_only_busy_time(void **state)
{
	struct memory_rate rate = { 0 };
	uint64_t now = 5 * MS;

	(void)state;
	assert_int_equal(rate.bandwidth, 0);
	for (int burst = 0; burst < 50; burst++) {
		memory_rate_begin(&rate, now);
		for (int i = 0; i < 4; i++)
			memory_rate_done(&rate, 1000000, now += MS);
		memory_rate_end(&rate);
		now += 1000 * MS;
	}
	/* A megabyte in a millisecond. */
	assert_in_range(rate.bandwidth, 999000000, 1001000000);
}

static void bandwidth_follows_a_change(void **state)
{
	struct memory_rate rate = { 0 };
	uint64_t now = MS;

	(void)state;
	memory_rate_begin(&rate, now);
	for (int i = 0; i < 100; i++)
		memory_rate_done(&rate, 1000000, now += MS);
	for (int i = 0; i < 200; i++)
		memory_rate_done(&rate, 100000, now += MS);
	assert_in_range(rate.bandwidth, 95000000, 110000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(too_few_samples_say_nothing),
		cmocka_unit_test(a_quantile_is_that_of_the_recent_samples_within_an_eighth),
		cmocka_unit_test(old_samples_are_forgotten),
		cmocka_unit_test(any_latency_has_a_class),
		cmocka_unit_test(bandwidth_counts_only_busy_time),
		cmocka_unit_test(bandwidth_follows_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
