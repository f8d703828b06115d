// SPDX-License-Identifier: GPL-2.0-or-later
#include "ctl_fake.h"

/* The list of a command's JSON, which must be there; the caller drops root. */
static json_t *list_of(const char *line, const char *key, json_t **root)
{
	struct outcome outcome = ctl(line);
	json_error_t error;
	json_t *list;

	assert_int_equal(outcome.status, CTL_OK);
	assert_string_equal(outcome.err, "");
	*root = json_loads(outcome.out, JSON_REJECT_DUPLICATES, &error);
	if (!*root)
		fail_msg("%s: %s in: %s", line, error.text, outcome.out);
	outcome_free(&outcome);
	list = json_object_get(*root, key);
	assert_true(json_is_array(list));
	return list;
}

static void expect(const char *line, int status, const char *out, const char *err)
{
	struct outcome outcome = ctl(line);

	assert_string_equal(outcome.err, err);
	assert_string_equal(outcome.out, out);
	assert_int_equal(outcome.status, status);
	outcome_free(&outcome);
}

/* One line on stderr that has the given words, nothing on stdout. */
static void expect_error(const char *line, int status, const char *words)
{
	struct outcome outcome = ctl(line);

	if (!strstr(outcome.err, words))
		fail_msg("%s: no \"%s\" in: %s", line, words, outcome.err);
	assert_ptr_equal(strchr(outcome.err, '\n'), outcome.err + strlen(outcome.err) - 1);
	assert_string_equal(outcome.out, "");
	assert_int_equal(outcome.status, status);
	outcome_free(&outcome);
}

static void json_has_numbers_and_the_text_has_units(void **state)
{
	json_t *root, *list, *row;

	(void)state;
	list = list_of("-j gpu list", "gpus", &root);
	assert_int_equal(json_array_size(list), 2);
	row = json_array_get(list, 0);
	assert_int_equal(json_object_size(row), 26);
	assert_int_equal(json_integer_value(json_object_get(row, "id")), 0);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "cpu0");
	assert_string_equal(json_string_value(json_object_get(row, "kind")), "cpu");
	assert_string_equal(json_string_value(json_object_get(row, "state")), "ready");
	assert_true(json_is_null(json_object_get(row, "numa_node")));
	assert_int_equal(json_integer_value(json_object_get(row, "memory")), 1 << 30);
	assert_int_equal(json_integer_value(json_object_get(row, "memory_used")), 64 << 20);
	assert_int_equal(json_integer_value(json_object_get(row, "vgpus")), 1);
	assert_int_equal(json_integer_value(json_object_get(row, "engine_pid")), 311);
	row = json_array_get(list, 1);
	assert_string_equal(json_string_value(json_object_get(row, "state")), "lost");
	assert_int_equal(json_integer_value(json_object_get(row, "numa_node")), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "box")), 1);
	json_decref(root);

	expect("gpu list", CTL_OK,
	       "ID NAME KIND STATE BOX NUMA MEMORY USED VGPUS ENGINE POLICY\n"
	       " 0 cpu0 cpu  ready   0    -     1G  64M     1    311 slo\n"
	       " 1 cpu1 cpu  lost    1    0     2G    0     0    312 fifo\n",
	       "");
}

static void json_of_vgpus_has_every_field(void **state)
{
	json_t *root, *list, *row;

	(void)state;
	list = list_of("vgpu list --json", "vgpus", &root);
	assert_int_equal(json_array_size(list), 2);
	row = json_array_get(list, 0);
	assert_int_equal(json_object_size(row), 18);
	assert_true(json_real_value(json_object_get(row, "share")) == 12.5);
	assert_int_equal(json_integer_value(json_object_get(row, "objective_ns")), 10000000);
	assert_string_equal(json_string_value(json_object_get(row, "class")), "latency");
	assert_string_equal(json_string_value(json_object_get(row, "lease")), "file");
	assert_int_equal(json_integer_value(json_object_get(row, "pid")), 400);
	assert_int_equal(json_integer_value(json_object_get(row, "uid")), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "gid")), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "clients")), 1);
	assert_int_equal(json_integer_value(json_object_get(row, "buffers")), 1);
	row = json_array_get(list, 1);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "");
	assert_true(json_is_null(json_object_get(row, "gpu")));
	assert_true(json_is_null(json_object_get(row, "pid")));
	assert_true(json_is_null(json_object_get(row, "objective_ns")));
	assert_int_equal(json_integer_value(json_object_get(row, "share")), 100);
	assert_string_equal(json_string_value(json_object_get(row, "lease")), "admin");
	json_decref(root);

	expect("vgpu list", CTL_OK,
	       "ID NAME  GPU STATE  MEMORY USED SHARE CLASS    OBJECTIVE USER    PID\n"
	       " 3 train   0 bound    512M  64M 12.5% latency       10ms root    400\n"
	       " 4 -       - parked     4K    0  100% standard         - 4242424   -\n",
	       "");
}

