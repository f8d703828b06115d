// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Manifests as JSON:
 *
 *	{"format": 2, "name": "bert", "size": 437928960,
 *	 "tensors": [{"name": "embeddings.word.weight", "dtype": "F32",
 *	              "shape": [30522, 768], "offset": 0, "size": 93763584, "chunk": 0}, ...],
 *	 "chunks": [{"sha256": "5f...", "xxh3": "0c...", "size": 4194304, "offset": 0}, ...],
 *	 "layers": [{"name": "embeddings.word", "tensors": 1, "bytes": 93763584,
 *	             "flops": 786432}, ...]}
 *
 * in this order, without white space. Other fields than these are refused: a
 * format that has them has another number.
 */
#include "manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An object that is being read: "tensors", 5 for messages; index -1 is the outermost. */
struct object {
	const json_t *json;
	const char *list;
	int64_t index;
	char *error;
};

static int complain(const struct object *object, const char *field, const char *reason)
{
	if (object->index < 0)
		return model_error(object->error, -EINVAL, "%s: %s: push the model again", field,
				   reason);
	return model_error(object->error, -EINVAL, "%s[%" PRId64 "]%s%s: %s: push the model again",
			   object->list, object->index, *field ? "." : "", field, reason);
}

static int check_fields(const struct object *object, size_t count)
{
	if (!json_is_object(object->json))
		return complain(object, "", "not an object");
	if (json_object_size(object->json) != count)
		return complain(object, "", "has fields that are unknown, or lacks some");
	return 0;
}

static int get_number(const struct object *object, const char *field, uint64_t most,
		      uint64_t *number)
{
	const json_t *json = json_object_get(object->json, field);

	if (!json_is_integer(json) || json_integer_value(json) < 0 ||
	    (uint64_t)json_integer_value(json) > most)
		return complain(object, field, "not a whole number, or too large");
	*number = (uint64_t)json_integer_value(json);
	return 0;
}

static int get_text(const struct object *object, const char *field, const char **text)
{
	*text = json_string_value(json_object_get(object->json, field));
	return *text ? 0 : complain(object, field, "not a text");
}

static int copy_text(const struct object *object, const char *field, char **copy)
{
	const char *text;
	int err = get_text(object, field, &text);

	if (err)
		return err;
	*copy = strdup(text);
	return *copy ? 0 : model_error(object->error, -ENOMEM, "out of memory");
}

static int read_shape(const struct object *object, struct model_shape *shape)
{
	const json_t *list = json_object_get(object->json, "shape");
	const char *dtype;
	int err = get_text(object, "dtype", &dtype);

	if (err)
		return err;
	if (model_dtype_find(dtype, &shape->dtype))
		return complain(object, "dtype", "unknown");
	if (!json_is_array(list) || json_array_size(list) > MODEL_RANK_MAX)
		return complain(object, "shape", "not a list of up to 8 numbers");
	shape->rank = (uint32_t)json_array_size(list);
	for (uint32_t i = 0; i < shape->rank; i++) {
		const json_t *extent = json_array_get(list, i);

		if (!json_is_integer(extent) || json_integer_value(extent) < 0)
			return complain(object, "shape", "not a list of up to 8 numbers");
		shape->extent[i] = (uint64_t)json_integer_value(extent);
	}
	return 0;
}

static int read_tensor(const struct object *object, struct model_manifest *manifest)
{
	struct model_manifest_tensor *tensor = &manifest->tensors[object->index];
	uint64_t chunk;
	int err = check_fields(object, 6);

	manifest->tensor_count++;
	if (!err)
		err = copy_text(object, "name", &tensor->name);
	if (!err)
		err = read_shape(object, &tensor->shape);
	if (!err)
		err = get_number(object, "offset", INT64_MAX, &tensor->offset);
	if (!err)
		err = get_number(object, "size", INT64_MAX, &tensor->size);
	if (!err)
		err = get_number(object, "chunk", UINT32_MAX, &chunk);
	if (!err)
		tensor->chunk = (uint32_t)chunk;
	return err;
}

