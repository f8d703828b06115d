// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What becomes of a load: its groups and bytes arrive, whatever donors and links do, or it
 * says what is missing.
 */
#include "unit.h"

#include "memory_fake.h"

#include <stdio.h>

static void all_bytes_arrive_and_all_pins_go(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 200, 10, spread, 4, (struct memory_load_request){ 0 });
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_int_equal(load->progress.groups_done, 20);
	assert_true(load->progress.quiet);
	assert_int_equal(load->progress.rereads, 0);
	assert_int_equal(load->progress.wasted, 0);
	assert_arrived(fake, 0, 200);
	for (uint32_t i = 0; i < DONORS; i++)
		assert_int_equal(fake->links[i].pins, 0);
}

static void groups_are_told_in_order_and_only_when_complete(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;
	uint32_t told = 0;

	connect_all(fake);
	load = fake_load(fake, 0, 80, 8, spread, 4, (struct memory_load_request){ 0 });
	/* The fourth donor answers and reads at once, the others when it has nothing left. */
	while (fake_answer(fake, 3) || fake_land(fake, 3))
		;
	assert_null(memory_reader_news(fake->reader));
	while (load->progress.state == MEMORY_LOAD_RUNNING) {
		for (uint32_t i = 0; i < 3; i++) {
			fake_answer(fake, i);
			fake_land(fake, i);
		}
		if (memory_reader_news(fake->reader)) {
			assert_true(load->progress.groups_done > told);
			told = load->progress.groups_done;
			assert_arrived(fake, 0, told * 8);
		}
	}
	assert_int_equal(told, 10);
}

static void a_group_without_pieces_does_not_hold_up_the_next(void **state)
{
	struct fake *fake = *state;
	struct memory_load_request request = { .pieces = fake->pieces, .piece_count = 1,
					       .group_count = 4, .deadline_ns = FOREVER,
					       .check = MEMORY_CHECK_NOTHING };
	char reason[MEMORY_REASON_LEN];
	struct memory_load *load;

	connect_all(fake);
	fake->pieces[0] = (struct memory_piece){
		.length = fake->lengths[0], .group = 2, .address = (uintptr_t)fake->memory[0],
		.donor_count = 1,
	};
	memcpy(fake->pieces[0].digest, fake->digests[0], MEMORY_DIGEST_LEN);
	load = memory_reader_submit(fake->reader, &request, fake->now, reason);
	assert_non_null(load);
	assert_int_equal(load->progress.groups_done, 2);
	assert_ptr_equal(memory_reader_news(fake->reader), load);
	fake_run(fake);
	fake_finish(fake);
	assert_int_equal(load->progress.groups_done, 4);
}

static void a_group_is_not_read_before_it_is_allowed(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 100, 10, spread, 4, (struct memory_load_request){ .allowed = 2 });
	fake_finish(fake);
	/* Whoever comes back does not bring more than that either. */
	fake_down(fake, 1);
	fake_up(fake, 1, 4, 64);
	fake_finish(fake);
	assert_int_equal(load->progress.groups_done, 2);
	assert_int_equal(load->progress.groups_done, 2);
	for (uint32_t i = 0; i < fake->posted; i++)
		assert_true(fake->log[i] < fake->memory[20]);
	memory_reader_allow(fake->reader, load, 5, fake->now);
	fake_run(fake);
	fake_finish(fake);
	assert_int_equal(load->progress.groups_done, 5);
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	memory_reader_allow(fake->reader, load, 10, fake->now);
	fake_run(fake);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 100);
}

static void a_load_that_is_not_allowed_more_in_time_says_so(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 40, 10, spread, 4,
			 (struct memory_load_request){ .allowed = 1, .deadline_ns = 500 * MS });
	fake_finish(fake);
	fake->now = 1500 * MS;
	fake_run(fake);
	assert_int_equal(load->progress.err, -ETIMEDOUT);
	assert_contains(load->progress.reason, "30 of 40 chunks");
	assert_contains(load->progress.reason, "its place was not free in time");
}

static void a_load_that_waits_to_be_allowed_more_can_be_cancelled(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 40, 10, spread, 4, (struct memory_load_request){ .allowed = 1 });
	fake_finish(fake);
	assert_int_equal(load->progress.groups_done, 1);
	memory_reader_cancel(fake->reader, load, fake->now);
	assert_true(load->progress.quiet);
	fake->posted = 0;
	memory_reader_allow(fake->reader, load, 4, fake->now);
	fake_run(fake);
	fake_finish(fake);
	assert_int_equal(fake->posted, 0);
}

