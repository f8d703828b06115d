// SPDX-License-Identifier: GPL-2.0-or-later
#include "replicas.h"

#include "manifests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reading {
	struct replicas *replicas;
	struct catalog *catalog;
	uint32_t donors;
	uint64_t memory; /* of all donors */
	uint8_t *copies; /* of chunks, by number, that models seen so far need; owned */
	uint64_t needed; /* bytes of these copies */
};

static void see_host(const struct catalog_host *host, void *arg)
{
	struct reading *reading = arg;

	reading->donors += host->memory_total > 0;
	reading->memory += host->memory_total;
	reading->replicas->room += host->hot_count;
}

/* What models have in common is there once, as often as the one that wants most wants it. */
static void add_need(struct reading *reading, const struct model_chunk *chunk, uint32_t replicas)
{
	const struct catalog_chunk *known = catalog_chunk_find(reading->catalog,
							       chunk->digest.bytes);
	uint32_t copies = replicas < reading->donors ? replicas : reading->donors;

	uint8_t none = 0, *before = &none;

	if (known && known->references)
		before = &reading->copies[known->number];
	if (copies <= *before)
		return;
	reading->needed += (uint64_t)chunk->size * (copies - *before);
	*before = (uint8_t)copies;
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
	for (uint32_t i = 0; i < manifest->model.chunk_count; i++)
		add_need(reading, &manifest->model.chunks[i], model->replicas);
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

int replicas_read(struct replicas *replicas, struct catalog *catalog)
{
	struct reading reading = { .replicas = replicas, .catalog = catalog };
	struct catalog_numbers numbers;
	int err;

	*replicas = (struct replicas){ 0 };
	catalog_host_each(catalog, see_host, &reading);
	if (!replicas->room)
		return 0;
	err = catalog_numbers(catalog, &numbers);
	if (err)
		return err;
	replicas->models = calloc(replicas->room, sizeof(*replicas->models));
	replicas->rows = calloc(replicas->room, sizeof(*replicas->rows));
	reading.copies = calloc(numbers.chunks + 1, sizeof(*reading.copies));
	if (!replicas->models || !replicas->rows || !reading.copies) {
		replicas_free(replicas);
		free(reading.copies);
		return -ENOMEM;
	}
	catalog_model_each(catalog, see_model, &reading);
	sharding_extra(replicas->rows, replicas->count, reading.donors, reading.memory,
		       reading.needed);
	free(reading.copies);
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
