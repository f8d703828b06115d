// SPDX-License-Identifier: GPL-2.0-or-later
/* Errands: real threads, and a real loop that is told of their ends. */
#include "unit.h"

#include "../../userspace/distmindd/common/errands.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define ALICE 1000
#define BOB 1001
#define COUNT_OF_ALICE 100

struct task {
	struct errand errand;
	unsigned int number;
	pthread_barrier_t *barrier; /* waits there, if there is one */
	pthread_t thread;
	bool done;
};

static sd_event *loop;
static struct errands *errands;
static unsigned int running, next_number, done_count;

static void work(struct errand *errand)
{
	struct task *task = errand_in(errand, struct task, errand);

	/* One at a time, in their order. */
	if (!task->barrier) {
		assert_int_equal(__atomic_fetch_add(&running, 1, __ATOMIC_SEQ_CST), 0);
		assert_int_equal(task->number, next_number);
		next_number++;
		__atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
	} else {
		pthread_barrier_wait(task->barrier);
	}
	task->thread = pthread_self();
}

static void done(struct errand *errand)
{
	struct task *task = errand_in(errand, struct task, errand);

	assert_false(pthread_equal(task->thread, pthread_self()));
	assert_false(task->done);
	task->done = true;
	done_count++;
}

static void add(struct task *task, uint64_t payer)
{
	task->errand = (struct errand){ .work = work, .done = done };
	errands_add(errands, payer, &task->errand);
}

static void run_until_done(unsigned int count)
{
	time_t end = time(NULL) + 20;

	while (done_count < count) {
		assert_true(sd_event_run(loop, 100000) >= 0);
		assert_true(time(NULL) < end);
	}
}

static int setup(void **state)
{
	(void)state;
	running = next_number = done_count = 0;
	assert_true(sd_event_new(&loop) >= 0);
	errands = errands_open(loop);
	assert_non_null(errands);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sd_event_unref(loop);
	return 0;
}

static void those_of_one_payer_run_one_after_the_other(void **state)
{
	struct task *tasks = calloc(COUNT_OF_ALICE, sizeof(*tasks));

	(void)state;
	for (unsigned int i = 0; i < COUNT_OF_ALICE; i++) {
		tasks[i].number = i;
		add(&tasks[i], ALICE);
	}
	run_until_done(COUNT_OF_ALICE);
	assert_int_equal(next_number, COUNT_OF_ALICE);
	assert_int_equal(errands_of(errands, ALICE), 0);
	assert_true(errands_close(errands, 1000));
	free(tasks);
}

static void nobody_waits_for_those_of_another(void **state)
{
	struct task slow = { 0 }, quick = { 0 }, behind = { 0 };
	pthread_barrier_t barrier;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	slow.barrier = &barrier;
	behind.number = 1;
	add(&slow, ALICE);
	add(&behind, ALICE);
	add(&quick, BOB);
	run_until_done(1);
	assert_true(quick.done);
	assert_int_equal(errands_of(errands, ALICE), 2);
	assert_int_equal(errands_of(errands, BOB), 0);
	pthread_barrier_wait(&barrier);
	run_until_done(3);
	assert_true(errands_close(errands, 1000));
	pthread_barrier_destroy(&barrier);
}

static void the_end_waits_for_those_that_come_to_theirs(void **state)
{
	struct task task = { 0 };

	(void)state;
	add(&task, ALICE);
	assert_true(errands_close(errands, 10000));
	assert_true(task.done);
}

static void the_end_does_not_wait_for_one_that_never_does(void **state)
{
	/* The thread uses them until the process ends. */
	static struct task slow, behind;
	static pthread_barrier_t barrier;
	static struct errands *left; /* for the search for leaks */

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	slow.barrier = &barrier;
	add(&slow, ALICE);
	add(&behind, ALICE);
	left = errands;
	assert_false(errands_close(left, 10));
	assert_false(slow.done);
	assert_false(behind.done);
}

static void work_first(struct errand *errand)
{
	struct task *task = errand_in(errand, struct task, errand);

	task->thread = pthread_self();
	assert_int_equal(next_number, 0);
}

static void one_that_says_so_goes_before_those_that_wait(void **state)
{
	struct task slow = { 0 }, behind = { 0 };
	struct task first = { .errand = { .work = work_first, .done = done, .first = true } };
	pthread_barrier_t barrier;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	slow.barrier = &barrier;
	add(&slow, ALICE);
	add(&behind, ALICE);
	errands_add(errands, ALICE, &first.errand);
	pthread_barrier_wait(&barrier);
	run_until_done(3);
	assert_int_equal(next_number, 1);
	assert_true(errands_close(errands, 1000));
	pthread_barrier_destroy(&barrier);
}

/* Behind one that is under way. */
static void what_is_skipped_or_has_nothing_to_do_is_done_at_once(void **state)
{
	struct task slow = { 0 }, behind = { 0 };
	struct task nothing = { .errand = { .done = done } };
	pthread_barrier_t barrier;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	slow.barrier = &barrier;
	add(&slow, ALICE);
	add(&behind, ALICE);
	errands_add(errands, ALICE, &nothing.errand);
	errands_skip(errands, ALICE, &behind.errand);
	assert_int_equal(done_count, 0);
	run_until_done(2);
	assert_true(behind.done && nothing.done);
	assert_int_equal(next_number, 0);
	assert_int_equal(errands_of(errands, ALICE), 1);
	pthread_barrier_wait(&barrier);
	run_until_done(3);
	/* One that is over is as it was. */
	errands_skip(errands, ALICE, &slow.errand);
	assert_true(errands_close(errands, 1000));
	assert_int_equal(done_count, 3);
	pthread_barrier_destroy(&barrier);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(those_of_one_payer_run_one_after_the_other, setup,
						teardown),
		cmocka_unit_test_setup_teardown(nobody_waits_for_those_of_another, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_says_so_goes_before_those_that_wait, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			what_is_skipped_or_has_nothing_to_do_is_done_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_waits_for_those_that_come_to_theirs, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_end_does_not_wait_for_one_that_never_does,
						setup, teardown),
	};

	return cmocka_run_group_tests_name("errands", tests, NULL, NULL);
}