static void a_lost_link_is_replaced_by_a_replica(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 100, 10, mirrored, 2, (struct memory_load_request){ 0 });
	for (int i = 0; i < 20; i++) {
		fake_answer(fake, 0);
		fake_answer(fake, 1);
		fake_land(fake, 0);
		fake_land(fake, 1);
	}
	assert_true(fake->links[0].flying);
	fake_down(fake, 0);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.rereads > 0);
	assert_arrived(fake, 0, 100);
}

static void what_moves_to_a_replica_keeps_its_order(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake_up(fake, 0, 1, 1000);
	fake_up(fake, 1, 1, 1000);
	load = fake_load(fake, 0, 100, 1, mirrored, 2, (struct memory_load_request){ 0 });
	fake_answer(fake, 1);
	fake_down(fake, 0);
	fake->posted = 0;
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	for (uint32_t i = 1; i < fake->posted; i++)
		assert_true(fake->log[i - 1] < fake->log[i]);
}

static void without_a_replica_it_fails_at_its_deadline_and_says_what_is_missing(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;
	char digest[17];

	connect_all(fake);
	load = fake_load(fake, 0, 20, 10, spread, 4,
			 (struct memory_load_request){ .deadline_ns = 500 * MS });
	fake_down(fake, 2);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	assert_int_equal(fake->next, 1500 * MS);
	fake->now = 1499 * MS;
	fake_run(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	fake->now = 1500 * MS;
	fake_run(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_FAILED);
	assert_int_equal(load->progress.err, -ETIMEDOUT);
	assert_true(load->progress.quiet);
	assert_contains(load->progress.reason, "5 of 20 chunks");
	assert_contains(load->progress.reason, "host2 the cable was pulled");
	for (int i = 0; i < 8; i++)
		sprintf(digest + 2 * i, "%02x", fake->digests[2][i]);
	assert_contains(load->progress.reason, digest);
}

static void a_donor_that_comes_back_is_used_again(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 40, 10, spread, 4, (struct memory_load_request){ 0 });
	fake_answer(fake, 2);
	fake_land(fake, 2);
	fake_down(fake, 2);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	fake_up(fake, 2, 4, 64);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 40);
}

static void a_load_may_begin_before_any_link_is_up(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load = fake_load(fake, 0, 40, 10, spread, 4,
					     (struct memory_load_request){ 0 });

	connect_all(fake);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 40);
}

static void a_chunk_that_one_donor_does_not_have_is_read_from_another(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	/* The replica comes earlier in the order of donors: it has been looked at before. */
	connect_all(fake);
	memset(fake->missing[1], 1, sizeof(fake->missing[1]));
	load = fake_load(fake, 0, 30, 10, (const char *const[]){ "10" }, 1,
			 (struct memory_load_request){ 0 });
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 30);
}

static void a_chunk_that_nobody_has_fails_the_load_at_once(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	fake->missing[0][7] = fake->missing[1][7] = true;
	load = fake_load(fake, 0, 30, 10, mirrored, 2, (struct memory_load_request){ 0 });
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_FAILED);
	assert_int_equal(load->progress.err, -ENOENT);
	assert_contains(load->progress.reason, "donor host0 does not have it");
	assert_contains(load->progress.reason, "donor host1 does not have it");
	assert_true(load->progress.quiet);
	for (uint32_t i = 0; i < DONORS; i++)
		assert_int_equal(fake->links[i].pins, 0);
}

static void cancelling_waits_for_what_is_in_flight(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 100, 10, spread, 4, (struct memory_load_request){ 0 });
	for (uint32_t i = 0; i < DONORS; i++)
		fake_answer(fake, i);
	memory_reader_cancel(fake->reader, load, fake->now);
	assert_int_equal(load->progress.err, -ECANCELED);
	assert_false(load->progress.quiet);
	fake->posted = 0;
	fake_finish(fake);
	assert_true(load->progress.quiet);
	assert_int_equal(fake->posted, 0);
	for (uint32_t i = 0; i < DONORS; i++)
		assert_int_equal(fake->links[i].pins, 0);
}

static void a_group_is_done_only_when_its_digests_are_checked(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 20, 10, spread, 4, verified);
	fake_finish(fake);
	assert_int_equal(load->progress.groups_done, 0);
	assert_true(check_all(fake));
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 20);
}

static void damaged_bytes_are_read_again_from_another_donor(void **state)
{
	struct fake *fake = *state;
	struct memory_reader_donor stats;
	struct memory_load *load;

	connect_all(fake);
	fake->lies[0][0] = true;
	load = fake_load(fake, 0, 20, 10, mirrored, 2, verified);
	do
		fake_finish(fake);
	while (check_all(fake));
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.rereads >= 1);
	assert_arrived(fake, 0, 20);
	memory_reader_donor_stats(fake->reader, 0, &stats);
	assert_int_equal(stats.damaged, 1);
	memory_reader_donor_stats(fake->reader, 1, &stats);
	assert_int_equal(stats.damaged, 0);
}

