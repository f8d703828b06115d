// SPDX-License-Identifier: GPL-2.0-or-later
#include "ctl_fake.h"

#include <signal.h>
#include <termios.h>

#include "../../userspace/distmindctl/latency.h"

#define BUSY_NS	    30000000
#define JOBS	    200
#define PREEMPTIONS 3
#define REQUESTS    7
#define WAIT_NS	    10000000

/*
 * So much happens from each look at gpu 0 to the next; its vgpu has a job on a
 * lane and two more.
 */
static int load(unsigned int looks)
{
	(void)looks;
	fake.vgpus[0].busy_ns += BUSY_NS;
	fake.vgpus[0].wait_ns += WAIT_NS;
	fake.vgpus[0].jobs += JOBS;
	fake.vgpus[0].preemptions += PREEMPTIONS;
	fake.vgpus[0].misses = 5;
	fake.vgpus[0].requests += REQUESTS;
	fake.vgpus[0].request_latency[10] += REQUESTS;
	fake.vgpus[0].request_ns[DISTMIND_REQUEST_PHASE_LANE] += 3 * WAIT_NS;
	fake.vgpus[0].request_ns[DISTMIND_REQUEST_PHASE_RUN] += WAIT_NS;
	fake.vgpus[0].queued = 3;
	fake.vgpus[0].running = 1;
	fake.gpus[0].busy_ns += BUSY_NS;
	fake.gpus[0].jobs += JOBS;
	fake.gpus[0].preemptions += PREEMPTIONS;
	return 0;
}

static int load_thrice(unsigned int looks)
{
	return looks < 4 ? load(looks) : -ENODEV;
}

static json_t *parse(const char *text)
{
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fail_msg("%s in: %s", error.text, text);
	return root;
}

static json_t *gpu_of(json_t *root, size_t i)
{
	return json_array_get(json_object_get(root, "gpus"), i);
}

static double number_of(json_t *row, const char *key)
{
	json_t *value = json_object_get(row, key);

	if (!json_is_number(value))
		fail_msg("%s is not a number", key);
	return json_number_value(value);
}

static void assert_near(double value, double wanted, double error)
{
	if (value < wanted - error || value > wanted + error)
		fail_msg("%g is not %g", value, wanted);
}

static void one_sample_has_rates_of_its_interval(void **state)
{
	struct outcome outcome;
	json_t *root, *row;
	double seconds;

	(void)state;
	fake.look = load;
	outcome = ctl("-j top --once --interval 50ms");
	assert_int_equal(outcome.status, CTL_OK);
	assert_string_equal(outcome.err, "");
	assert_int_equal(fake.looks, 2);
	/* A document per line. */
	assert_ptr_equal(strchr(outcome.out, '\n'), outcome.out + strlen(outcome.out) - 1);
	root = parse(outcome.out);
	assert_non_null(json_string_value(json_object_get(root, "time")));
	seconds = number_of(root, "interval_ns") / 1e9;
	assert_true(seconds >= 0.05);
	row = gpu_of(root, 0);
	assert_int_equal(json_object_size(row), 16);
	/* Of three lanes. */
	assert_near(number_of(row, "utilisation"), BUSY_NS / 1e7 / seconds / 2, 0.1);
	assert_near(number_of(row, "jobs_per_s"), JOBS / seconds, 0.001);
	assert_near(number_of(row, "preemptions_per_s"), PREEMPTIONS / seconds, 0.001);
	assert_int_equal(number_of(row, "failed_jobs"), 2);
	assert_int_equal(number_of(row, "hangs"), 1);
	assert_int_equal(number_of(row, "memory_used"), 64 << 20);
	assert_int_equal(number_of(row, "compute_lanes"), 2);
	assert_int_equal(number_of(row, "copy_lanes"), 1);
	assert_int_equal(number_of(row, "lanes_out"), 1);
	assert_string_equal(json_string_value(json_object_get(row, "policy")), "slo");
	assert_int_equal(number_of(row, "running"), 1);
	assert_int_equal(number_of(row, "queued"), 3);
	row = gpu_of(root, 1);
	assert_int_equal(number_of(row, "queued"), 0);
	assert_int_equal(number_of(row, "utilisation"), 0);
	assert_int_equal(number_of(row, "jobs_per_s"), 0);
	row = json_array_get(json_object_get(root, "vgpus"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "class")), "latency");
	assert_int_equal(number_of(row, "memory_used"), 64 << 20);
	assert_near(number_of(row, "utilisation"), BUSY_NS / 1e7 / seconds, 0.1);
	assert_near(number_of(row, "pressure"), WAIT_NS / 1e7 / seconds, 0.1);
	assert_near(number_of(row, "preemptions_per_s"), PREEMPTIONS / seconds, 0.001);
	assert_int_equal(number_of(row, "running"), 1);
	assert_int_equal(number_of(row, "queued"), 3);
	assert_int_equal(number_of(row, "misses"), 5);
	/* All of the requests took 512 to 1024 us, most of that for a lane. */
	assert_near(number_of(row, "requests_per_s"), REQUESTS / seconds, 0.001);
	assert_in_range((uint64_t)number_of(row, "request_p99_ns"), 512000, 1024000);
	assert_string_equal(json_string_value(json_object_get(row, "request_mostly")), "lane 75%");
	assert_int_equal(number_of(row, "request_run_ns") * 3, number_of(row, "request_lane_ns"));
	json_decref(root);
	outcome_free(&outcome);
}

