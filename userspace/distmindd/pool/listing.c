// SPDX-License-Identifier: GPL-2.0-or-later
#include "listing.h"

#include "../common/turns.h"
#include "models.h"
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_SHOWN 4096 /* of weights on gpus */

/*
 * The survey is copied, and what else is told of the pool noted, by the loop; that it becomes a
 * text is up to an errand, for there may be thousands of models.
 */
struct listing {
	struct exchange exchange;
	struct survey_wait wait;
	struct errand errand;
	struct models *models;
	uint64_t payer;
	bool begun; /* of those of its payer, it is the one that is worked on */
	TAILQ_ENTRY(listing) link;
	/* What is told; the errand's while it writes. */
	struct survey_model *rows; /* with references to their manifests */
	size_t count;
	struct weights_place *places;
	size_t place_count;
	uint64_t stored;
	json_t *hosts, *cache, *status;
	struct answer *answer; /* a reference, if it could be made */
	int err;
};

static void destroy(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		manifest_put(listing->rows[i].manifest);
	free(listing->rows);
	free(listing->places);
	json_decref(listing->hosts);
	json_decref(listing->cache);
	json_decref(listing->status);
	free(listing);
}

/*
 * By the errand
 */

static json_t *describe_model(const struct listing *listing, const struct survey_model *row)
{
	const struct manifest *manifest = row->manifest;
	json_t *resident = json_array();

	for (size_t i = 0; i < listing->place_count; i++)
		if (manifest && listing->places[i].manifest == manifest)
			json_array_append_new(resident, json_integer(listing->places[i].gpu));
	return json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:i, s:i, s:I, s:s, s:s, s:o, s:I}", "name",
			 row->name, "uid", (json_int_t)row->access.uid, "gid",
			 (json_int_t)row->access.gid, "mode", (int)row->access.mode,
			 "bytes", (json_int_t)(manifest ? manifest->model.size : 0),
			 "chunks", (json_int_t)(manifest ? manifest->model.chunk_count : 0),
			 "layers", (json_int_t)(manifest ? manifest->model.layer_count : 0),
			 "replicas", (int)row->replicas, "extra_replicas", (int)row->extra,
			 "copies", (json_int_t)row->copies, "state", row->state, "error",
			 row->error, "resident", resident, "shared_bytes", (json_int_t)row->shared);
}

struct hosts {
	json_t *rows;
	bool known; /* who is live */
};

static void list_host(const struct catalog_host *host, void *arg)
{
	struct hosts *hosts = arg;

	json_array_append_new(hosts->rows,
			      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "name", host->name, "address",
					host->address, "memory_total",
					(json_int_t)host->memory_total, "memory_free",
					(json_int_t)host->memory_free, "memory_longest",
					(json_int_t)host->memory_longest, "damaged",
					(json_int_t)host->damaged, "state",
					hosts->known ? "live" : "unknown"));
}

/* Where it was, and what it gave, went with it. */
static void list_away(const char *name, void *arg)
{
	struct hosts *hosts = arg;

	json_array_append_new(hosts->rows,
			      json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s}", "name", name, "address", "",
					"memory_total", 0, "memory_free", 0, "memory_longest", 0,
					"damaged", 0, "state",
					hosts->known ? "away" : "unknown"));
}

/* Of this host; null: it has none. */
static json_t *describe_cache(struct cache *cache)
{
	struct cache_stats stats;

	if (!cache)
		return json_null();
	cache_stats(cache, &stats);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "size", (json_int_t)stats.size, "bytes",
			 (json_int_t)stats.bytes, "chunks", (json_int_t)stats.chunks, "hits",
			 (json_int_t)stats.hits, "misses", (json_int_t)stats.misses, "evictions",
			 (json_int_t)stats.evictions);
}

static void write_answer(struct errand *errand)
{
	struct listing *listing = errand_in(errand, struct listing, errand);
	json_t *rows = json_array();

	for (size_t i = 0; i < listing->count; i++)
		json_array_append_new(rows, describe_model(listing, &listing->rows[i]));
	listing->err = answer_make(&listing->answer,
				   json_pack("{s:o, s:O, s:I, s:O, s:O}", "models", rows, "hosts",
					     listing->hosts, "stored_bytes",
					     (json_int_t)listing->stored, "cache", listing->cache,
					     "status", listing->status));
}