static void json_of_buffers_and_claims_parses(void **state)
{
	json_t *root, *row;

	(void)state;
	row = json_array_get(list_of("-j buffer list", "buffers", &root), 0);
	assert_int_equal(json_object_size(row), 9);
	assert_int_equal(json_integer_value(json_object_get(row, "vgpu")), 3);
	assert_int_equal(json_integer_value(json_object_get(row, "exports")), 3);
	assert_string_equal(json_string_value(json_object_get(row, "payers")), "4(1000) ended(0)");
	assert_string_equal(json_string_value(json_object_get(row, "kind")), "weights");
	assert_int_equal(json_integer_value(json_object_get(row, "offset")), 4096);
	assert_int_equal(json_integer_value(json_object_get(row, "pins")), 2);
	json_decref(root);

	row = json_array_get(list_of("-j claim list", "claims", &root), 0);
	assert_int_equal(json_object_size(row), 14);
	assert_true(json_is_true(json_object_get(row, "same_box")));
	assert_int_equal(json_integer_value(json_object_get(row, "remaining_ms")), 1500);
	assert_int_equal(json_integer_value(json_object_get(row, "count")), 2);
	json_decref(root);
}

static void limits_are_a_table_and_json(void **state)
{
	json_t *root, *rows;

	(void)state;
	expect("limit list", CTL_OK,
	       "USER    CONTAINER WHAT   USED ALLOWED REFUSED\n"
	       "root    no        queues    3       -       0\n"
	       "4242424 no        jobs    100  131072       2\n",
	       "");
	rows = list_of("-j limit list", "limits", &root);
	assert_int_equal(json_array_size(rows), 2);
	assert_int_equal(json_object_size(json_array_get(rows, 0)), 6);
	assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "allowed")));
	assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 1), "uid")),
			 4242424);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 1), "refused")),
			 2);
	json_decref(root);
}

static void the_pool_is_one_document(void **state)
{
	struct outcome outcome;
	json_t *root;

	(void)state;
	assert_int_equal(json_array_size(list_of("-j", "gpus", &root)), 2);
	assert_int_equal(json_array_size(json_object_get(root, "vgpus")), 2);
	json_decref(root);

	outcome = ctl("");
	assert_int_equal(outcome.status, CTL_OK);
	assert_non_null(strstr(outcome.out, "\n\nID NAME  GPU"));
	assert_non_null(strstr(outcome.out, "\n\n2 gpus, 1 lost; 64M of 1G used; 2 vgpus; 1 "
					    "claim waits\n"));
	outcome_free(&outcome);
}

static void an_empty_pool_is_an_empty_list_and_a_hint(void **state)
{
	static const char *const nouns[] = { "gpu", "vgpu", "buffer", "claim", "limit" };
	struct outcome outcome;
	json_t *root;
	char line[64], key[32];
	size_t i;

	(void)state;
	fake.gpu_count = fake.vgpu_count = fake.buffer_count = fake.claim_count = 0;
	fake.limit_count = 0;
	for (i = 0; i < COUNT(nouns); i++) {
		snprintf(line, sizeof(line), "-j %s list", nouns[i]);
		snprintf(key, sizeof(key), "%ss", nouns[i]);
		assert_int_equal(json_array_size(list_of(line, key, &root)), 0);
		json_decref(root);
		outcome = ctl(line + 3);
		assert_string_equal(outcome.out, "");
		assert_non_null(strstr(outcome.err, "no "));
		outcome_free(&outcome);
	}
	expect("gpu list", CTL_OK, "",
	       "no gpus in the pool; start one with: distmind-engine-cpu --memory 1G\n");
	assert_int_equal(json_array_size(list_of("-j", "gpus", &root)), 0);
	assert_int_equal(json_array_size(json_object_get(root, "vgpus")), 0);
	json_decref(root);
	expect("", CTL_OK, "",
	       "no gpus in the pool; start one with: distmind-engine-cpu --memory 1G\n");
}

static void names_are_escaped_in_json(void **state)
{
	json_t *root, *row;

	(void)state;
	strcpy(fake.gpus[0].name, "a\"b\\c\n\001");
	row = json_array_get(list_of("-j gpu show 0", "gpus", &root), 0);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "a\"b\\c\n\001");
	json_decref(root);
}

static void show_prints_a_field_per_line(void **state)
{
	(void)state;
	expect("gpu show cpu1", CTL_OK,
	       "id        1\n"
	       "name      cpu1\n"
	       "kind      cpu\n"
	       "state     lost\n"
	       "box       1\n"
	       "numa      0\n"
	       "memory    2G\n"
	       "used      0\n"
	       "vgpus     0\n"
	       "engine    312\n"
	       "policy    fifo\n"
	       "lanes     1\n"
	       "copy      0\n"
	       "out       0\n"
	       "grace     50ms\n"
	       "hang      1.5s\n"
	       "jobs      0\n"
	       "failed    0\n"
	       "busy      0\n"
	       "hangs     0\n"
	       "evicted   0\n"
	       "put out   0\n"
	       "preempted 0\n"
	       "yield p50 -\n"
	       "yield p99 -\n"
	       "yields    -\n",
	       "");
}

