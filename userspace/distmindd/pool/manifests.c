// SPDX-License-Identifier: GPL-2.0-or-later
#include "manifests.h"

#include "../common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MODEL_MANIFEST_MAX == CATALOG_MANIFEST_MAX, "what is stored can be read");

/*
 * Of a group of placement, at most: what it costs to even one out when a donor joins grows with
 * the square of that. Spread over all donors they are many all the same.
 */
#define PLACEMENT_CHUNKS 256

static struct errands *freeing; /* NULL: nobody does it for others */

static void clear(struct manifest *manifest)
{
	grouping_clear(&manifest->placement);
	grouping_recent_clear(&manifest->groupings);
	free(manifest->by_digest);
	model_manifest_destroy(&manifest->model);
}

static void destroy(struct manifest *manifest)
{
	clear(manifest);
	free(manifest);
}

static int by_digest(const void *a, const void *b, void *arg)
{
	const struct model_chunk *chunks = arg;

	return memcmp(chunks[*(const uint32_t *)a].digest.bytes,
		      chunks[*(const uint32_t *)b].digest.bytes, MODEL_DIGEST_LEN);
}

static int sort_chunks(struct manifest *manifest)
{
	const struct model_manifest *model = &manifest->model;

	manifest->by_digest = calloc(model->chunk_count + 1, sizeof(*manifest->by_digest));
	if (!manifest->by_digest)
		return -ENOMEM;
	for (uint32_t i = 0; i < model->chunk_count; i++)
		manifest->by_digest[i] = i;
	qsort_r(manifest->by_digest, model->chunk_count, sizeof(*manifest->by_digest), by_digest,
		model->chunks);
	return 0;
}

static struct manifest *create(const char *text, size_t size)
{
	static const struct grouping_rates same_everywhere;
	struct manifest *manifest = calloc(1, sizeof(*manifest));
	char error[MODEL_ERROR_LEN];
	int err;

	if (!manifest)
		return NULL;
	err = model_manifest_parse(&manifest->model, text, size, error);
	if (err) {
		log_warning("manifest-refused", LOG_S("reason", error));
		free(manifest);
		return NULL;
	}
	err = grouping_make(&manifest->placement, &manifest->model, &same_everywhere);
	if (!err)
		err = grouping_cut(&manifest->placement, &manifest->model, UINT64_MAX,
				   PLACEMENT_CHUNKS);
	if (!err)
		err = sort_chunks(manifest);
	if (err) {
		log_warning("manifest-refused", LOG_S("model", manifest->model.name),
			    LOG_S("reason", strerror(-err)));
		destroy(manifest);
		return NULL;
	}
	manifest->references = 1;
	return manifest;
}

int manifests_learn(const char *text, size_t size, uint8_t **digests, size_t *count, void **made)
{
	struct manifest *manifest = create(text, size);

	if (!manifest)
		return -EINVAL;
	*count = manifest->model.chunk_count;
	*digests = malloc(*count * CATALOG_DIGEST + 1);
	if (!*digests) {
		destroy(manifest);
		return -ENOMEM;
	}
	for (size_t i = 0; i < *count; i++)
		memcpy(*digests + i * CATALOG_DIGEST, manifest->model.chunks[i].digest.bytes,
		       CATALOG_DIGEST);
	*made = manifest;
	return 0;
}

void manifests_drop(void *made)
{
	manifest_put(made);
}

void manifests_use(struct errands *errands)
{
	freeing = errands;
}

struct manifest *manifests_find(const struct catalog_model *model)
{
	return model->manifest;
}

struct manifest *manifest_get(struct manifest *manifest)
{
	manifest->references++;
	return manifest;
}

static void clear_manifest(struct errand *errand)
{
	clear(errand_in(errand, struct manifest, errand));
}

static void on_cleared(struct errand *errand)
{
	free(errand_in(errand, struct manifest, errand));
}

void manifest_put(struct manifest *manifest)
{
	if (!manifest || --manifest->references)
		return;
	manifest->errand = (struct errand){ .work = clear_manifest, .done = on_cleared };
	if (freeing)
		errands_add(freeing, ERRANDS_DAEMON, &manifest->errand);
	else
		destroy(manifest);
}

const struct model_chunk *manifest_sorted(const struct manifest *manifest, uint32_t which)
{
	return &manifest->model.chunks[manifest->by_digest[which]];
}

uint32_t manifest_chunk(const struct manifest *manifest, const uint8_t *digest)
{
	uint32_t low = 0, high = manifest->model.chunk_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2, chunk = manifest->by_digest[middle];
		int order = memcmp(manifest->model.chunks[chunk].digest.bytes, digest,
				   MODEL_DIGEST_LEN);

		if (!order)
			return chunk;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return UINT32_MAX;
}
