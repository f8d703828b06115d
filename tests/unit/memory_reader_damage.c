// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Wrong bytes: nobody gets them, they are read again, and a donor is accused of them only if
 * nobody else can have written them. READs that are late, fail or lose a race prove nothing.
 */
#include "unit.h"

#include "memory_fake.h"

#include <unistd.h>

#define ENDLESS_S 60 /* what goes round for ever ends here */

static void check_and_finish(struct fake *fake)
{
	do
		fake_finish(fake);
	while (check_all(fake));
}

static uint64_t damaged_of(struct fake *fake, uint32_t donor)
{
	struct memory_reader_donor stats;

	memory_reader_donor_stats(fake->reader, donor, &stats);
	return stats.damaged;
}

/* Nobody but those who lie. */
static void assert_only_liars_accused(struct fake *fake)
{
	struct memory_reader_report report;
	int chunk;

	while (memory_reader_report(fake->reader, &report)) {
		for (chunk = 0; memcmp(fake->digests[chunk], report.digest, MEMORY_DIGEST_LEN);)
			assert_true(++chunk < CHUNKS);
		assert_true(fake->lies[report.donor][chunk]);
	}
}

/*
 * Chunk 0, of three READs, is read from donor 0, is late, and donor 1 is to race
 * it. Neither is known yet, so the race begins after 50 ms.
 */
static struct memory_load *begin_race(struct fake *fake, uint32_t chunks, uint32_t per_group)
{
	struct memory_load *load;

	fake->checks = true;
	fake_resize(fake, 0, 3 * SEGMENT);
	fake_up(fake, 0, 8, 64);
	fake_up(fake, 1, 8, 64);
	load = fake_load(fake, 0, chunks, per_group, mirrored, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	assert_true(fake->links[0].flying >= 3);
	fake->now += 60 * MS;
	fake_run(fake);
	assert_true(load->progress.hedges >= 3);
	return load;
}

static void win_race(struct fake *fake)
{
	fake_answer(fake, 1);
	for (int i = 0; i < 3; i++)
		fake_land(fake, 1);
}

/*
 * Donor 1 does not answer: what it alone has is at the head of its lane, and behind that the
 * race for a chunk of which donor 0 turns out to have other bytes. Donor 0 has enough to do not
 * to take that over.
 */
static void a_rival_that_waits_in_a_lane_is_queued_once(void **state)
{
	static const char *const waiting[] = { "1", "01", "0" };
	struct fake *fake = *state;
	struct memory_load *load;

	fake->checks = true;
	fake->lies[0][1] = true;
	for (int i = 0; i < 3; i++)
		fake_resize(fake, i, 3 * SEGMENT);
	fake_up(fake, 0, 3, 64);
	fake_up(fake, 1, 8, 64);
	load = fake_load(fake, 0, 3, 1, waiting, 3, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake->now += 60 * MS;
	fake_run(fake);
	assert_int_equal(load->progress.hedges, 3);
	for (int i = 0; i < 3; i++)
		fake_land(fake, 0);
	assert_true(check_all(fake));
	assert_int_equal(fake->posted, 6);
	check_and_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.quiet);
	assert_arrived(fake, 0, 3);
	assert_int_equal(fake->posted, 12);
	assert_int_equal(damaged_of(fake, 0), 1);
	assert_only_liars_accused(fake);
}

/* The only pin of donor 1 is that of what waits behind it. */
static void what_is_read_again_gets_a_pin(void **state)
{
	static const char *const donors[] = { "01", "1" };
	struct fake *fake = *state;
	struct memory_load *load;

	fake->checks = true;
	fake->lies[0][0] = true;
	fake_resize(fake, 0, SEGMENT);
	fake_resize(fake, 1, 2 * SEGMENT);
	fake_up(fake, 0, 8, 64);
	fake_up(fake, 1, 1, 1);
	load = fake_load(fake, 0, 2, 1, donors, 2, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake_answer(fake, 1);
	assert_int_equal(fake->links[1].flying, 1);
	fake_land(fake, 0);
	assert_true(check_all(fake));
	check_and_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 2);
	assert_int_equal(fake->links[0].pins + fake->links[1].pins, 0);
}

/* Its READ is in flight still: nobody looks at the bytes before it is over. */
static void nobody_gets_what_the_loser_of_a_race_can_write_over(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake->lies[0][0] = true;
	load = begin_race(fake, 1, 1);
	win_race(fake);
	assert_false(check_all(fake));
	assert_int_equal(load->progress.groups_done, 0);
	for (int i = 0; i < 3; i++)
		fake_land(fake, 0);
	assert_true(check_all(fake));
	/* It may have been either of them, and one of them is read alone. */
	assert_int_equal(damaged_of(fake, 0) + damaged_of(fake, 1), 0);
	assert_int_equal(load->progress.groups_done, 0);
	check_and_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.quiet);
	assert_arrived(fake, 0, 1);
	assert_int_equal(damaged_of(fake, 1), 0);
	assert_only_liars_accused(fake);
	assert_int_equal(fake->links[0].pins + fake->links[1].pins, 0);
}

