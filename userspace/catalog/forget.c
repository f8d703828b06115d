// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A host that is gone for good: what is noted of its spool is deleted, all of it or
 * nothing, on the condition that it is what was looked at, and that the host has not
 * come back.
 *
 * generation/HOST stays, so that no generation is given twice; it is written anew, so
 * that no report of the host's last life that is still on its way arrives after this.
 *
 * Which models would lose something is judged over many turns, and two hosts that are
 * forgotten meanwhile could each be judged to be spare because of the other. So whoever
 * forgets reads the key "forgotten" before it judges, and writes it on the condition that
 * it is unchanged: the second one finds that it was overtaken, and judges anew.
 */
#include "batch.h"
#include "state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIES_MAX 16
#define LOOKED 16 /* chunks, between two looks at the clock */

struct forgetting {
	LIST_ENTRY(forgetting) link; /* while models are judged */
	struct catalog *catalog;
	char host[CATALOG_HOST_LEN];
	bool force;
	bool unsure; /* an earlier write may have been carried out */
	unsigned int tries;
	uint64_t forgotten; /* revision of that key, before anything was judged */
	/* Which models would lose something is found out in turns of the loop. */
	sd_event_source *turn;
	struct catalog_entries models; /* their names */
	size_t next, digest; /* the model that is looked at, and how far */
	struct catalog_entries losers; /* models */
	bool incomplete; /* there was no memory for one more */
	char error[CATALOG_ERROR_LEN];
	catalog_done done;
	void *arg;
};

static void finish(struct forgetting *forgetting, int err, const char *error)
{
	struct catalog_result result = {
		.err = err,
		.error = err && !error[0] ? strerror(-err) : error,
		.entries = forgetting->losers.rows,
		.count = forgetting->losers.count,
	};

	forgetting->done(&result, forgetting->arg);
	catalog_entries_clear(&forgetting->models);
	catalog_entries_clear(&forgetting->losers);
	free(forgetting);
}