/* Without anybody asking for it, and everybody is told who it was. */
static void damage_is_found_by_checksums_and_told(void **state)
{
	struct fake *fake = *state;
	struct memory_reader_report report;
	struct memory_load *load;

	connect_all(fake);
	fake->checks = true;
	fake->lies[0][0] = true;
	load = fake_load(fake, 0, 20, 10, mirrored, 2, (struct memory_load_request){ 0 });
	do
		fake_finish(fake);
	while (check_all(fake));
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 20);
	assert_int_equal(fake->links[0].suspects, 1);
	assert_memory_equal(fake->links[0].suspect, fake->digests[0], MEMORY_DIGEST_LEN);
	assert_int_equal(fake->links[1].suspects, 0);
	assert_true(memory_reader_has_news(fake->reader));
	assert_true(memory_reader_report(fake->reader, &report));
	assert_int_equal(report.donor, 0);
	assert_memory_equal(report.digest, fake->digests[0], MEMORY_DIGEST_LEN);
	assert_false(memory_reader_report(fake->reader, &report));
}

static void bytes_that_are_damaged_everywhere_fail_the_load(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	fake->lies[0][0] = fake->lies[1][0] = true;
	load = fake_load(fake, 0, 20, 10, mirrored, 2, verified);
	do
		fake_finish(fake);
	while (check_all(fake));
	assert_int_equal(load->progress.state, MEMORY_LOAD_FAILED);
	assert_int_equal(load->progress.err, -ENOENT);
	assert_contains(load->progress.reason, "host0 has other bytes");
	assert_true(load->progress.quiet);
}

static void wrong_answers_are_refused(void **state)
{
	struct fake *fake = *state;
	struct memory_wire_message answer;

	connect_all(fake);
	fake_load(fake, 0, 20, 10, one, 1, (struct memory_load_request){ 0 });
	answer = fake->links[0].answers[0];
	answer.id++;
	assert_non_null(memory_reader_located(fake->reader, 0, &answer, fake->now));
	answer.id--;
	answer.count--;
	assert_non_null(memory_reader_located(fake->reader, 0, &answer, fake->now));
	answer.count++;
	assert_non_null(memory_reader_located(fake->reader, 1, &answer, fake->now));
}

static void a_chunk_of_another_length_is_never_read(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 20, 10, mirrored, 1, (struct memory_load_request){ 0 });
	/* Something else is there. The first one is not taken over by the replica. */
	fake->links[0].answers[0].locations[0].length++;
	fake->links[0].answers[0].locations[0].address = (uintptr_t)fake->chunks[100];
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 20);
	assert_int_equal(fake->links[0].pins, 0);
}

static void refuse(struct fake *fake, struct memory_piece *piece, const char *why)
{
	const struct memory_load_request request = {
		.pieces = piece, .piece_count = 2, .group_count = 2,
	};
	char reason[MEMORY_REASON_LEN];

	assert_null(memory_reader_submit(fake->reader, &request, fake->now, reason));
	assert_contains(reason, why);
}

static void impossible_loads_are_refused_by_piece(void **state)
{
	const struct memory_piece good = { .length = 1, .donor_count = 1 };
	struct memory_piece pieces[2];
	struct fake *fake = *state;

#define WRONG(what, why)                            \
	do {                                        \
		pieces[0] = pieces[1] = good;       \
		what;                               \
		refuse(fake, pieces, "piece " why); \
	} while (0)
	WRONG(pieces[1].length = 0, "1: has no length");
	WRONG(pieces[0].address = UINT64_MAX, "0: goes beyond");
	WRONG(pieces[1].group = 2, "1: is of a group");
	WRONG(pieces[0].group = 1, "1: is of an earlier group");
	WRONG(pieces[1].donor_count = 0, "1: has no donor");
	WRONG(pieces[1].donor_count = 9, "1: has no donor");
	WRONG(pieces[1].donors[0] = DONORS, "1: names a donor that is not known");
	WRONG(pieces[1].donor_count = 2, "1: names a donor twice");
	WRONG(pieces[1].length = 1ULL << 62, "1: makes the load too large");
#undef WRONG
}

#define GROUP 4 /* chunks */

struct running {
	struct memory_load *load;
	uint32_t first;
	bool window; /* is allowed a group at a time */
	uint32_t used; /* groups whose memory is used for something else */
	bool quiet;
};

