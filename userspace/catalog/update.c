// SPDX-License-Identifier: GPL-2.0-or-later
#include "update.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 16

static void finish(struct catalog_update *update, int err, const char *error, uint64_t revision)
{
	struct catalog_result result = { .err = err, .error = error, .revision = revision };

	if (err && !error[0])
		result.error = strerror(-err);
	free(update->key);
	update->key = NULL;
	update->done(update, &result);
}

static void on_read(const struct catalog_result *result, void *arg);

static void on_written(const struct catalog_result *result, void *arg)
{
	struct catalog_update *update = arg;
	int err = result->err;

	if (err != -ESTALE && err != -ETIMEDOUT) {
		finish(update, err, result->error, result->revision);
		return;
	}
	update->unsure = update->unsure || err == -ETIMEDOUT;
	if (++update->tries == TRIES_MAX) {
		finish(update, err, "others change it all the time: try again later",
		       result->revision);
		return;
	}
	err = catalog_store_range(update->store, update->key, CATALOG_ONE, on_read, update);
	if (err)
		finish(update, err, "", 0);
}

static void on_read(const struct catalog_result *result, void *arg)
{
	struct catalog_update *update = arg;
	const struct catalog_entry *entry = result->count ? result->entries : NULL;
	struct catalog_batch batch = { 0 };
	int ret;

	if (result->err) {
		finish(update, update->unsure ? -ETIMEDOUT : result->err, result->error, 0);
		return;
	}
	update->found = entry ? entry->revision : 0;
	ret = update->prepare(update, entry, &batch);
	if (!ret) {
		catalog_batch_compare(&batch, update->found, "%s", update->key);
		ret = catalog_batch_send(update->store, &batch, on_written, update);
		catalog_batch_clear(&batch);
		if (!ret)
			return;
	}
	catalog_batch_clear(&batch);
	finish(update, ret > 0 ? 0 : ret, ret < 0 ? update->error : "", update->found);
}

int catalog_update_start(struct catalog_update *update, struct catalog_store *store,
			 const char *key)
{
	int err;

	update->store = store;
	update->key = strdup(key);
	if (!update->key)
		return -ENOMEM;
	err = catalog_store_range(store, key, CATALOG_ONE, on_read, update);
	if (err) {
		free(update->key);
		update->key = NULL;
	}
	return err;
}
