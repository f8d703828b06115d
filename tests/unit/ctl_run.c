// SPDX-License-Identifier: GPL-2.0-or-later
#include <signal.h>
#include <sys/wait.h>

#include "ctl_fake.h"

/* "distmindctl run" with a shell script; its exit code. */
static int run_script(const char *options, const char *script)
{
	struct ctl ctl = { .out = stdout, .err = stderr };
	char *copy = strdup(options);
	char *words[32] = { "distmindctl", "run" };
	char *word, *state;
	int count = 2;
	int ret;

	for (word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state))
		words[count++] = word;
	words[count++] = "--";
	words[count++] = "sh";
	words[count++] = "-c";
	words[count++] = (char *)script;
	ret = ctl_main(&ctl, count, words);
	ctl_close(&ctl);
	free(copy);
	return ret;
}

static void the_claim_is_what_was_asked_for(void **state)
{
	(void)state;
	assert_int_equal(run_script("--memory 512M --share 50 --class latency --objective 10ms "
				    "--kind cpu --count 2 --same-box --capped yes --timeout 5s --name web",
				    "exit 0"),
			 0);
	assert_int_equal(fake.asked.memory, 512 << 20);
	assert_int_equal(fake.asked.share, 500);
	assert_int_equal(fake.asked.sched_class, DISTMIND_CLASS_LATENCY);
	assert_int_equal(fake.asked.objective_ns, 10000000);
	assert_int_equal(fake.asked.count, 2);
	assert_int_equal(fake.asked.timeout_ms, 5000);
	assert_true(fake.asked.same_box);
	assert_true(fake.asked.capped);
	assert_int_equal(fake.changes, 1);
}

static void the_command_inherits_the_descriptors(void **state)
{
	(void)state;
	/* Both are open in the command, and the node is named. */
	assert_int_equal(run_script("--memory 1M --count 2", "IFS=,; set -- $DISTMIND_VGPU_FDS; [ "
							     "$# -eq 2 ] && "
							     "[ -e /proc/self/fd/$1 ] && [ -e "
							     "/proc/self/fd/$2 ] && "
							     "[ \"$DISTMIND_VGPU\" = "
							     "/dev/distmind/vgpu3 ]"),
			 0);
}

static void the_exit_code_is_the_commands(void **state)
{
	(void)state;
	assert_int_equal(run_script("--memory 1M", "exit 42"), 42);
	assert_int_equal(run_script("--memory 1M", "kill -KILL $$"), 128 + SIGKILL);
	assert_int_equal(run_script("--memory 1M", "exec /no/such/file 2>/dev/null"), 127);
}

static void a_missing_command_is_127_and_a_directory_126(void **state)
{
	struct outcome outcome;

	(void)state;
	outcome = ctl("run --memory 1M -- no-such-command-here");
	assert_int_equal(outcome.status, 127);
	outcome_free(&outcome);
	outcome = ctl("run --memory 1M -- /");
	assert_int_equal(outcome.status, 126);
	outcome_free(&outcome);
}

static void options_of_the_command_are_its_own(void **state)
{
	struct outcome outcome;

	(void)state;
	outcome = ctl("run --memory 1M true --json --memory x");
	assert_int_equal(outcome.status, 0);
	assert_string_equal(outcome.err, "");
	outcome_free(&outcome);
}

/* A signal for the tool reaches the command, whose answer is its exit code. */
static void signals_are_passed_on(void **state)
{
	int fds[2], status;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 9);
		_exit(run_script("--memory 1M", "trap 'exit 7' TERM; echo >&9; while :; do sleep "
						"0.05; done"));
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	close(fds[0]);
	close(fds[1]);
}

static void a_refusal_gives_its_reason(void **state)
{
	struct outcome outcome;

	(void)state;
	fake.acquire_error = -ENOSPC;
	fake.reason = "no gpu has 512M to give";
	outcome = ctl("run --memory 512M true");
	assert_int_equal(outcome.status, CTL_FAILED);
	assert_string_equal(outcome.err, "distmindctl: cannot get a vgpu: no gpu has 512M to give; "
					 "see who has what: distmindctl\n");
	outcome_free(&outcome);
	fake.acquire_error = -ETIMEDOUT;
	fake.reason = "no answer within 30s";
	outcome = ctl("run --memory 512M true");
	assert_non_null(strstr(outcome.err, "systemctl status distmindd\n"));
	outcome_free(&outcome);
	fake.acquire_error = -ENOENT;
	outcome = ctl("run --memory 512M true");
	assert_non_null(strstr(outcome.err, "modprobe distmind\n"));
	outcome_free(&outcome);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_claim_is_what_was_asked_for, fake_setup),
		cmocka_unit_test_setup(the_command_inherits_the_descriptors, fake_setup),
		cmocka_unit_test_setup(the_exit_code_is_the_commands, fake_setup),
		cmocka_unit_test_setup(a_missing_command_is_127_and_a_directory_126, fake_setup),
		cmocka_unit_test_setup(options_of_the_command_are_its_own, fake_setup),
		cmocka_unit_test_setup(signals_are_passed_on, fake_setup),
		cmocka_unit_test_setup(a_refusal_gives_its_reason, fake_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
