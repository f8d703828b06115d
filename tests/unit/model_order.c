// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/model/order.h"
#include "model_files.h"

#include <errno.h>

static int read_order(struct model_order *order, const char *text, const char *const *names,
		      uint32_t count, char *error)
{
	return model_order_read(order, files_write("order", text, strlen(text)), names, count,
				error);
}

static void numbers_compare_by_value(void **state)
{
	static const char *const ascending[] = {
		"a", "a.2", "a.2b", "a.10", "a.10.1", "a.010.2", "a.100", "a10", "b", "b1.x",
		"b2.a",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(ascending); i++)
		for (size_t j = 0; j < COUNT(ascending); j++) {
			int order = model_order_compare(ascending[i], ascending[j]);

			if ((order > 0) - (order < 0) != (i > j) - (i < j))
				fail_msg("%s and %s", ascending[i], ascending[j]);
		}
	assert_true(model_order_compare("a1", "a01") != 0);
	assert_int_equal(model_order_compare("a1", "a01") < 0,
			 model_order_compare("a01", "a1") > 0);
	assert_true(model_order_compare("x99999999999999999999", "x100000000000000000000") < 0);
}

static void names_give_an_order(void **state)
{
	static const char *const names[] = {
		"layer.10.weight", "layer.9.weight", "layer.9.bias", "head", "layer.10.bias",
		"layer.9.norm.weight",
	};
	static const uint32_t tensors[] = { 3, 2, 1, 5, 4, 0 };
	static const char *const layers[] = { "head", "layer.9", "layer.9.norm", "layer.10" };
	static const uint32_t counts[] = { 1, 2, 1, 2 };
	struct model_order order;

	(void)state;
	assert_int_equal(model_order_natural(&order, names, COUNT(names)), 0);
	assert_int_equal(order.count, COUNT(tensors));
	assert_memory_equal(order.tensors, tensors, sizeof(tensors));
	assert_int_equal(order.layer_count, COUNT(layers));
	for (size_t i = 0; i < COUNT(layers); i++) {
		assert_string_equal(order.layers[i].name, layers[i]);
		assert_int_equal(order.layers[i].tensors, counts[i]);
		assert_false(order.layers[i].flops_known);
	}
	model_order_destroy(&order);
}

static void a_file_gives_an_order(void **state)
{
	static const char *const names[] = {
		"b.weight", "a.weight", "b.sub.weight", "b.bias", "c",
	};
	static const uint32_t tensors[] = { 2, 4, 3, 0, 1 };
	static const char *const layers[] = { "b.sub", "c", "b", "relu", "a" };
	static const uint32_t counts[] = { 1, 1, 2, 0, 1 };
	struct model_order order;
	char error[MODEL_ERROR_LEN] = "";

	(void)state;
	assert_int_equal(read_order(&order, "# comment\nb.sub\nc\t5\n\nb\t\r\nrelu\t0\na\t7", names,
				    COUNT(names), error), 0);
	assert_int_equal(order.count, COUNT(tensors));
	assert_memory_equal(order.tensors, tensors, sizeof(tensors));
	assert_int_equal(order.layer_count, COUNT(layers));
	for (size_t i = 0; i < COUNT(layers); i++) {
		assert_string_equal(order.layers[i].name, layers[i]);
		assert_int_equal(order.layers[i].tensors, counts[i]);
	}
	assert_false(order.layers[0].flops_known || order.layers[2].flops_known);
	assert_true(order.layers[3].flops_known);
	assert_int_equal(order.layers[4].flops, 7);
	model_order_destroy(&order);
}

static void says_which_line_is_wrong(void **state)
{
	static const char *const names[] = { "a.weight", "b.weight" };
	static const struct {
		const char *text, *place, *reason;
	} cases[] = {
		{ "", "order: ", "tensor \"a.weight\" belongs to no layer" },
		{ "a\n", "order: ", "tensor \"b.weight\" belongs to no layer" },
		{ "a\nb\na\n", "order:3: ", "in line 1, too" },
		{ "a\nb\nc\n", "order:3: ", "neither tensors nor FLOPs" },
		{ "a\nb\t-1\n", "order:2: ", "FLOPs \"-1\"" },
		{ "a\nb\t1.5\n", "order:2: ", "FLOPs \"1.5\"" },
		{ "a\nb\t9223372036854775808\n", "order:2: ", "FLOPs" },
		{ "a\n\t1\n", "order:2: ", "no name before the tab" },
		{ "a.weight.x\na\nb", "order:1: ", "neither tensors nor FLOPs" },
	};
	struct model_order order;
	char error[MODEL_ERROR_LEN];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (read_order(&order, cases[i].text, names, COUNT(names), error) != -EINVAL)
			fail_msg("case %zu was not refused", i);
		assert_contains(error, cases[i].place);
		assert_contains(error, cases[i].reason);
	}
	assert_int_equal(model_order_read(&order, files_path("none"), names, 2, error), -ENOENT);
	/* One line that does not end. */
	assert_int_equal(model_order_read(&order, "/dev/zero", names, 2, error), -EINVAL);
	assert_contains(error, "/dev/zero: it is a directory, a device or a pipe");
	assert_int_equal(truncate(files_path("order"), MODEL_ORDER_FILE_MAX + 1), 0);
	assert_int_equal(model_order_read(&order, files_path("order"), names, 2, error), -EFBIG);
	assert_contains(error, "order: it is larger than ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_compare_by_value),
		cmocka_unit_test(names_give_an_order),
		cmocka_unit_test(a_file_gives_an_order),
		cmocka_unit_test(says_which_line_is_wrong),
	};

	return cmocka_run_group_tests_name("model_order", tests, files_setup, files_teardown);
}
