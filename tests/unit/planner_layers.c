// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/planner/layers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER "layer\tparam_bytes\tforward_flops\n"

static char path[] = "/tmp/distmind-layers-XXXXXX";

static int read_text(const char *text, struct planner_layers *layers, char *error)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return planner_layers_read(path, layers, error);
}

static void reads_layers_in_their_order(void **state)
{
	struct planner_layers layers;
	char error[PLANNER_ERROR_LEN];

	(void)state;
	/* With and without the last line's end, and as other systems write lines. */
	assert_int_equal(read_text(HEADER "conv\t37632\t1.5e9\r\nrelu\t0\t6422528", &layers, error),
			 0);
	assert_int_equal(layers.count, 2);
	assert_string_equal(layers.names[0], "conv");
	assert_int_equal(layers.layers[0].bytes, 37632);
	assert_true(layers.layers[0].flops == 1.5e9);
	assert_string_equal(layers.names[1], "relu");
	assert_int_equal(layers.layers[1].bytes, 0);
	planner_layers_destroy(&layers);
}

static void names_line_and_field_of_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *line, *reason;
	} cases[] = {
		{ "", ":1: ", "no layer" },
		{ HEADER, ":2: ", "no layer" },
		{ "conv\t1\t2\n", ":1: ", "field 1 is \"conv\"" },
		{ "layer\tparam_bytes\n", ":1: ", "forward_flops is missing" },
		{ HEADER "a\t1\t2\nb\t1\n", ":3: ", "forward_flops is missing" },
		{ HEADER "a\t1\t2\t3\n", ":2: ", "more than 3 fields" },
		{ HEADER "\t1\t2\n", ":2: ", "layer is empty" },
		{ HEADER "a\t1\t2\n\nb\t1\t2\n", ":3: ", "param_bytes is missing" },
		{ HEADER "a\t-1\t2\n", ":2: ", "param_bytes is \"-1\"" },
		{ HEADER "a\t 1\t2\n", ":2: ", "param_bytes is \" 1\"" },
		{ HEADER "a\t1.5\t2\n", ":2: ", "param_bytes is \"1.5\"" },
		{ HEADER "a\t18446744073709551616\t2\n", ":2: ", "param_bytes" },
		{ HEADER "a\t1\t\n", ":2: ", "forward_flops is \"\"" },
		{ HEADER "a\t1\t-2\n", ":2: ", "forward_flops is \"-2\"" },
		{ HEADER "a\t1\tnan\n", ":2: ", "forward_flops is \"nan\"" },
		{ HEADER "a\t1\t2x\n", ":2: ", "forward_flops is \"2x\"" },
	};
	struct planner_layers layers;
	char error[PLANNER_ERROR_LEN];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (read_text(cases[i].text, &layers, error) != -EINVAL)
			fail_msg("case %zu was not refused", i);
		assert_contains(error, path);
		assert_contains(error, cases[i].line);
		assert_contains(error, cases[i].reason);
	}
}

static void names_a_file_that_is_not_there(void **state)
{
	struct planner_layers layers;
	char error[PLANNER_ERROR_LEN];

	(void)state;
	assert_int_equal(planner_layers_read("/nowhere/model.tsv", &layers, error), -ENOENT);
	assert_string_equal(error, "/nowhere/model.tsv: No such file or directory");
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_layers_in_their_order),
		cmocka_unit_test(names_line_and_field_of_what_is_wrong),
		cmocka_unit_test(names_a_file_that_is_not_there),
	};

	return cmocka_run_group_tests_name("planner_layers", tests, make_file, remove_file);
}
