// SPDX-License-Identifier: GPL-2.0-or-later
#include "image.h"

#include "../common/checksum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAPPED_TOGETHER (8ULL << 20)

static int find_order(struct model_order *order, const struct model_checkpoint *checkpoint,
		      const char *path, char *error)
{
	uint32_t count = (uint32_t)checkpoint->count;
	const char **names = calloc(checkpoint->count, sizeof(*names));
	int err;

	if (!names)
		return model_error(error, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < count; i++)
		names[i] = checkpoint->tensors[i]->name;
	if (path) {
		err = model_order_read(order, path, names, count, error);
	} else {
		err = model_order_natural(order, names, count);
		if (err)
			model_error(error, err, "out of memory");
	}
	free(names);
	return err;
}

static int place_tensors(struct model_image *image, char *error)
{
	struct model_manifest *manifest = &image->manifest;
	uint64_t *sizes = calloc(manifest->tensor_count, sizeof(*sizes));
	uint64_t *offsets = calloc(manifest->tensor_count, sizeof(*offsets));
	int err = -ENOMEM;

	if (sizes && offsets) {
		for (uint32_t i = 0; i < manifest->tensor_count; i++)
			sizes[i] = manifest->tensors[i].size;
		err = model_chunk_cut(sizes, manifest->tensor_count, offsets, &manifest->chunks,
				      &manifest->chunk_count);
	}
	for (uint32_t i = 0; i < manifest->tensor_count && !err; i++) {
		struct model_manifest_tensor *tensor = &manifest->tensors[i];

		tensor->offset = offsets[i];
		tensor->chunk = model_manifest_chunk_at(manifest, offsets[i]);
		if (tensor->size)
			manifest->size = tensor->offset + tensor->size;
	}
	free(sizes);
	free(offsets);
	return err ? model_error(error, err, "the model: %s", strerror(-err)) : 0;
}

static int fill(struct model_image *image, const struct model_checkpoint *checkpoint,
		const struct model_order *order, char *error)
{
	struct model_manifest *manifest = &image->manifest;
	uint32_t next = 0;

	manifest->tensors = calloc(order->count, sizeof(*manifest->tensors));
	manifest->layers = calloc(order->layer_count, sizeof(*manifest->layers));
	image->tensors = calloc(order->count, sizeof(*image->tensors));
	image->scratch = malloc(MODEL_CHUNK_MAX);
	if (!manifest->tensors || !manifest->layers || !image->tensors || !image->scratch)
		return model_error(error, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < order->layer_count; i++) {
		const struct model_order_layer *from = &order->layers[i];
		struct model_manifest_layer *layer = &manifest->layers[manifest->layer_count++];

		*layer = (struct model_manifest_layer){
			.name = strdup(from->name), .tensors = from->tensors,
			.flops_known = from->flops_known, .flops = from->flops,
		};
		if (!layer->name)
			return model_error(error, -ENOMEM, "out of memory");
		for (uint32_t j = 0; j < from->tensors; j++, next++) {
			struct model_manifest_tensor *tensor = &manifest->tensors[next];

			image->tensors[next] = checkpoint->tensors[order->tensors[next]];
			tensor->shape = image->tensors[next]->shape;
			tensor->size = image->tensors[next]->size;
			tensor->name = strdup(image->tensors[next]->name);
			manifest->tensor_count++;
			if (!tensor->name)
				return model_error(error, -ENOMEM, "out of memory");
			layer->bytes += tensor->size;
		}
	}
	return place_tensors(image, error);
}

/* Digests and checksums have the same length whatever they are. */
static int check_length(const struct model_manifest *manifest, char *error)
{
	size_t len;
	char *text;

	if (model_manifest_encode(manifest, &text, &len))
		return model_error(error, -ENOMEM, "out of memory");
	free(text);
	if (len <= MODEL_MANIFEST_MAX)
		return 0;
	return model_error(error, -E2BIG,
			   "tensors: %u of them and %u chunks need a manifest of %zu bytes, and "
			   "%lu are kept: give them shorter names, or store it as several models",
			   manifest->tensor_count, manifest->chunk_count, len, MODEL_MANIFEST_MAX);
}

