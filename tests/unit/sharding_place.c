// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/sharding/sharding.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define K 1024U
#define DONORS_MAX 16

static uint32_t rnd(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

/* Groups of whole pieces, of what remains of tensors, and of small ones packed. */
static struct sharding_chunk *make_chunks(size_t groups, size_t each, uint32_t seed)
{
	struct sharding_chunk *chunks = calloc(groups * each, sizeof(*chunks));

	assert_non_null(chunks);
	for (size_t i = 0; i < groups * each; i++) {
		uint32_t kind = rnd(&seed, 10);

		chunks[i].key = (uint64_t)rnd(&seed, 1 << 24) << 40 | i;
		chunks[i].group = (uint32_t)(i / each);
		chunks[i].size = kind < 6 ? 256 * K :
				 kind < 8 ? 1 + rnd(&seed, 256 * K) : 1 + rnd(&seed, 64 * K);
	}
	return chunks;
}

static void make_donors(struct sharding_donor *donors, size_t count)
{
	for (size_t i = 0; i < count; i++)
		donors[i] = (struct sharding_donor){
			.id = 100 + i, .bandwidth = 1e9, .room = UINT64_MAX,
		};
}

/* The largest relative deviation of any donor's bytes of any group from its part. */
static double deviation(const struct sharding_donor *donors, size_t donor_count,
			const struct sharding_chunk *chunks, size_t count)
{
	double bandwidth = 0, worst = 0;

	for (size_t d = 0; d < donor_count; d++)
		bandwidth += donors[d].bandwidth;
	for (size_t from = 0, to; from < count; from = to) {
		double load[DONORS_MAX] = { 0 }, all = 0;

		for (to = from; to < count && chunks[to].group == chunks[from].group; to++)
			for (uint32_t c = 0; c < chunks[to].copies; c++)
				for (size_t d = 0; d < donor_count; d++)
					if (donors[d].id == chunks[to].donors[c]) {
						load[d] += chunks[to].size;
						all += chunks[to].size;
					}
		for (size_t d = 0; d < donor_count; d++) {
			double part = all * donors[d].bandwidth / bandwidth;

			worst = fmax(worst, fabs(load[d] - part) / part);
		}
	}
	return worst;
}

static void place(const struct sharding_donor *donors, size_t donor_count,
		  struct sharding_chunk *chunks, size_t count, uint32_t copies,
		  struct sharding_change *change)
{
	assert_int_equal(sharding_place(donors, donor_count, chunks, count, copies, change), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(chunks[i].copies, copies);
		for (uint32_t a = 0; a < copies; a++)
			for (uint32_t b = 0; b < a; b++)
				assert_int_not_equal(chunks[i].donors[a], chunks[i].donors[b]);
	}
}

static void spreads_each_group_evenly(void **state)
{
	struct sharding_donor donors[10];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 10);
	for (size_t donor_count = 1; donor_count <= 10; donor_count++) {
		struct sharding_chunk *chunks = make_chunks(8, 200, 1);

		place(donors, donor_count, chunks, 1600, 1, &change);
		assert_true(deviation(donors, donor_count, chunks, 1600) <= 0.1);
		assert_int_equal(change.new_copies, 1600);
		assert_int_equal(change.moves, 0);
		free(chunks);
	}
}

static void gives_fast_donors_more(void **state)
{
	struct sharding_chunk *chunks = make_chunks(4, 400, 2);
	struct sharding_donor donors[5];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 5);
	for (size_t i = 0; i < 5; i++)
		donors[i].bandwidth = 1e9 * (double)(1 + i);
	place(donors, 5, chunks, 1600, 1, &change);
	assert_true(deviation(donors, 5, chunks, 1600) <= 0.1);
	free(chunks);
}

