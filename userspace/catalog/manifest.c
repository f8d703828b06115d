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

void catalog_parts_delete(const struct catalog *catalog, struct catalog_batch *batch,
			  const struct catalog_model *model)
{
	for (unsigned int i = 0; i < model->parts; i++)
		catalog_batch_delete(batch, "%s/part/%s/%04u", catalog->pool, model->upload, i);
}

/* NULL: not all of it is there, or it is not what was pushed. */
static char *join_parts(uint64_t whole, unsigned int part_count, const uint8_t *sha256,
			const struct catalog_entry *parts, size_t count)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	size_t size = 0;
	char *text;

	for (size_t i = 0; i < count; i++)
		size += parts[i].size;
	if (count != part_count || size != whole)
		return NULL;
	text = malloc(size + 1);
	if (!text)
		return NULL;
	size = 0;
	for (size_t i = 0; i < count; i++) {
		memcpy(text + size, parts[i].value, parts[i].size);
		size += parts[i].size;
	}
	text[size] = '\0';
	EVP_Digest(text, size, digest, NULL, EVP_sha256(), NULL);
	if (!memcmp(digest, sha256, CATALOG_DIGEST))
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
 * What was learned: it is shared by all that have the same manifest, so that a model whose
 * record changes, or an upload that becomes a model, is known without a gap.
 */

static void drop_made(const struct catalog *catalog, void *made)
{
	if (made && catalog->options.dropped)
		catalog->options.dropped(made);
}

static struct learned *find_learned(const struct catalog *catalog, const uint8_t *sha256)
{
	struct learned *learned;

	LIST_FOREACH(learned, &catalog->learned, link)
		if (!memcmp(learned->sha256, sha256, CATALOG_DIGEST))
			break;
	return learned;
}

static void know(struct catalog_model *model, struct learned *learned)
{
	learned->references++;
	model->learned = learned;
	model->digests = learned->digests;
	model->digest_count = learned->digest_count;
	model->manifest = learned->manifest;
	model->known = true;
}

void catalog_learned_sweep(struct catalog *catalog)
{
	struct learned *learned, *next;

	for (learned = LIST_FIRST(&catalog->learned); learned; learned = next) {
		next = LIST_NEXT(learned, link);
		if (learned->references)
			continue;
		LIST_REMOVE(learned, link);
		drop_made(catalog, learned->manifest);
		free(learned->digests);
		free(learned);
	}
}

/*
 * To learn the digests
 */

struct learning {
	LIST_ENTRY(learning) link;
	struct catalog *catalog; /* NULL: it is closed */
	char *key;
	char upload[33];
	/* Nobody else's while it is read: */
	struct catalog_options options;
	uint64_t size;
	unsigned int part_count;
	uint8_t sha256[CATALOG_DIGEST];
	struct catalog_entries parts;
	struct learned *learned; /* what came of it; NULL: nothing, and error says why */
	const char *error;
};

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, CATALOG_DIGEST);
}

static void sort_digests(struct learned *learned)
{
	size_t count = 0;

	qsort(learned->digests, learned->digest_count, CATALOG_DIGEST, by_bytes);
	for (size_t i = 0; i < learned->digest_count; i++) {
		const uint8_t *digest = learned->digests + i * CATALOG_DIGEST;

		if (count && !by_bytes(learned->digests + (count - 1) * CATALOG_DIGEST, digest))
			continue;
		memmove(learned->digests + count++ * CATALOG_DIGEST, digest, CATALOG_DIGEST);
	}
	learned->digest_count = count;
}

static void free_learning(struct learning *learning)
{
	if (learning->catalog)
		LIST_REMOVE(learning, link);
	if (learning->learned) {
		if (learning->learned->manifest && learning->options.dropped)
			learning->options.dropped(learning->learned->manifest);
		free(learning->learned->digests);
		free(learning->learned);
	}
	catalog_entries_clear(&learning->parts);
	free(learning->key);
	free(learning);
}