static void text_has_a_table_of_gpus_and_one_of_vgpus(void **state)
{
	struct outcome outcome;
	const char *body;

	(void)state;
	outcome = ctl("top --once --interval 20ms");
	assert_int_equal(outcome.status, CTL_OK);
	assert_contains(outcome.out, " interval ");
	assert_null(strchr(outcome.out, '\033'));
	body = strchr(outcome.out, '\n');
	assert_string_equal(
		body,
		"\n\n"
		"ID NAME STATE POLICY LANES COPY OUT UTIL RUN QUEUED JOBS/S PREEMPT/S FAILED HANGS MEMORY USED\n"
		" 0 cpu0 ready slo        2    1   1   0%   0      0      0         0      2     1     1G  64M\n"
		" 1 cpu1 lost  fifo       1    0   0   0%   0      0      0         0      0     0     2G    0\n"
		"\n"
		"ID NAME  GPU CLASS    SHARE UTIL WAIT RUN QUEUED JOBS/S PREEMPT/S REQ/S P99 MOSTLY MISSED MEMORY USED USER\n"
		" 3 train   0 latency  12.5%   0%   0%   0      0      0         0     0   -      -      0   512M  64M root\n"
		" 4 -       - standard  100%   0%   0%   0      0      0         0     0   -      -      0     4K    0 4242424\n");
	outcome_free(&outcome);
}