static void json_of_a_gpu_says_what_it_executed(void **state)
{
	json_t *root, *row, *latency;

	(void)state;
	row = json_array_get(list_of("-j gpu show 0", "gpus", &root), 0);
	assert_string_equal(json_string_value(json_object_get(row, "policy")), "slo");
	assert_int_equal(json_integer_value(json_object_get(row, "compute_lanes")), 2);
	assert_int_equal(json_integer_value(json_object_get(row, "copy_lanes")), 1);
	assert_int_equal(json_integer_value(json_object_get(row, "lanes_out")), 1);
	assert_int_equal(json_integer_value(json_object_get(row, "hang_ns")), 10000000000);
	assert_int_equal(json_integer_value(json_object_get(row, "grace_ns")), 100000000);
	assert_int_equal(json_integer_value(json_object_get(row, "jobs")), 12345);
	assert_int_equal(json_integer_value(json_object_get(row, "failed_jobs")), 2);
	assert_int_equal(json_integer_value(json_object_get(row, "busy_ns")), 61500000000);
	assert_int_equal(json_integer_value(json_object_get(row, "preemptions")), 101);
	assert_int_equal(json_integer_value(json_object_get(row, "hangs")), 1);
	assert_in_range(json_integer_value(json_object_get(row, "preempt_p50_ns")), 16000, 32000);
	assert_in_range(json_integer_value(json_object_get(row, "preempt_p99_ns")), 64000, 128000);
	latency = json_object_get(row, "preempt_latency");
	assert_int_equal(json_array_size(latency), DISTMIND_LATENCY_BUCKETS);
	assert_int_equal(json_integer_value(json_array_get(latency, 5)), 60);
	assert_int_equal(json_integer_value(json_array_get(latency, 6)), 0);
	json_decref(root);
	row = json_array_get(list_of("-j gpu list", "gpus", &root), 1);
	assert_true(json_is_null(json_object_get(row, "preempt_p50_ns")));
	json_decref(root);
}

static void show_draws_how_fast_jobs_yielded(void **state)
{
	struct outcome outcome;

	(void)state;
	fake.gpus[0].preempt_latency[23] = 0;
	outcome = ctl("gpu show 0");
	assert_contains(outcome.out,
			"preempted 101\n"
			"yield p50 29.3us\n"
			"yield p99 126.4us\n"
			"yields    below 32us          60 "
			"########################################\n"
			"          below 64us           0\n"
			"          below 128us         40 ##########################\n");
	outcome_free(&outcome);
	fake.gpus[0].preempt_latency[23] = 1;
	outcome = ctl("gpu show 0");
	assert_contains(outcome.out, "          from 4.1s            1 #\n");
	outcome_free(&outcome);
}

static void a_policy_is_shown_and_set(void **state)
{
	json_t *root, *row;

	(void)state;
	expect("policy", CTL_OK,
	       "ID NAME STATE POLICY\n"
	       " 0 cpu0 ready slo\n"
	       " 1 cpu1 lost  fifo\n",
	       "");
	row = json_array_get(list_of("-j policy", "gpus", &root), 1);
	assert_string_equal(json_string_value(json_object_get(row, "policy")), "fifo");
	json_decref(root);
	expect("policy srpt --gpu 0 --dry-run", CTL_OK,
	       "would change the policy of gpu 0 (cpu0) from slo to srpt\n", "");
	expect("policy slo --gpu cpu0 --dry-run", CTL_OK,
	       "would change nothing: the policy of gpu 0 (cpu0) is slo already\n", "");
	expect_error("policy best", CTL_USAGE, "best is not one of fifo, fair, slo, srpt");
	expect_error("policy --all", CTL_USAGE, "which policy? one of fifo, fair, slo, srpt");
	expect_error("policy slo --all --gpu 0", CTL_USAGE, "exclude each other");
	expect_error("policy slo slo", CTL_USAGE, "does not know what to do with 'slo'");
	expect_error("policy slo --gpu 1", CTL_FAILED,
		     "cannot set the policy of gpu 1 (cpu1): it is lost; restart its engine");
	expect_error("policy slo --gpu 7", CTL_FAILED, "there is no gpu 7");
	assert_int_equal(fake.changes, 0);
	expect("policy --gpu cpu0 fair", CTL_OK, "", "");
	assert_string_equal(fake.gpus[0].policy, "fair");
	assert_int_equal(fake.changes, 1);
}

