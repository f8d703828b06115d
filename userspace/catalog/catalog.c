// SPDX-License-Identifier: GPL-2.0-or-later
/* The copy, and what its entries mean. */
#include "catalog.h"

#include "../common/clock.h"
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MS_MIN 100

bool catalog_name_is_good(const char *name, size_t room, const char *others)
{
	size_t len = strnlen(name, room);

	if (!len || len == room || name[0] == '/' || name[len - 1] == '/')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]) &&
		    !strchr(others, name[i]))
			return false;
	return true;
}

const char *catalog_prefix(const struct catalog *catalog, const char *kind, char *prefix)
{
	snprintf(prefix, CATALOG_KEY_MAX, "%s/view/%s/", catalog->pool, kind);
	return prefix;
}

/* What follows the prefix of a kind; NULL: the entry is of another kind. */
static const char *name_of(const struct catalog *catalog, const struct catalog_entry *entry,
			   const char *kind)
{
	char prefix[CATALOG_KEY_MAX];

	if (!catalog_has_prefix(entry->key, catalog_prefix(catalog, kind, prefix)))
		return NULL;
	return entry->key + strlen(prefix);
}

void catalog_touched(struct catalog *catalog)
{
	catalog_index_drop(catalog);
	catalog->told = catalog->changes;
	if (catalog->options.changed && !catalog->closing)
		catalog->options.changed(catalog->options.arg);
}

static void on_forget(struct catalog_entry *entry, void *arg)
{
	struct catalog *catalog = arg;

	/* The index points into what goes. */
	catalog_index_drop(catalog);
	if (name_of(catalog, entry, "model") || name_of(catalog, entry, "upload"))
		catalog_model_free(entry->noun);
	else if (name_of(catalog, entry, "host"))
		free(entry->noun);
	entry->noun = NULL;
}

struct catalog_model *catalog_model_of(const struct catalog *catalog,
				       const struct catalog_entry *entry)
{
	struct catalog_model *model = catalog_model_parse(entry->value, entry->size);
	const char *name = name_of(catalog, entry, "model");
	bool uploading = !name;

	if (uploading)
		name = name_of(catalog, entry, "upload");
	if (!model || strcmp(uploading ? model->upload : model->name, name)) {
		catalog_model_free(model);
		model = catalog_model_salvage(name, uploading, entry->value, entry->size);
	}
	if (model) {
		model->uploading = uploading;
		model->revision = entry->revision;
	}
	return model;
}

void catalog_model_take(struct catalog *catalog, struct catalog_entry *entry)
{
	struct catalog_model *model = catalog_model_of(catalog, entry);

	/* Without memory it is taken again after the next listing. */
	entry->noun = model;
	if (!model)
		return;
	if (model->unreadable && catalog->options.unreadable)
		catalog->options.unreadable(model, catalog->options.arg);
	if (model->complete)
		catalog_manifest_wanted(catalog, entry);
}

static void on_changed(struct catalog_entry *entry, void *arg)
{
	struct catalog *catalog = arg;
	const char *name;

	catalog_index_drop(catalog);
	if (name_of(catalog, entry, "model") || name_of(catalog, entry, "upload")) {
		catalog_model_take(catalog, entry);
	} else if ((name = name_of(catalog, entry, "host"))) {
		entry->noun = catalog_host_parse(name, entry->value, entry->size);
		if (entry->noun)
			catalog_member_seen(catalog, entry->noun);
	} else if (name_of(catalog, entry, "chunk")) {
		/* Good ones are told by having a noun. */
		entry->noun = catalog_bucket_is_good(entry) ? entry->value : NULL;
	}
}

static void on_alarm(const struct catalog_result *result, void *arg)
{
	struct catalog *catalog = arg;
	int alarm = result->err;

	catalog->asking_alarm = false;
	/* With others nothing is known; a store that does not answer is told as such. */
	if (catalog->closing || (alarm && alarm != -ENOSPC && alarm != -EBADMSG) ||
	    alarm == catalog->alarm)
		return;
	catalog->alarm = alarm;
	snprintf(catalog->alarm_why, sizeof(catalog->alarm_why), "%s", result->error);
	if (catalog->options.alarm)
		catalog->options.alarm(alarm, catalog->alarm_why, catalog->options.arg);
}

static void ask_alarm(struct catalog *catalog)
{
	if (!catalog->asking_alarm && !catalog->closing)
		catalog->asking_alarm = !catalog_store_alarm(catalog->store, on_alarm, catalog);
}

void catalog_heard(struct catalog *catalog, const struct catalog_result *result)
{
	uint64_t since = catalog->silent_us;
	bool silent;

	/* Neither of these is of the store. */
	if (catalog->closing || result->err == -ECANCELED || result->err == -ENOMEM)
		return;
	silent = result->err == -EHOSTUNREACH || result->err == -ETIMEDOUT ||
		 result->err == -EPROTO || result->err == -EIO;
	if (silent) {
		/* The last reason is what is to be repaired now. */
		snprintf(catalog->trouble, sizeof(catalog->trouble), "%s", result->error);
		catalog->silent_us = since ? since : clock_us();
		if (!since && catalog->options.silent)
			catalog->options.silent(catalog->trouble, catalog->options.arg);
	} else if (since) {
		catalog->trouble[0] = '\0';
		catalog->silent_us = 0;
		if (catalog->options.answers)
			catalog->options.answers(clock_us() - since, catalog->options.arg);
	}
}