/* 16 digits in lower case: JSON has no whole numbers of 64 bits. */
static int get_checksum(const struct object *object, const char *field, uint64_t *checksum)
{
	const char *text;
	int err = get_text(object, field, &text);

	if (err)
		return err;
	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return complain(object, field, "not 16 hexadecimal digits");
	*checksum = strtoull(text, NULL, 16);
	return 0;
}

static int read_chunk(const struct object *object, struct model_manifest *manifest)
{
	struct model_chunk *chunk = &manifest->chunks[object->index];
	uint64_t size;
	const char *digest;
	int err = check_fields(object, 4);

	manifest->chunk_count++;
	if (!err)
		err = get_text(object, "sha256", &digest);
	if (!err && model_digest_parse(digest, &chunk->digest))
		err = complain(object, "sha256", "not 64 hexadecimal digits");
	if (!err)
		err = get_checksum(object, "xxh3", &chunk->checksum);
	if (!err)
		err = get_number(object, "size", MODEL_CHUNK_MAX, &size);
	if (!err)
		err = get_number(object, "offset", INT64_MAX, &chunk->offset);
	if (!err)
		chunk->size = (uint32_t)size;
	return err;
}

static int read_layer(const struct object *object, struct model_manifest *manifest)
{
	struct model_manifest_layer *layer = &manifest->layers[object->index];
	uint64_t tensors;
	int err;

	manifest->layer_count++;
	layer->flops_known = json_object_get(object->json, "flops");
	err = check_fields(object, layer->flops_known ? 4 : 3);
	if (!err)
		err = copy_text(object, "name", &layer->name);
	if (!err)
		err = get_number(object, "tensors", UINT32_MAX, &tensors);
	if (!err)
		err = get_number(object, "bytes", INT64_MAX, &layer->bytes);
	if (!err && layer->flops_known)
		err = get_number(object, "flops", INT64_MAX, &layer->flops);
	if (!err)
		layer->tensors = (uint32_t)tensors;
	return err;
}

/* Reads a list into an array of items, *items, each of them by read(). */
static int read_list(const struct object *root, const char *field, struct model_manifest *manifest,
		     void *items, size_t size,
		     int (*read)(const struct object *object, struct model_manifest *manifest))
{
	const json_t *list = json_object_get(root->json, field);
	size_t count = json_array_size(list);
	void *array;
	int err = 0;

	if (!json_is_array(list) || !count || count >= UINT32_MAX)
		return complain(root, field, "not a list with something in it");
	array = calloc(count, size);
	if (!array)
		return model_error(root->error, -ENOMEM, "out of memory");
	memcpy(items, &array, sizeof(array));
	for (size_t i = 0; i < count && !err; i++) {
		const struct object object = {
			.json = json_array_get(list, i), .list = field, .index = (int64_t)i,
			.error = root->error,
		};

		err = read(&object, manifest);
	}
	return err;
}

static int read_root(const struct object *root, struct model_manifest *manifest)
{
	uint64_t format;
	int err = json_is_object(root->json) ?
			  get_number(root, "format", INT64_MAX, &format) :
			  model_error(root->error, -EINVAL, "not an object: push the model again");

	if (err)
		return err;
	if (format != MODEL_MANIFEST_FORMAT)
		return model_error(root->error, -EINVAL,
				   "format: %" PRIu64 ", but only %d is known: use the "
				   "DistMind that wrote it",
				   format, MODEL_MANIFEST_FORMAT);
	if (json_object_size(root->json) != 6)
		return model_error(root->error, -EINVAL,
				   "has fields that are unknown, or lacks some: push the model "
				   "again");
	err = copy_text(root, "name", &manifest->name);
	if (!err)
		err = get_number(root, "size", INT64_MAX, &manifest->size);
	if (!err)
		err = read_list(root, "tensors", manifest, &manifest->tensors,
				sizeof(*manifest->tensors), read_tensor);
	if (!err)
		err = read_list(root, "chunks", manifest, &manifest->chunks,
				sizeof(*manifest->chunks), read_chunk);
	if (!err)
		err = read_list(root, "layers", manifest, &manifest->layers,
				sizeof(*manifest->layers), read_layer);
	return err ? err : model_manifest_check(manifest, root->error);
}

