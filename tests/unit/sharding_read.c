// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/sharding/sharding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 400
#define DONORS 5

static struct sharding_chunk chunks[COUNT_MAX];
static struct sharding_donor donors[DONORS];
static struct sharding_read reads[COUNT_MAX];

/* Chunks of the same size in groups of a hundred. */
static void setup(uint32_t copies)
{
	struct sharding_change change;

	memset(chunks, 0, sizeof(chunks));
	for (uint32_t i = 0; i < COUNT_MAX; i++) {
		chunks[i].key = i * 0x9e3779b97f4a7c15ULL;
		chunks[i].group = i / 100;
		chunks[i].size = 1 << 18;
	}
	for (size_t i = 0; i < DONORS; i++)
		donors[i] = (struct sharding_donor){
			.id = i, .bandwidth = 1e9, .room = UINT64_MAX,
		};
	assert_int_equal(sharding_place(donors, DONORS, chunks, COUNT_MAX, copies, &change), 0);
}

static void reads_everything_once_from_where_it_is(void **state)
{
	(void)state;
	for (uint32_t copies = 1; copies <= 3; copies++) {
		char seen[COUNT_MAX] = { 0 };

		setup(copies);
		assert_int_equal(sharding_read_order(donors, DONORS, chunks, COUNT_MAX, reads), 0);
		for (size_t i = 0; i < COUNT_MAX; i++) {
			const struct sharding_chunk *chunk = &chunks[reads[i].chunk];
			uint32_t copy = 0;

			assert_false(seen[reads[i].chunk]++);
			while (copy < chunk->copies &&
			       chunk->donors[copy] != donors[reads[i].donor].id)
				copy++;
			assert_true(copy < chunk->copies);
		}
	}
}

static void groups_come_in_order(void **state)
{
	(void)state;
	setup(2);
	assert_int_equal(sharding_read_order(donors, DONORS, chunks, COUNT_MAX, reads), 0);
	for (size_t i = 0; i < COUNT_MAX; i++)
		assert_int_equal(chunks[reads[i].chunk].group, i / 100);
}

static void donors_take_turns(void **state)
{
	(void)state;
	setup(1);
	assert_int_equal(sharding_read_order(donors, DONORS, chunks, COUNT_MAX, reads), 0);
	/* Equal chunks on equal donors: every five reads are from all of them. */
	for (size_t i = 0; i < 95; i += DONORS) {
		uint32_t seen = 0;

		for (size_t j = i; j < i + DONORS; j++)
			seen |= 1U << reads[j].donor;
		assert_int_equal(seen, (1U << DONORS) - 1);
	}
	/* Each of them sends in execution order. */
	for (uint32_t d = 0; d < DONORS; d++)
		for (size_t i = 0, last = 0; i < COUNT_MAX; i++)
			if (reads[i].donor == d) {
				assert_true(!last || reads[i].chunk > last);
				last = reads[i].chunk;
			}
}

static void fast_donors_send_more_of_what_has_copies(void **state)
{
	uint32_t counts[DONORS] = { 0 };

	(void)state;
	setup(DONORS);
	donors[3].bandwidth = 4e9;
	assert_int_equal(sharding_read_order(donors, DONORS, chunks, COUNT_MAX, reads), 0);
	for (size_t i = 0; i < COUNT_MAX; i++)
		counts[reads[i].donor]++;
	assert_in_range(counts[3], 190, 210);
	assert_in_range(counts[0], 45, 55);
}

static void a_missing_donor_is_read_around(void **state)
{
	(void)state;
	setup(2);
	assert_int_equal(sharding_read_order(donors, DONORS - 1, chunks, COUNT_MAX, reads), 0);
	for (size_t i = 0; i < COUNT_MAX; i++)
		assert_true(reads[i].donor < DONORS - 1);
}

static void says_which_chunk_nobody_has(void **state)
{
	uint32_t missing = 0;

	(void)state;
	setup(1);
	while (chunks[missing].donors[0] != donors[DONORS - 1].id)
		missing++;
	assert_int_equal(sharding_read_order(donors, DONORS - 1, chunks, COUNT_MAX, reads),
			 -ENODATA);
	assert_int_equal(chunks[reads[0].chunk].donors[0], donors[DONORS - 1].id);
	chunks[missing].copies = 0;
	assert_int_equal(sharding_read_order(donors, DONORS, chunks, COUNT_MAX, reads), -ENODATA);
	assert_int_equal(reads[0].chunk, missing);
	assert_int_equal(sharding_read_order(donors, DONORS, chunks, 0, reads), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_everything_once_from_where_it_is),
		cmocka_unit_test(groups_come_in_order),
		cmocka_unit_test(donors_take_turns),
		cmocka_unit_test(fast_donors_send_more_of_what_has_copies),
		cmocka_unit_test(a_missing_donor_is_read_around),
		cmocka_unit_test(says_which_chunk_nobody_has),
	};

	return cmocka_run_group_tests_name("sharding_read", tests, NULL, NULL);
}