static void nobody_is_accused_of_what_a_lost_link_has_left(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake->lies[0][0] = true;
	load = begin_race(fake, 1, 1);
	win_race(fake);
	fake_arrive(fake, 0, 1, 100);
	fake_down(fake, 0);
	check_and_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.quiet);
	assert_arrived(fake, 0, 1);
	assert_int_equal(damaged_of(fake, 0), 0);
	assert_int_equal(damaged_of(fake, 1), 0);
}

static void bring_some(struct fake *fake, uint32_t donor)
{
	struct fake_link *link = &fake->links[donor];
	uint32_t which;

	if (!link->flying)
		return;
	which = rand_r(&fake->seed) % link->flying;
	fake_arrive(fake, donor, which, rand_r(&fake->seed) % (link->reads[which].length + 1));
}

static void anything_happens(struct fake *fake)
{
	uint32_t donor = rand_r(&fake->seed) % DONORS, what = rand_r(&fake->seed) % 100;

	/* Now and then long enough for races. */
	fake->now += rand_r(&fake->seed) % (what % 16 ? MS / 2 : 60 * MS);
	if (!fake->links[donor].up)
		fake_up(fake, donor, 1 + what % 8, 1 + what);
	else if (what == 0 || fake->links[donor].abandoned)
		fake_down(fake, donor);
	else if (what == 1)
		fake->links[donor].deaf ^= true;
	else if (what < 20)
		bring_some(fake, donor);
	else if (what < 50)
		fake_answer(fake, donor);
	else
		fake_land(fake, donor);
	if (what % 8 == 0)
		check_all(fake);
	fake_run(fake);
}

/* One donor of three has other bytes of every second chunk; bytes come when they like. */
static void whatever_happens_loads_are_right_and_only_liars_are_accused(void **state)
{
	static const char *const any[] = { "012", "123", "230", "301" };
	uint32_t hedges = 0, accused = 0;
	struct fake *fake = *state;
	struct memory_load *loads[4];

	fake->checks = true;
	for (int chunk = 0; chunk < CHUNKS; chunk += 2)
		fake->lies[any[chunk % 4][chunk / 4 % 3] - '0'][chunk] = true;
	for (int round = 0; round < 200; round++) {
		memset(fake->memory, 0, sizeof(fake->memory));
		for (uint32_t i = 0; i < 4; i++)
			loads[i] = fake_load(fake, i * 64, 32, 8, any, 4,
					     (struct memory_load_request){ 0 });
		for (int step = 0; step < 1000; step++)
			anything_happens(fake);
		for (uint32_t i = 0; i < DONORS; i++) {
			fake->links[i].deaf = false;
			if (fake->links[i].up)
				fake_down(fake, i);
			fake_up(fake, i, 4, 64);
		}
		check_and_finish(fake);
		fake->now += 20 * MS;
		check_and_finish(fake);
		while (memory_reader_news(fake->reader))
			;
		for (uint32_t i = 0; i < 4; i++) {
			const struct memory_load_progress *progress = &loads[i]->progress;

			assert_true(progress->quiet);
			assert_int_equal(progress->state, MEMORY_LOAD_DONE);
			assert_arrived(fake, i * 64, 32);
			hedges += progress->hedges;
			memory_reader_forget(fake->reader, loads[i]);
		}
		accused += memory_reader_has_news(fake->reader);
		assert_only_liars_accused(fake);
		for (uint32_t i = 0; i < DONORS; i++)
			assert_int_equal(fake->links[i].pins, 0);
	}
	assert_true(hedges > 1000 && accused > 100);
}