static void copies_are_on_different_donors(void **state)
{
	struct sharding_donor donors[6];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 6);
	for (uint32_t copies = 1; copies <= 6; copies++) {
		struct sharding_chunk *chunks = make_chunks(4, 200, 3);

		place(donors, 6, chunks, 800, copies, &change);
		assert_true(deviation(donors, 6, chunks, 800) <= 0.1);
		assert_int_equal(change.new_copies, 800 * copies);
		free(chunks);
	}
}

/* Half of the bandwidth does not help a donor to hold a chunk twice. */
static void a_donor_above_its_share_holds_each_chunk_once(void **state)
{
	struct sharding_chunk *chunks = make_chunks(2, 200, 4);
	struct sharding_donor donors[3];
	struct sharding_change change;
	size_t on_first = 0;

	(void)state;
	make_donors(donors, 3);
	donors[0].bandwidth = 100e9;
	place(donors, 3, chunks, 400, 2, &change);
	for (size_t i = 0; i < 400; i++)
		on_first += chunks[i].donors[0] == 100 || chunks[i].donors[1] == 100;
	assert_true(on_first >= 380);
	free(chunks);
}

/* As slow as a donor can be, nothing is divided by nothing. */
static void a_donor_without_bandwidth_to_speak_of_does_no_harm(void **state)
{
	struct sharding_chunk *chunks = make_chunks(2, 50, 13);
	struct sharding_donor donors[3];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 3);
	donors[0].bandwidth = SHARDING_BANDWIDTH_MAX;
	donors[2].bandwidth = 1e-300;
	for (uint32_t copies = 1; copies <= 3; copies++)
		place(donors, 3, chunks, 100, copies, &change);
	free(chunks);
}

static void nothing_moves_when_nothing_changes(void **state)
{
	struct sharding_chunk *chunks = make_chunks(8, 100, 5), before[800];
	struct sharding_donor donors[7];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 7);
	place(donors, 7, chunks, 800, 2, &change);
	memcpy(before, chunks, sizeof(before));
	place(donors, 7, chunks, 800, 2, &change);
	assert_int_equal(change.new_copies + change.moves, 0);
	assert_memory_equal(before, chunks, sizeof(before));
	free(chunks);
}

static void a_donor_that_joins_gets_its_part_and_no_more_moves(void **state)
{
	struct sharding_chunk *chunks = make_chunks(10, 300, 6), *before;
	struct sharding_donor donors[10];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 10);
	place(donors, 9, chunks, 3000, 1, &change);
	before = malloc(3000 * sizeof(*before));
	assert_non_null(before);
	memcpy(before, chunks, 3000 * sizeof(*before));
	place(donors, 10, chunks, 3000, 1, &change);
	assert_true(deviation(donors, 10, chunks, 3000) <= 0.1);
	assert_int_equal(change.new_copies, 0);
	assert_true(change.moves <= 3000 * 12 / 100);
	for (size_t i = 0; i < 3000; i++)
		if (chunks[i].donors[0] != before[i].donors[0])
			change.moves--;
	assert_int_equal(change.moves, 0);
	free(before);
	free(chunks);
}

static void a_donor_that_leaves_moves_only_its_own(void **state)
{
	struct sharding_chunk *chunks = make_chunks(10, 300, 7);
	struct sharding_donor donors[10];
	struct sharding_change change;
	size_t lost = 0;

	(void)state;
	make_donors(donors, 10);
	place(donors, 10, chunks, 3000, 1, &change);
	for (size_t i = 0; i < 3000; i++)
		lost += chunks[i].donors[0] == donors[9].id;
	place(donors, 9, chunks, 3000, 1, &change);
	assert_true(deviation(donors, 9, chunks, 3000) <= 0.1);
	assert_int_equal(change.new_copies, lost);
	assert_true(change.moves <= 30);
	free(chunks);
}