static void a_policy_of_several_gpus_needs_a_word_about_which(void **state)
{
	struct outcome outcome;

	(void)state;
	/* What is lost does not count: this is the only one. */
	expect("policy fair", CTL_OK, "", "");
	assert_string_equal(fake.gpus[0].policy, "fair");
	assert_string_equal(fake.gpus[1].policy, "fifo");
	fake.gpus[1].state = DISTMIND_GPU_STATE_READY;
	expect_error("policy srpt", CTL_USAGE,
		     "there are 2 gpus; say which with --gpu GPU, or --all");
	assert_int_equal(fake.changes, 1);
	expect("--dry-run policy fair --all", CTL_OK,
	       "would change the policy of 1 of 2 gpus to fair\n", "");
	expect("policy srpt --all", CTL_OK, "", "");
	assert_string_equal(fake.gpus[0].policy, "srpt");
	assert_string_equal(fake.gpus[1].policy, "srpt");
	outcome = ctl_as(false, "policy slo --all");
	assert_int_equal(outcome.status, CTL_FAILED);
	assert_contains(outcome.err, "cannot set the policy: not permitted");
	outcome_free(&outcome);
	fake.gpu_count = 0;
	expect_error("policy slo --all", CTL_FAILED, "no gpus in the pool; start one with");
}

static void a_hang_limit_has_a_unit_and_bounds(void **state)
{
	(void)state;
	expect("--dry-run gpu hang 0 250ms", CTL_OK,
	       "would change the hang limit of gpu 0 (cpu0) from 10s to 250ms\n", "");
	expect("--dry-run gpu hang 0 10s", CTL_OK,
	       "would change nothing: the hang limit of gpu 0 (cpu0) is 10s already\n", "");
	expect("--dry-run gpu grace 0 250ms", CTL_OK,
	       "would change the grace period of gpu 0 (cpu0) from 100ms to 250ms\n", "");
	expect_error("gpu grace 0 999ns", CTL_USAGE, "999ns is not a duration from 1us to 1h");
	expect_error("gpu hang 0", CTL_USAGE, "hang needs GPU TIME");
	expect_error("gpu hang 0 5", CTL_USAGE, "5 is not a duration from 1ms to 1h");
	expect_error("gpu hang 0 999us", CTL_USAGE, "999us is not a duration from 1ms to 1h");
	expect_error("gpu hang 0 61min", CTL_USAGE, "61min is not a duration from 1ms to 1h");
	expect_error("gpu hang 1 1s", CTL_FAILED, "cannot set the hang limit of gpu 1 (cpu1)");
	assert_int_equal(fake.changes, 0);
	expect("gpu hang cpu0 1ms", CTL_OK, "", "");
	assert_int_equal(fake.gpus[0].hang_ns, 1000000);
	expect("gpu hang cpu0 1h", CTL_OK, "", "");
	fake.change_error = -EPERM;
	expect_error("gpu hang cpu0 1s", CTL_FAILED,
		     "cannot set the hang limit of gpu 0 (cpu0): not permitted");
}

static void a_gpu_has_a_number_and_a_name(void **state)
{
	(void)state;
	expect_error("gpu show cpu7", CTL_FAILED,
		     "there is no gpu cpu7; see: distmindctl gpu list");
	expect_error("gpu show 7", CTL_FAILED, "there is no gpu 7; see: distmindctl gpu list");
	expect("gpu drain cpu0", CTL_OK, "", "");
	assert_int_equal(fake.gpus[0].state, DISTMIND_GPU_STATE_DRAINING);
	expect("gpu undrain 0", CTL_OK, "", "");
	assert_int_equal(fake.gpus[0].state, DISTMIND_GPU_STATE_READY);
}

static void a_vgpu_has_a_number_a_node_and_maybe_a_name(void **state)
{
	static const char *const words[] = { "3", "vgpu3", "/dev/distmind/vgpu3", "train" };
	struct outcome outcome;
	char line[64];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(words); i++) {
		snprintf(line, sizeof(line), "vgpu show %s", words[i]);
		outcome = ctl(line);
		assert_int_equal(outcome.status, CTL_OK);
		assert_non_null(strstr(outcome.out, "id        3\n"));
		outcome_free(&outcome);
	}
	strcpy(fake.vgpus[1].name, "train");
	expect_error("vgpu delete train", CTL_FAILED, "2 vgpus are named train");
	expect_error("vgpu show nobody", CTL_FAILED, "there is no vgpu nobody");
	assert_int_equal(fake.changes, 0);
}