static void on_settled(const struct catalog_result *listing, void *arg)
{
	struct catalog *catalog = arg;

	if (listing) {
		catalog_heard(catalog, listing);
		if (listing->err)
			return;
		catalog_manifests_settle(catalog);
		ask_alarm(catalog);
	}
	catalog_learned_sweep(catalog);
	/* Most listings find nothing new, and what was made of the view is worth keeping. */
	if (catalog->changes != catalog->told)
		catalog_touched(catalog);
}

struct catalog *catalog_open(struct sd_event *loop, struct catalog_store *store,
			     const struct catalog_options *options)
{
	struct catalog *catalog = calloc(1, sizeof(*catalog));
	char prefix[CATALOG_KEY_MAX];
	int err = -ENOMEM;

	if (!catalog)
		goto fail;
	catalog->options = *options;
	catalog->store = store;
	catalog->changes = 1; /* the first listing is news, even if there is nothing */
	catalog->pool = strdup(options->pool);
	catalog->view.forget = on_forget;
	catalog->view.changed = on_changed;
	catalog->view.settled = on_settled;
	catalog->view.over = options->over;
	catalog->view.arg = catalog;
	if (!catalog->pool)
		goto fail;
	err = -EINVAL;
	if (!catalog_name_is_good(options->pool, CATALOG_HOST_LEN, "") ||
	    options->list_ms < LIST_MS_MIN || !options->digests)
		goto fail;
	catalog->loop = sd_event_ref(loop);
	err = catalog_member_open(catalog);
	if (!err) {
		snprintf(prefix, sizeof(prefix), "%s/view/", catalog->pool);
		err = catalog_view_open(&catalog->view, loop, store, prefix, options->list_ms);
	}
	if (!err)
		return catalog;
	catalog_close(catalog);
	errno = -err;
	return NULL;
fail:
	if (catalog)
		free(catalog->pool);
	free(catalog);
	catalog_store_close(store);
	errno = -err;
	return NULL;
}

void catalog_close(struct catalog *catalog)
{
	if (!catalog)
		return;
	catalog->closing = true;
	catalog_forgettings_end(catalog);
	/* What is pending still refers to the view and the member, which must be quiet. */
	catalog_view_close(&catalog->view);
	catalog_member_close(catalog);
	catalog_store_close(catalog->store);
	catalog_learnings_abandon(catalog);
	catalog_learned_sweep(catalog);
	catalog_index_free(catalog);
	sd_event_unref(catalog->loop);
	free(catalog->pool);
	free(catalog);
}

int catalog_sync(struct catalog *catalog, catalog_done done, void *arg)
{
	return catalog_view_sync(&catalog->view, done, arg);
}

uint64_t catalog_age_us(const struct catalog *catalog)
{
	return catalog->view.listed_us ? clock_us() - catalog->view.listed_us : UINT64_MAX;
}

const char *catalog_trouble(const struct catalog *catalog)
{
	return catalog->trouble;
}

uint64_t catalog_silent_us(const struct catalog *catalog)
{
	return catalog->silent_us ? clock_us() - catalog->silent_us : 0;
}

int catalog_alarm(const struct catalog *catalog, const char **why)
{
	*why = catalog->alarm_why;
	return catalog->alarm;
}

static struct catalog_entry *find(const struct catalog *catalog, const char *kind,
				  const char *name)
{
	char key[2 * CATALOG_KEY_MAX], prefix[CATALOG_KEY_MAX];

	snprintf(key, sizeof(key), "%s%.*s", catalog_prefix(catalog, kind, prefix),
		 CATALOG_KEY_MAX, name);
	return catalog_entries_find(&catalog->view.entries, key);
}

const struct catalog_host *catalog_host_find(const struct catalog *catalog, const char *name)
{
	const struct catalog_entry *entry = find(catalog, "host", name);

	return entry ? entry->noun : NULL;
}

void catalog_host_each(const struct catalog *catalog,
		       void (*each)(const struct catalog_host *host, void *arg), void *arg)
{
	const struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];

	catalog_entries_each(&catalog->view.entries, catalog_prefix(catalog, "host", prefix), entry)
		if (entry->noun)
			each(entry->noun, arg);
}

/* NULL: there is none, or it is not known yet. */
static const struct catalog_entry *find_model(const struct catalog *catalog, const char *name)
{
	const struct catalog_entry *entry = find(catalog, "model", name);
	const struct catalog_model *upload;

	if (entry)
		return entry;
	entry = find(catalog, "upload", name);
	upload = entry ? entry->noun : NULL;
	return upload && upload->unreadable ? entry : NULL;
}

const struct catalog_model *catalog_model_find(const struct catalog *catalog, const char *name)
{
	const struct catalog_entry *entry = find_model(catalog, name);

	return entry ? entry->noun : NULL;
}

char *catalog_model_key(const struct catalog *catalog, const char *name)
{
	char *key;

	return asprintf(&key, "%s/view/model/%s", catalog->pool, name) < 0 ? NULL : key;
}

char *catalog_model_found_key(const struct catalog *catalog, const char *name)
{
	const struct catalog_entry *entry = find_model(catalog, name);

	return entry ? strdup(entry->key) : catalog_model_key(catalog, name);
}

void catalog_model_each(const struct catalog *catalog,
			void (*each)(const struct catalog_model *model, void *arg), void *arg)
{
	static const char *const kinds[] = { "model", "upload" };
	const struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];

	for (size_t i = 0; i < 2; i++)
		catalog_entries_each(&catalog->view.entries,
				     catalog_prefix(catalog, kinds[i], prefix), entry)
			if (entry->noun)
				each(entry->noun, arg);
}
