// SPDX-License-Identifier: GPL-2.0-or-later
#include "replicas.h"

#include "../common/turns.h"
#include "manifests.h"

#include "../../sharding/sharding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A name that hosts call hot, whether there is such a model or not. */
struct replicas_hot {
	char name[CATALOG_MODEL_LEN];
	uint32_t hosts; /* that do */
	uint32_t extra;
};

struct replicas_model {
	struct manifest *manifest; /* a reference */
	uint32_t replicas;
	struct replicas_hot *hot; /* NULL: nobody calls it so */
	uint32_t next; /* chunk, by digest */
	uint32_t copies; /* of the chunk that has fewest */
};

/* Copies of a chunk that a model needs. */
struct replicas_need {
	size_t number; /* of the chunk, in the catalog */
	uint32_t size, copies;
};

static void see_host(const struct catalog_host *host, void *arg)
{
	struct replicas *replicas = arg;

	replicas->donors += host->memory_total > 0;
	replicas->memory += host->memory_total;
}

static void count_hot(const struct catalog_host *host, void *arg)
{
	*(size_t *)arg += host->hot_count;
}

/* It may name one several times. */
static void note_hot(const struct catalog_host *host, void *arg)
{
	struct replicas *replicas = arg;
	size_t first = replicas->hot_count;

	for (size_t i = 0; i < host->hot_count; i++) {
		struct replicas_hot *hot = &replicas->hot[first];

		while (hot < &replicas->hot[replicas->hot_count] && strcmp(hot->name, host->hot[i]))
			hot++;
		if (hot < &replicas->hot[replicas->hot_count])
			continue;
		*hot = (struct replicas_hot){ .hosts = 1 };
		strcpy(hot->name, host->hot[i]);
		replicas->hot_count++;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct replicas_hot *one = a, *other = b;

	return strcmp(one->name, other->name);
}

/* All names that hosts call hot, sorted, each once. */
static int list_hot(struct replicas *replicas, size_t most)
{
	size_t count = 0;

	replicas->hot = calloc(most, sizeof(*replicas->hot));
	if (!replicas->hot)
		return -ENOMEM;
	catalog_host_each(replicas->catalog, note_hot, replicas);
	qsort(replicas->hot, replicas->hot_count, sizeof(*replicas->hot), by_name);
	for (size_t i = 0; i < replicas->hot_count; i++) {
		if (count && !strcmp(replicas->hot[count - 1].name, replicas->hot[i].name))
			replicas->hot[count - 1].hosts++;
		else
			replicas->hot[count++] = replicas->hot[i];
	}
	replicas->hot_count = count;
	return 0;
}

static struct replicas_hot *find_hot(const struct replicas *replicas, const char *name)
{
	size_t low = 0, high = replicas->hot_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, replicas->hot[middle].name);

		if (!order)
			return &replicas->hot[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

struct listing {
	struct replicas *replicas;
	int err;
};

static void see_model(const struct catalog_model *model, void *arg)
{
	struct listing *listing = arg;
	struct replicas *replicas = listing->replicas;
	struct manifest *manifest = manifests_find(model);
	size_t room = replicas->room ? 2 * replicas->room : 64;
	struct replicas_model *row;
	void *rows;

	if (!manifest || listing->err)
		return;
	if (replicas->count == replicas->room) {
		rows = reallocarray(replicas->models, room, sizeof(*row));
		if (!rows) {
			listing->err = -ENOMEM;
			return;
		}
		replicas->models = rows;
		replicas->room = room;
	}
	row = &replicas->models[replicas->count++];
	*row = (struct replicas_model){
		.manifest = manifest_get(manifest), .replicas = model->replicas,
		.copies = UINT32_MAX,
		.hot = model->uploading ? NULL : find_hot(replicas, model->name),
	};
}

int replicas_begin(struct replicas *replicas, struct catalog *catalog)
{
	struct listing listing = { .replicas = replicas };
	size_t hot = 0;

	*replicas = (struct replicas){ .catalog = catalog, .part = CATALOG_PARTS };
	catalog_host_each(catalog, count_hot, &hot);
	if (!hot)
		return 0;
	replicas->part = 0;
	catalog_host_each(catalog, see_host, replicas);
	listing.err = list_hot(replicas, hot);
	if (!listing.err)
		catalog_model_each(catalog, see_model, &listing);
	if (listing.err)
		replicas_free(replicas);
	return listing.err;
}

void replicas_free(struct replicas *replicas)
{
	for (size_t i = 0; i < replicas->count; i++)
		manifest_put(replicas->models[i].manifest);
	free(replicas->models);
	free(replicas->needs);
	free(replicas->hot);
	*replicas = (struct replicas){ .part = CATALOG_PARTS };
}

static int note_need(struct replicas *replicas, size_t *count, const struct replicas_need *need)
{
	size_t room = replicas->need_room ? 2 * replicas->need_room : 256;
	void *needs;

	if (*count == replicas->need_room) {
		needs = reallocarray(replicas->needs, room, sizeof(*replicas->needs));
		if (!needs)
			return -ENOMEM;
		replicas->needs = needs;
		replicas->need_room = room;
	}
	replicas->needs[(*count)++] = *need;
	return 0;
}

/* What a model needs of the part. */
static int see_chunks(struct replicas *replicas, struct replicas_model *model, size_t *count)
{
	uint32_t chunks = model->manifest->model.chunk_count;
	uint32_t copies = model->replicas < replicas->donors ? model->replicas : replicas->donors;
	int err = 0;

	for (; model->next < chunks && !err; model->next++) {
		const struct model_chunk *chunk = manifest_sorted(model->manifest, model->next);
		const struct catalog_chunk *known;

		if (catalog_part_of(chunk->digest.bytes) != replicas->part)
			break;
		known = catalog_chunk_find(replicas->catalog, chunk->digest.bytes);
		if (known && known->live < model->copies)
			model->copies = known->live;
		if (known && known->references)
			err = note_need(replicas, count, &(struct replicas_need){
				.number = known->number, .size = chunk->size, .copies = copies,
			});
		else
			replicas->needed += (uint64_t)chunk->size * copies;
	}
	return err;
}

/* Of a chunk, those who want most come first. */
static int by_number(const void *a, const void *b)
{
	const struct replicas_need *one = a, *other = b;

	if (one->number != other->number)
		return one->number < other->number ? -1 : 1;
	return one->copies > other->copies ? -1 : one->copies < other->copies;
}

/*
 * A part at a time: numbers of chunks are good until the catalog changes. What models have
 * in common is there once, as often as the one that wants most wants it.
 */
static int see_part(struct replicas *replicas)
{
	size_t count = 0;
	int err = 0;

	for (size_t i = 0; i < replicas->count && !err; i++)
		err = see_chunks(replicas, &replicas->models[i], &count);
	if (err)
		return err;
	if (count)
		qsort(replicas->needs, count, sizeof(*replicas->needs), by_number);
	for (size_t i = 0; i < count; i++) {
		const struct replicas_need *need = &replicas->needs[i];

		if (!i || need->number != need[-1].number)
			replicas->needed += (uint64_t)need->size * need->copies;
	}
	replicas->part++;
	return 0;
}

/* In the order of the catalog: who comes first decides who gets what there is no more of. */
static int share_out(struct replicas *replicas)
{
	struct sharding_model *rows = calloc(replicas->hot_count, sizeof(*rows));
	size_t count = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < replicas->count; i++) {
		const struct replicas_model *model = &replicas->models[i];

		if (!model->hot)
			continue;
		rows[count++] = (struct sharding_model){
			.bytes = model->manifest->model.size, .replicas = model->replicas,
			.asked = model->hot->hosts,
			.copies = model->copies == UINT32_MAX ? 0 : model->copies,
		};
	}
	sharding_extra(rows, count, replicas->donors, replicas->memory, replicas->needed);
	count = 0;
	for (size_t i = 0; i < replicas->count; i++)
		if (replicas->models[i].hot)
			replicas->models[i].hot->extra = rows[count++].extra;
	free(rows);
	return 0;
}

int replicas_look(struct replicas *replicas)
{
	int err;

	while (replicas->part < CATALOG_PARTS) {
		err = see_part(replicas);
		if (!err && replicas->part == CATALOG_PARTS)
			err = share_out(replicas);
		if (err)
			return err;
		if (replicas->part < CATALOG_PARTS && turns_over())
			return 1;
	}
	return 0;
}

uint32_t replicas_extra(const struct replicas *replicas, const char *name)
{
	const struct replicas_hot *hot = find_hot(replicas, name);

	return hot ? hot->extra : 0;
}