int model_manifest_parse(struct model_manifest *manifest, const char *text, size_t len,
			 char *error)
{
	struct object root = { .index = -1, .error = error };
	json_error_t json_error;
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &json_error);
	int err;

	*manifest = (struct model_manifest){ 0 };
	if (!json)
		return model_error(error, -EINVAL, "byte %d: %s: push the model again",
				   json_error.position, json_error.text);
	root.json = json;
	err = read_root(&root, manifest);
	json_decref(json);
	if (err)
		model_manifest_destroy(manifest);
	return err;
}

static json_t *encode_tensor(const struct model_manifest_tensor *tensor)
{
	json_t *shape = json_array();

	for (uint32_t i = 0; i < tensor->shape.rank; i++)
		json_array_append_new(shape, json_integer((json_int_t)tensor->shape.extent[i]));
	return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I}", "name", tensor->name, "dtype",
			 model_dtype_name(tensor->shape.dtype), "shape", shape, "offset",
			 (json_int_t)tensor->offset, "size", (json_int_t)tensor->size, "chunk",
			 (json_int_t)tensor->chunk);
}

static json_t *encode_chunk(const struct model_chunk *chunk)
{
	char digest[MODEL_DIGEST_TEXT_LEN], checksum[17];

	model_digest_format(&chunk->digest, digest);
	snprintf(checksum, sizeof(checksum), "%016" PRIx64, chunk->checksum);
	return json_pack("{s:s, s:s, s:I, s:I}", "sha256", digest, "xxh3", checksum, "size",
			 (json_int_t)chunk->size, "offset", (json_int_t)chunk->offset);
}

static json_t *encode_layer(const struct model_manifest_layer *layer)
{
	json_t *json = json_pack("{s:s, s:I, s:I}", "name", layer->name, "tensors",
				 (json_int_t)layer->tensors, "bytes", (json_int_t)layer->bytes);

	if (layer->flops_known &&
	    json_object_set_new(json, "flops", json_integer((json_int_t)layer->flops))) {
		json_decref(json);
		return NULL;
	}
	return json;
}

json_t *model_manifest_tree(const struct model_manifest *manifest)
{
	json_t *tensors = json_array(), *chunks = json_array(), *layers = json_array(), *root;
	int err = 0;

	for (uint32_t i = 0; i < manifest->tensor_count; i++)
		err |= json_array_append_new(tensors, encode_tensor(&manifest->tensors[i]));
	for (uint32_t i = 0; i < manifest->chunk_count; i++)
		err |= json_array_append_new(chunks, encode_chunk(&manifest->chunks[i]));
	for (uint32_t i = 0; i < manifest->layer_count; i++)
		err |= json_array_append_new(layers, encode_layer(&manifest->layers[i]));
	root = json_pack("{s:i, s:s, s:I, s:o, s:o, s:o}", "format", MODEL_MANIFEST_FORMAT, "name",
			 manifest->name, "size", (json_int_t)manifest->size, "tensors", tensors,
			 "chunks", chunks, "layers", layers);
	if (!err)
		return root;
	json_decref(root);
	return NULL;
}

int model_manifest_encode(const struct model_manifest *manifest, char **text, size_t *len)
{
	json_t *root = model_manifest_tree(manifest);

	*text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	if (!*text)
		return -ENOMEM;
	*len = strlen(*text);
	return 0;
}
