// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Manifests: reading them, for whoever asks and to learn which chunks they name; and the
 * changes of a model that exists. How one comes to be is in upload.c.
 */
#include "encode.h"
#include "manifest.h"
#include "update.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_TRIES 4
#define NO_MODEL   "there is no such model: see distmindctl model list"

void catalog_manifest_sum(const void *text, size_t size, uint8_t *digest)
{
	EVP_Digest(text, size, digest, NULL, EVP_sha256(), NULL);
}

void catalog_parts_delete(const struct catalog *catalog, struct catalog_batch *batch,
			  const struct catalog_model *model)
{
	for (unsigned int i = 0; i < model->parts; i++)
		catalog_batch_delete(batch, "%s/part/%s/%04u", catalog->pool, model->upload, i);
}

/* NULL: not all of it is there, or it is not what was pushed. */
static char *join_parts(const struct catalog_model *model, const struct catalog_result *parts)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	size_t size = 0;
	char *text;

	for (size_t i = 0; i < parts->count; i++)
		size += parts->entries[i].size;
	if (parts->count != model->parts || size != model->size)
		return NULL;
	text = malloc(size + 1);
	if (!text)
		return NULL;
	size = 0;
	for (size_t i = 0; i < parts->count; i++) {
		memcpy(text + size, parts->entries[i].value, parts->entries[i].size);
		size += parts->entries[i].size;
	}
	text[size] = '\0';
	catalog_manifest_sum(text, size, digest);
	if (!memcmp(digest, model->sha256, CATALOG_DIGEST))
		return text;
	free(text);
	return NULL;
}

static int read_parts(struct catalog *catalog, const struct catalog_model *model,
		      catalog_done done, void *arg)
{
	char key[CATALOG_KEY_MAX];

	snprintf(key, sizeof(key), "%s/part/%s/", catalog->pool, model->upload);
	return catalog_store_range(catalog->store, key, CATALOG_BELOW, done, arg);
}

/*
 * To learn the digests
 */

struct learning {
	struct catalog *catalog;
	char *key;
	char upload[33];
};

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, CATALOG_DIGEST);
}

static void sort_digests(struct catalog_model *model)
{
	size_t count = 0;

	qsort(model->digests, model->digest_count, CATALOG_DIGEST, by_bytes);
	for (size_t i = 0; i < model->digest_count; i++) {
		const uint8_t *digest = model->digests + i * CATALOG_DIGEST;

		if (count && !by_bytes(model->digests + (count - 1) * CATALOG_DIGEST, digest))
			continue;
		memmove(model->digests + count++ * CATALOG_DIGEST, digest, CATALOG_DIGEST);
	}
	model->digest_count = count;
}

static void learn(struct catalog *catalog, struct catalog_model *model,
		  const struct catalog_result *parts)
{
	char *text = join_parts(model, parts);

	if (!text) {
		snprintf(model->error, sizeof(model->error),
			 "its manifest is damaged: delete the model and push it again");
		return;
	}
	if (catalog->options.digests(text, model->size, &model->digests, &model->digest_count)) {
		model->digests = NULL;
		model->digest_count = 0;
		snprintf(model->error, sizeof(model->error),
			 "its manifest makes no sense here: is it of a newer version?");
	} else {
		sort_digests(model);
		model->known = true;
	}
	free(text);
}

static void on_learned(const struct catalog_result *result, void *arg)
{
	struct learning *learning = arg;
	struct catalog *catalog = learning->catalog;
	const struct catalog_entry *entry;
	struct catalog_model *model;

	if (catalog->closing)
		goto out;
	entry = catalog_entries_find(&catalog->view.entries, learning->key);
	model = entry ? entry->noun : NULL;
	/* It may be another by now, and that one has a learning of its own. */
	if (!model || strcmp(model->upload, learning->upload) || !model->reading)
		goto out;
	model->reading = false;
	if (result->err)
		goto out; /* again after the next listing */
	learn(catalog, model, result);
	catalog_touched(catalog);
out:
	free(learning->key);
	free(learning);
}

void catalog_manifest_wanted(struct catalog *catalog, struct catalog_entry *entry)
{
	struct catalog_model *model = entry->noun;
	struct learning *learning = calloc(1, sizeof(*learning));

	if (!learning)
		return;
	learning->catalog = catalog;
	learning->key = strdup(entry->key);
	memcpy(learning->upload, model->upload, sizeof(learning->upload));
	if (!learning->key || read_parts(catalog, model, on_learned, learning)) {
		free(learning->key);
		free(learning);
		return;
	}
	model->reading = true;
}

