// SPDX-License-Identifier: GPL-2.0-or-later
#include "replicas.h"

#include "manifests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A chunk, as often as one of its models wants it. */
struct need {
	uint8_t digest[CATALOG_DIGEST];
	uint32_t size;
	uint32_t replicas;
};

struct reading {
	struct replicas *replicas;
	struct catalog *catalog;
	uint32_t donors;
	uint64_t memory; /* of all donors */
	struct need *needs; /* owned */
	size_t need_count, need_room;
};

static void see_host(const struct catalog_host *host, void *arg)
{
	struct reading *reading = arg;

	reading->donors += host->memory_total > 0;
	reading->memory += host->memory_total;
	reading->replicas->room += host->hot_count;
}

static void count_chunks(const struct catalog_model *model, void *arg)
{
	const struct manifest *manifest = manifests_find(model);
	struct reading *reading = arg;

	reading->need_room += manifest ? manifest->model.chunk_count : 0;
}

struct question {
	const char *model;
	uint32_t hosts; /* that call it hot */
};

static void ask_host(const struct catalog_host *host, void *arg)
{
	struct question *question = arg;

	for (size_t i = 0; i < host->hot_count; i++)
		if (!strcmp(host->hot[i], question->model)) {
			question->hosts++;
			return;
		}
}

static void see_model(const struct catalog_model *model, void *arg)
{
	const struct manifest *manifest = manifests_find(model);
	struct reading *reading = arg;
	struct replicas *replicas = reading->replicas;
	struct catalog_availability there;
	struct question question = { .model = model->name };
	struct sharding_model *row;

	if (!manifest)
		return;
	for (uint32_t i = 0; i < manifest->model.chunk_count; i++) {
		const struct model_chunk *chunk = &manifest->model.chunks[i];
		struct need *need = &reading->needs[reading->need_count++];

		*need = (struct need){ .size = chunk->size, .replicas = model->replicas };
		memcpy(need->digest, chunk->digest.bytes, CATALOG_DIGEST);
	}
	catalog_host_each(reading->catalog, ask_host, &question);
	if (!question.hosts || model->uploading || replicas->count == replicas->room ||
	    catalog_model_availability(reading->catalog, model->name, &there, NULL, NULL))
		return;
	replicas->models[replicas->count] = model;
	row = &replicas->rows[replicas->count++];
	*row = (struct sharding_model){
		.replicas = model->replicas, .copies = (uint32_t)there.copies,
		.asked = question.hosts,
	};
	for (uint32_t i = 0; i < manifest->model.chunk_count; i++)
		row->bytes += manifest->model.chunks[i].size;
}

/* By digest; of one chunk, the need of most copies comes first. */
static int by_need(const void *a, const void *b)
{
	const struct need *x = a, *y = b;
	int order = memcmp(x->digest, y->digest, CATALOG_DIGEST);

	return order ? order : (x->replicas < y->replicas) - (x->replicas > y->replicas);
}

/* What models have in common is there once. */
static uint64_t bytes_needed(struct reading *reading)
{
	const struct need *needs = reading->needs;
	uint64_t bytes = 0;

	qsort(reading->needs, reading->need_count, sizeof(*needs), by_need);
	for (size_t i = 0; i < reading->need_count; i++) {
		uint32_t copies = needs[i].replicas;

		if (i && !memcmp(needs[i].digest, needs[i - 1].digest, CATALOG_DIGEST))
			continue;
		bytes += (uint64_t)needs[i].size * (copies < reading->donors ? copies :
									       reading->donors);
	}
	return bytes;
}

int replicas_read(struct replicas *replicas, struct catalog *catalog)
{
	struct reading reading = { .replicas = replicas, .catalog = catalog };

	*replicas = (struct replicas){ 0 };
	catalog_host_each(catalog, see_host, &reading);
	if (!replicas->room)
		return 0;
	catalog_model_each(catalog, count_chunks, &reading);
	replicas->models = calloc(replicas->room, sizeof(*replicas->models));
	replicas->rows = calloc(replicas->room, sizeof(*replicas->rows));
	reading.needs = calloc(reading.need_room + 1, sizeof(*reading.needs));
	if (!replicas->models || !replicas->rows || !reading.needs) {
		replicas_free(replicas);
		free(reading.needs);
		return -ENOMEM;
	}
	catalog_model_each(catalog, see_model, &reading);
	sharding_extra(replicas->rows, replicas->count, reading.donors, reading.memory,
		       bytes_needed(&reading));
	free(reading.needs);
	return 0;
}

void replicas_free(struct replicas *replicas)
{
	free(replicas->models);
	free(replicas->rows);
	*replicas = (struct replicas){ 0 };
}

uint32_t replicas_extra(const struct replicas *replicas, const struct catalog_model *model)
{
	for (size_t i = 0; i < replicas->count; i++)
		if (replicas->models[i] == model)
			return replicas->rows[i].extra;
	return 0;
}