static void commands_can_be_shortened(void **state)
{
	struct outcome whole = ctl("gpu list"), part = ctl("g l"), bare = ctl("gpu");

	(void)state;
	assert_string_equal(whole.out, part.out);
	assert_string_equal(whole.out, bare.out);
	outcome_free(&whole);
	outcome_free(&part);
	outcome_free(&bare);
	expect_error("v list", CTL_USAGE, "'v' is ambiguous: vgpu, version");
	expect_error("c list", CTL_USAGE, "'c' is ambiguous: claim, completion");
	expect_error("gpx", CTL_USAGE, "there is no command 'gpx'; see: distmindctl help");
	expect_error("gpu frob", CTL_USAGE,
		     "there is no command 'gpu frob'; see: distmindctl help gpu");
	expect_error("gpu list x", CTL_USAGE, "does not know what to do with 'x'");
	expect_error("gpu drain", CTL_USAGE, "drain needs GPU");
	expect_error("gpu list --frob", CTL_USAGE, "does not know the option --frob");
	expect_error("-x", CTL_USAGE, "does not know the option -x");
}

static void json_may_be_asked_for_anywhere(void **state)
{
	static const char *const lines[] = { "-j gpu list", "gpu -j list", "gpu list -j",
					     "--json g l", "gpu --json" };
	json_t *root;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(lines); i++) {
		assert_int_equal(json_array_size(list_of(lines[i], "gpus", &root)), 2);
		json_decref(root);
	}
}

static void a_dry_run_changes_nothing(void **state)
{
	json_t *root, *row;

	(void)state;
	expect("--dry-run gpu drain 0", CTL_OK,
	       "would drain gpu 0 (cpu0); 1 vgpu on it would go on\n", "");
	expect("gpu undrain 0 --dry-run", CTL_OK,
	       "would change nothing: gpu 0 (cpu0) is ready already\n", "");
	expect("gpu remove 1 --dry-run", CTL_OK,
	       "would remove gpu 1 (cpu1), which is lost, and park 0 vgpus\n", "");
	expect("--dry-run vgpu create --memory 512M --share 50 --gpu cpu0", CTL_OK,
	       "would create a vgpu on gpu 0 (cpu0): 512M, 50% of a gpu, class standard\n", "");
	expect("--dry-run vgpu create --memory 512M", CTL_OK,
	       "would create a vgpu for the daemon to bind: 512M, 100% of a gpu, class standard\n",
	       "");
	expect("--dry-run vgpu set 3 --gpu none --share 20", CTL_OK,
	       "would make vgpu 3: parked, 512M, 20% of a gpu, class latency, objective 10ms\n",
	       "");
	expect("--dry-run vgpu delete 3", CTL_OK,
	       "would delete vgpu 3; it has 1 buffer and 1 open file\n", "");
	expect("--dry-run run --memory 1G -- true", CTL_OK,
	       "would ask for 1 vgpu (1G, 100% of a gpu, class standard) and run true; gpu 0 "
	       "(cpu0) could do\n",
	       "");
	row = json_array_get(list_of("-j --dry-run vgpu delete 3", "changes", &root), 0);
	assert_string_equal(json_string_value(json_object_get(row, "action")), "delete");
	assert_string_equal(json_string_value(json_object_get(row, "object")), "vgpu");
	assert_int_equal(json_integer_value(json_object_get(row, "id")), 3);
	json_decref(root);
	assert_int_equal(fake.changes, 0);
}

static void a_dry_run_refuses_what_could_not_be_done(void **state)
{
	struct outcome outcome;

	(void)state;
	expect_error("--dry-run gpu drain 9", CTL_FAILED, "there is no gpu 9");
	expect_error("--dry-run gpu drain 1", CTL_FAILED, "cannot drain gpu 1 (cpu1): it is lost");
	expect_error("--dry-run gpu remove 0", CTL_FAILED,
		     "cannot remove gpu 0 (cpu0): 1 vgpu is bound to it; drain it");
	expect_error("--dry-run vgpu create --memory 1G --gpu 1", CTL_FAILED,
		     "cannot create the vgpu: gpu 1 (cpu1) is lost");
	fake.gpus[1].state = DISTMIND_GPU_STATE_DRAINING;
	expect_error("--dry-run vgpu create --memory 1G --gpu 1", CTL_FAILED,
		     "cannot create the vgpu: gpu 1 (cpu1) is draining");
	fake.gpus[1].state = DISTMIND_GPU_STATE_LOST;
	expect_error("--dry-run vgpu set 4 --gpu 1", CTL_FAILED,
		     "cannot change vgpu 4: gpu 1 (cpu1) is lost");
	expect_error("--dry-run run --memory 2G true", CTL_FAILED, "cannot run true: no ready gpu");
	expect_error("--dry-run run --memory 1M --kind h100 true", CTL_FAILED,
		     "no ready gpu of kind h100");
	outcome = ctl_as(false, "--dry-run gpu drain 0");
	assert_int_equal(outcome.status, CTL_FAILED);
	assert_string_equal(outcome.err, "distmindctl: cannot drain gpu 0 (cpu0): not permitted; "
					 "run it as root (it needs CAP_NET_ADMIN)\n");
	outcome_free(&outcome);
	assert_int_equal(fake.changes, 0);
}

