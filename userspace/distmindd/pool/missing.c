// SPDX-License-Identifier: GPL-2.0-or-later
#include "missing.h"

#include "../common/turns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_LOOKED 16 /* between two looks at the clock */

static int by_digest(const void *a, const void *b, void *arg)
{
	const struct model_chunk *chunks = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	int order = memcmp(chunks[i].digest.bytes, chunks[j].digest.bytes, MODEL_DIGEST_LEN);

	return order ? order : i < j ? -1 : i > j;
}

int missing_sort(struct missing *missing, const struct model_manifest *model)
{
	struct model_chunk *chunks = model->chunks;
	uint32_t count = model->chunk_count, *order;

	missing->model = model;
	missing->order = order = calloc(count + 1, sizeof(*order));
	missing->confirmed = calloc(count + 1, sizeof(*missing->confirmed));
	missing->wanted = calloc(count + 1, sizeof(*missing->wanted));
	missing->list = calloc(count + 1, sizeof(*missing->list));
	if (!order || !missing->confirmed || !missing->wanted || !missing->list)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof(*order), by_digest, chunks);
	for (uint32_t i = 0; i < count; i++) {
		const struct model_chunk *chunk = &chunks[order[i]], *last;

		last = missing->order_count ? &chunks[order[missing->order_count - 1]] : NULL;
		if (!last || !model_digest_equal(&chunk->digest, &last->digest))
			order[missing->order_count++] = order[i];
		else if (chunk->checksum != last->checksum)
			return -EBADMSG;
	}
	return 0;
}

struct gathering {
	struct missing *missing;
	int err;
};

static void gather(const struct catalog_model *model, void *arg)
{
	struct gathering *gathering = arg;
	struct missing *missing = gathering->missing;
	struct manifest *other = model->uploading ? NULL : manifests_find(model);
	size_t room = missing->other_room ? 2 * missing->other_room : 16;
	void *others;

	if (!other || gathering->err)
		return;
	if (missing->other_count == missing->other_room) {
		others = reallocarray(missing->others, room, sizeof(*missing->others));
		if (!others) {
			gathering->err = -ENOMEM;
			return;
		}
		missing->others = others;
		missing->other_room = room;
	}
	missing->others[missing->other_count++] = manifest_get(other);
}

int missing_gather(struct missing *missing, const struct catalog *catalog)
{
	struct gathering gathering = { .missing = missing };

	catalog_model_each(catalog, gather, &gathering);
	return gathering.err;
}

/* Both are sorted. */
static int confirm(struct missing *missing, const struct manifest *other)
{
	uint32_t i = 0, j = 0;

	while (i < missing->order_count && j < other->model.chunk_count) {
		const struct model_chunk *mine = &missing->model->chunks[missing->order[i]];
		const struct model_chunk *theirs = manifest_sorted(other, j);
		int order = memcmp(mine->digest.bytes, theirs->digest.bytes, MODEL_DIGEST_LEN);

		if (!order && mine->checksum != theirs->checksum)
			return -EBADMSG;
		missing->confirmed[i] |= !order;
		i += order <= 0;
		j += order > 0;
	}
	return 0;
}

int missing_confirm(struct missing *missing)
{
	int err = 0;

	for (size_t i = 0; i < missing->other_count && !err; i++)
		err = confirm(missing, missing->others[i]);
	return err;
}

void missing_let_go(struct missing *missing)
{
	while (missing->other_count)
		manifest_put(missing->others[--missing->other_count]);
}

static bool held(struct catalog *catalog, const uint8_t *digest)
{
	const struct catalog_chunk *chunk = catalog_chunk_find(catalog, digest);

	return chunk && chunk->live;
}

int missing_look(struct missing *missing, struct catalog *catalog)
{
	const struct model_manifest *model = missing->model;

	while (missing->next < missing->order_count) {
		uint32_t i = missing->next++;
		const struct model_chunk *chunk = &model->chunks[missing->order[i]];

		missing->wanted[missing->order[i]] = !missing->confirmed[i] ||
						     !held(catalog, chunk->digest.bytes);
		if (missing->next % CHUNKS_LOOKED == 0 && turns_over())
			return 1;
	}
	for (uint32_t i = 0; i < model->chunk_count; i++) {
		if (!missing->wanted[i])
			continue;
		missing->bytes += model->chunks[i].size;
		missing->list[missing->count++] = i;
	}
	return 0;
}

void missing_clear(struct missing *missing)
{
	free(missing->order);
	free(missing->confirmed);
	free(missing->others);
	free(missing->wanted);
	free(missing->list);
	*missing = (struct missing){ 0 };
}
