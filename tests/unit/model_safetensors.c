// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/model/safetensors.h"
#include "model_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define A(dtype, shape, begin, end) \
	"\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
#define B(dtype, shape, begin, end) \
	"\"b\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static int parse(struct model_safetensors *file, const char *header, size_t data, char *error,
		 uint8_t **bytes)
{
	size_t size;

	*bytes = files_safetensors(header, data, &size);
	return model_safetensors_parse(file, "x", *bytes, size, error);
}

static void reads_what_is_right(void **state)
{
	static const char header[] =
		"{ \"__metadata__\" : {\"format\":\"pt\", \"a\": \"b\"},"
		"\"late\":{\"shape\":[2,3],\"dtype\":\"F32\",\"data_offsets\":[4,28]},"
		"\"early\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
		"\"empty\":{\"dtype\":\"F64\",\"shape\":[7,0],\"data_offsets\":[4,4]},"
		"\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]}}   ";
	static const char *const names[] = { "early", "empty", "late", "scalar" };
	static const uint64_t sizes[] = { 4, 0, 24, 8 };
	char error[MODEL_ERROR_LEN] = "";
	struct model_safetensors file;
	uint8_t *bytes;

	(void)state;
	assert_int_equal(parse(&file, header, 36, error, &bytes), 0);
	assert_int_equal(file.count, COUNT(names));
	for (size_t i = 0; i < COUNT(names); i++) {
		assert_string_equal(file.tensors[i].name, names[i]);
		assert_int_equal(file.tensors[i].size, sizes[i]);
	}
	assert_ptr_equal(file.tensors[2].data, bytes + 8 + strlen(header) + 4);
	assert_int_equal(file.tensors[2].shape.dtype, MODEL_F32);
	assert_int_equal(file.tensors[2].shape.rank, 2);
	assert_int_equal(file.tensors[2].shape.extent[1], 3);
	assert_int_equal(file.tensors[3].shape.rank, 0);
	model_safetensors_close(&file);
	free(bytes);
}