static void create_makes_what_was_asked_for(void **state)
{
	json_t *root, *row;

	(void)state;
	expect("vgpu create --memory 1000000 --share 12.5% --objective 10ms --name web --uid 7 "
	       "--gid 8 --gpu cpu0",
	       CTL_OK, "/dev/distmind/vgpu7\n", "");
	assert_int_equal(fake.set.memory, 1003520); /* whole pages */
	assert_int_equal(fake.set.share, 125);
	assert_int_equal(fake.set.sched_class, DISTMIND_CLASS_LATENCY);
	assert_int_equal(fake.set.objective_ns, 10000000);
	assert_string_equal(fake.set.name, "web");
	assert_int_equal(fake.set.uid, 7);
	assert_int_equal(fake.set.gid, 8);
	assert_int_equal(fake.set.gpu, 0);
	row = json_array_get(list_of("-j vgpu create --memory 1M", "vgpus", &root), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "id")), 7);
	json_decref(root);
	assert_int_equal(fake.set.gpu, DISTMIND_GPU_NONE);
}

static void a_cap_is_set_shown_and_taken_away(void **state)
{
	json_t *root, *row;

	(void)state;
	row = json_array_get(list_of("-j vgpu create --memory 1M --share 25 --capped yes", "vgpus",
				     &root), 0);
	assert_true(fake.set.capped);
	assert_true(json_is_true(json_object_get(row, "capped")));
	json_decref(root);
	expect("vgpu set 3 --capped yes", CTL_OK, "", "");
	assert_int_equal(fake.set_fields, DISTMIND_SET_CAPPED);
	assert_true(fake.set.capped);
	expect("vgpu set 3 --capped no", CTL_OK, "", "");
	assert_int_equal(fake.set_fields, DISTMIND_SET_CAPPED);
	assert_false(fake.set.capped);
	expect("--dry-run vgpu set 3 --capped yes", CTL_OK,
	       "would make vgpu 3: on gpu 0, 512M, 12.5% of a gpu at most, class latency, "
	       "objective 10ms\n", "");
	fake.vgpus[0].capped = true;
	row = json_array_get(list_of("-j vgpu list", "vgpus", &root), 0);
	assert_true(json_is_true(json_object_get(row, "capped")));
	json_decref(root);
	fake.changes = 0;
	expect_error("vgpu set 3 --capped maybe", CTL_USAGE, "--capped maybe is not yes or no");
}

static void set_touches_only_what_was_given(void **state)
{
	(void)state;
	expect("vgpu set 3 --share 20", CTL_OK, "", "");
	assert_int_equal(fake.set_fields, DISTMIND_SET_SHARE);
	assert_int_equal(fake.set.share, 200);
	expect("vgpu set 3 --gpu none", CTL_OK, "", "");
	assert_int_equal(fake.set_fields, DISTMIND_SET_GPU);
	assert_int_equal(fake.set.gpu, DISTMIND_GPU_NONE);
	/* An objective goes with the class that it belongs to. */
	expect("vgpu set 3 --class standard", CTL_OK, "", "");
	assert_int_equal(fake.set_fields, DISTMIND_SET_CLASS | DISTMIND_SET_OBJECTIVE);
	assert_int_equal(fake.set.objective_ns, 0);
	expect("vgpu set 4 --class latency --objective 5ms", CTL_OK, "", "");
	assert_int_equal(fake.set_fields, DISTMIND_SET_CLASS | DISTMIND_SET_OBJECTIVE);
	fake.changes = 0;
	expect_error("vgpu set 4 --class latency", CTL_USAGE, "needs an objective");
	expect_error("vgpu set 4 --objective 5ms", CTL_USAGE,
		     "--objective goes only with --class latency");
	expect_error("vgpu set 4", CTL_USAGE, "set needs something to change");
	expect_error("vgpu set --share 5", CTL_USAGE, "set needs one vgpu");
	assert_int_equal(fake.changes, 0);
}

static void wrong_values_are_named(void **state)
{
	(void)state;
	expect_error("vgpu create", CTL_USAGE, "--memory is needed");
	expect_error("vgpu create --memory", CTL_USAGE, "--memory needs a value");
	expect_error("vgpu create --memory lots", CTL_USAGE, "--memory lots is not a size");
	expect_error("vgpu create --memory 0", CTL_USAGE, "--memory 0 is not a size");
	expect_error("vgpu create --memory 1G --share 101", CTL_USAGE,
		     "--share 101 is not a percentage");
	expect_error("vgpu create --memory 1G --class fast", CTL_USAGE,
		     "best-effort, standard, latency");
	expect_error("vgpu create --memory 1G --class latency", CTL_USAGE, "needs an objective");
	expect_error("vgpu create --memory 1G --class standard --objective 1ms", CTL_USAGE,
		     "--objective goes only with");
	expect_error("vgpu create --memory 1G --name a/b", CTL_USAGE, "--name a/b is not a name");
	expect_error("vgpu create --memory 1G --uid no-such-user", CTL_USAGE, "is not a user");
	expect_error("run --memory 1G --objective 10 true", CTL_USAGE,
		     "--objective 10 is not a duration");
	expect_error("run --memory 1G --count 65 true", CTL_USAGE,
		     "--count 65 is not a number from 1 to 64");
	expect_error("run --memory 1G --timeout 2h true", CTL_USAGE,
		     "--timeout 2h is not a duration");
	expect_error("run --memory 1G", CTL_USAGE, "run needs a command");
	assert_int_equal(fake.changes, 0);
}