/* What a caller with little memory would do: use that of a group once it is there. */
static bool reuse_groups(struct fake *fake, struct running *running)
{
	uint32_t before = running->used;

	while (running->window && running->used < running->load->progress.groups_done) {
		uint32_t first = running->first + running->used++ * GROUP;

		assert_arrived(fake, first, GROUP);
		memset(fake->memory[first], 0xEE, GROUP * CHUNK_MAX);
		memory_reader_allow(fake->reader, running->load, running->used + 1, fake->now);
		fake_run(fake);
	}
	return running->used != before;
}

/* What a caller would do: use memory for something else once the load is quiet. */
static void reuse(struct fake *fake, struct running *running)
{
	struct memory_load_progress *progress = &running->load->progress;

	reuse_groups(fake, running);
	if (running->quiet || !progress->quiet)
		return;
	if (progress->state == MEMORY_LOAD_DONE && !running->window)
		assert_arrived(fake, running->first, 32);
	memset(fake->memory[running->first], 0xEE, 32 * CHUNK_MAX);
	running->quiet = true;
}

/* Donors come and go, lose chunks, answer and read in any order, loads are cancelled. */
static void any_order_of_events_ends_well(void **state)
{
	static const char *const any[] = { "012", "123", "230", "301" };
	struct fake *fake = *state;
	struct running running[8];
	uint32_t done = 0;
	bool more;

	fake->checks = true;
	for (int round = 0; round < 60; round++) {
		for (int i = 0; i < 8; i++) {
			const struct memory_load_request request = {
				.class = i % 2, .check = (enum memory_check)(i % 3),
				.deadline_ns = i == 7 ? 50 * MS : FOREVER,
				.allowed = i > 3,
			};

			running[i] = (struct running){
				.first = i * 32, .window = request.allowed,
				.load = fake_load(fake, i * 32, 32, GROUP, any, 4, request),
			};
		}
		for (int step = 0; step < 3000; step++) {
			uint32_t donor = rand_r(&fake->seed) % DONORS;
			uint32_t what = rand_r(&fake->seed) % 100;

			fake->now += rand_r(&fake->seed) % (MS / 2);
			if (!fake->links[donor].up)
				fake_up(fake, donor, 1 + what % 8, 1 + what);
			else if (what == 0 || fake->links[donor].abandoned)
				fake_down(fake, donor);
			else if (what == 1)
				fake->missing[donor][rand_r(&fake->seed) % CHUNKS] ^= true;
			else if (what == 2)
				fake->links[donor].deaf ^= true;
			else if (what == 3 && step > 1000)
				memory_reader_cancel(fake->reader, running[6].load, fake->now);
			else if (what < 40)
				fake_answer(fake, donor);
			else
				fake_land(fake, donor);
			if (what % 8 == 0)
				check_all(fake);
			fake_run(fake);
			for (int i = 0; i < 8; i++)
				reuse(fake, &running[i]);
		}
		memset(fake->missing, 0, sizeof(fake->missing));
		for (uint32_t i = 0; i < DONORS; i++) {
			fake->links[i].deaf = false;
			if (fake->links[i].up)
				fake_down(fake, i);
			fake_up(fake, i, 4, 64);
		}
		do {
			fake_finish(fake);
			fake->now += 20 * MS;
			fake_run(fake);
			more = check_all(fake);
			for (int i = 0; i < 8; i++)
				more |= reuse_groups(fake, &running[i]);
		} while (more);
		while (memory_reader_news(fake->reader))
			;
		for (int i = 0; i < 8; i++) {
			reuse(fake, &running[i]);
			assert_true(running[i].quiet);
			done += running[i].load->progress.state == MEMORY_LOAD_DONE;
			for (int c = 0; c < 32; c++)
				for (int b = 0; b < CHUNK_MAX; b++)
					assert_int_equal(fake->memory[i * 32 + c][b], 0xEE);
			memory_reader_forget(fake->reader, running[i].load);
		}
		for (uint32_t i = 0; i < DONORS; i++)
			assert_int_equal(fake->links[i].pins, 0);
	}
	assert_true(done > 200);
}

static bool keep_reason(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	char (*reasons)[MEMORY_REASON_LEN] = arg;

	(void)digest;
	snprintf(reasons[donor[4] - '0'], MEMORY_REASON_LEN, "%s", reason);
	return true;
}