/*
 * By the loop
 */

static void begin(struct listing *listing)
{
	listing->begun = true;
	listing->models->listings.begun++;
	survey_ask(&listing->models->survey, &listing->wait);
}

/* The next one of its payer. */
static void end(struct listing *listing)
{
	struct listings *listings = &listing->models->listings;
	uint64_t payer = listing->payer;
	bool begun = listing->begun;

	TAILQ_REMOVE(&listings->queue, listing, link);
	listings->begun -= begun;
	destroy(listing);
	if (!begun)
		return;
	TAILQ_FOREACH(listing, &listings->queue, link)
		if (listing->payer == payer)
			break;
	if (listing)
		begin(listing);
}

static void fail(struct listing *listing, int err)
{
	client_refuse(listing->exchange.client, err, "list: %s", strerror(-err));
	end(listing);
}

static void on_written(struct errand *errand)
{
	struct listing *listing = errand_in(errand, struct listing, errand);

	turns_name("list: answer");
	if (listing->err) {
		fail(listing, listing->err);
		return;
	}
	client_lend(listing->exchange.client, listing->answer);
	answer_put(listing->answer, listing->models->errands, listing->payer);
	end(listing);
}

static int note(struct listing *listing)
{
	struct models *models = listing->models;
	const struct survey_rows *survey = &models->survey.rows;
	struct hosts hosts = {
		.rows = json_array(), .known = !catalog_silent_us(models->catalog),
	};

	catalog_host_each(models->catalog, list_host, &hosts);
	catalog_host_each_away(models->catalog, list_away, &hosts);
	listing->hosts = hosts.rows;
	listing->cache = describe_cache(models->chunks.cache);
	listing->status = status_describe(models);
	listing->stored = survey->stored;
	listing->rows = calloc(survey->count + 1, sizeof(*listing->rows));
	listing->places = calloc(PLACES_SHOWN, sizeof(*listing->places));
	if (!listing->rows || !listing->places)
		return -ENOMEM;
	listing->place_count = weights_places(&models->weights, listing->places, PLACES_SHOWN);
	for (; listing->count < survey->count; listing->count++) {
		listing->rows[listing->count] = survey->models[listing->count];
		if (listing->rows[listing->count].manifest)
			manifest_get(listing->rows[listing->count].manifest);
	}
	return 0;
}

static void on_survey(struct survey_wait *wait, int err)
{
	struct listing *listing = (struct listing *)((char *)wait -
						     offsetof(struct listing, wait));

	turns_name("list");
	/* It is not waited for any more. */
	listing->exchange.gone = NULL;
	if (!err)
		err = note(listing);
	if (err) {
		fail(listing, err);
		return;
	}
	listing->errand = (struct errand){ .work = write_answer, .done = on_written };
	errands_add(listing->models->errands, listing->payer, &listing->errand);
}

static void on_gone(struct exchange *exchange)
{
	struct listing *listing = (struct listing *)exchange;

	if (listing->begun)
		survey_forget(&listing->models->survey, &listing->wait);
	end(listing);
}

void listing_begin(struct client *client)
{
	struct listing *listing = calloc(1, sizeof(*listing)), *other;
	struct listings *listings = &client->models->listings;

	if (!listing) {
		client_refuse(client, -ENOMEM, "out of memory");
		return;
	}
	listing->models = client->models;
	listing->payer = client->payer;
	listing->exchange.gone = on_gone;
	listing->wait.ready = on_survey;
	client_begin(client, &listing->exchange);
	TAILQ_FOREACH(other, &listings->queue, link)
		if (other->payer == listing->payer)
			break;
	TAILQ_INSERT_TAIL(&listings->queue, listing, link);
	if (!other)
		begin(listing);
}

void listings_init(struct listings *listings)
{
	*listings = (struct listings){ 0 };
	TAILQ_INIT(&listings->queue);
}