static void ignore(const struct catalog_result *result, void *arg)
{
	(void)result;
	(void)arg;
}

/* Whoever comes first deletes it; the condition makes it harmless for the others. */
static void sweep(struct catalog *catalog, const struct catalog_entry *entry,
		  const struct catalog_model *upload)
{
	const struct catalog_host *host = catalog_host_find(catalog, upload->host);
	struct catalog_batch batch = { 0 };

	if (host && host->generation == upload->generation)
		return;
	catalog_batch_compare(&batch, entry->revision, "%s", entry->key);
	catalog_batch_delete(&batch, "%s", entry->key);
	catalog_parts_delete(catalog, &batch, upload);
	catalog_batch_send(catalog->store, &batch, ignore, NULL);
	catalog_batch_clear(&batch);
}

void catalog_manifests_settle(struct catalog *catalog)
{
	static const char *const kinds[] = { "model", "upload" };
	struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];

	for (size_t i = 0; i < 2; i++)
		catalog_entries_each(&catalog->view.entries,
				     catalog_prefix(catalog, kinds[i], prefix), entry) {
			struct catalog_model *model = entry->noun;

			if (!model)
				continue;
			if (model->complete && !model->known && !model->reading && !model->error[0])
				catalog_manifest_wanted(catalog, entry);
			if (model->uploading)
				sweep(catalog, entry, model);
		}
}

/*
 * For whoever asks
 */

struct reading {
	struct catalog *catalog;
	char *key; /* of the record */
	struct catalog_model *model;
	unsigned int tries;
	catalog_done done;
	void *arg;
};

static void end_reading(struct reading *reading, int err, const char *error)
{
	struct catalog_result result = { .err = err, .error = error };

	reading->done(&result, reading->arg);
	catalog_model_free(reading->model);
	free(reading->key);
	free(reading);
}

static void on_record(const struct catalog_result *result, void *arg);

static void on_parts(const struct catalog_result *result, void *arg)
{
	struct reading *reading = arg;
	struct catalog_entry entry = {
		.key = reading->model->name,
		.size = reading->model->size,
	};
	struct catalog_result answer = {
		.error = "",
		.revision = result->revision,
		.entries = &entry,
		.count = 1,
	};
	int err;

	if (result->err) {
		end_reading(reading, result->err, result->error);
		return;
	}
	entry.value = join_parts(reading->model, result);
	if (entry.value) {
		entry.revision = reading->model->revision;
		reading->done(&answer, reading->arg);
		free(entry.value);
		reading->done = ignore;
		end_reading(reading, 0, "");
		return;
	}
	/* Deleted, and perhaps pushed again, since the record was read. */
	if (++reading->tries == READ_TRIES) {
		end_reading(reading, -EBADMSG,
			    "the manifest is damaged: delete the model and push it again");
		return;
	}
	err = catalog_store_range(reading->catalog->store, reading->key, CATALOG_ONE, on_record,
				  reading);
	if (err)
		end_reading(reading, err, strerror(-err));
}

static void on_record(const struct catalog_result *result, void *arg)
{
	struct reading *reading = arg;
	int err = result->err;

	if (err) {
		end_reading(reading, err, result->error);
		return;
	}
	if (!result->count) {
		end_reading(reading, -ENOENT, NO_MODEL);
		return;
	}
	catalog_model_free(reading->model);
	reading->model = catalog_model_parse(result->entries[0].value, result->entries[0].size);
	if (!reading->model) {
		end_reading(reading, -EBADMSG, "its record makes no sense here: is it of a newer "
					       "version?");
		return;
	}
	reading->model->revision = result->entries[0].revision;
	err = read_parts(reading->catalog, reading->model, on_parts, reading);
	if (err)
		end_reading(reading, err, strerror(-err));
}

int catalog_manifest_read(struct catalog *catalog, const char *name, catalog_done done, void *arg)
{
	struct reading *reading;
	int err = -ENOMEM;

	if (!catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS))
		return -EINVAL;
	reading = calloc(1, sizeof(*reading));
	if (!reading)
		return -ENOMEM;
	reading->catalog = catalog;
	reading->done = done;
	reading->arg = arg;
	reading->key = catalog_model_key(catalog, name);
	if (reading->key)
		err = catalog_store_range(catalog->store, reading->key, CATALOG_ONE, on_record,
					  reading);
	if (err) {
		free(reading->key);
		free(reading);
	}
	return err;
}

/*
 * Changes
 */

