// SPDX-License-Identifier: GPL-2.0-or-later
/* Profiles as people write them, and the time that passes by them. */
#include "unit.h"

#include "../../userspace/engines/cpu/pacing.h"
#include "../../userspace/engines/cpu/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char error[PROFILE_ERROR_LEN];

static int read_text(const char *text, struct profile *profile)
{
	char path[] = "/tmp/profile-XXXXXX";
	int fd = mkstemp(path), result;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	error[0] = '\0';
	result = profile_read(path, profile, error);
	unlink(path);
	return result;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void reads_a_whole_profile(void **state)
{
	struct profile profile;

	(void)state;
	assert_int_equal(read_text("; a small gpu\n[compute]\ngflops = 100\nexecute = no\n"
				   "[memory]\ngbps = 50\n[copy]\ngbps = 12.5\n[launch]\nus = 5\n",
				   &profile),
			 0);
	assert_true(profile.gflops == 100 && profile.memory_gbps == 50);
	assert_true(profile.copy_gbps == 12.5 && profile.launch_us == 5);
	assert_false(profile.execute);
	assert_true(profile_is_paced(&profile));
}

static void an_empty_profile_is_the_machine_itself(void **state)
{
	struct op_work work = { .flops = 1000000, .bytes = 1000000, .copied = 1000000 };
	struct profile profile;

	(void)state;
	assert_int_equal(read_text("", &profile), 0);
	assert_true(profile.execute);
	assert_false(profile_is_paced(&profile));
	assert_int_equal(profile_cost(&profile, &work), 0);
	assert_int_equal(profile_launch_cost(&profile), 0);
}

static void errors_name_the_line_and_the_fix(void **state)
{
	static const struct {
		const char *text, *line, *fix;
	} cases[] = {
		{ "[compute]\ngflops = fast\n", ":2: gflops", "a number from 0.001 to 1e+06" },
		{ "[compute]\ngflops = 0\n", ":2: gflops", "write a number" },
		{ "[compute]\ngflops = -1\n", ":2: gflops", "write a number" },
		{ "[compute]\ngflops = nan\n", ":2: gflops", "write a number" },
		{ "[compute]\ngflops = inf\n", ":2: gflops", "write a number" },
		{ "[compute]\ngflops = 5G\n", ":2: gflops", "write a number" },
		{ "[compute]\ngflops =\n", ":2: gflops", "write a number" },
		{ "\n[launch]\nus = 1e9\n", ":3: us", "from 0 to 1e+06" },
		{ "[compute]\nexecute = maybe\n", ":2: execute", "write yes or no" },
		{ "[compute]\nexecute = no\n", ":2: execute = no", "give gflops too" },
		{ "[compute]\n\ntflops = 1\n", ":3: unknown key tflops", "gflops, execute" },
		{ "[gpu]\ngflops = 1\n", ":2: unknown section [gpu]",
		  "[compute], [memory], [copy], [launch]" },
		{ "gflops = 1\n", ":1: gflops stands before", "put it under one of" },
		{ "[copy]\ngbps = 1\ngbps = 2\n", ":3: gbps is given twice", "remove one" },
		{ "[copy]\nfaster\n", ":2: neither", "write one of the two" },
	};
	struct profile profile = { .gflops = 42 };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (read_text(cases[i].text, &profile) != -EINVAL)
			fail_msg("\"%s\" was not refused", cases[i].text);
		assert_contains(error, cases[i].line);
		assert_contains(error, cases[i].fix);
	}
	assert_int_equal(profile_read("/nonexistent/profile", &profile, error), -ENOENT);
	assert_contains(error, "/nonexistent/profile");
	assert_true(profile.gflops == 42);
}

static void costs_follow_the_rates(void **state)
{
	struct profile profile = {
		.gflops = 2, .memory_gbps = 4, .copy_gbps = 8, .launch_us = 1.5, .execute = true,
	};

	(void)state;
	assert_int_equal(profile_launch_cost(&profile), 1500);
	assert_int_equal(profile_cost(&profile, &(struct op_work){ .flops = 1000 }), 500);
	assert_int_equal(profile_cost(&profile, &(struct op_work){ .bytes = 1000 }), 250);
	/* Computing and its memory overlap: the slower of the two. */
	assert_int_equal(profile_cost(&profile, &(struct op_work){ .flops = 1000, .bytes = 8000 }),
			 2000);
	assert_int_equal(profile_cost(&profile, &(struct op_work){ .copied = 8000 }), 1000);
	assert_int_equal(profile_cost(&profile, &(struct op_work){ .ns = 77 }), 77);
	profile.gflops = 0.001;
	assert_true(profile_cost(&profile, &(struct op_work){ .flops = UINT64_MAX }) <= INT64_MAX);
}

