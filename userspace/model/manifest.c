// SPDX-License-Identifier: GPL-2.0-or-later
#include "manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A manifest is made by a program: there is only one fix. */
#define refuse(error, format, ...) \
	model_error(error, -EINVAL, format ": push the model again", ##__VA_ARGS__)

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

bool model_name_valid(const char *name)
{
	size_t len = strlen(name);

	return len && len <= MODEL_NAME_MAX && strchr(NAME_CHARACTERS, name[0]) &&
	       strspn(name, NAME_CHARACTERS "._-") == len;
}

uint32_t model_manifest_chunk_at(const struct model_manifest *manifest, uint64_t offset)
{
	uint32_t low = 0, high = manifest->chunk_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct model_chunk *chunk = &manifest->chunks[middle];

		if (chunk->offset + chunk->size > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t model_manifest_chunk_from(const struct model_manifest *manifest, uint32_t tensor)
{
	uint32_t chunk;

	if (tensor == manifest->tensor_count)
		return manifest->chunk_count;
	chunk = model_manifest_chunk_at(manifest, manifest->tensors[tensor].offset);
	if (chunk < manifest->chunk_count &&
	    manifest->chunks[chunk].offset < manifest->tensors[tensor].offset)
		chunk++;
	return chunk;
}

static int by_name(const void *a, const void *b)
{
	const struct model_manifest_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int check_names(const struct model_manifest *manifest, char *error)
{
	const struct model_manifest_tensor **sorted;
	int err = 0;

	sorted = calloc(manifest->tensor_count, sizeof(*sorted));
	if (!sorted)
		return model_error(error, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < manifest->tensor_count; i++)
		sorted[i] = &manifest->tensors[i];
	qsort(sorted, manifest->tensor_count, sizeof(*sorted), by_name);
	for (uint32_t i = 1; i < manifest->tensor_count && !err; i++)
		if (!strcmp(sorted[i - 1]->name, sorted[i]->name))
			err = refuse(error, "tensors: \"%s\" is there twice", sorted[i]->name);
	free(sorted);
	return err;
}

static int check_tensors(const struct model_manifest *manifest, char *error)
{
	uint64_t end = 0, next, size;

	for (uint32_t i = 0; i < manifest->tensor_count; i++) {
		const struct model_manifest_tensor *tensor = &manifest->tensors[i];

		next = (end + MODEL_ALIGNMENT - 1) / MODEL_ALIGNMENT * MODEL_ALIGNMENT;
		if (!model_tensor_name_valid(tensor->name))
			return refuse(error, "tensors[%u].name: empty, too long or not printable", i);
		if (model_shape_size(&tensor->shape, &size) || size != tensor->size)
			return refuse(error, "tensors[%u].size: not what its shape needs", i);
		if (tensor->offset != next)
			return refuse(error, "tensors[%u].offset: not the next multiple of %d", i,
				      MODEL_ALIGNMENT);
		if (size > INT64_MAX - tensor->offset)
			return refuse(error,
				      "tensors[%u].size: the model is larger than 2^63 bytes", i);
		if (size)
			end = tensor->offset + size;
	}
	if (manifest->size != end)
		return refuse(error, "size: %" PRIu64 " where the tensors end at %" PRIu64,
			      manifest->size, end);
	return check_names(manifest, error);
}

/* Walks over chunks and tensors side by side. */
static int check_chunks(const struct model_manifest *manifest, char *error)
{
	const struct model_manifest_tensor *tensor = manifest->tensors;
	const struct model_manifest_tensor *stop = tensor + manifest->tensor_count;
	uint64_t at = 0; /* the first byte that no chunk has yet */

	for (uint32_t i = 0; i < manifest->chunk_count; i++) {
		const struct model_chunk *chunk = &manifest->chunks[i];

		if (!chunk->size || chunk->size > MODEL_CHUNK_MAX)
			return refuse(error, "chunks[%u].size: not from 1 to %u", i,
				      MODEL_CHUNK_MAX);
		while (tensor < stop && tensor->offset + tensor->size <= at)
			tensor++;
		if (tensor < stop && at < tensor->offset)
			at = tensor->offset;
		if (tensor == stop || chunk->offset != at || at % MODEL_ALIGNMENT)
			return refuse(error,
				      "chunks[%u].offset: not where the one before has ended", i);
		at += chunk->size;
		while (tensor < stop && tensor->offset + tensor->size < at)
			tensor++;
		if (tensor == stop || at <= tensor->offset)
			return refuse(error, "chunks[%u].size: does not end in a tensor", i);
	}
	if (at != manifest->size)
		return refuse(error, "chunks: they end at %" PRIu64 " of %" PRIu64 " bytes", at,
			      manifest->size);
	for (uint32_t i = 0; i < manifest->tensor_count; i++)
		if (manifest->tensors[i].chunk !=
		    model_manifest_chunk_at(manifest, manifest->tensors[i].offset))
			return refuse(error, "tensors[%u].chunk: it is not there", i);
	return 0;
}

static int check_layers(const struct model_manifest *manifest, char *error)
{
	uint32_t tensor = 0;

	for (uint32_t i = 0; i < manifest->layer_count; i++) {
		const struct model_manifest_layer *layer = &manifest->layers[i];
		uint64_t bytes = 0;

		if (!model_tensor_name_valid(layer->name))
			return refuse(error, "layers[%u].name: empty, too long or not printable", i);
		if (layer->tensors > manifest->tensor_count - tensor)
			return refuse(error, "layers[%u].tensors: more than there are", i);
		for (uint32_t end = tensor + layer->tensors; tensor < end; tensor++)
			bytes += manifest->tensors[tensor].size;
		if (bytes != layer->bytes)
			return refuse(error, "layers[%u].bytes: its tensors have %" PRIu64, i,
				      bytes);
	}
	if (tensor != manifest->tensor_count)
		return refuse(error, "layers: %u tensors belong to none",
			      manifest->tensor_count - tensor);
	return 0;
}

/* What no host could load. */
static int check_counts(const struct model_manifest *manifest, char *error)
{
	if (manifest->chunk_count > MODEL_CHUNKS_MAX)
		return model_error(error, -E2BIG,
				   "chunks: %u, where a model can have %d: store it as several "
				   "models, or with a smaller dtype",
				   manifest->chunk_count, MODEL_CHUNKS_MAX);
	if (manifest->layer_count > MODEL_CHUNKS_MAX)
		return model_error(error, -E2BIG,
				   "layers: %u, where a model can have %d: name larger ones in an "
				   "order file",
				   manifest->layer_count, MODEL_CHUNKS_MAX);
	return 0;
}

int model_manifest_check(const struct model_manifest *manifest, char *error)
{
	int err;

	if (!model_name_valid(manifest->name))
		return model_error(error, -EINVAL,
				   "name: \"%.64s\": write up to %d letters, digits, '.', '_' "
				   "and '-', beginning with a letter or a digit",
				   manifest->name, MODEL_NAME_MAX);
	if (!manifest->size)
		return model_error(error, -EINVAL,
				   "size: the model is empty: push one with tensors");
	err = check_counts(manifest, error);
	if (!err)
		err = check_tensors(manifest, error);
	if (!err)
		err = check_chunks(manifest, error);
	if (!err)
		err = check_layers(manifest, error);
	return err;
}

void model_manifest_destroy(struct model_manifest *manifest)
{
	for (uint32_t i = 0; i < manifest->tensor_count; i++)
		free(manifest->tensors[i].name);
	for (uint32_t i = 0; i < manifest->layer_count; i++)
		free(manifest->layers[i].name);
	free(manifest->tensors);
	free(manifest->chunks);
	free(manifest->layers);
	free(manifest->name);
	*manifest = (struct model_manifest){ 0 };
}