void catalog_learnings_abandon(struct catalog *catalog)
{
	struct learning *learning;

	while ((learning = LIST_FIRST(&catalog->learnings))) {
		LIST_REMOVE(learning, link);
		learning->catalog = NULL;
	}
}

/* By any thread. */
static void learn(void *job)
{
	struct learning *learning = job;
	struct learned *learned = calloc(1, sizeof(*learned));
	char *text = join_parts(learning->size, learning->part_count, learning->sha256,
				learning->parts.rows, learning->parts.count);

	catalog_entries_clear(&learning->parts);
	if (!text)
		learning->error = "its manifest is damaged: delete the model and push it again";
	else if (learned && learning->options.digests(text, learning->size, &learned->digests,
						      &learned->digest_count,
						      &learned->manifest))
		learning->error = "its manifest makes no sense here: is it of a newer version?";
	free(text);
	if (!learned || learning->error) {
		free(learned);
		return;
	}
	memcpy(learned->sha256, learning->sha256, CATALOG_DIGEST);
	sort_digests(learned);
	learning->learned = learned;
}

/* NULL: it is another by now, and that one has a learning of its own. */
static struct catalog_model *model_of(const struct learning *learning)
{
	const struct catalog_entry *entry;
	struct catalog_model *model;

	entry = catalog_entries_find(&learning->catalog->view.entries, learning->key);
	model = entry ? entry->noun : NULL;
	return model && !strcmp(model->upload, learning->upload) && model->reading ? model : NULL;
}

/* All that have that manifest: what read it may be an upload that is a model by now. */
static bool know_all(struct catalog *catalog, struct learned *learned)
{
	static const char *const kinds[] = { "model", "upload" };
	struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];
	bool any = false;

	for (size_t i = 0; i < 2; i++)
		catalog_entries_each(&catalog->view.entries,
				     catalog_prefix(catalog, kinds[i], prefix), entry) {
			struct catalog_model *model = entry->noun;

			if (!model || !model->complete || model->known ||
			    memcmp(model->sha256, learned->sha256, CATALOG_DIGEST))
				continue;
			know(model, learned);
			model->reading = false;
			model->error[0] = '\0';
			any = true;
		}
	return any;
}

static void on_learned(void *job)
{
	struct learning *learning = job;
	struct catalog *catalog = learning->catalog;
	struct catalog_model *model = catalog ? model_of(learning) : NULL;
	bool changed = false;

	if (catalog && learning->learned && !find_learned(catalog, learning->sha256)) {
		changed = know_all(catalog, learning->learned);
		if (changed) {
			LIST_INSERT_HEAD(&catalog->learned, learning->learned, link);
			learning->learned = NULL;
		}
	} else if (model && learning->error) {
		snprintf(model->error, sizeof(model->error), "%s", learning->error);
		if (catalog->options.unreadable)
			catalog->options.unreadable(model, catalog->options.arg);
		changed = true;
	}
	/* Without memory it is read again after the next listing. */
	if (model)
		model->reading = false;
	if (changed)
		catalog_touched(catalog);
	free_learning(learning);
}

static void on_read(const struct catalog_result *result, void *arg)
{
	struct learning *learning = arg;
	struct catalog *catalog = learning->catalog;
	struct catalog_model *model = catalog && !catalog->closing ? model_of(learning) : NULL;

	if (!model || result->err || catalog_entries_take(&learning->parts, result))
		goto fail;
	learning->options = catalog->options;
	if (!catalog->options.aside) {
		learn(learning);
		on_learned(learning);
		return;
	}
	if (!catalog->options.aside(learn, on_learned, learning, catalog->options.arg))
		return;
fail:
	/* Again after the next listing. */
	if (model)
		model->reading = false;
	free_learning(learning);
}