static int refuse(struct forgetting *forgetting, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int refuse(struct forgetting *forgetting, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(forgetting->error, sizeof(forgetting->error), format, args);
	va_end(args);
	return err;
}

static void list_model(const struct catalog_model *model, void *arg)
{
	struct forgetting *forgetting = arg;

	/* An upload counts on live holders only. */
	if (!model->uploading &&
	    !catalog_entries_append(&forgetting->models, model->name, NULL, 0))
		forgetting->incomplete = true;
}

/* Does nobody else have that chunk? What is away is still somewhere. */
static bool is_only_holder(struct forgetting *forgetting, const uint8_t *digest)
{
	struct catalog_holder holder;

	return catalog_chunk_holders(forgetting->catalog, digest, &holder, 1) == 1 &&
	       !strcmp(holder.host, forgetting->host);
}

/* True: the model was looked at to its end, or is known to lose something. */
static bool judge(struct forgetting *forgetting, const char *name)
{
	bool (*over)(void) = forgetting->catalog->options.over;
	const struct catalog_model *model = catalog_model_find(forgetting->catalog, name);

	while (model && forgetting->digest < model->digest_count) {
		const uint8_t *digest = model->digests + forgetting->digest++ * CATALOG_DIGEST;

		if (is_only_holder(forgetting, digest)) {
			if (!catalog_entries_append(&forgetting->losers, name, NULL, 0))
				forgetting->incomplete = true;
			return true;
		}
		if (forgetting->digest % LOOKED == 0 && over && over())
			return false;
	}
	return true;
}

/* May it be forgotten, as far as models are concerned? */
static int settle(struct forgetting *forgetting)
{
	int err = catalog_references_known(forgetting->catalog);

	if (forgetting->incomplete)
		return refuse(forgetting, -ENOMEM, "no memory");
	if (forgetting->force)
		return 0;
	if (err == -EAGAIN)
		return refuse(forgetting, err, "the models are still being read: try again");
	if (err)
		return refuse(forgetting, err, "some model cannot be read, so what it would lose "
					       "is not known: delete it first");
	if (forgetting->losers.count)
		return refuse(forgetting, -ENOTEMPTY, "only host %s has some chunks of models",
			      forgetting->host);
	return 0;
}

/* 0: write; 1: it is as wanted; negative errno: end with that. */
static int prepare(struct forgetting *forgetting, const struct catalog_entry *generation,
		   struct catalog_batch *batch)
{
	const struct catalog *catalog = forgetting->catalog;
	const struct catalog_entries *entries = &catalog->view.entries;
	char key[CATALOG_KEY_MAX], prefix[CATALOG_KEY_MAX];
	const struct catalog_entry *entry;
	int err;

	snprintf(key, sizeof(key), "%s/view/host/%s", catalog->pool, forgetting->host);
	if (catalog_entries_find(entries, key))
		return refuse(forgetting, -EBUSY,
			      "host %s is live: stop distmindd there first; if the host has died, "
			      "wait until its lease has ended",
			      forgetting->host);
	catalog_batch_compare(batch, 0, "%s", key);
	snprintf(prefix, sizeof(prefix), "%s/view/chunk/%s/", catalog->pool, forgetting->host);
	catalog_entries_each(entries, prefix, entry) {
		catalog_batch_compare(batch, entry->revision, "%s", entry->key);
		catalog_batch_delete(batch, "%s", entry->key);
	}
	if (!batch->write_count)
		return forgetting->unsure ? 1 :
			refuse(forgetting, -ENOENT, "there is no host %s that is away: see "
						    "distmindctl host list",
			       forgetting->host);
	err = settle(forgetting);
	if (err)
		return err;
	snprintf(key, sizeof(key), "%s/generation/%s", catalog->pool, forgetting->host);
	catalog_batch_compare(batch, generation ? generation->revision : 0, "%s", key);
	if (generation)
		catalog_batch_put(batch, generation->value, generation->size, 0, "%s", key);
	catalog_batch_compare(batch, forgetting->forgotten, "%s/forgotten", catalog->pool);
	catalog_batch_put(batch, forgetting->host, strlen(forgetting->host), 0, "%s/forgotten",
			  catalog->pool);
	return 0;
}

/* Beginning with a copy that has all that was forgotten before. */
static int look(struct forgetting *forgetting);

static void on_written(const struct catalog_result *result, void *arg)
{
	struct forgetting *forgetting = arg;
	int err = result->err;

	if (err != -ESTALE && err != -ETIMEDOUT) {
		finish(forgetting, err, result->error);
		return;
	}
	forgetting->unsure = forgetting->unsure || err == -ETIMEDOUT;
	if (++forgetting->tries == TRIES_MAX) {
		finish(forgetting, err, "others change it all the time: try again later");
		return;
	}
	err = look(forgetting);
	if (err)
		finish(forgetting, err, "");
}

static void on_read(const struct catalog_result *result, void *arg)
{
	struct forgetting *forgetting = arg;
	struct catalog_batch batch = { 0 };
	int ret = result->err;

	if (ret) {
		finish(forgetting, forgetting->unsure ? -ETIMEDOUT : ret, result->error);
		return;
	}
	ret = prepare(forgetting, result->count ? result->entries : NULL, &batch);
	if (ret) {
		catalog_batch_clear(&batch);
		finish(forgetting, ret > 0 ? 0 : ret, ret < 0 ? forgetting->error : "");
		return;
	}
	ret = catalog_batch_send(forgetting->catalog->store, &batch, on_written, forgetting);
	catalog_batch_clear(&batch);
	if (ret)
		finish(forgetting, ret, "");
}

static void stop_judging(struct forgetting *forgetting)
{
	LIST_REMOVE(forgetting, link);
	forgetting->turn = sd_event_source_disable_unref(forgetting->turn);
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	struct forgetting *forgetting = arg;
	struct catalog *catalog = forgetting->catalog;
	char key[CATALOG_KEY_MAX];
	int err;

	(void)source;
	(void)us;
	while (forgetting->next < forgetting->models.count) {
		if (!judge(forgetting, forgetting->models.rows[forgetting->next].key))
			return 0;
		forgetting->next++;
		forgetting->digest = 0;
	}
	stop_judging(forgetting);
	snprintf(key, sizeof(key), "%s/generation/%s", catalog->pool, forgetting->host);
	err = catalog_store_range(catalog->store, key, CATALOG_ONE, on_read, forgetting);
	if (err)
		finish(forgetting, forgetting->unsure ? -ETIMEDOUT : err, "");
	return 0;
}

static bool is_noted(const struct forgetting *forgetting)
{
	const struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];

	snprintf(prefix, sizeof(prefix), "%s/view/chunk/%s/", forgetting->catalog->pool,
		 forgetting->host);
	catalog_entries_each(&forgetting->catalog->view.entries, prefix, entry)
		return true;
	return false;
}

