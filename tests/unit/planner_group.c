// SPDX-License-Identifier: GPL-2.0-or-later
/* distmind-sim group, from the command line to what it prints. */
#include "unit.h"

#include "../../userspace/sim/sim.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/distmind-group-XXXXXX";
static char layers[64], output[64];

/* Runs it with its streams in the output file, which is read into text. */
static int run(const char *arguments, char *text, size_t room)
{
	char line[512], *argv[32];
	int argc = 0, out = dup(1), err = dup(2), code;
	FILE *file;
	size_t len;

	snprintf(line, sizeof(line), "group %s", arguments);
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[argc++] = strcmp(word, "FILE") ? word : layers;
	argv[argc] = NULL;
	fflush(NULL);
	assert_non_null(freopen(output, "w", stdout));
	assert_int_equal(dup2(1, 2), 2);
	code = sim_group(argc, argv);
	fflush(NULL);
	dup2(out, 1);
	dup2(err, 2);
	close(out);
	close(err);
	file = fopen(output, "r");
	assert_non_null(file);
	len = fread(text, 1, room - 1, file);
	text[len] = '\0';
	fclose(file);
	return code;
}

#define RATES "--net 1GB/s --h2d 1GB/s --flops 1T --transfer-cost 100us --launch-cost 10us"

/* Two layers of 1 ms in each stage: worth two groups at these costs. */
static void prints_the_plan_beside_others(void **state)
{
	char text[8192];
	json_t *json, *plan;

	(void)state;
	assert_int_equal(run("--layers FILE " RATES " -j", text, sizeof(text)), SIM_OK);
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	plan = json_object_get(json, "plan");
	assert_int_equal(json_array_size(plan), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(plan, 1), "first")),
			    "b");
	/* Read to 1.1 and 2.2 ms, copied to 3.3, computed to 4.31 ms. */
	assert_true(json_real_value(json_object_get(json, "predicted")) == 0.00431);
	assert_true(json_real_value(json_object_get(json, "bound")) <= 0.00431);
	for (size_t i = 0; i < 3; i++) {
		static const char *const others[] = { "greedy", "two_stage", "whole" };
		const json_t *other = json_object_get(json, others[i]);

		assert_true(json_real_value(json_object_get(other, "predicted")) >= 0.00431);
	}
	json_decref(json);

	assert_int_equal(run("-l FILE " RATES, text, sizeof(text)), SIM_OK);
	assert_contains(text, "4.310");
	assert_contains(text, "UP TO LAYER");
}

static void says_what_is_wrong_with_a_command(void **state)
{
	static const struct {
		const char *arguments, *reason;
		int code;
	} cases[] = {
		{ "", "--layers is missing", SIM_USAGE },
		{ "--layers FILE --flops 1T", "--net is missing", SIM_USAGE },
		{ "--layers FILE --net 1GB/s", "--flops is missing", SIM_USAGE },
		{ "--net 12", "--net 12: write a number and a unit", SIM_USAGE },
		{ "--launch-cost 1GB/s", "--launch-cost 1GB/s: write", SIM_USAGE },
		{ "--layers FILE " RATES " more", "\"more\" is no option", SIM_USAGE },
		{ "--what", "--help", SIM_USAGE },
		{ "--layers /nowhere " RATES, "/nowhere: No such file", SIM_FAILED },
		{ "--layers FILE --net 1GB/s --flops 1T --transfer-cost 999999s", "days",
		  SIM_FAILED },
	};
	char text[8192];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(run(cases[i].arguments, text, sizeof(text)), cases[i].code);
		assert_contains(text, cases[i].reason);
	}
	assert_int_equal(run("--help", text, sizeof(text)), SIM_OK);
	assert_contains(text, "usage: distmind-sim group");
}

static int setup(void **state)
{
	FILE *file;

	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(layers, sizeof(layers), "%s/layers.tsv", directory);
	snprintf(output, sizeof(output), "%s/output", directory);
	file = fopen(layers, "w");
	if (!file)
		return -1;
	fputs("layer\tparam_bytes\tforward_flops\na\t1000000\t1000000000\nb\t1000000\t1000000000\n",
	      file);
	return fclose(file);
}

static int teardown(void **state)
{
	(void)state;
	unlink(layers);
	unlink(output);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prints_the_plan_beside_others),
		cmocka_unit_test(says_what_is_wrong_with_a_command),
	};

	return cmocka_run_group_tests_name("planner_group", tests, setup, teardown);
}
