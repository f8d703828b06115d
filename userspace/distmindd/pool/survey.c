// SPDX-License-Identifier: GPL-2.0-or-later
#include "survey.h"

#include "replicas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct counting {
	struct survey *survey;
	struct catalog *catalog;
	struct replicas replicas;
	bool *counted; /* chunks of several models, by number; owned */
	int err;
};

static const char *state_of(const struct survey_model *row)
{
	const struct catalog_model *model = row->model;

	/* One that is not known: its manifest is on its way to this host. */
	if (model->uploading || (!model->known && !model->error[0]))
		return "uploading";
	if (!model->known || row->missing)
		return "missing";
	if (row->away)
		return "away";
	return row->scarce ? "scarce" : "available";
}

static void see_chunk(struct counting *counting, struct survey_model *row,
		      const struct catalog_chunk *chunk, uint64_t size, uint64_t bytes)
{
	/* Not needed: the catalog reads the manifest again. */
	if (!chunk || !chunk->references) {
		counting->survey->stored += size;
		return;
	}
	row->missing |= !chunk->live && !chunk->away;
	row->away |= !chunk->live && chunk->away;
	row->scarce |= chunk->live < row->model->replicas;
	if (chunk->live < row->copies)
		row->copies = chunk->live;
	if (chunk->references > 1)
		row->shared += bytes;
	if (!counting->counted[chunk->number])
		counting->survey->stored += size;
	counting->counted[chunk->number] = true;
}

/* A model's chunks of a bucket; a chunk that it has several times is one. */
static void see_chunks(struct counting *counting, struct survey_model *row, size_t bucket)
{
	const struct manifest *manifest = row->manifest;
	uint32_t count = manifest->model.chunk_count;

	while (row->next < count) {
		const struct model_chunk *chunk = manifest_sorted(manifest, row->next);
		const struct catalog_chunk *known;
		uint64_t bytes = 0;

		if (catalog_bucket_of(chunk->digest.bytes) != bucket)
			break;
		known = catalog_chunk_find(counting->catalog, chunk->digest.bytes);
		if (!known && row->model->known) {
			counting->err = -ENOMEM;
			break;
		}
		do {
			bytes += chunk->size;
			row->next++;
		} while (row->next < count &&
			 model_digest_equal(&manifest_sorted(manifest, row->next)->digest,
					    &chunk->digest));
		see_chunk(counting, row, known, chunk->size, bytes);
	}
}

static void see_model(const struct catalog_model *model, void *arg)
{
	struct counting *counting = arg;
	struct survey *survey = counting->survey;
	size_t room = survey->room ? survey->room * 2 : 64;
	void *rows;

	if (survey->count == survey->room) {
		rows = reallocarray(survey->models, room, sizeof(*survey->models));
		if (!rows) {
			counting->err = -ENOMEM;
			return;
		}
		survey->models = rows;
		survey->room = room;
	}
	survey->models[survey->count++] = (struct survey_model){
		.model = model, .manifest = manifests_find(model),
		.extra = replicas_extra(&counting->replicas, model),
		.copies = UINT32_MAX,
	};
}

/* Bucket by bucket, because so the catalog has what it is asked for at hand. */
static int count_chunks(struct counting *counting)
{
	struct survey *survey = counting->survey;
	struct catalog_numbers numbers;
	int err = catalog_numbers(counting->catalog, &numbers);

	if (err)
		return err;
	counting->counted = calloc(numbers.chunks + 1, sizeof(*counting->counted));
	if (!counting->counted)
		return -ENOMEM;
	for (size_t bucket = 0; bucket < CATALOG_BUCKETS; bucket++)
		for (size_t i = 0; i < survey->count && !counting->err; i++)
			if (survey->models[i].manifest)
				see_chunks(counting, &survey->models[i], bucket);
	for (size_t i = 0; i < survey->count; i++) {
		struct survey_model *row = &survey->models[i];

		row->state = state_of(row);
		if (row->copies == UINT32_MAX || row->model->uploading)
			row->copies = 0;
	}
	free(counting->counted);
	return counting->err;
}

int survey_make(struct survey *survey, struct catalog *catalog)
{
	struct counting counting = { .survey = survey, .catalog = catalog };
	int err;

	if (survey->made && survey->changes == catalog_changes(catalog))
		return 0;
	survey_clear(survey);
	err = replicas_read(&counting.replicas, catalog);
	if (err)
		return err;
	catalog_model_each(catalog, see_model, &counting);
	err = counting.err ? counting.err : count_chunks(&counting);
	survey->changes = catalog_changes(catalog);
	survey->made = !err;
	replicas_free(&counting.replicas);
	return err;
}

void survey_clear(struct survey *survey)
{
	free(survey->models);
	*survey = (struct survey){ 0 };
}

const struct survey_model *survey_find(const struct survey *survey,
				       const struct catalog_model *model)
{
	for (size_t i = 0; i < survey->count; i++)
		if (survey->models[i].model == model)
			return &survey->models[i];
	return NULL;
}