static void a_call_costs_what_its_blocks_cost(void **state)
{
	struct profile profile = { .copy_gbps = 4 };
	static float heap[300000];
	struct op_call call = {
		.op = DISTMIND_OP_FILL,
		.blocks = 2,
		.nargs = 3,
		.args = { { .is_buffer = true, .length = 300000 * 4 }, { .value = 300000 } },
		.heap = heap,
		.heap_size = sizeof(heap),
	};

	(void)state;
	assert_int_equal(op_cost(&profile, &call, 0, 2), 300000);
	assert_int_equal(op_cost(&profile, &call, 0, 1), 262144);
	assert_int_equal(op_cost(&profile, &call, 1, 1), 300000 - 262144);
	call.blocks = 3;
	assert_int_equal(op_cost(&profile, &call, 0, 1), -EINVAL);
}

static void blocks_take_their_time_and_not_less(void **state)
{
	static const uint64_t costs[] = { 20000, 300000, 2000000 };
	struct pacing pacing;

	(void)state;
	pacing_init(&pacing);
	for (size_t i = 0; i < COUNT(costs); i++) {
		uint64_t begin = now_ns();

		pacing_start(&pacing, true, 100000);
		for (int block = 1; block <= 5; block++) {
			pacing_block_end(&pacing, costs[i]);
			assert_true(now_ns() - begin >= 100000 + (uint64_t)block * costs[i]);
		}
	}
}

/* Of many tries one is not disturbed by whatever else the machine does. */
static void blocks_end_on_time(void **state)
{
	uint64_t best = UINT64_MAX;
	struct pacing pacing;

	(void)state;
	pacing_init(&pacing);
	for (int i = 0; i < 100 && best > 20000; i++) {
		uint64_t begin = now_ns(), late;

		pacing_start(&pacing, true, 0);
		pacing_block_end(&pacing, 500000);
		late = now_ns() - begin - 500000;
		best = late < best ? late : best;
	}
	assert_in_range(best, 0, 20000);
}

static void a_hiccup_is_made_up_for_a_slow_machine_is_not(void **state)
{
	struct pacing pacing;
	uint64_t begin;

	(void)state;
	pacing_init(&pacing);
	begin = now_ns();
	pacing_start(&pacing, true, 0);
	usleep(700);
	for (int i = 0; i < 10; i++)
		pacing_block_end(&pacing, 200000);
	assert_true(pacing.due_ns - begin < 3000000 || pacing.late_ns);

	pacing_start(&pacing, true, 0);
	usleep(15000);
	pacing.late_ns = 0;
	pacing_block_end(&pacing, 1000);
	assert_true(pacing.late_ns >= 15000000 - 1000 - PACING_CARRY_NS);
}

static void a_job_that_waited_begins_when_the_one_before_was_done(void **state)
{
	struct pacing pacing;
	uint64_t due;

	(void)state;
	pacing_init(&pacing);
	pacing_start(&pacing, true, 0);
	pacing_block_end(&pacing, 100000);
	due = pacing.due_ns;
	usleep(2000);
	pacing_start(&pacing, false, 5000);
	assert_true(pacing.due_ns == due + 5000 || pacing.late_ns);
	pacing_start(&pacing, true, 5000);
	assert_true(pacing.due_ns >= due + 2000000 + 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_whole_profile),
		cmocka_unit_test(an_empty_profile_is_the_machine_itself),
		cmocka_unit_test(errors_name_the_line_and_the_fix),
		cmocka_unit_test(costs_follow_the_rates),
		cmocka_unit_test(a_call_costs_what_its_blocks_cost),
		cmocka_unit_test(blocks_take_their_time_and_not_less),
		cmocka_unit_test(blocks_end_on_time),
		cmocka_unit_test(a_hiccup_is_made_up_for_a_slow_machine_is_not),
		cmocka_unit_test(a_job_that_waited_begins_when_the_one_before_was_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