struct change {
	struct catalog_update update;
	struct catalog *catalog;
	uint64_t revision;
	unsigned int replicas; /* 0: as it is */
	bool sets_access;
	struct catalog_access access;
	catalog_done done;
	void *arg;
};

static void on_done(struct catalog_update *update, const struct catalog_result *result)
{
	struct change *change = (struct change *)update;

	change->done(result, change->arg);
	free(change);
}

static int refuse(struct catalog_update *update, int err, const char *error)
{
	snprintf(update->error, sizeof(update->error), "%s", error);
	return err;
}

static int prepare_delete(struct catalog_update *update, const struct catalog_entry *entry,
			  struct catalog_batch *batch)
{
	struct change *change = (struct change *)update;
	struct catalog_model *model;

	if (!entry)
		return update->unsure ? 1 : refuse(update, -ENOENT, NO_MODEL);
	if (change->revision && change->revision != entry->revision)
		return refuse(update, -ESTALE, "the model has changed in the meantime: try again");
	model = catalog_model_parse(entry->value, entry->size);
	catalog_batch_delete(batch, "%s", entry->key);
	if (model)
		catalog_parts_delete(change->catalog, batch, model);
	catalog_model_free(model);
	return 0;
}

static bool same_access(const struct catalog_access *a, const struct catalog_access *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->mode == b->mode;
}

/* False: it is so already. */
static bool apply(const struct change *change, struct catalog_model *model)
{
	bool differs = change->replicas && model->replicas != change->replicas;

	if (differs)
		model->replicas = change->replicas;
	if (change->sets_access && !same_access(&model->access, &change->access)) {
		model->access = change->access;
		differs = true;
	}
	return differs;
}

static int prepare_record(struct catalog_update *update, const struct catalog_entry *entry,
			  struct catalog_batch *batch)
{
	struct change *change = (struct change *)update;
	struct catalog_model *model;
	char *text;
	int ret = -ENOMEM;

	if (!entry)
		return refuse(update, -ENOENT, NO_MODEL);
	model = catalog_model_parse(entry->value, entry->size);
	if (!model)
		return refuse(update, -EBADMSG, "its record makes no sense here: is it of a newer "
						"version?");
	if (!apply(change, model)) {
		catalog_model_free(model);
		return 1;
	}
	text = catalog_model_text(model);
	if (text) {
		catalog_batch_put(batch, text, strlen(text), 0, "%s", entry->key);
		ret = 0;
	}
	free(text);
	catalog_model_free(model);
	return ret;
}

/* Takes the change. */
static int start(struct catalog *catalog, const char *name, struct change *change)
{
	char *key = catalog_model_key(catalog, name);
	int err = key ? catalog_update_start(&change->update, catalog->store, key) : -ENOMEM;

	free(key);
	if (err)
		free(change);
	return err;
}

int catalog_model_delete(struct catalog *catalog, const char *name, uint64_t revision,
			 catalog_done done, void *arg)
{
	struct change *change;

	if (!catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS))
		return -EINVAL;
	change = calloc(1, sizeof(*change));
	if (!change)
		return -ENOMEM;
	*change = (struct change){
		.update = { .prepare = prepare_delete, .done = on_done },
		.catalog = catalog, .revision = revision, .done = done, .arg = arg,
	};
	return start(catalog, name, change);
}

int catalog_model_set_replicas(struct catalog *catalog, const char *name, unsigned int replicas,
			       catalog_done done, void *arg)
{
	struct change *change;

	if (!catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS) || !replicas ||
	    replicas > CATALOG_REPLICAS_MAX)
		return -EINVAL;
	change = calloc(1, sizeof(*change));
	if (!change)
		return -ENOMEM;
	*change = (struct change){
		.update = { .prepare = prepare_record, .done = on_done },
		.catalog = catalog, .replicas = replicas, .done = done, .arg = arg,
	};
	return start(catalog, name, change);
}

int catalog_model_set_access(struct catalog *catalog, const char *name,
			     const struct catalog_access *access, catalog_done done, void *arg)
{
	struct change *change;

	if (!catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS) ||
	    access->mode & ~CATALOG_MODE_ALL || access->uid == UINT32_MAX ||
	    access->gid == UINT32_MAX)
		return -EINVAL;
	change = calloc(1, sizeof(*change));
	if (!change)
		return -ENOMEM;
	*change = (struct change){
		.update = { .prepare = prepare_record, .done = on_done },
		.catalog = catalog, .sets_access = true, .access = *access, .done = done, .arg = arg,
	};
	return start(catalog, name, change);
}