static void refuses_with_offset_and_reason(void **state)
{
	static const struct {
		const char *header;
		size_t data;
		const char *place, *reason;
	} cases[] = {
		{ "", 0, "byte 8:", "does not begin with '{'" },
		{ "[]", 0, "byte 8:", "does not begin with '{'" },
		{ " {}", 0, "byte 8:", "does not begin with '{'" },
		{ "{\"a\":}", 0, "byte 14:", "header: " },
		{ "{} x", 0, "byte 12:", "end of file expected" },
		{ "{" A("F32", "[1]", 0, 4) "," A("F32", "[1]", 4, 8) "}", 8, "byte ",
		  "duplicate" },
		{ "{\"a\":[]}", 0, "byte 9:", "tensor \"a\": not an object" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "byte 9:",
		  "not an object of dtype" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
		  "byte 9:", "not an object of dtype" },
		{ "{" A("F31", "[1]", 0, 4) "}", 4, "byte 9:", "dtype: \"F31\" is unknown" },
		{ "{" A("F32", "1", 0, 4) "}", 4, "byte 9:", "shape: not a list" },
		{ "{" A("F32", "[-1]", 0, 4) "}", 4, "byte 9:", "shape: not a whole number" },
		{ "{" A("F32", "[1.0]", 0, 4) "}", 4, "byte 9:", "shape: not a whole number" },
		{ "{" A("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "byte 9:", "9 dimensions" },
		{ "{" A("F32", "[4294967296,4294967296]", 0, 4) "}", 4, "byte 9:", "2^64" },
		{ "{" A("F32", "[9223372036854775808]", 0, 4) "}", 4, "byte ", "too big integer" },
		{ "{" A("F32", "[1]", 4, 0) "}", 4, "byte 9:", "before it begins" },
		{ "{" A("F32", "[1]", 0, 5) "}", 8, "byte 9:", "5 bytes where its shape needs 4" },
		{ "{" A("F32", "[2]", 0, 8) "}", 4, "byte 9:", "cut off" },
		{ "{" A("F32", "[1]", 0, 4.0) "}", 4, "byte 9:",
		  "data_offsets: not a whole number" },
		{ "{" A("F32", "[1]", 0, 9223372036854775807) "}", 4, "byte 9:", "cut off" },
		{ "{" A("F32", "[1]", 4, 8) "}", 8, "byte 62:", "4 bytes before tensor \"a\"" },
		{ "{" A("F32", "[1]", 0, 4) "}", 8, "byte 66:", "4 bytes after the last" },
		{ "{" A("F32", "[1]", 0, 4) "," B("F32", "[1]", 2, 6) "}", 6, "byte ",
		  "tensors \"a\" and \"b\" overlap" },
		{ "{" A("F32", "[1]", 0, 4) "," B("F32", "[1]", 0, 4) "}", 4, "byte ", "overlap" },
		{ "{\"__metadata__\":{\"b\":\"}\\\"\"}," B("F31", "[1]", 0, 4) "}", 4,
		  "byte 36:", "tensor \"b\": dtype" },
		{ "{\"__metadata__\":{\"b\":1}}", 0, "byte 9:", "\"b\" is not a text" },
		{ "{\"__metadata__\":1}", 0, "byte 9:", "__metadata__ is not an object" },
		{ "{\"\":{}}", 0, "byte 9:", "name is empty" },
		{ "{\"a\\u001b\":{}}", 0, "byte 9:", "control characters" },
		{ "{\"a\\u0000\":{}}", 0, "byte ", "header: " },
	};
	char error[MODEL_ERROR_LEN];
	struct model_safetensors file;
	uint8_t *bytes;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (parse(&file, cases[i].header, cases[i].data, error, &bytes) != -EINVAL)
			fail_msg("case %zu was not refused: %s", i, cases[i].header);
		assert_contains(error, "x: ");
		assert_contains(error, cases[i].place);
		assert_contains(error, cases[i].reason);
		free(bytes);
	}
}

static void refuses_lengths_that_lie(void **state)
{
	static const uint64_t lengths[] = { 3, 100, 100000001, UINT64_MAX, UINT64_MAX - 7 };
	char error[MODEL_ERROR_LEN];
	struct model_safetensors file;
	size_t size;
	uint8_t *bytes = files_safetensors("{}", 0, &size);

	(void)state;
	for (size_t i = 0; i < COUNT(lengths); i++) {
		memcpy(bytes, &lengths[i], 8);
		assert_int_equal(model_safetensors_parse(&file, "x", bytes, size, error), -EINVAL);
		assert_contains(error, "byte 0: a header of ");
	}
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(model_safetensors_parse(&file, "x", bytes, i, error), -EINVAL);
	free(bytes);
}

static void maps_files(void **state)
{
	char error[MODEL_ERROR_LEN];
	struct model_safetensors file;
	size_t size;
	uint8_t *bytes = files_safetensors("{" A("U8", "[5]", 0, 5) "}", 5, &size);
	const char *path = files_write("good.safetensors", bytes, size);

	(void)state;
	assert_int_equal(model_safetensors_open(&file, path, error), 0);
	assert_int_equal(file.count, 1);
	assert_memory_equal(file.tensors[0].data, bytes + size - 5, 5);
	model_safetensors_close(&file);
	path = files_write("short.safetensors", bytes, size - 1);
	assert_int_equal(model_safetensors_open(&file, path, error), -EINVAL);
	assert_contains(error, "short.safetensors: byte 9: ");
	path = files_write("empty.safetensors", bytes, 0);
	assert_int_equal(model_safetensors_open(&file, path, error), -EINVAL);
	assert_int_equal(model_safetensors_open(&file, files_path("none"), error), -ENOENT);
	assert_contains(error, "none: No such file");
	assert_int_equal(model_safetensors_open(&file, files_directory, error), -EINVAL);
	/* A pipe that nobody writes to is not waited for. */
	assert_int_equal(mkfifo(files_path("pipe"), 0600), 0);
	alarm(10);
	assert_int_equal(model_safetensors_open(&file, files_path("pipe"), error), -EINVAL);
	alarm(0);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_is_right),
		cmocka_unit_test(refuses_with_offset_and_reason),
		cmocka_unit_test(refuses_lengths_that_lie),
		cmocka_unit_test(maps_files),
	};

	return cmocka_run_group_tests_name("model_safetensors", tests, files_setup, files_teardown);
}
