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
	fake_resize(fake, 0, 100);
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
	assert_int_equal(load->progress.hedges_won, 1);
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	fake_land(fake, 0);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.quiet);
	assert_int_equal(load->progress.wasted, 100);
	assert_int_equal(fake->links[0].pins, 0);
	assert_int_equal(fake->links[1].pins, 0);
}

/* Donor 0 has lost a race for chunk 0, and is silent. */
static struct memory_load *lose_race(struct fake *fake)
{
	struct memory_load *load;

	warm(fake);
	shorten(fake);
	load = fake_load(fake, 0, 1, 1, mirrored, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake->now += 10 * MS;
	fake_run(fake);
	fake_answer(fake, 1);
	fake_land(fake, 1);
	assert_int_equal(load->progress.hedges_won, 1);
	return load;
}

static void a_donor_that_does_not_end_a_lost_race_is_disconnected(void **state)
{
	struct fake *fake = *state;
	struct memory_load *load = lose_race(fake);

	assert_in_range(fake->next, fake->now + 100 * MS, fake->now + 1000 * MS);
	fake->now = fake->next - 1;
	fake_run(fake);
	assert_false(fake->links[0].abandoned);
	assert_int_equal(load->progress.state, MEMORY_LOAD_RUNNING);
	fake->now++;
	fake_run(fake);
	assert_true(fake->links[0].abandoned);
	assert_false(fake->links[1].abandoned);
	fake_down(fake, 0);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_true(load->progress.quiet);
	assert_int_equal(load->progress.ended_ns, fake->now);
	assert_arrived(fake, 0, 1);
}

/* Nobody else has what is read: there is nobody to turn to. */
static void a_donor_that_nobody_races_is_waited_for(void **state)
{
	struct fake *fake = *state;

	warm(fake);
	fake_load(fake, 0, 1, 1, one, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	fake->now += 10000 * MS;
	fake_run(fake);
	assert_int_equal(fake->links[0].flying, 1);
	assert_false(fake->links[0].abandoned);
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
	/* Its rival has not been posted, and so is not waited for. */
	fake_land(fake, 0);
	assert_int_equal(load->progress.state, MEMORY_LOAD_DONE);
	assert_int_equal(load->progress.hedges_won, 0);
	fake_finish(fake);
	assert_true(load->progress.quiet);
	assert_int_equal(fake->links[1].pins, 0);
}

static void a_read_without_a_replica_is_not_raced(void **state)
{
	struct fake *fake = *state;
	struct memory_load *single;

	warm(fake);
	single = fake_load(fake, 0, 1, 1, one, 1, (struct memory_load_request){ 0 });
	fake_answer(fake, 0);
	assert_int_equal(fake->links[0].flying, 1);
	fake->now += 1000 * MS;
	fake_run(fake);
	assert_int_equal(single->progress.hedges, 0);
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
		WITH_FAKE(a_donor_that_does_not_end_a_lost_race_is_disconnected),
		WITH_FAKE(a_donor_that_nobody_races_is_waited_for),
		WITH_FAKE(the_first_of_a_race_may_still_win),
		WITH_FAKE(a_read_without_a_replica_is_not_raced),
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