static void samples_follow_each_other_until_the_pool_is_gone(void **state)
{
	struct outcome outcome;
	unsigned int samples = 0;
	char *line, *rest;
	json_t *root;

	(void)state;
	fake.look = load_thrice;
	outcome = ctl("-j top --interval 20ms");
	assert_int_equal(outcome.status, CTL_FAILED);
	assert_contains(outcome.err, "cannot list the gpus");
	for (line = strtok_r(outcome.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		root = parse(line);
		assert_near(number_of(gpu_of(root, 0), "jobs_per_s"),
			    JOBS * 1e9 / number_of(root, "interval_ns"), 0.001);
		json_decref(root);
		samples++;
	}
	assert_int_equal(samples, 3);
	outcome_free(&outcome);
}

static int lump(unsigned int looks)
{
	/* A job of a minute has ended. */
	fake.gpus[0].busy_ns += looks * 60000000000;
	return 0;
}

static int replace(unsigned int looks)
{
	if (looks)
		fake.gpus[0].jobs = fake.gpus[0].busy_ns = fake.gpus[0].preemptions = 0;
	return 0;
}

static int arrive(unsigned int looks)
{
	fake.gpu_count = looks ? 2 : 0;
	return 0;
}

static json_t *sample(int (*look)(unsigned int looks))
{
	struct outcome outcome;
	json_t *root;

	fake_setup(NULL);
	fake.look = look;
	outcome = ctl("-j top --once --interval 10ms");
	assert_int_equal(outcome.status, CTL_OK);
	root = parse(outcome.out);
	outcome_free(&outcome);
	return root;
}

static void utilisation_stays_within_its_bounds(void **state)
{
	json_t *root;

	(void)state;
	root = sample(lump);
	assert_int_equal(number_of(gpu_of(root, 0), "utilisation"), 100);
	json_decref(root);
	root = sample(replace);
	assert_int_equal(number_of(gpu_of(root, 0), "utilisation"), 0);
	assert_int_equal(number_of(gpu_of(root, 0), "jobs_per_s"), 0);
	json_decref(root);
	/* What a new gpu has done, it has done in this interval. */
	root = sample(arrive);
	assert_int_equal(number_of(gpu_of(root, 0), "utilisation"), 100);
	assert_true(number_of(gpu_of(root, 0), "jobs_per_s") > 0);
	json_decref(root);
}

static int nobody(unsigned int looks)
{
	(void)looks;
	fake.gpu_count = fake.vgpu_count = 0;
	return 0;
}

static void an_empty_pool_gets_a_hint(void **state)
{
	struct outcome outcome;
	json_t *root;

	(void)state;
	root = sample(nobody);
	assert_int_equal(json_array_size(json_object_get(root, "gpus")), 0);
	assert_int_equal(json_array_size(json_object_get(root, "vgpus")), 0);
	json_decref(root);
	outcome = ctl("top --once --interval 10ms");
	assert_int_equal(outcome.status, CTL_OK);
	assert_contains(outcome.err, "no gpus in the pool; start one with");
	outcome_free(&outcome);
}

static void wrong_options_are_named(void **state)
{
	static const char *const lines[] = { "top --interval 1", "top --interval 9ms",
					     "top --interval 2h", "top cpu0", "top --interval" };
	static const char *const words[] = { "--interval 1 is not a duration from 10ms to 1h",
					     "--interval 9ms is not", "--interval 2h is not",
					     "top does not know what to do with 'cpu0'",
					     "--interval needs a value" };
	struct outcome outcome;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(lines); i++) {
		outcome = ctl(lines[i]);
		assert_int_equal(outcome.status, CTL_USAGE);
		assert_contains(outcome.err, words[i]);
		outcome_free(&outcome);
	}
	assert_int_equal(fake.looks, 0);
}

/* stdin is a terminal of which this is the other end. */
static int keyboard = -1;
static int stdin_before = -1;