void catalog_manifest_wanted(struct catalog *catalog, struct catalog_entry *entry)
{
	struct catalog_model *model = entry->noun;
	struct learned *learned = find_learned(catalog, model->sha256);
	struct learning *learning;

	if (learned) {
		know(model, learned);
		return;
	}
	learning = calloc(1, sizeof(*learning));
	if (!learning)
		return;
	learning->key = strdup(entry->key);
	memcpy(learning->upload, model->upload, sizeof(learning->upload));
	learning->size = model->size;
	learning->part_count = model->parts;
	memcpy(learning->sha256, model->sha256, sizeof(learning->sha256));
	if (!learning->key || read_parts(catalog, model, on_read, learning)) {
		free_learning(learning);
		return;
	}
	learning->catalog = catalog;
	LIST_INSERT_HEAD(&catalog->learnings, learning, link);
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
	/* Whose it is cannot be read: perhaps a newer version pushes it. It is shown. */
	if (upload->unreadable && !upload->host[0])
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

			if (!model) {
				catalog_model_take(catalog, entry);
				continue;
			}
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
	entry.value = join_parts(reading->model->size, reading->model->parts,
				 reading->model->sha256, result->entries, result->count);
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
		end_reading(reading, -EBADMSG, CATALOG_SENSELESS);
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
	uint64_t revision; /* of what is deleted; 0: whatever it is by then */
	struct catalog_model_change wanted;
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
	model = catalog_model_of(change->catalog, entry);
	if (!model)
		return -ENOMEM;
	catalog_batch_delete(batch, "%s", entry->key);
	catalog_parts_delete(change->catalog, batch, model);
	catalog_model_free(model);
	return 0;
}

static bool same_access(const struct catalog_access *a, const struct catalog_access *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->mode == b->mode;
}

/* False: it is so already. */
static bool apply(const struct catalog_model_change *wanted, struct catalog_model *model)
{
	struct catalog_access access = model->access;
	unsigned int replicas = wanted->replicas ? wanted->replicas : model->replicas;
	bool differs;

	if (wanted->sets_uid)
		access.uid = wanted->access.uid;
	if (wanted->sets_gid)
		access.gid = wanted->access.gid;
	if (wanted->sets_mode)
		access.mode = wanted->access.mode;
	differs = replicas != model->replicas || !same_access(&access, &model->access);
	model->replicas = replicas;
	model->access = access;
	return differs;
}

static int prepare_record(struct catalog_update *update, const struct catalog_entry *entry,
			  struct catalog_batch *batch)
{
	struct change *change = (struct change *)update;
	struct catalog_model *model;
	char *text;
	int ret;

	if (!entry)
		return refuse(update, -ENOENT, NO_MODEL);
	model = catalog_model_parse(entry->value, entry->size);
	if (!model)
		return refuse(update, -EBADMSG, CATALOG_SENSELESS);
	ret = change->wanted.allows ?
		      change->wanted.allows(model, update->error, change->arg) : 0;
	if (!ret && !apply(&change->wanted, model))
		ret = 1;
	if (!ret) {
		text = catalog_model_text(model);
		if (text)
			catalog_batch_put(batch, text, strlen(text), 0, "%s", entry->key);
		else
			ret = -ENOMEM;
		free(text);
	}
	catalog_model_free(model);
	return ret;
}

/* Takes the change. */
static int start(struct catalog *catalog, const char *name, struct change *change)
{
	char *key = catalog_model_found_key(catalog, name);
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

int catalog_model_change(struct catalog *catalog, const char *name,
			 const struct catalog_model_change *wanted, catalog_done done, void *arg)
{
	struct change *change;

	if (!catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS) ||
	    wanted->replicas > CATALOG_REPLICAS_MAX ||
	    (wanted->sets_mode && wanted->access.mode & ~CATALOG_MODE_ALL) ||
	    (wanted->sets_uid && wanted->access.uid == UINT32_MAX) ||
	    (wanted->sets_gid && wanted->access.gid == UINT32_MAX))
		return -EINVAL;
	change = calloc(1, sizeof(*change));
	if (!change)
		return -ENOMEM;
	*change = (struct change){
		.update = { .prepare = prepare_record, .done = on_done },
		.catalog = catalog, .wanted = *wanted, .done = done, .arg = arg,
	};
	return start(catalog, name, change);
}