static void errors_say_what_why_and_what_to_do(void **state)
{
	(void)state;
	fake.change_error = -EBUSY;
	fake.error_text = "gpu 1 has a guest";
	expect("gpu remove 1", CTL_FAILED, "",
	       "distmindctl: cannot remove gpu 1 (cpu1): gpu 1 has a guest; see who uses it: "
	       "distmindctl vgpu list\n");
	fake.change_error = -EPERM;
	fake.error_text = NULL;
	expect("monitor", CTL_FAILED, "",
	       "distmindctl: cannot watch the pool: not permitted; run it as root (it needs "
	       "CAP_NET_ADMIN)\n");
	fake.open_error = -ENOENT;
	expect("gpu list", CTL_FAILED, "",
	       "distmindctl: cannot open the pool: the module distmind is not loaded; run: "
	       "modprobe distmind\n");
}

static void events_are_a_line_each(void **state)
{
	struct outcome outcome = ctl("-j monitor");
	unsigned int events = 0;
	char *line, *rest;
	json_t *row;

	(void)state;
	for (line = strtok_r(outcome.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(row);
		assert_non_null(json_object_get(row, "time"));
		assert_non_null(json_object_get(row, "event"));
		if (events == DISTMIND_EVENT_VGPU_ADD)
			assert_string_equal(json_string_value(json_object_get(row, "event")), "vgpu"
											      "-ad"
											      "d");
		json_decref(row);
		events++;
	}
	assert_int_equal(events, DISTMIND_EVENT_OVERRUN + 1);
	outcome_free(&outcome);

	fake.dispatched = 0;
	outcome = ctl("monitor");
	assert_non_null(strstr(outcome.out, " gpu-add id 0 name cpu0 kind cpu state ready box 0 "
					    "memory 1G used 64M vgpus 1 engine 311 policy slo "
					    "lanes 2 copy 1 out 1 grace 100ms hang 10s\n"));
	assert_non_null(strstr(outcome.out, " overrun events were lost"));
	outcome_free(&outcome);
}

static void help_and_completion_know_every_command(void **state)
{
	struct outcome help = ctl("help"), completion = ctl("completion"), usage;

	(void)state;
	assert_int_equal(help.status, CTL_OK);
	assert_non_null(strstr(help.out, "gpu list|show|drain|undrain|remove|grace|hang "));
	assert_non_null(strstr(help.out, "\n  policy "));
	assert_non_null(strstr(help.out, "\n  top "));
	assert_non_null(strstr(help.out, "\n  trace "));
	assert_non_null(strstr(completion.out, "list show drain undrain remove grace hang"));
	assert_non_null(strstr(completion.out, "complete -F _distmindctl distmindctl\n"));
	outcome_free(&help);
	outcome_free(&completion);
	usage = ctl("gpu drain -h");
	assert_int_equal(usage.status, CTL_OK);
	assert_non_null(strstr(usage.out, "usage: distmindctl gpu drain GPU\n"));
	outcome_free(&usage);
}

/* Where words stand in the line that they are in. */
static long column_of(const char *text, const char *words)
{
	const char *at = strstr(text, words), *line = at;

	assert_non_null(at);
	while (line > text && line[-1] != '\n')
		line--;
	return at - line;
}

static void help_has_room_for_the_noun_with_most_verbs(void **state)
{
	struct outcome help = ctl("help");
	long column = column_of(help.out, "the pool, in tables");

	(void)state;
	assert_int_equal(column_of(help.out, "the models of the memory pool"), column);
	assert_int_equal(column_of(help.out, "the version"), column);
	assert_true(column > column_of(help.out, "|chown ") + (long)strlen("|chown "));
	outcome_free(&help);
}

/* What a command says when nobody can read it: on a full disk, in a pipe without an end. */
static void output_that_is_lost_is_a_failure(void **state)
{
	static const char *const lines[] = {
		"version", "--version", "help", "help gpu", "gpu list --help", "completion",
		"--dry-run gpu drain 0", "gpu list", "-j gpu list",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct outcome outcome = ctl_to("/dev/full", lines[i]);

		if (outcome.status != CTL_FAILED)
			fail_msg("%s: %d", lines[i], outcome.status);
		assert_says(outcome.err, "distmindctl: cannot write the output: ");
		outcome_free(&outcome);
	}
	/* What went wrong before is what is told. */
	struct outcome outcome = ctl_to("/dev/full", "gpu drain nothing");

	assert_says(outcome.err, "nothing");
	assert_null(strstr(outcome.err, "cannot write"));
	outcome_free(&outcome);
}

static void help_helps_with_itself_and_with_verbs(void **state)
{
	struct outcome outcome;

	(void)state;
	expect("help --help", CTL_OK, "usage: distmindctl help [COMMAND [VERB]]\nhow commands are used\n",
	       "");
	outcome = ctl("help gpu drain");
	assert_int_equal(outcome.status, CTL_OK);
	assert_says(outcome.out, "distmindctl gpu drain GPU\n");
	assert_null(strstr(outcome.out, "gpu list"));
	outcome_free(&outcome);
	expect_error("help gpu fly", CTL_USAGE, "there is no command 'gpu fly'");
	expect_error("help doctor now", CTL_USAGE, "does not know what to do with 'now'");
	expect_error("help gpu drain cpu0", CTL_USAGE, "does not know what to do with 'cpu0'");
}

static void an_option_with_a_value_too_many_is_named(void **state)
{
	(void)state;
	expect_error("--json=yes gpu list", CTL_USAGE, "--json takes no value");
	expect_error("monitor --preempt=1", CTL_USAGE, "--preempt takes no value");
	expect_error("gpu list --bogus=1", CTL_USAGE, "does not know the option --bogus=1");
	expect_error("gpu list -x", CTL_USAGE, "does not know the option -x");
	expect_error("vgpu create --memory=512M -xj", CTL_USAGE, "does not know the option -x");
}

/* A word, or a file from elsewhere, does not command the terminal of who reads about it. */
static void messages_have_no_control_characters(void **state)
{
	(void)state;
	expect_error("\033[2Jgpu\a", CTL_USAGE, "there is no command '?[2Jgpu?'");
	expect_error("gpu show a\rb", CTL_FAILED, "a?b");
	/* U+009B, which some take as the beginning of a sequence, and letters that are none. */
	expect_error("gpu show \302\23331m\303\251", CTL_FAILED, "??31m\303\251");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(json_has_numbers_and_the_text_has_units, fake_setup),
		cmocka_unit_test_setup(json_of_vgpus_has_every_field, fake_setup),
		cmocka_unit_test_setup(json_of_buffers_and_claims_parses, fake_setup),
		cmocka_unit_test_setup(limits_are_a_table_and_json, fake_setup),
		cmocka_unit_test_setup(the_pool_is_one_document, fake_setup),
		cmocka_unit_test_setup(an_empty_pool_is_an_empty_list_and_a_hint, fake_setup),
		cmocka_unit_test_setup(names_are_escaped_in_json, fake_setup),
		cmocka_unit_test_setup(show_prints_a_field_per_line, fake_setup),
		cmocka_unit_test_setup(json_of_a_gpu_says_what_it_executed, fake_setup),
		cmocka_unit_test_setup(show_draws_how_fast_jobs_yielded, fake_setup),
		cmocka_unit_test_setup(a_policy_is_shown_and_set, fake_setup),
		cmocka_unit_test_setup(a_policy_of_several_gpus_needs_a_word_about_which,
				       fake_setup),
		cmocka_unit_test_setup(a_hang_limit_has_a_unit_and_bounds, fake_setup),
		cmocka_unit_test_setup(a_gpu_has_a_number_and_a_name, fake_setup),
		cmocka_unit_test_setup(a_vgpu_has_a_number_a_node_and_maybe_a_name, fake_setup),
		cmocka_unit_test_setup(commands_can_be_shortened, fake_setup),
		cmocka_unit_test_setup(json_may_be_asked_for_anywhere, fake_setup),
		cmocka_unit_test_setup(a_dry_run_changes_nothing, fake_setup),
		cmocka_unit_test_setup(a_dry_run_refuses_what_could_not_be_done, fake_setup),
		cmocka_unit_test_setup(create_makes_what_was_asked_for, fake_setup),
		cmocka_unit_test_setup(a_cap_is_set_shown_and_taken_away, fake_setup),
		cmocka_unit_test_setup(set_touches_only_what_was_given, fake_setup),
		cmocka_unit_test_setup(wrong_values_are_named, fake_setup),
		cmocka_unit_test_setup(errors_say_what_why_and_what_to_do, fake_setup),
		cmocka_unit_test_setup(events_are_a_line_each, fake_setup),
		cmocka_unit_test_setup(help_and_completion_know_every_command, fake_setup),
		cmocka_unit_test_setup(help_has_room_for_the_noun_with_most_verbs, fake_setup),
		cmocka_unit_test_setup(output_that_is_lost_is_a_failure, fake_setup),
		cmocka_unit_test_setup(help_helps_with_itself_and_with_verbs, fake_setup),
		cmocka_unit_test_setup(an_option_with_a_value_too_many_is_named, fake_setup),
		cmocka_unit_test_setup(messages_have_no_control_characters, fake_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