static int begin_judging(struct forgetting *forgetting)
{
	int err;

	/* If nothing of it is left, a write whose answer was lost did that: who lost is known. */
	if (is_noted(forgetting)) {
		catalog_entries_clear(&forgetting->models);
		catalog_entries_clear(&forgetting->losers);
		forgetting->next = forgetting->digest = 0;
		forgetting->incomplete = false;
		catalog_model_each(forgetting->catalog, list_model, forgetting);
	}
	/* A time that has passed is pending anew after each turn, and others come in between. */
	err = sd_event_add_time(forgetting->catalog->loop, &forgetting->turn, CLOCK_MONOTONIC, 0, 1,
				on_turn, forgetting);
	if (err < 0)
		return err;
	LIST_INSERT_HEAD(&forgetting->catalog->forgettings, forgetting, link);
	sd_event_source_set_enabled(forgetting->turn, SD_EVENT_ON);
	return 0;
}

void catalog_forgettings_end(struct catalog *catalog)
{
	struct forgetting *forgetting;

	while ((forgetting = LIST_FIRST(&catalog->forgettings))) {
		stop_judging(forgetting);
		finish(forgetting, -ECANCELED, "the catalog is being closed");
	}
}

static void on_synced(const struct catalog_result *result, void *arg)
{
	struct forgetting *forgetting = arg;
	int err = result->err;

	if (!err)
		err = begin_judging(forgetting);
	if (err)
		finish(forgetting, forgetting->unsure ? -ETIMEDOUT : err, result->error);
}

static void on_forgotten_read(const struct catalog_result *result, void *arg)
{
	struct forgetting *forgetting = arg;
	int err = result->err;

	if (!err) {
		forgetting->forgotten = result->count ? result->entries[0].revision : 0;
		err = catalog_sync(forgetting->catalog, on_synced, forgetting);
	}
	if (err)
		finish(forgetting, forgetting->unsure ? -ETIMEDOUT : err, result->error);
}

static int look(struct forgetting *forgetting)
{
	char key[CATALOG_KEY_MAX];

	snprintf(key, sizeof(key), "%s/forgotten", forgetting->catalog->pool);
	return catalog_store_range(forgetting->catalog->store, key, CATALOG_ONE, on_forgotten_read,
				   forgetting);
}

int catalog_host_forget(struct catalog *catalog, const char *name, bool force, catalog_done done,
			void *arg)
{
	struct forgetting *forgetting;
	int err;

	if (!catalog_name_is_good(name, CATALOG_HOST_LEN, ""))
		return -EINVAL;
	forgetting = calloc(1, sizeof(*forgetting));
	if (!forgetting)
		return -ENOMEM;
	forgetting->catalog = catalog;
	forgetting->force = force;
	forgetting->done = done;
	forgetting->arg = arg;
	snprintf(forgetting->host, sizeof(forgetting->host), "%s", name);
	err = look(forgetting);
	if (err)
		free(forgetting);
	return err;
}