/* With fewer chunks in a group than donors, the groups do not all meet at the same ones. */
static void small_groups_spread_over_all_donors(void **state)
{
	struct sharding_chunk *chunks = make_chunks(100, 3, 8);
	struct sharding_donor donors[10];
	struct sharding_change change;
	uint32_t counts[10] = { 0 };

	(void)state;
	make_donors(donors, 10);
	for (size_t i = 0; i < 10; i++)
		donors[i].bandwidth += (double)i * 1e6;
	place(donors, 10, chunks, 300, 1, &change);
	for (size_t i = 0; i < 300; i++)
		counts[chunks[i].donors[0] - 100]++;
	for (size_t i = 0; i < 10; i++)
		assert_in_range(counts[i], 20, 40);
	for (size_t i = 0; i < 300; i += 3) {
		assert_int_not_equal(chunks[i].donors[0], chunks[i + 1].donors[0]);
		assert_int_not_equal(chunks[i].donors[0], chunks[i + 2].donors[0]);
	}
	free(chunks);
}

static void room_is_never_exceeded(void **state)
{
	struct sharding_chunk *chunks = make_chunks(4, 100, 9);
	struct sharding_donor donors[4];
	struct sharding_change change;
	uint64_t held = 0, all = 0;

	(void)state;
	make_donors(donors, 4);
	donors[2].room = 1 << 20;
	place(donors, 4, chunks, 400, 1, &change);
	for (size_t i = 0; i < 400; i++) {
		all += chunks[i].size;
		held += chunks[i].donors[0] == donors[2].id ? chunks[i].size : 0;
	}
	assert_true(held <= donors[2].room);
	assert_true(held >= donors[2].room / 2);

	/* Together they have room for half of the model. */
	for (size_t i = 0; i < 400; i++)
		chunks[i].copies = 0;
	for (size_t i = 0; i < 4; i++)
		donors[i].room = all / 8;
	assert_int_equal(sharding_place(donors, 4, chunks, 400, 1, &change), -ENOSPC);
	assert_int_equal(change.new_copies + change.short_copies, 400);
	assert_true(change.new_bytes <= all / 2 && change.new_bytes >= all / 2 * 9 / 10);
	free(chunks);
}

static void fewer_donors_than_copies_are_told(void **state)
{
	struct sharding_chunk *chunks = make_chunks(1, 50, 10);
	struct sharding_donor donors[2];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 2);
	assert_int_equal(sharding_place(donors, 2, chunks, 50, 3, &change), 0);
	assert_int_equal(change.new_copies, 100);
	assert_int_equal(change.short_copies, 50);
	assert_int_equal(chunks[0].copies, 2);
	free(chunks);
}

static void fewer_copies_wanted_are_given_up_without_moves(void **state)
{
	struct sharding_chunk *chunks = make_chunks(2, 100, 11);
	struct sharding_donor donors[5];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 5);
	place(donors, 5, chunks, 200, 3, &change);
	place(donors, 5, chunks, 200, 1, &change);
	assert_int_equal(change.new_copies, 0);
	assert_int_equal(change.moves, 0);
	assert_true(deviation(donors, 5, chunks, 200) <= 0.1);
	free(chunks);
}