int model_image_create(struct model_image *image, const char *name,
		       const struct model_checkpoint *checkpoint, const char *order_path,
		       char *error)
{
	struct model_order order;
	int err;

	*image = (struct model_image){ 0 };
	if (!checkpoint->count || checkpoint->count >= UINT32_MAX)
		return model_error(error, -EINVAL, "the checkpoint has no tensors, or too many");
	err = find_order(&order, checkpoint, order_path, error);
	if (err)
		return err;
	image->manifest.name = strdup(name);
	err = image->manifest.name ? fill(image, checkpoint, &order, error) :
				     model_error(error, -ENOMEM, "out of memory");
	model_order_destroy(&order);
	if (!err)
		err = model_manifest_check(&image->manifest, error);
	if (!err)
		err = check_length(&image->manifest, error);
	if (err)
		model_image_destroy(image);
	return err;
}

void model_image_destroy(struct model_image *image)
{
	model_manifest_destroy(&image->manifest);
	free(image->tensors);
	free(image->scratch);
	*image = (struct model_image){ 0 };
}

/* The tensor that has the first byte of a chunk. */
static uint32_t first_tensor(const struct model_manifest *manifest, uint64_t offset)
{
	uint32_t low = 0, high = manifest->tensor_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct model_manifest_tensor *tensor = &manifest->tensors[middle];

		if (tensor->offset + tensor->size > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/*
 * Files are mapped, and chunks are asked for in the order in which they stand there: to map many
 * pages by one call costs a small part of a fault for every few. Only advice: without it the
 * faults come.
 */
static void map_ahead(struct model_image *image, uint32_t tensor, uint64_t from, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), left, length;
	uintptr_t begin;

	if (tensor == image->mapped_tensor && from + size <= image->mapped_end)
		return;
	left = image->tensors[tensor]->size - from;
	length = left < MAPPED_TOGETHER ? left : MAPPED_TOGETHER;
	begin = (uintptr_t)image->tensors[tensor]->data + from;
	madvise((void *)(begin - begin % page), length + begin % page, MADV_POPULATE_READ);
	image->mapped_tensor = tensor;
	image->mapped_end = from + length;
}

const void *model_image_chunk(struct model_image *image, uint32_t index)
{
	const struct model_manifest *manifest = &image->manifest;
	const struct model_chunk *chunk = &manifest->chunks[index];
	uint32_t i = first_tensor(manifest, chunk->offset);
	const struct model_manifest_tensor *tensor = &manifest->tensors[i];
	uint64_t end = chunk->offset + chunk->size;

	if (tensor->offset + tensor->size >= end) {
		map_ahead(image, i, chunk->offset - tensor->offset, chunk->size);
		return image->tensors[i]->data + (chunk->offset - tensor->offset);
	}
	memset(image->scratch, 0, chunk->size);
	for (; i < manifest->tensor_count && manifest->tensors[i].offset < end; i++) {
		/* Only its beginning or its end may be outside. */
		uint64_t from = manifest->tensors[i].offset, to = from + manifest->tensors[i].size;
		uint64_t start = from > chunk->offset ? from : chunk->offset;
		uint64_t stop = to < end ? to : end;

		memcpy(image->scratch + (start - chunk->offset),
		       image->tensors[i]->data + (start - from), stop - start);
	}
	return image->scratch;
}

int model_image_digest(struct model_image *image, uint32_t chunk)
{
	struct model_chunk *described = &image->manifest.chunks[chunk];
	const void *bytes = model_image_chunk(image, chunk);

	described->checksum = chunk_checksum(bytes, described->size);
	return model_digest_make(bytes, described->size, &described->digest);
}
