// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the reader posts, where and when: in order of class and need, raced when it is slow,
 * and taken from a donor that has too much.
 */
#include "unit.h"

#include "memory_fake.h"

static void pieces_are_posted_in_the_order_in_which_they_are_needed(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake_up(fake, 0, 2, 1000);
	load = fake_load(fake, 0, 100, 1, one, 1, (struct memory_load_request){ 0 });
	fake_finish(fake);
	assert_int_equal(fake->posted, load->segment_count);
	for (uint32_t i = 1; i < fake->posted; i++)
		assert_true(fake->log[i - 1] < fake->log[i]);
}

static void no_more_pins_are_held_than_allowed(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake_up(fake, 0, 4, 5);
	load = fake_load(fake, 0, 60, 60, one, 1, (struct memory_load_request){ 0 });
	while (load->progress.state == MEMORY_LOAD_RUNNING) {
		fake_answer(fake, 0);
		assert_true(fake->links[0].pins <= 5);
		fake_land(fake, 0);
	}
	assert_arrived(fake, 0, 60);
}

static void a_link_that_is_deaf_for_a_while_is_asked_again(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake_up(fake, 0, 4, 64);
	fake->links[0].deaf = true;
	load = fake_load(fake, 0, 10, 10, one, 1, (struct memory_load_request){ 0 });
	fake_finish(fake);
	assert_int_equal(load->progress.bytes, 0);
	fake->links[0].deaf = false;
	fake_run(fake);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
}

/* Enough reads of a millisecond each on both donors to know their distribution. */
static void warm(struct fake *fake)
{
	struct memory_load *load;

	fake_up(fake, 0, 1, 64);
	fake_up(fake, 1, 1, 64);
	load = fake_load(fake, 100, 100, 100, spread, 2, (struct memory_load_request){ 0 });
	fake_finish(fake);
	assert_int_equal(load->progress.hedges, 0);
	while (memory_reader_news(fake->reader))
		;
	memory_reader_forget(fake->reader, load);
	fake->posted = 0;
}

/* Chunk 0 is one READ. */
static void shorten(struct fake *fake)
{
	fake->lengths[0] = 100;
	EVP_Digest(fake->chunks[0], 100, fake->digests[0], NULL, EVP_sha256(), NULL);
}