/* Donors come, go, fill up and get slower; copies are wanted and no longer wanted. */
static void keeps_its_promises_whatever_happens(void **state)
{
	enum { CHUNKS = 120 };
	struct sharding_chunk *chunks = make_chunks(6, CHUNKS / 6, 14), before[CHUNKS];
	uint32_t seed = 15;

	(void)state;
	for (int round = 0; round < 400; round++) {
		size_t donor_count = 1 + rnd(&seed, DONORS_MAX);
		uint32_t copies = 1 + rnd(&seed, 4);
		struct sharding_donor donors[DONORS_MAX];
		struct sharding_change change;
		uint64_t arrived[DONORS_MAX] = { 0 }, fresh = 0, lacking = 0;
		int err;

		make_donors(donors, donor_count);
		for (size_t d = 0; d < donor_count; d++) {
			donors[d].id += rnd(&seed, 3) * 50;
			donors[d].bandwidth *= 1 + rnd(&seed, 8);
			donors[d].room = rnd(&seed, 4) ? rnd(&seed, 8192) * 1024ULL : UINT64_MAX;
		}
		memcpy(before, chunks, sizeof(before));
		err = sharding_place(donors, donor_count, chunks, CHUNKS, copies, &change);
		assert_true(!err || err == -ENOSPC);
		for (size_t i = 0; i < CHUNKS; i++) {
			assert_true(chunks[i].copies <= copies);
			assert_true(chunks[i].copies || err);
			lacking += copies - chunks[i].copies;
			for (uint32_t c = 0; c < chunks[i].copies; c++) {
				size_t d = 0;
				bool there = false;

				while (d < donor_count && donors[d].id != chunks[i].donors[c])
					d++;
				assert_true(d < donor_count);
				for (uint32_t b = 0; b < before[i].copies; b++)
					there |= before[i].donors[b] == chunks[i].donors[c];
				for (uint32_t b = 0; b < c; b++)
					assert_int_not_equal(chunks[i].donors[b],
							     chunks[i].donors[c]);
				fresh += !there;
				arrived[d] += there ? 0 : chunks[i].size;
			}
		}
		for (size_t d = 0; d < donor_count; d++)
			assert_true(arrived[d] <= donors[d].room);
		assert_int_equal(change.new_copies + change.moves, fresh);
		assert_int_equal(change.short_copies, lacking);
	}
	free(chunks);
}

static void refuses_what_makes_no_sense(void **state)
{
	struct sharding_chunk *chunks = make_chunks(2, 2, 12);
	struct sharding_donor donors[2];
	struct sharding_change change;

	(void)state;
	make_donors(donors, 2);
	assert_int_equal(sharding_place(donors, 0, chunks, 4, 1, &change), -EINVAL);
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 0, &change), -EINVAL);
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 9, &change), -EINVAL);
	donors[1].id = donors[0].id;
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 1, &change), -EINVAL);
	make_donors(donors, 2);
	donors[1].bandwidth = 0;
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 1, &change), -EINVAL);
	donors[1].bandwidth = NAN;
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 1, &change), -EINVAL);
	donors[1].bandwidth = INFINITY;
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 1, &change), -EINVAL);
	make_donors(donors, 2);
	chunks[0].group = 2;
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 1, &change), -EINVAL);
	chunks[0].group = 0;
	chunks[3].size = 0;
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 1, &change), -EINVAL);
	chunks[3].size = 1;
	chunks[3].copies = 9;
	assert_int_equal(sharding_place(donors, 2, chunks, 4, 1, &change), -EINVAL);
	assert_int_equal(sharding_place(donors, 2, chunks, 0, 1, &change), 0);
	free(chunks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spreads_each_group_evenly),
		cmocka_unit_test(gives_fast_donors_more),
		cmocka_unit_test(copies_are_on_different_donors),
		cmocka_unit_test(a_donor_above_its_share_holds_each_chunk_once),
		cmocka_unit_test(a_donor_without_bandwidth_to_speak_of_does_no_harm),
		cmocka_unit_test(nothing_moves_when_nothing_changes),
		cmocka_unit_test(a_donor_that_joins_gets_its_part_and_no_more_moves),
		cmocka_unit_test(a_donor_that_leaves_moves_only_its_own),
		cmocka_unit_test(small_groups_spread_over_all_donors),
		cmocka_unit_test(room_is_never_exceeded),
		cmocka_unit_test(fewer_donors_than_copies_are_told),
		cmocka_unit_test(fewer_copies_wanted_are_given_up_without_moves),
		cmocka_unit_test(keeps_its_promises_whatever_happens),
		cmocka_unit_test(refuses_what_makes_no_sense),
	};

	return cmocka_run_group_tests_name("sharding_place", tests, NULL, NULL);
}
