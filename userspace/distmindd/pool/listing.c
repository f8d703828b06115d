// SPDX-License-Identifier: GPL-2.0-or-later
#include "listing.h"

#include "../common/turns.h"
#include "models.h"
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS_SHOWN 64

struct listing {
	struct exchange exchange;
	struct survey_wait wait;
	struct models *models;
};

static json_t *describe_model(const struct models *models, const struct survey_model *row)
{
	const struct manifest *manifest = row->manifest;
	json_t *resident = json_array();
	uint32_t gpus[GPUS_SHOWN];
	size_t count = 0;

	if (manifest)
		count = weights_gpus(&models->weights, manifest, gpus, GPUS_SHOWN);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(resident, json_integer(gpus[i]));
	return json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:i, s:i, s:I, s:s, s:o, s:I}", "name",
			 row->name, "uid", (json_int_t)row->access.uid, "gid",
			 (json_int_t)row->access.gid, "mode", (int)row->access.mode,
			 "bytes", (json_int_t)(manifest ? manifest->model.size : 0),
			 "chunks", (json_int_t)(manifest ? manifest->model.chunk_count : 0),
			 "layers", (json_int_t)(manifest ? manifest->model.layer_count : 0),
			 "replicas", (int)row->replicas, "extra_replicas", (int)row->extra,
			 "copies", (json_int_t)row->copies, "state", row->state, "resident",
			 resident, "shared_bytes", (json_int_t)row->shared);
}

struct hosts {
	json_t *rows;
	bool known; /* who is live */
};

static void list_host(const struct catalog_host *host, void *arg)
{
	struct hosts *hosts = arg;

	json_array_append_new(hosts->rows,
			      json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "name", host->name, "address",
					host->address, "memory_total",
					(json_int_t)host->memory_total, "memory_free",
					(json_int_t)host->memory_free, "damaged",
					(json_int_t)host->damaged, "state",
					hosts->known ? "live" : "unknown"));
}

/* Where it was, and what it gave, went with it. */
static void list_away(const char *name, void *arg)
{
	struct hosts *hosts = arg;

	json_array_append_new(hosts->rows,
			      json_pack("{s:s, s:s, s:i, s:i, s:i, s:s}", "name", name, "address", "",
					"memory_total", 0, "memory_free", 0, "damaged", 0, "state",
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

static int make(struct models *models)
{
	const struct survey_rows *survey = &models->survey.rows;
	struct hosts hosts = {
		.rows = json_array(), .known = !catalog_silent_us(models->catalog),
	};
	json_t *rows = json_array();

	for (size_t i = 0; i < survey->count; i++)
		json_array_append_new(rows, describe_model(models, &survey->models[i]));
	catalog_host_each(models->catalog, list_host, &hosts);
	catalog_host_each_away(models->catalog, list_away, &hosts);
	return message_memfd_json(json_pack("{s:o, s:o, s:I, s:o, s:o}", "models", rows, "hosts",
					    hosts.rows, "stored_bytes",
					    (json_int_t)survey->stored, "cache",
					    describe_cache(models->chunks.cache), "status",
					    status_describe(models)));
}

static void on_survey(struct survey_wait *wait, int err)
{
	struct listing *listing = (struct listing *)((char *)wait -
						     offsetof(struct listing, wait));
	int fd = err;

	turns_name("list");
	if (!err)
		fd = make(listing->models);
	if (fd < 0) {
		client_refuse(listing->exchange.client, fd, "list: %s", strerror(-fd));
	} else {
		client_answer(listing->exchange.client, json_object(), &fd, 1);
		close(fd);
	}
	free(listing);
}

static void on_gone(struct exchange *exchange)
{
	struct listing *listing = (struct listing *)exchange;

	survey_forget(&listing->models->survey, &listing->wait);
	free(listing);
}

void listing_begin(struct client *client)
{
	struct listing *listing = calloc(1, sizeof(*listing));

	if (!listing) {
		client_refuse(client, -ENOMEM, "out of memory");
		return;
	}
	listing->models = client->models;
	listing->exchange.gone = on_gone;
	listing->wait.ready = on_survey;
	client_begin(client, &listing->exchange);
	survey_ask(&client->models->survey, &listing->wait);
}
