// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A host that is gone for good: what is noted of its spool is deleted, all of it or
 * nothing, on the condition that it is what was looked at, and that the host has not
 * come back.
 *
 * generation/HOST stays, so that no generation is given twice; it is written anew, so
 * that no report of the host's last life that is still on its way arrives after this.
 */
#include "batch.h"
#include "state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 16

struct forgetting {
	struct catalog *catalog;
	char host[CATALOG_HOST_LEN];
	bool force;
	bool unsure; /* an earlier write may have been carried out */
	unsigned int tries;
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

/* Does nobody else have some chunk of it? What is away is still somewhere. */
static void judge(const struct catalog_model *model, void *arg)
{
	struct forgetting *forgetting = arg;
	struct catalog_holder holder;

	/* An upload counts on live holders only. */
	if (model->uploading)
		return;
	for (size_t i = 0; i < model->digest_count; i++) {
		if (catalog_chunk_holders(forgetting->catalog, model->digests + i * CATALOG_DIGEST,
					  &holder, 1) != 1 ||
		    strcmp(holder.host, forgetting->host))
			continue;
		if (!catalog_entries_append(&forgetting->losers, model->name, NULL, 0))
			forgetting->incomplete = true;
		return;
	}
}

/* May it be forgotten, as far as models are concerned? */
static int judge_all(struct forgetting *forgetting)
{
	int err = catalog_references_known(forgetting->catalog);

	catalog_entries_clear(&forgetting->losers);
	forgetting->incomplete = false;
	catalog_model_each(forgetting->catalog, judge, forgetting);
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
	err = judge_all(forgetting);
	if (err)
		return err;
	snprintf(key, sizeof(key), "%s/generation/%s", catalog->pool, forgetting->host);
	catalog_batch_compare(batch, generation ? generation->revision : 0, "%s", key);
	if (generation)
		catalog_batch_put(batch, generation->value, generation->size, 0, "%s", key);
	return 0;
}

/* Beginning with a copy that is current. */
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

static void on_synced(const struct catalog_result *result, void *arg)
{
	struct forgetting *forgetting = arg;
	struct catalog *catalog = forgetting->catalog;
	char key[CATALOG_KEY_MAX];
	int err = result->err;

	snprintf(key, sizeof(key), "%s/generation/%s", catalog->pool, forgetting->host);
	if (!err)
		err = catalog_store_range(catalog->store, key, CATALOG_ONE, on_read, forgetting);
	if (err)
		finish(forgetting, forgetting->unsure ? -ETIMEDOUT : err, result->error);
}

static int look(struct forgetting *forgetting)
{
	return catalog_sync(forgetting->catalog, on_synced, forgetting);
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
