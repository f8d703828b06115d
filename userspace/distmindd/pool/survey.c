// SPDX-License-Identifier: GPL-2.0-or-later
#include "survey.h"

#include "../common/turn.h"
#include "../common/turns.h"

#include "../../common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 3
/*
 * From when on it is not begun anew. While chunks come by the thousand the catalog changes all the
 * time, and who waits is better served by what was so at some time since it asked.
 */
#define TRY_US 100000
#define CHUNKS_LOOKED 16 /* between two looks at the clock */

static const char *state_of(const struct survey_model *row)
{
	if (row->error[0])
		return "unreadable";
	/* One that is not known: its manifest is on its way to this host. */
	if (row->uploading || !row->known)
		return "uploading";
	if (row->missing)
		return "missing";
	if (row->away)
		return "away";
	return row->scarce ? "scarce" : "available";
}

static void clear(struct survey_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		manifest_put(rows->models[i].manifest);
	free(rows->models);
	*rows = (struct survey_rows){ 0 };
}

static void see_chunk(struct survey_rows *rows, struct survey_model *row,
		      const struct catalog_chunk *chunk, uint64_t size, uint64_t bytes)
{
	/* Not needed: the catalog reads the manifest again. */
	if (!chunk || !chunk->references) {
		rows->stored += size;
		return;
	}
	row->missing |= !chunk->live && !chunk->away;
	row->away |= !chunk->live && chunk->away;
	row->scarce |= chunk->live < row->replicas;
	if (chunk->live < row->copies)
		row->copies = chunk->live;
	if (chunk->references > 1)
		row->shared += bytes;
	else
		row->own += size;
	/* Each of those who need it adds its part of it. */
	if (chunk->references < SURVEY_SHARES)
		rows->shares[chunk->references] += size;
	else
		rows->stored += size / chunk->references;
}

/*
 * A model's chunks of a bucket; a chunk that it has several times is one. False: there are
 * more, for the next turn.
 */
static bool see_chunks(struct survey *survey, struct survey_model *row)
{
	const struct manifest *manifest = row->manifest;
	uint32_t count = manifest ? manifest->model.chunk_count : 0, looked = 0;

	while (row->next < count) {
		const struct model_chunk *chunk = manifest_sorted(manifest, row->next);
		const struct catalog_chunk *known;
		uint64_t bytes = 0;

		if (catalog_bucket_of(chunk->digest.bytes) != survey->bucket)
			break;
		if (++looked % CHUNKS_LOOKED == 0 && turns_over())
			return false;
		known = catalog_chunk_find(survey->catalog, chunk->digest.bytes);
		do {
			bytes += chunk->size;
			row->next++;
		} while (row->next < count &&
			 model_digest_equal(&manifest_sorted(manifest, row->next)->digest,
					    &chunk->digest));
		see_chunk(&survey->making, row, known, chunk->size, bytes);
	}
	return true;
}

struct collecting {
	struct survey_rows *rows;
	int err;
};

static void see_model(const struct catalog_model *model, void *arg)
{
	struct collecting *collecting = arg;
	struct survey_rows *rows = collecting->rows;
	size_t room = rows->room ? rows->room * 2 : 64;
	struct survey_model *row;
	void *models;

	if (rows->count == rows->room) {
		models = reallocarray(rows->models, room, sizeof(*rows->models));
		if (!models) {
			collecting->err = -ENOMEM;
			return;
		}
		rows->models = models;
		rows->room = room;
	}
	row = &rows->models[rows->count++];
	*row = (struct survey_model){
		.revision = model->revision, .replicas = model->replicas, .access = model->access,
		.manifest = manifests_find(model), .copies = UINT32_MAX,
		.uploading = model->uploading, .known = model->known,
	};
	strcpy(row->error, model->error);
	strcpy(row->name, model->name);
	if (row->manifest)
		manifest_get(row->manifest);
}

static int begin(struct survey *survey)
{
	struct collecting collecting = { .rows = &survey->making };
	int err;

	clear(&survey->making);
	replicas_free(&survey->replicas);
	err = replicas_begin(&survey->replicas, survey->catalog);
	survey->making.changes = catalog_changes(survey->catalog);
	survey->bucket = survey->row = 0;
	if (err)
		return err;
	catalog_model_each(survey->catalog, see_model, &collecting);
	return collecting.err;
}

static void finish(struct survey_rows *rows, const struct replicas *replicas)
{
	for (unsigned int i = 1; i < SURVEY_SHARES; i++)
		rows->stored += rows->shares[i] / i;
	for (size_t i = 0; i < rows->count; i++) {
		struct survey_model *row = &rows->models[i];

		row->state = state_of(row);
		if (!row->uploading)
			row->extra = replicas_extra(replicas, row->name);
		if (row->copies == UINT32_MAX || row->uploading)
			row->copies = 0;
	}
}

