// SPDX-License-Identifier: GPL-2.0-or-later
/* Checking models: who waits for whom. */
#include "service_bed.h"

#define ASKED 3 /* by one user, on as many connections */

/* A job that stands for a load. */
static struct hold {
	sem_t load_arrived, load_gate;
} hold;

static int setup_hold(void **state)
{
	hold = (struct hold){ 0 };
	sem_init(&hold.load_arrived, 0, 0);
	sem_init(&hold.load_gate, 0, 0);
	return setup(state);
}

/* A test that failed may have left it where it waits. */
static int teardown_hold(void **state)
{
	for (int i = 0; i < WORKERS_MAX; i++)
		sem_post(&hold.load_gate);
	return teardown(state);
}

/* Copies that are being looked at, or are to be next. */
static uint64_t copies(void)
{
	struct memory_arena_stats stats;

	memory_arena_stats(bed.models->chunks.arena, &stats);
	return stats.pins;
}

static int verify_as(uint32_t uid)
{
	int fd = connect_client();

	be_somebody(uid);
	say(fd, op("verify", "net"), NULL, 0);
	wait_until(bed.models->service.clients->exchange);
	return fd;
}

static bool is_answered(int fd)
{
	struct message message;
	const char *why;
	bool answered;

	answered = !message_receive(fd, &message, &why) && json_object_get(message.body, "ok");
	message_clear(&message);
	return answered;
}

/* Whatever can be done without the worker is done. */
static void settle(void)
{
	while (turns_run(bed.loop, 0))
		;
}

static void one_user_has_one_model_checked_at_a_time(void **state)
{
	struct sample sample;
	int fds[ASKED], other;

	(void)state;
	push_sample(&sample, "net", 1);
	wait_until(!copies());
	hold_workers();
	for (int i = 0; i < ASKED; i++)
		fds[i] = verify_as(1000);
	settle();
	assert_int_equal(copies(), 1);
	/* Others do not wait for that. */
	other = verify_as(1001);
	settle();
	assert_int_equal(copies(), 2);
	/* Who leaves is not waited for, in the middle or at the beginning. */
	hang_up(fds[1]);
	settle();
	assert_int_equal(copies(), 2);
	hang_up(fds[0]);
	let_workers_go();
	wait_until(is_answered(fds[2]));
	wait_until(is_answered(other));
	assert_int_equal(copies(), 0);
	hang_up(fds[2]);
	hang_up(other);
	free_sample(&sample);
}

static void those_of_a_user_are_answered_in_their_order(void **state)
{
	struct sample sample;
	int fds[ASKED];

	(void)state;
	push_sample(&sample, "net", 1);
	for (int i = 0; i < ASKED; i++)
		fds[i] = verify_as(1000);
	for (int i = 0; i < ASKED; i++) {
		wait_until(is_answered(fds[i]));
		if (i + 1 < ASKED)
			assert_false(is_answered(fds[ASKED - 1]));
	}
	for (int i = 0; i < ASKED; i++)
		hang_up(fds[i]);
	free_sample(&sample);
}

static void wait_as_load(struct worker_job *job)
{
	(void)job;
	sem_post(&hold.load_arrived);
	while (sem_wait(&hold.load_gate))
		;
}

/* Of those that wait for a thread: a load that comes later begins before. */
static void loads_do_not_wait_for_what_is_checked(void **state)
{
	static struct meeting load = { .job = { .work = wait_as_load, .done = has_met } };
	static struct meeting next = { .job = { .work = wait_as_load, .done = has_met } };
	const struct model_chunk *first;
	struct memory_chunk *copy;
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	wait_until(!copies());
	hold_workers();
	fd = verify_as(1000);
	settle();
	first = &sample.image.manifest.chunks[0];
	assert_int_equal(memory_arena_pin(bed.models->chunks.arena, first->digest.bytes, &copy), 0);
	assert_int_equal(copy->pins, 2);
	worker_add(bed.models->chunks.worker, &load.job);
	/* One thread, which stays with the load. */
	sem_post(&held.gate);
	while (sem_wait(&hold.load_arrived))
		;
	/* Whoever adds one hears of those that are over. */
	worker_add(bed.models->chunks.worker, &next.job);
	settle();
	assert_int_equal(copy->pins, 2);
	memory_arena_unpin(bed.models->chunks.arena, copy);
	for (int i = 0; i < 2; i++)
		sem_post(&hold.load_gate);
	let_workers_go();
	wait_until(load.over && next.over);
	wait_until(is_answered(fd));
	hang_up(fd);
	free_sample(&sample);
}

#define HOLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup_hold, teardown_hold)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOLD_TEST(one_user_has_one_model_checked_at_a_time),
		HOLD_TEST(those_of_a_user_are_answered_in_their_order),
		HOLD_TEST(loads_do_not_wait_for_what_is_checked),
	};

	return cmocka_run_group_tests_name("service_verify", tests, NULL, NULL);
}
