// SPDX-License-Identifier: GPL-2.0-or-later
/* In which order threads take what they are given. */
#include "unit.h"

#include "../../userspace/distmindd/common/worker.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define THREADS_MAX 4 /* of worker.c */
#define JOBS 40

static struct bed {
	sd_event *loop;
	struct worker *worker;
	int threads;
	sem_t arrived, gate; /* of those that hold the threads */
	atomic_uint begun;
	unsigned int done;
} bed;

struct job {
	struct worker_job job;
	unsigned int place; /* among those that began */
};

static void wait_at_gate(struct worker_job *job)
{
	(void)job;
	sem_post(&bed.arrived);
	while (sem_wait(&bed.gate))
		;
}

static void note_place(struct worker_job *job)
{
	((struct job *)job)->place = atomic_fetch_add(&bed.begun, 1);
}

static void on_done(struct worker_job *job, bool dropped)
{
	(void)job;
	assert_false(dropped);
	bed.done++;
}

static void add(struct job *job, void (*work)(struct worker_job *job), bool background)
{
	*job = (struct job){ .job = { .work = work, .done = on_done, .background = background } };
	worker_add(bed.worker, &job->job);
}

static void wait_for(unsigned int done)
{
	while (bed.done < done)
		assert_true(sd_event_run(bed.loop, UINT64_MAX) >= 0);
}

static int setup(void **state)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	(void)state;
	bed = (struct bed){ .threads = processors < THREADS_MAX ? (int)processors : THREADS_MAX };
	sem_init(&bed.arrived, 0, 0);
	sem_init(&bed.gate, 0, 0);
	assert_true(sd_event_new(&bed.loop) >= 0);
	return worker_open(&bed.worker, bed.loop);
}

static int teardown(void **state)
{
	(void)state;
	worker_close(bed.worker);
	sd_event_unref(bed.loop);
	sem_destroy(&bed.arrived);
	sem_destroy(&bed.gate);
	return 0;
}

/* One thread is left over for these, and takes them when all have been added. */
static void run_by_one(struct job *jobs, const bool *background, unsigned int count)
{
	struct job holders[THREADS_MAX];

	for (int i = 0; i < bed.threads; i++)
		add(&holders[i], wait_at_gate, false);
	for (int i = 0; i < bed.threads; i++)
		while (sem_wait(&bed.arrived))
			;
	for (unsigned int i = 0; i < count; i++)
		add(&jobs[i], note_place, background[i]);
	sem_post(&bed.gate);
	wait_for(count + 1);
	for (int i = 1; i < bed.threads; i++)
		sem_post(&bed.gate);
	wait_for(count + (unsigned int)bed.threads);
}

static void what_is_in_the_background_begins_after_the_others(void **state)
{
	const bool background[] = { true, true, false, false, true, false };
	const unsigned int places[] = { 3, 4, 0, 1, 5, 2 };
	struct job jobs[COUNT(background)];

	(void)state;
	run_by_one(jobs, background, COUNT(background));
	for (size_t i = 0; i < COUNT(background); i++)
		assert_int_equal(jobs[i].place, places[i]);
}

static void what_is_in_the_background_comes_to_its_end_among_many(void **state)
{
	bool background[JOBS] = { true, true };
	struct job jobs[JOBS];

	(void)state;
	run_by_one(jobs, background, JOBS);
	assert_in_range(jobs[0].place, 1, 16);
	assert_in_range(jobs[1].place, jobs[0].place + 2, 33);
}

static void a_job_that_is_cancelled_does_not_begin(void **state)
{
	struct job holders[THREADS_MAX], jobs[2];

	(void)state;
	for (int i = 0; i < bed.threads; i++)
		add(&holders[i], wait_at_gate, false);
	for (int i = 0; i < bed.threads; i++)
		while (sem_wait(&bed.arrived))
			;
	for (int i = 0; i < 2; i++) {
		add(&jobs[i], note_place, i);
		worker_cancel(bed.worker, &jobs[i].job);
	}
	for (int i = 0; i < bed.threads; i++)
		sem_post(&bed.gate);
	wait_for((unsigned int)bed.threads);
	assert_int_equal(atomic_load(&bed.begun), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_in_the_background_begins_after_the_others,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_in_the_background_comes_to_its_end_among_many, setup, teardown),
		cmocka_unit_test_setup_teardown(a_job_that_is_cancelled_does_not_begin, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