static void a_slow_read_is_raced_after_the_99th_percentile(void **state)
{
	struct fake *fake = *state;
	struct memory_reader_donor stats;
	struct memory_load *load;

	warm(fake);
	memory_reader_donor_stats(fake->reader, 0, &stats);
	assert_in_range(stats.latency_p99_ns, MS, MS * 9 / 8 + 1);
	shorten(fake);
	load = fake_load(fake, 0, 1, 1, mirrored, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	assert_int_equal(fake->links[0].flying, 1);
	assert_in_range(fake->next, fake->now + MS, fake->now + MS * 9 / 8 + 1);
	fake->now = fake->next - 1;
	fake_run(fake);
	assert_int_equal(load->progress.hedges, 0);
	fake->now++;
	fake_run(fake);
	assert_int_equal(load->progress.hedges, 1);
	fake_answer(fake, 1);
	assert_int_equal(fake->links[1].flying, 1);
	/* The race is won, but the loser can still write. */
	fake_land(fake, 1);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_int_equal(load->progress.hedges_won, 1);
	assert_false(load->progress.quiet);
	fake_land(fake, 0);
	assert_true(load->progress.quiet);
	assert_int_equal(load->progress.wasted, 100);
	assert_int_equal(fake->links[0].pins, 0);
	assert_int_equal(fake->links[1].pins, 0);
}

static void a_group_is_clear_when_the_loser_of_its_race_has_landed(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	warm(fake);
	shorten(fake);
	load = fake_load(fake, 0, 2, 1, mirrored, 1, (struct memory_load_request){ .allowed = 1 });
	fake_answer(fake, 0);
	fake->now += 10 * MS;
	fake_run(fake);
	fake_answer(fake, 1);
	fake_land(fake, 1);
	assert_ptr_equal(memory_reader_news(fake->reader), load);
	assert_int_equal(load->progress.groups_done, 1);
	assert_int_equal(load->progress.groups_clear, 0);
	fake_land(fake, 0);
	assert_ptr_equal(memory_reader_news(fake->reader), load);
	assert_int_equal(load->progress.groups_clear, 1);
}

static void the_first_of_a_race_may_still_win(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	warm(fake);
	shorten(fake);
	load = fake_load(fake, 0, 1, 1, mirrored, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake->now += 10 * MS;
	fake_run(fake);
	assert_int_equal(load->progress.hedges, 1);
	fake_land(fake, 0);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_int_equal(load->progress.hedges_won, 0);
	fake_finish(fake);
	assert_true(load->progress.quiet);
	assert_int_equal(fake->links[1].pins, 0);
}

/* A race of chunk 0, which the one that is not slow has won and which has been checked. */
static struct memory_load *win_race(struct fake *fake)
{
	struct memory_load *load;

	warm(fake);
	shorten(fake);
	fake->checks = true;
	load = fake_load(fake, 0, 1, 1, mirrored, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake->now += 10 * MS;
	fake_run(fake);
	fake_answer(fake, 1);
	fake_land(fake, 1);
	assert_int_equal(load->progress.groups_done, 0);
	assert_true(check_all(fake));
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	return load;
}

static void what_the_loser_of_a_race_writes_is_checked_too(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load = win_race(fake);

	assert_int_equal(load->progress.groups_clear, 0);
	fake_land(fake, 0);
	assert_int_equal(load->progress.groups_clear, 0);
	assert_false(load->progress.quiet);
	assert_true(check_all(fake));
	assert_int_equal(load->progress.groups_clear, 1);
	assert_true(load->progress.quiet && !load->progress.spoiled);
}

static void a_loser_that_writes_damaged_bytes_is_told_of(void **state)
{
	struct fake *fake = *state;
	struct memory_reader_report report;
	struct memory_load *load;

	fake->lies[0] = true;
	load = win_race(fake);
	fake_land(fake, 0);
	assert_true(check_all(fake));
	assert_true(load->progress.quiet && load->progress.spoiled);
	assert_true(memory_reader_report(fake->reader, &report));
	assert_int_equal(report.donor, 0);
	assert_int_equal(fake->links[0].suspects, 1);
}

/* It comes while somebody looks at the bytes: what was seen means nothing. */
static void a_loser_that_writes_during_a_check_makes_another(void **state)
{
	struct memory_reader_check check;
	struct fake *fake = *state;
	struct memory_load *load;

	warm(fake);
	shorten(fake);
	fake->checks = true;
	fake->lies[0] = true;
	load = fake_load(fake, 0, 1, 1, mirrored, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake->now += 10 * MS;
	fake_run(fake);
	fake_answer(fake, 1);
	fake_land(fake, 1);
	assert_true(memory_reader_to_check(fake->reader, &check));
	fake_land(fake, 0);
	memory_reader_checked(fake->reader, &check, true, fake->now);
	assert_int_equal(load->progress.groups_done, 0);
	do
		fake_finish(fake);
	while (check_all(fake));
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.quiet && !load->progress.spoiled);
	assert_arrived(fake, 0, 1);
}

static void a_read_without_a_replica_or_with_verification_is_not_raced(void **state)
{
	struct fake *fake = *state;
	struct memory_load *single, *checked;

	warm(fake);
	single = fake_load(fake, 0, 1, 1, one, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	assert_int_equal(fake->links[0].flying, 1);
	fake->now += 1000 * MS;
	fake_run(fake);
	assert_int_equal(single->progress.hedges, 0);
	while (fake_land(fake, 0))
		;
	checked = fake_load(fake, 0, 1, 1, mirrored, 1, verified);
	fake_answer(fake, 0);
	assert_int_equal(fake->links[0].flying, 1);
	fake->now += 1000 * MS;
	fake_run(fake);
	assert_int_equal(checked->progress.hedges, 0);
}

static void races_stay_within_their_budget(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	warm(fake);
	load = fake_load(fake, 0, 100, 10, mirrored, 2, (struct memory_load_request){ 0 });
	for (int i = 0; load->progress.state == MEMORY_LOAD_RUNNING; i++) {
		fake->now += 20 * MS;
		fake_run(fake);
		fake_answer(fake, 0);
		fake_answer(fake, 1);
		fake_land(fake, i % 2);
	}
	assert_in_range(load->progress.hedges, 5, 16 + load->segment_count / 20);
	assert_arrived(fake, 0, 100);
}

static void latency_goes_before_background(void **state)
{
	struct fake *fake = *state;
	struct memory_load *background, *urgent;

	fake_up(fake, 0, 2, 1000);
	background = fake_load(fake, 0, 50, 10, one, 1,
			       (struct memory_load_request){ .class = MEMORY_BACKGROUND });
	while (fake_answer(fake, 0))
		;
	fake_land(fake, 0);
	urgent = fake_load(fake, 100, 20, 10, one, 1,
			   (struct memory_load_request){ .class = MEMORY_LATENCY });
	fake_answer(fake, 0);
	fake->posted = 0;
	fake_finish(fake);
	assert_int_equal(urgent->progress.state, MEMORY_LOAD_DONE);
	assert_int_equal(background->progress.state, MEMORY_LOAD_DONE);
	for (uint32_t i = 0; i < urgent->segment_count; i++)
		assert_true(fake->log[i] >= fake->memory[100]);
}

static void a_load_that_somebody_else_wants_too_is_as_urgent_and_late_as_either(void **state)
{
	struct fake *fake = *state;
	struct memory_load *background, *shared;

	fake_up(fake, 0, 2, 1000);
	background = fake_load(fake, 0, 50, 10, one, 1,
			       (struct memory_load_request){ .class = MEMORY_BACKGROUND });
	shared = fake_load(fake, 100, 20, 10, one, 1,
			   (struct memory_load_request){ .class = MEMORY_BACKGROUND,
							 .deadline_ns = 1 * MS });
	memory_reader_extend(fake->reader, shared, MEMORY_LATENCY, 5000 * MS, fake->now);
	memory_reader_extend(fake->reader, shared, MEMORY_BACKGROUND, 2 * MS, fake->now);
	assert_int_equal(shared->class, MEMORY_LATENCY);
	fake->now += 499 * MS;
	fake_run(fake);
	assert_int_equal(shared->progress.state, MEMORY_LOAD_RUNNING);
	while (fake_answer(fake, 0))
		;
	fake_finish(fake);
	assert_int_equal(shared->progress.state, MEMORY_LOAD_DONE);
	assert_int_equal(background->progress.state, MEMORY_LOAD_DONE);
}

static void an_idle_donor_takes_work_from_a_busy_one(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake_up(fake, 0, 2, 64);
	fake_up(fake, 1, 2, 64);
	load = fake_load(fake, 0, 100, 10, (const char *const[]){ "01" }, 1,
			 (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake_answer(fake, 1);
	assert_int_equal(fake->links[0].flying, 2);
	assert_int_equal(fake->links[1].flying, 2);
	fake_finish(fake);
	assert_true(load->progress.stolen > load->segment_count / 3);
	assert_arrived(fake, 0, 100);
}

static void a_donor_that_is_always_busy_loses_its_work(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake->links[0].busy = true;
	fake_up(fake, 0, 2, 64);
	fake_up(fake, 1, 2, 64);
	load = fake_load(fake, 0, 20, 10, (const char *const[]){ "01" }, 1,
			 (struct memory_load_request){ 0 });
	for (int i = 0; i < 1000 && load->progress.state == MEMORY_LOAD_RUNNING; i++) {
		fake->now += MS;
		fake_run(fake);
		fake_answer(fake, 0);
		fake_answer(fake, 1);
		fake_land(fake, 1);
	}
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 20);
}

static void a_donor_that_is_busy_is_asked_again(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake->links[0].busy = true;
	fake_up(fake, 0, 2, 64);
	load = fake_load(fake, 0, 20, 10, (const char *const[]){ "0" }, 1,
			 (struct memory_load_request){ 0 });
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	fake->links[0].busy = false;
	assert_in_range(fake->next, fake->now, fake->now + 100 * MS);
	fake->now = fake->next;
	fake_run(fake);
	fake_finish(fake);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_arrived(fake, 0, 20);
}

static void a_donor_that_does_not_answer_loses_its_work(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load;

	fake_up(fake, 0, 2, 64);
	fake_up(fake, 1, 2, 64);
	load = fake_load(fake, 0, 20, 10, (const char *const[]){ "01" }, 1,
			 (struct memory_load_request){ 0 });
	assert_in_range(fake->next, fake->now, fake->now + 100 * MS);
	fake->now = fake->next;
	fake_run(fake);
	for (int i = 0; i < 1000 && load->progress.state == MEMORY_LOAD_RUNNING; i++) {
		fake_answer(fake, 1);
		fake_land(fake, 1);
	}
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	/* What it pinned in the meantime is released when it does answer. */
	fake_finish(fake);
	assert_int_equal(fake->links[0].pins, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FAKE(pieces_are_posted_in_the_order_in_which_they_are_needed),
		WITH_FAKE(no_more_pins_are_held_than_allowed),
		WITH_FAKE(a_link_that_is_deaf_for_a_while_is_asked_again),
		WITH_FAKE(a_slow_read_is_raced_after_the_99th_percentile),
		WITH_FAKE(a_group_is_clear_when_the_loser_of_its_race_has_landed),
		WITH_FAKE(the_first_of_a_race_may_still_win),
		WITH_FAKE(what_the_loser_of_a_race_writes_is_checked_too),
		WITH_FAKE(a_loser_that_writes_damaged_bytes_is_told_of),
		WITH_FAKE(a_loser_that_writes_during_a_check_makes_another),
		WITH_FAKE(a_read_without_a_replica_or_with_verification_is_not_raced),
		WITH_FAKE(races_stay_within_their_budget),
		WITH_FAKE(latency_goes_before_background),
		WITH_FAKE(a_load_that_somebody_else_wants_too_is_as_urgent_and_late_as_either),
		WITH_FAKE(an_idle_donor_takes_work_from_a_busy_one),
		WITH_FAKE(a_donor_that_is_always_busy_loses_its_work),
		WITH_FAKE(a_donor_that_is_busy_is_asked_again),
		WITH_FAKE(a_donor_that_does_not_answer_loses_its_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
