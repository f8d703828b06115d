// SPDX-License-Identifier: GPL-2.0-or-later
#include "survey.h"

#include "replicas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sized {
	uint8_t digest[CATALOG_DIGEST];
	uint32_t size;
};

struct counting {
	struct survey *survey;
	struct catalog *catalog;
	struct replicas replicas;
	struct sized *shared; /* chunks of several models, once for each of them; owned */
	size_t count, room;
	int err;
};

/* Room for another one in an array; NULL: no memory, and the array is as it was. */
static void *grow(void *rows, size_t count, size_t *room, size_t size)
{
	void *more;

	if (count < *room)
		return rows;
	more = reallocarray(rows, *room ? *room * 2 : 64, size);
	if (more)
		*room = *room ? *room * 2 : 64;
	return more;
}

static const char *state_of(struct catalog *catalog, const struct catalog_model *model,
			    uint32_t *copies)
{
	struct catalog_availability there;

	if (model->uploading)
		return "uploading";
	switch (catalog_model_availability(catalog, model->name, &there, NULL, NULL)) {
	case 0:
		break;
	case -EAGAIN:
		return "uploading"; /* its manifest is on its way to this host */
	default:
		return "missing";
	}
	*copies = (uint32_t)there.copies;
	if (there.missing)
		return "missing";
	if (there.away)
		return "away";
	return there.scarce ? "scarce" : "available";
}

static void add_shared(struct counting *counting, const struct model_chunk *chunk)
{
	struct sized *rows = grow(counting->shared, counting->count, &counting->room,
				  sizeof(*rows));

	if (!rows) {
		counting->err = -ENOMEM;
		return;
	}
	counting->shared = rows;
	rows += counting->count++;
	memcpy(rows->digest, chunk->digest.bytes, CATALOG_DIGEST);
	rows->size = chunk->size;
}

/* The bytes that others have too. */
static uint64_t count_chunks(struct counting *counting, const struct manifest *manifest)
{
	const struct model_chunk *chunk, *last = NULL;
	uint64_t bytes = 0;
	bool shared = false;

	for (uint32_t i = 0; i < manifest->model.chunk_count; i++, last = chunk) {
		chunk = &manifest->model.chunks[manifest->by_digest[i]];
		if (!last || !model_digest_equal(&chunk->digest, &last->digest)) {
			shared = catalog_chunk_references(counting->catalog,
							  chunk->digest.bytes) > 1;
			if (shared)
				add_shared(counting, chunk);
			else
				counting->survey->stored += chunk->size;
		}
		bytes += shared ? chunk->size : 0;
	}
	return bytes;
}

static void see_model(const struct catalog_model *model, void *arg)
{
	struct counting *counting = arg;
	struct survey *survey = counting->survey;
	struct survey_model *row = grow(survey->models, survey->count, &survey->room, sizeof(*row));

	if (!row) {
		counting->err = -ENOMEM;
		return;
	}
	survey->models = row;
	row += survey->count++;
	*row = (struct survey_model){
		.model = model, .manifest = manifests_find(model),
		.extra = replicas_extra(&counting->replicas, model),
	};
	row->state = state_of(counting->catalog, model, &row->copies);
	if (row->manifest)
		row->shared = count_chunks(counting, row->manifest);
}

static int by_digest(const void *a, const void *b)
{
	return memcmp(a, b, CATALOG_DIGEST);
}

static uint64_t bytes_of_shared(struct counting *counting)
{
	struct sized *rows = counting->shared;
	uint64_t bytes = 0;

	if (counting->count)
		qsort(rows, counting->count, sizeof(*rows), by_digest);
	for (size_t i = 0; i < counting->count; i++)
		if (!i || by_digest(&rows[i], &rows[i - 1]))
			bytes += rows[i].size;
	return bytes;
}

int survey_make(struct survey *survey, struct catalog *catalog)
{
	struct counting counting = { .survey = survey, .catalog = catalog };

	if (survey->made && survey->changes == catalog_changes(catalog))
		return 0;
	survey_clear(survey);
	counting.err = replicas_read(&counting.replicas, catalog);
	if (!counting.err)
		catalog_model_each(catalog, see_model, &counting);
	survey->stored += bytes_of_shared(&counting);
	survey->changes = catalog_changes(catalog);
	survey->made = !counting.err;
	free(counting.shared);
	replicas_free(&counting.replicas);
	return counting.err;
}

void survey_clear(struct survey *survey)
{
	free(survey->models);
	*survey = (struct survey){ 0 };
}

const struct survey_model *survey_find(const struct survey *survey,
				       const struct catalog_model *model)
{
	const struct survey_model *row = survey->models;

	while (row->model != model)
		row++;
	return row;
}