/* Bucket by bucket, because so the catalog has what it is asked for at hand. False: not yet. */
static bool look(struct survey *survey)
{
	struct survey_rows *rows = &survey->making;

	for (; survey->bucket < CATALOG_BUCKETS; survey->bucket++) {
		for (; survey->row < rows->count; survey->row++)
			if (!see_chunks(survey, &rows->models[survey->row]))
				return false;
		survey->row = 0;
		if (turns_over()) {
			survey->bucket++;
			return survey->bucket == CATALOG_BUCKETS;
		}
	}
	return true;
}

static bool is_current(const struct survey *survey)
{
	return survey->made && survey->rows.changes == catalog_changes(survey->catalog);
}

/* Was the last one begun after the first of those who wait asked? Others asked later. */
static bool is_ready(const struct survey *survey)
{
	const struct survey_wait *wait = TAILQ_FIRST(&survey->waits);

	return survey->made && wait && wait->changes <= survey->rows.changes;
}

/* What each does with it takes a while, and there may be more of them than a turn has time for. */
static void tell(struct survey *survey)
{
	struct survey_wait *wait;

	while (is_ready(survey)) {
		wait = TAILQ_FIRST(&survey->waits);
		TAILQ_REMOVE(&survey->waits, wait, link);
		wait->ready(wait, 0);
		if (turns_over())
			break;
	}
}

static void fail(struct survey *survey, int err)
{
	struct survey_waits all = TAILQ_HEAD_INITIALIZER(all);
	struct survey_wait *wait;

	TAILQ_CONCAT(&all, &survey->waits, link);
	while ((wait = TAILQ_FIRST(&all))) {
		TAILQ_REMOVE(&all, wait, link);
		wait->ready(wait, err);
	}
}

/* Makes one, as far as there is time. */
static void make(struct survey *survey)
{
	int err = 0;

	if (!survey->busy) {
		survey->busy = true;
		survey->tries = 0;
		survey->begun_us = clock_us();
		err = begin(survey);
	}
	if (!err)
		err = replicas_look(&survey->replicas);
	if (err > 0 || (!err && !look(survey)))
		return;
	if (!err && catalog_changes(survey->catalog) != survey->making.changes &&
	    ++survey->tries < TRIES && clock_us() - survey->begun_us < TRY_US) {
		err = begin(survey);
		if (!err)
			return;
	}
	survey->busy = false;
	if (!err) {
		finish(&survey->making, &survey->replicas);
		clear(&survey->rows);
		survey->rows = survey->making;
		survey->making = (struct survey_rows){ 0 };
		survey->made = true;
	} else {
		clear(&survey->making);
	}
	replicas_free(&survey->replicas);
	if (err)
		fail(survey, err);
}

static void run(struct survey *survey)
{
	if (is_ready(survey))
		tell(survey);
	else
		make(survey);
	if (TAILQ_EMPTY(&survey->waits))
		sd_event_source_set_enabled(survey->turn, SD_EVENT_OFF);
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	(void)source;
	(void)us;
	turns_name("survey");
	run(arg);
	return 0;
}

int survey_open(struct survey *survey, sd_event *loop, struct catalog *catalog)
{
	int err;

	*survey = (struct survey){ .catalog = catalog };
	TAILQ_INIT(&survey->waits);
	err = turn_begin(loop, &survey->turn, on_turn, survey);
	if (!err)
		sd_event_source_set_enabled(survey->turn, SD_EVENT_OFF);
	return err;
}

void survey_close(struct survey *survey)
{
	sd_event_source_disable_unref(survey->turn);
	clear(&survey->rows);
	clear(&survey->making);
	replicas_free(&survey->replicas);
	*survey = (struct survey){ 0 };
}

void survey_ask(struct survey *survey, struct survey_wait *wait)
{
	if (is_current(survey)) {
		wait->ready(wait, 0);
		return;
	}
	wait->changes = catalog_changes(survey->catalog);
	TAILQ_INSERT_TAIL(&survey->waits, wait, link);
	sd_event_source_set_enabled(survey->turn, SD_EVENT_ON);
}

void survey_forget(struct survey *survey, struct survey_wait *wait)
{
	TAILQ_REMOVE(&survey->waits, wait, link);
}

const struct survey_model *survey_find(const struct survey *survey,
				       const struct catalog_model *model)
{
	for (size_t i = 0; i < survey->rows.count; i++)
		if (survey->rows.models[i].revision == model->revision &&
		    !strcmp(survey->rows.models[i].name, model->name))
			return &survey->rows.models[i];
	return NULL;
}