/* Pieces are answered for as good. */
static uint32_t approve(struct fake *fake)
{
	struct memory_reader_check checks[MEMORY_CHECKS_MAX];
	uint32_t count = memory_reader_to_check(fake->reader, checks);

	for (uint32_t i = 0; i < count; i++) {
		checks[i].good = true;
		memory_reader_checked(fake->reader, &checks[i], fake->now);
	}
	return count;
}

static void pieces_are_checked_when_a_group_waits_for_no_others(void **state)
{
	static const char *const one[] = { "0" };
	struct fake *fake = *state;
	struct memory_load *load;

	fake->checks = true;
	for (uint32_t i = 0; i < 15; i++)
		fake_resize(fake, i, SEGMENT);
	fake_up(fake, 0, 16, 64);
	load = fake_load(fake, 0, 15, 10, one, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	for (uint32_t i = 0; i < 9; i++) {
		assert_true(fake_land(fake, 0));
		assert_int_equal(approve(fake), 0);
	}
	assert_true(fake_land(fake, 0));
	assert_int_equal(approve(fake), 10);
	assert_int_equal(load->progress.groups_done, 1);
	while (load->flying > 1) {
		assert_true(fake_land(fake, 0));
		assert_int_equal(approve(fake), 0);
	}
	assert_true(fake_land(fake, 0));
	assert_int_equal(approve(fake), 5);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.quiet);
}

/* Whoever cancels it meanwhile waits for those who look at its memory. */
static void a_load_is_quiet_after_the_last_of_its_checks(void **state)
{
	static const char *const one[] = { "0" };
	struct memory_reader_check checks[MEMORY_CHECKS_MAX];
	struct fake *fake = *state;
	struct memory_load *load;
	uint32_t count;

	fake->checks = true;
	for (uint32_t i = 0; i < 8; i++)
		fake_resize(fake, i, SEGMENT);
	fake_up(fake, 0, 16, 64);
	load = fake_load(fake, 0, 8, 4, one, 1, (struct memory_load_request){ 0 });
	fake_finish(fake);
	count = memory_reader_to_check(fake->reader, checks);
	assert_int_equal(count, 8);
	assert_int_equal(memory_reader_to_check(fake->reader, checks), 0);
	memory_reader_cancel(fake->reader, load, fake->now);
	for (uint32_t i = 0; i < count; i++) {
		assert_false(load->progress.quiet);
		checks[i].good = i % 2;
		memory_reader_checked(fake->reader, &checks[i], fake->now);
	}
	assert_true(load->progress.quiet);
	assert_int_equal(load->progress.state, MEMORY_LOAD_FAILED);
	assert_false(memory_reader_report(fake->reader, &(struct memory_reader_report){ 0 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FAKE(a_rival_that_waits_in_a_lane_is_queued_once),
		WITH_FAKE(what_is_read_again_gets_a_pin),
		WITH_FAKE(nobody_gets_what_the_loser_of_a_race_can_write_over),
		WITH_FAKE(nobody_is_accused_of_what_a_lost_link_has_left),
		WITH_FAKE(pieces_are_checked_when_a_group_waits_for_no_others),
		WITH_FAKE(a_load_is_quiet_after_the_last_of_its_checks),
		WITH_FAKE(whatever_happens_loads_are_right_and_only_liars_are_accused),
	};

	alarm(ENDLESS_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