/* Each donor is at another step when the time is up. */
static void what_was_waited_for_at_the_deadline_is_told(void **state)
{
	char reasons[DONORS][MEMORY_REASON_LEN] = { "" };
	struct fake *fake = *state;
	struct memory_load *load;

	fake->checks = true;
	connect_all(fake);
	for (int i = 0; i < DONORS; i++)
		fake->lengths[i] = SEGMENT;
	fake->links[2].deaf = true;
	load = fake_load(fake, 0, 4, 1, spread, 4,
			 (struct memory_load_request){ .deadline_ns = 100 * MS });
	fake_answer(fake, 0);
	fake_answer(fake, 3);
	fake_land(fake, 3);
	fake->now += 200 * MS;
	fake_run(fake);
	assert_int_equal(load->progress.err, -ETIMEDOUT);
	memory_reader_missing(fake->reader, load, keep_reason, reasons);
	assert_string_equal(reasons[0], "has not sent in time what was read from it");
	assert_string_equal(reasons[1], "has not answered in time");
	assert_string_equal(reasons[2], "was not read from in time");
	assert_string_equal(reasons[3], "was read from, but not checked in time");
	fake->links[2].deaf = false;
}

static bool count_missing(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	(void)digest;
	(void)donor;
	(void)reason;
	++*(uint32_t *)arg;
	return true;
}

static bool count_three(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	count_missing(arg, digest, donor, reason);
	return *(uint32_t *)arg < 3;
}

static void a_partial_load_leaves_out_what_nobody_gives(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;
	uint32_t missing = 0;

	/* The fourth donor never connects, the second goes, the third has lost a chunk. */
	for (uint32_t i = 0; i < 3; i++)
		fake_up(fake, i, 4, 64);
	fake->missing[2][6] = true;
	load = fake_load(fake, 0, 80, 80, spread, 4, (struct memory_load_request){ .partial = true });
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	fake_down(fake, 1);
	fake_finish(fake);
	assert_int_equal(load->progress.err, -ENOENT);
	assert_true(load->progress.quiet);
	memory_reader_missing(fake->reader, load, count_missing, &missing);
	assert_int_equal(missing, 20 + 20 + 1);
	/* Who has heard enough hears no more. */
	missing = 0;
	memory_reader_missing(fake->reader, load, count_three, &missing);
	assert_int_equal(missing, 3);
	for (uint32_t i = 0; i < 80; i++)
		assert_int_equal(fake_arrived(fake, i), i % 4 == 0 || (i % 4 == 2 && i != 6));
	for (uint32_t i = 0; i < DONORS; i++)
		assert_int_equal(fake->links[i].pins, 0);
}

static void a_partial_load_of_which_all_comes_is_done(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	connect_all(fake);
	load = fake_load(fake, 0, 80, 80, spread, 4, (struct memory_load_request){ .partial = true });
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FAKE(all_bytes_arrive_and_all_pins_go),
		WITH_FAKE(groups_are_told_in_order_and_only_when_complete),
		WITH_FAKE(a_group_without_pieces_does_not_hold_up_the_next),
		WITH_FAKE(a_group_is_not_read_before_it_is_allowed),
		WITH_FAKE(a_load_that_is_not_allowed_more_in_time_says_so),
		WITH_FAKE(a_load_that_waits_to_be_allowed_more_can_be_cancelled),
		WITH_FAKE(a_lost_link_is_replaced_by_a_replica),
		WITH_FAKE(what_moves_to_a_replica_keeps_its_order),
		WITH_FAKE(without_a_replica_it_fails_at_its_deadline_and_says_what_is_missing),
		WITH_FAKE(a_donor_that_comes_back_is_used_again),
		WITH_FAKE(a_load_may_begin_before_any_link_is_up),
		WITH_FAKE(a_chunk_that_one_donor_does_not_have_is_read_from_another),
		WITH_FAKE(a_chunk_that_nobody_has_fails_the_load_at_once),
		WITH_FAKE(cancelling_waits_for_what_is_in_flight),
		WITH_FAKE(a_group_is_done_only_when_its_digests_are_checked),
		WITH_FAKE(damaged_bytes_are_read_again_from_another_donor),
		WITH_FAKE(damage_is_found_by_checksums_and_told),
		WITH_FAKE(bytes_that_are_damaged_everywhere_fail_the_load),
		WITH_FAKE(wrong_answers_are_refused),
		WITH_FAKE(a_chunk_of_another_length_is_never_read),
		WITH_FAKE(impossible_loads_are_refused_by_piece),
		WITH_FAKE(any_order_of_events_ends_well),
		WITH_FAKE(what_was_waited_for_at_the_deadline_is_told),
		WITH_FAKE(a_partial_load_leaves_out_what_nobody_gives),
		WITH_FAKE(a_partial_load_of_which_all_comes_is_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