static int keyboard_setup(void **state)
{
	int slave;

	keyboard = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (keyboard < 0 || grantpt(keyboard) || unlockpt(keyboard))
		return -1;
	slave = open(ptsname(keyboard), O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -1;
	stdin_before = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	dup2(slave, STDIN_FILENO);
	close(slave);
	return fake_setup(state);
}

static int keyboard_teardown(void **state)
{
	(void)state;
	if (stdin_before >= 0)
		dup2(stdin_before, STDIN_FILENO);
	else
		close(STDIN_FILENO);
	close(stdin_before);
	close(keyboard);
	return 0;
}

static int press_keys(unsigned int looks)
{
	struct termios mode;

	assert_int_equal(tcgetattr(STDIN_FILENO, &mode), 0);
	assert_int_equal(mode.c_lflag & (ICANON | ECHO), 0);
	assert_true(mode.c_lflag & ISIG);
	/* Another key does nothing. */
	if (looks == 1)
		assert_int_equal(write(keyboard, "x", 1), 1);
	if (looks == 2)
		assert_int_equal(write(keyboard, "q", 1), 1);
	return looks < 9 ? 0 : -ENODEV;
}

static int interrupt(unsigned int looks)
{
	if (looks == 2)
		kill(getpid(), SIGINT);
	return looks < 9 ? 0 : -ENODEV;
}

static unsigned int count_of(const char *text, const char *part)
{
	unsigned int count = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		count++;
	return count;
}

static void a_terminal_shows_one_sample_at_a_time(void **state)
{
	struct ctl terminal = { .admin = true, .terminal = true };
	struct termios before, after;
	struct outcome outcome;

	(void)state;
	assert_int_equal(tcgetattr(STDIN_FILENO, &before), 0);
	fake.look = press_keys;
	outcome = ctl_with(terminal, "top --interval 20ms");
	assert_int_equal(outcome.status, CTL_OK);
	assert_string_equal(outcome.err, "");
	assert_int_equal(fake.looks, 3);
	assert_int_equal(count_of(outcome.out, "\033[2J"), 1);
	assert_int_equal(count_of(outcome.out, "\033[H"), 2);
	/* NO_COLOR is about colours, and there are none. */
	assert_null(strstr(outcome.out, "\033[32m"));
	outcome_free(&outcome);
	assert_int_equal(tcgetattr(STDIN_FILENO, &after), 0);
	assert_int_equal(after.c_lflag, before.c_lflag);

	fake.looks = 0;
	terminal.colour = true;
	outcome = ctl_with(terminal, "top --interval 20ms");
	assert_contains(outcome.out, "\033[32m");
	outcome_free(&outcome);
}

static void an_interrupt_ends_it_well(void **state)
{
	struct outcome outcome;
	sigset_t mask;

	(void)state;
	fake.look = interrupt;
	outcome = ctl_with((struct ctl){ .admin = true, .terminal = true },
			   "top --interval 20ms");
	assert_int_equal(outcome.status, CTL_OK);
	assert_int_equal(fake.looks, 3);
	outcome_free(&outcome);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	assert_false(sigismember(&mask, SIGINT));
}

static void a_terminal_gets_plain_json_and_a_plain_single_sample(void **state)
{
	struct ctl terminal = { .admin = true, .terminal = true };
	struct outcome outcome;

	(void)state;
	outcome = ctl_with(terminal, "top --once --interval 10ms");
	assert_int_equal(outcome.status, CTL_OK);
	assert_null(strchr(outcome.out, '\033'));
	outcome_free(&outcome);
	fake.look = load_thrice;
	outcome = ctl_with(terminal, "-j top --interval 10ms");
	assert_null(strchr(outcome.out, '\033'));
	assert_int_equal(count_of(outcome.out, "\n"), 3);
	outcome_free(&outcome);
}

static void percentiles_are_estimated_from_buckets(void **state)
{
	uint64_t buckets[4] = { 0 };

	(void)state;
	assert_int_equal(latency_percentile(buckets, 4, 50), 0);
	buckets[0] = 10; /* below 1 us */
	assert_int_equal(latency_percentile(buckets, 4, 50), 500);
	buckets[2] = 10; /* from 2 to 4 us */
	assert_int_equal(latency_percentile(buckets, 4, 50), 1000);
	assert_int_equal(latency_percentile(buckets, 4, 75), 3000);
	assert_int_equal(latency_percentile(buckets, 4, 100), 4000);
	buckets[3] = 1000; /* from 4 us, and who knows how long */
	assert_int_equal(latency_percentile(buckets, 4, 50), 4000);
	assert_int_equal(latency_percentile(buckets, 4, 99), 4000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_sample_has_rates_of_its_interval, fake_setup),
		cmocka_unit_test_setup(text_has_a_table_of_gpus_and_one_of_vgpus, fake_setup),
		cmocka_unit_test_setup(samples_follow_each_other_until_the_pool_is_gone,
				       fake_setup),
		cmocka_unit_test(utilisation_stays_within_its_bounds),
		cmocka_unit_test(an_empty_pool_gets_a_hint),
		cmocka_unit_test_setup(wrong_options_are_named, fake_setup),
		cmocka_unit_test_setup_teardown(a_terminal_shows_one_sample_at_a_time,
						keyboard_setup, keyboard_teardown),
		cmocka_unit_test_setup_teardown(an_interrupt_ends_it_well, keyboard_setup,
						keyboard_teardown),
		cmocka_unit_test_setup(a_terminal_gets_plain_json_and_a_plain_single_sample,
				       fake_setup),
		cmocka_unit_test(percentiles_are_estimated_from_buckets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
