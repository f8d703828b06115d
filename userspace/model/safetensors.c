// SPDX-License-Identifier: GPL-2.0-or-later
#include "safetensors.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_SIZE 8
#define METADATA "__metadata__"

/* A file whose header is being read. */
struct reader {
	struct model_safetensors *file;
	const char *header;
	size_t header_size;
	size_t data_start;
	size_t key; /* where in the file the entry's name stands */
	char *error;
};

/* Takes a format and its arguments; the place comes before. */
#define complain(reader, at, format, ...)                                             \
	model_error((reader)->error, -EINVAL, "%s: byte %zu: " format, (reader)->file->path, \
		    (size_t)(at), ##__VA_ARGS__)

/*
 * The place of the next name in the outermost object, from the place after the
 * one before. jansson does not tell places, but it has found the header to be
 * valid, so that this need only know strings and nesting.
 */
static size_t next_key(const struct reader *reader, size_t at)
{
	unsigned int depth = at ? 1 : 0;
	bool value = false;

	for (; at < reader->header_size; at++) {
		char c = reader->header[at];

		if (c == '"') {
			if (depth == 1 && !value)
				return at;
			for (at++; reader->header[at] != '"'; at++)
				if (reader->header[at] == '\\')
					at++;
		} else if (c == '{' || c == '[') {
			depth++;
		} else if (c == '}' || c == ']') {
			depth--;
		} else if (depth == 1) {
			value = c == ':' || (value && c != ',');
		}
	}
	return at;
}

/* The place after a name. */
static size_t skip_key(const struct reader *reader, size_t at)
{
	for (at++; at < reader->header_size && reader->header[at] != '"'; at++)
		if (reader->header[at] == '\\')
			at++;
	return at + 1;
}

/* A whole number that is not negative, which is all that the format has. */
static int read_number(const struct reader *reader, const char *name, const char *field,
		       const json_t *json, uint64_t *number)
{
	if (!json_is_integer(json) || json_integer_value(json) < 0)
		return complain(reader, reader->key,
				"tensor \"%s\": %s: not a whole number from 0 on: write the "
				"file anew",
				name, field);
	*number = (uint64_t)json_integer_value(json);
	return 0;
}

static int read_shape(const struct reader *reader, const char *name, const json_t *json,
		      struct model_shape *shape)
{
	int err = 0;

	if (!json_is_array(json))
		return complain(reader, reader->key,
				"tensor \"%s\": shape: not a list: write the file anew", name);
	if (json_array_size(json) > MODEL_RANK_MAX)
		return complain(reader, reader->key,
				"tensor \"%s\": shape: %zu dimensions: at most %d are known", name,
				json_array_size(json), MODEL_RANK_MAX);
	shape->rank = (uint32_t)json_array_size(json);
	for (uint32_t i = 0; i < shape->rank && !err; i++)
		err = read_number(reader, name, "shape", json_array_get(json, i),
				  &shape->extent[i]);
	return err;
}

static int read_place(const struct reader *reader, struct model_tensor *tensor,
		      const json_t *json)
{
	uint64_t begin, end, size, room = reader->file->size - reader->data_start;
	int err;

	if (!json_is_array(json) || json_array_size(json) != 2)
		return complain(reader, reader->key,
				"tensor \"%s\": data_offsets: not two numbers: write the file anew",
				tensor->name);
	err = read_number(reader, tensor->name, "data_offsets", json_array_get(json, 0), &begin);
	if (!err)
		err = read_number(reader, tensor->name, "data_offsets", json_array_get(json, 1),
				  &end);
	if (err)
		return err;
	if (begin > end)
		return complain(reader, reader->key,
				"tensor \"%s\": data_offsets: ends at %" PRIu64
				" before it begins at %" PRIu64 ": write the file anew",
				tensor->name, end, begin);
	if (end > room)
		return complain(reader, reader->key,
				"tensor \"%s\": data_offsets: ends at %" PRIu64 " of %" PRIu64
				" bytes of data: the file is cut off, fetch it again",
				tensor->name, end, room);
	if (model_shape_size(&tensor->shape, &size))
		return complain(reader, reader->key,
				"tensor \"%s\": shape: more than 2^64 bytes: write the file anew",
				tensor->name);
	if (size != end - begin)
		return complain(reader, reader->key,
				"tensor \"%s\": data_offsets: %" PRIu64
				" bytes where its shape needs %" PRIu64 ": write the file anew",
				tensor->name, end - begin, size);
	tensor->size = size;
	tensor->data = reader->file->data + reader->data_start + begin;
	return 0;
}

static int read_tensor(const struct reader *reader, const char *name, const json_t *json,
		       struct model_tensor *tensor)
{
	const char *dtype = json_string_value(json_object_get(json, "dtype"));
	int err;

	if (!model_tensor_name_valid(name))
		return complain(reader, reader->key,
				"a tensor's name is empty, longer than %d bytes or has control "
				"characters: rename it",
				MODEL_TENSOR_NAME_MAX);
	if (!json_is_object(json) || json_object_size(json) != 3 || !dtype)
		return complain(reader, reader->key,
				"tensor \"%s\": not an object of dtype, shape and "
				"data_offsets: write the file anew",
				name);
	if (model_dtype_find(dtype, &tensor->shape.dtype))
		return complain(reader, reader->key,
				"tensor \"%s\": dtype: \"%.32s\" is unknown: convert it to one "
				"of %s",
				name, dtype, model_dtype_list());
	tensor->name = strdup(name);
	if (!tensor->name)
		return model_error(reader->error, -ENOMEM, "%s: out of memory", reader->file->path);
	err = read_shape(reader, name, json_object_get(json, "shape"), &tensor->shape);
	if (!err)
		err = read_place(reader, tensor, json_object_get(json, "data_offsets"));
	return err;
}

/* It is for people; only its form matters. */
static int check_metadata(const struct reader *reader, json_t *json)
{
	const char *name;
	json_t *value;

	if (!json_is_object(json))
		return complain(reader, reader->key,
				METADATA " is not an object: write the file anew");
	json_object_foreach(json, name, value)
		if (!json_is_string(value))
			return complain(reader, reader->key,
					METADATA ": \"%.64s\" is not a text: write the file anew",
					name);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct model_tensor *x = a, *y = b;

	/* Empty ones stand before the one that begins at the same place. */
	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	return (x->size > y->size) - (x->size < y->size);
}

static int check_cover(const struct reader *reader)
{
	const struct model_safetensors *file = reader->file;
	const uint8_t *at = file->data + reader->data_start;

	for (size_t i = 0; i < file->count; i++) {
		const struct model_tensor *tensor = &file->tensors[i];

		if (tensor->data > at)
			return complain(reader, at - file->data,
					"%zu bytes before tensor \"%s\" belong to none: write "
					"the file anew",
					(size_t)(tensor->data - at), tensor->name);
		if (tensor->data < at)
			return complain(reader, tensor->data - file->data,
					"tensors \"%s\" and \"%s\" overlap: write the file anew",
					file->tensors[i - 1].name, tensor->name);
		at += tensor->size;
	}
	if (at != file->data + file->size)
		return complain(reader, at - file->data,
				"%zu bytes after the last tensor belong to none: write the "
				"file anew",
				(size_t)(file->data + file->size - at));
	return 0;
}

static int read_tensors(struct reader *reader, json_t *root)
{
	struct model_safetensors *file = reader->file;
	size_t at = 0;
	const char *name;
	json_t *value;
	int err = 0;

	file->tensors = calloc(json_object_size(root) + 1, sizeof(*file->tensors));
	if (!file->tensors)
		return model_error(reader->error, -ENOMEM, "%s: out of memory", file->path);
	/* jansson keeps the order of the text. */
	json_object_foreach(root, name, value) {
		at = next_key(reader, at);
		reader->key = LENGTH_SIZE + at;
		at = skip_key(reader, at);
		if (!strcmp(name, METADATA))
			err = check_metadata(reader, value);
		else
			err = read_tensor(reader, name, value, &file->tensors[file->count++]);
		if (err)
			return err;
	}
	qsort(file->tensors, file->count, sizeof(*file->tensors), by_place);
	return check_cover(reader);
}

static int read_header(struct reader *reader)
{
	struct model_safetensors *file = reader->file;
	json_error_t json_error;
	uint64_t length;
	json_t *root;
	int err;

	if (file->size < LENGTH_SIZE)
		return complain(reader, 0, "%zu bytes are no safetensors file: fetch it again",
				file->size);
	memcpy(&length, file->data, sizeof(length));
	length = le64toh(length);
	if (length > MODEL_SAFETENSORS_HEADER_MAX)
		return complain(reader, 0,
				"a header of %" PRIu64 " bytes, at most %d are allowed: not a "
				"safetensors file?",
				length, MODEL_SAFETENSORS_HEADER_MAX);
	if (length > file->size - LENGTH_SIZE)
		return complain(reader, 0,
				"a header of %" PRIu64 " bytes in a file of %zu: it is cut "
				"off, fetch it again",
				length, file->size);
	reader->header = (const char *)file->data + LENGTH_SIZE;
	reader->header_size = (size_t)length;
	reader->data_start = LENGTH_SIZE + reader->header_size;
	if (!length || *reader->header != '{')
		return complain(reader, LENGTH_SIZE,
				"the header does not begin with '{': not a safetensors file?");
	root = json_loadb(reader->header, reader->header_size, JSON_REJECT_DUPLICATES, &json_error);
	if (!root)
		return complain(reader, LENGTH_SIZE + json_error.position,
				"header: %s: write the file anew", json_error.text);
	err = json_is_object(root) ? read_tensors(reader, root) :
				     complain(reader, LENGTH_SIZE, "the header is not an object");
	json_decref(root);
	return err;
}

int model_safetensors_parse(struct model_safetensors *file, const char *path, const void *data,
			    size_t size, char *error)
{
	struct reader reader = { .file = file, .error = error };
	int err;

	*file = (struct model_safetensors){ .path = strdup(path), .data = data, .size = size };
	if (!file->path)
		return model_error(error, -ENOMEM, "%s: out of memory", path);
	err = read_header(&reader);
	if (err)
		model_safetensors_close(file);
	return err;
}

int model_safetensors_open(struct model_safetensors *file, const char *path, char *error)
{
	/* A pipe is refused, not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	struct stat status;
	void *data;

	if (fd < 0)
		return model_error(error, -errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &status)) {
		err = model_error(error, -errno, "%s: %s", path, strerror(errno));
		goto close;
	}
	if (!S_ISREG(status.st_mode) || status.st_size < LENGTH_SIZE) {
		err = model_error(error, -EINVAL,
				  "%s: byte 0: not a file, or too short for safetensors: fetch "
				  "it again",
				  path);
		goto close;
	}
	data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED) {
		err = model_error(error, -errno, "%s: %s", path, strerror(errno));
		goto close;
	}
	err = model_safetensors_parse(file, path, data, (size_t)status.st_size, error);
	if (err)
		munmap(data, (size_t)status.st_size);
	else
		file->mapped = true;
close:
	close(fd);
	return err;
}

void model_safetensors_close(struct model_safetensors *file)
{
	for (size_t i = 0; i < file->count; i++)
		free(file->tensors[i].name);
	free(file->tensors);
	free(file->path);
	if (file->mapped)
		munmap((void *)file->data, file->size);
	*file = (struct model_safetensors){ 0 };
}
