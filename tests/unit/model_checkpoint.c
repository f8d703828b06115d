// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/model/checkpoint.h"
#include "model_files.h"

#include <errno.h>

static const char *write_file(const char *name, const char *tensor)
{
	char header[256];
	size_t size;
	uint8_t *bytes;
	const char *path;

	snprintf(header, sizeof(header),
		 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", tensor);
	bytes = files_safetensors(header, 4, &size);
	path = files_write(name, bytes, size);
	free(bytes);
	return path;
}

static int open_index(struct model_checkpoint *checkpoint, const char *text, char *error)
{
	const char *path = files_write("model.safetensors.index.json", text, strlen(text));

	return model_checkpoint_open(checkpoint, &path, 1, error);
}

static void joins_files(void **state)
{
	const char *paths[] = { write_file("1.safetensors", "b"),
				write_file("2.safetensors", "a") };
	struct model_checkpoint checkpoint;
	char error[MODEL_ERROR_LEN];

	(void)state;
	assert_int_equal(model_checkpoint_open(&checkpoint, paths, 2, error), 0);
	assert_int_equal(checkpoint.count, 2);
	assert_string_equal(checkpoint.tensors[0]->name, "a");
	assert_ptr_equal(model_checkpoint_find(&checkpoint, "b"), checkpoint.tensors[1]);
	assert_null(model_checkpoint_find(&checkpoint, "c"));
	model_checkpoint_close(&checkpoint);
}

static void refuses_a_tensor_in_two_files(void **state)
{
	const char *paths[] = { write_file("1.safetensors", "a"),
				write_file("2.safetensors", "a") };
	struct model_checkpoint checkpoint;
	char error[MODEL_ERROR_LEN];

	(void)state;
	assert_int_equal(model_checkpoint_open(&checkpoint, paths, 2, error), -EINVAL);
	assert_contains(error, "tensor \"a\" is in ");
	assert_int_equal(model_checkpoint_open(&checkpoint, paths, 0, error), -EINVAL);
}

static void follows_an_index(void **state)
{
	struct model_checkpoint checkpoint;
	char error[MODEL_ERROR_LEN] = "";

	(void)state;
	write_file("1.safetensors", "a");
	write_file("2.safetensors", "b");
	assert_int_equal(open_index(&checkpoint,
				    "{\"metadata\":{\"total_size\":8},\"weight_map\":"
				    "{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}",
				    error), 0);
	assert_int_equal(checkpoint.file_count, 2);
	assert_int_equal(checkpoint.count, 2);
	model_checkpoint_close(&checkpoint);
}

static void refuses_an_index_that_lies(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{ "{", "byte " },
		{ "[]", "weight_map: not an object" },
		{ "{\"weight_map\":{}}", "weight_map: not an object" },
		{ "{\"weight_map\":{\"a\":1}}", "not the name of a file beside" },
		{ "{\"weight_map\":{\"a\":\"\"}}", "not the name of a file beside" },
		{ "{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
		  "not the name of a file beside" },
		{ "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "not the name of a file beside" },
		{ "{\"weight_map\":{\"a\":\"..\"}}", "not the name of a file beside" },
		{ "{\"weight_map\":{\"a\":\"1.safetensors\",\"c\":\"1.safetensors\"}}",
		  "tensor \"c\" is not in 1.safetensors" },
		{ "{\"weight_map\":{\"a\":\"2.safetensors\",\"b\":\"1.safetensors\"}}",
		  "tensor \"a\" is in " },
		{ "{\"weight_map\":{\"c\":\"1.safetensors\"}}", "tensor \"a\" is in " },
	};
	struct model_checkpoint checkpoint;
	char error[MODEL_ERROR_LEN];

	(void)state;
	write_file("1.safetensors", "a");
	write_file("2.safetensors", "b");
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (open_index(&checkpoint, cases[i].text, error) != -EINVAL)
			fail_msg("case %zu was not refused", i);
		assert_contains(error, "model.safetensors.index.json: ");
		assert_contains(error, cases[i].reason);
	}
	assert_int_equal(open_index(&checkpoint, "{\"weight_map\":{\"a\":\"3.safetensors\"}}",
				    error), -ENOENT);
}

static void refuses_an_index_that_is_none(void **state)
{
	const char *path = files_path("model.safetensors.index.json");
	struct model_checkpoint checkpoint;
	char error[MODEL_ERROR_LEN];

	(void)state;
	unlink(path);
	assert_int_equal(model_checkpoint_open(&checkpoint, &path, 1, error), -ENOENT);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_int_equal(model_checkpoint_open(&checkpoint, &path, 1, error), -EINVAL);
	assert_contains(error, "index.json: it is a directory, a device or a pipe");
	unlink(path);
	files_write("model.safetensors.index.json", "", 0);
	assert_int_equal(truncate(path, MODEL_SAFETENSORS_HEADER_MAX + 1), 0);
	assert_int_equal(model_checkpoint_open(&checkpoint, &path, 1, error), -EFBIG);
	assert_contains(error, "index.json: it is larger than ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joins_files),
		cmocka_unit_test(refuses_a_tensor_in_two_files),
		cmocka_unit_test(follows_an_index),
		cmocka_unit_test(refuses_an_index_that_lies),
		cmocka_unit_test(refuses_an_index_that_is_none),
	};

	return cmocka_run_group_tests_name("model_checkpoint", tests, files_setup, files_teardown);
}
