// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How a model comes to be: the upload's record, the parts of the manifest, the record
 * again (now complete, and with it the epoch), and at commit the model instead of it.
 */
#include "encode.h"
#include "../common/hex.h"
#include "manifest.h"
#include "update.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_TRIES 5

struct catalog_upload {
	struct catalog_update update;
	struct catalog *catalog;
	struct catalog_model model; /* its record */
	char key[CATALOG_KEY_MAX];
	char *manifest; /* until its parts are written */
	uint64_t revision;
	unsigned int next; /* part */
	unsigned int tries;
	catalog_done done;
	void *arg;
};

static const char given_up[] = "the upload was given up, because this host's lease ended: push the "
			       "model again";

static void free_upload(struct catalog_upload *upload)
{
	free(upload->manifest);
	free(upload);
}

static void ignore(const struct catalog_result *result, void *arg)
{
	(void)result;
	(void)arg;
}

/* If this cannot be done it is done when the host's lease ends. */
static void delete_upload(struct catalog_upload *upload)
{
	struct catalog_batch batch = { 0 };

	catalog_batch_compare(&batch, upload->revision, "%s", upload->key);
	catalog_batch_delete(&batch, "%s", upload->key);
	catalog_parts_delete(upload->catalog, &batch, &upload->model);
	catalog_batch_send(upload->catalog->store, &batch, ignore, NULL);
	catalog_batch_clear(&batch);
}

static void fail(struct catalog_upload *upload, int err, const char *error)
{
	struct catalog_result result = { .err = err, .error = error[0] ? error : strerror(-err) };

	if (upload->revision && err != -ECANCELED)
		delete_upload(upload);
	upload->done(&result, upload->arg);
	free_upload(upload);
}

static int put_record(struct catalog_upload *upload, struct catalog_batch *batch, const char *key)
{
	char *text = catalog_model_text(&upload->model);

	if (!text)
		return -ENOMEM;
	catalog_batch_put(batch, text, strlen(text), 0, "%s", key);
	free(text);
	return 0;
}

static int given_up_error(struct catalog_update *update)
{
	snprintf(update->error, sizeof(update->error), "%s", given_up);
	return -EOWNERDEAD;
}

static int update_record(struct catalog_upload *upload, const char *key,
			 int (*prepare)(struct catalog_update *update,
					const struct catalog_entry *entry,
					struct catalog_batch *batch),
			 void (*done)(struct catalog_update *update,
				      const struct catalog_result *result))
{
	upload->update = (struct catalog_update){ .prepare = prepare, .done = done };
	return catalog_update_start(&upload->update, upload->catalog->store, key);
}

/*
 * The third step
 */

static int prepare_complete(struct catalog_update *update, const struct catalog_entry *entry,
			    struct catalog_batch *batch)
{
	struct catalog_upload *upload = (struct catalog_upload *)update;

	if (!entry)
		return given_up_error(update);
	if (entry->revision != upload->revision)
		return 1; /* only this upload writes it */
	upload->model.complete = true;
	catalog_batch_put(batch, upload->model.upload, strlen(upload->model.upload), 0,
			  "%s/view/epoch", upload->catalog->pool);
	return put_record(upload, batch, upload->key);
}

static void on_complete(struct catalog_update *update, const struct catalog_result *result)
{
	struct catalog_upload *upload = (struct catalog_upload *)update;

	if (result->err) {
		fail(upload, result->err, result->error);
		return;
	}
	upload->revision = result->revision;
	upload->done(result, upload->arg);
}

/*
 * The second step
 */

static void on_part(const struct catalog_result *result, void *arg);

static void put_part(struct catalog_upload *upload)
{
	struct catalog_batch batch = { 0 };
	size_t at = (size_t)upload->next * CATALOG_VALUE_MAX;
	size_t left = upload->model.size - at;
	int err;

	catalog_batch_compare(&batch, upload->revision, "%s", upload->key);
	catalog_batch_put(&batch, upload->manifest + at,
			  left < CATALOG_VALUE_MAX ? left : CATALOG_VALUE_MAX, 0,
			  "%s/part/%s/%04u", upload->catalog->pool, upload->model.upload,
			  upload->next);
	err = catalog_batch_send(upload->catalog->store, &batch, on_part, upload);
	catalog_batch_clear(&batch);
	if (err)
		fail(upload, err, "");
}

static void on_part(const struct catalog_result *result, void *arg)
{
	struct catalog_upload *upload = arg;
	int err = result->err;

	if (err == -ESTALE) {
		fail(upload, -EOWNERDEAD, given_up);
		return;
	}
	/* The same part twice is the same. */
	if (err == -ETIMEDOUT && ++upload->tries < PART_TRIES) {
		put_part(upload);
		return;
	}
	if (err) {
		fail(upload, err, result->error);
		return;
	}
	upload->tries = 0;
	if (++upload->next < upload->model.parts) {
		put_part(upload);
		return;
	}
	free(upload->manifest);
	upload->manifest = NULL;
	err = update_record(upload, upload->key, prepare_complete, on_complete);
	if (err)
		fail(upload, err, "");
}

/*
 * The first step
 */

static int prepare_begin(struct catalog_update *update, const struct catalog_entry *entry,
			 struct catalog_batch *batch)
{
	struct catalog_upload *upload = (struct catalog_upload *)update;

	if (entry)
		return 1; /* nobody else has this number */
	return put_record(upload, batch, upload->key);
}

static void on_begun(struct catalog_update *update, const struct catalog_result *result)
{
	struct catalog_upload *upload = (struct catalog_upload *)update;

	if (result->err) {
		fail(upload, result->err, result->error);
		return;
	}
	upload->revision = result->revision;
	put_part(upload);
}

int catalog_upload_begin(struct catalog *catalog, const char *name,
			 const struct catalog_manifest *manifest, unsigned int replicas,
			 struct catalog_upload **pointer, catalog_done done, void *arg)
{
	const struct member *member = &catalog->member;
	struct catalog_upload *upload;
	size_t size = manifest->size;
	uint8_t id[16];
	int err = -ENOMEM;

	if (!catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS) || !size ||
	    !replicas || replicas > CATALOG_REPLICAS_MAX)
		return -EINVAL;
	if (size > CATALOG_MANIFEST_MAX)
		return -EMSGSIZE;
	if (member->state != CATALOG_JOINED)
		return -ENOTCONN;
	upload = calloc(1, sizeof(*upload));
	if (!upload)
		return -ENOMEM;
	if (RAND_bytes(id, sizeof(id)) != 1)
		goto fail;
	upload->catalog = catalog;
	upload->done = done;
	upload->arg = arg;
	upload->model.size = size;
	upload->model.parts = (unsigned int)((size + CATALOG_VALUE_MAX - 1) / CATALOG_VALUE_MAX);
	upload->model.replicas = replicas;
	upload->model.access = CATALOG_ACCESS_DEFAULT;
	upload->model.generation = member->host.generation;
	snprintf(upload->model.name, sizeof(upload->model.name), "%s", name);
	snprintf(upload->model.host, sizeof(upload->model.host), "%s", member->host.name);
	hex_format(id, sizeof(id), upload->model.upload);
	memcpy(upload->model.sha256, manifest->sha256, CATALOG_DIGEST);
	snprintf(upload->key, sizeof(upload->key), "%s/view/upload/%s", catalog->pool,
		 upload->model.upload);
	err = update_record(upload, upload->key, prepare_begin, on_begun);
	if (err)
		goto fail;
	upload->manifest = manifest->text;
	*pointer = upload;
	return 0;
fail:
	free_upload(upload);
	return err;
}

void catalog_upload_set_access(struct catalog_upload *upload, const struct catalog_access *access)
{
	upload->model.access = *access;
}

/*
 * The end
 */

static int prepare_commit(struct catalog_update *update, const struct catalog_entry *entry,
			  struct catalog_batch *batch)
{
	struct catalog_upload *upload = (struct catalog_upload *)update;
	struct catalog_model *model;
	bool mine;

	if (entry) {
		model = catalog_model_parse(entry->value, entry->size);
		mine = model && !strcmp(model->upload, upload->model.upload);
		catalog_model_free(model);
		if (mine)
			return 1;
		snprintf(update->error, sizeof(update->error),
			 "there is a model %s already: delete it first, or choose another name",
			 upload->model.name);
		return -EEXIST;
	}
	/* Nobody has the name, so what conflicts is that the upload is gone. */
	if (update->tries > 1)
		return given_up_error(update);
	catalog_batch_compare(batch, upload->revision, "%s", upload->key);
	catalog_batch_delete(batch, "%s", upload->key);
	return put_record(upload, batch, update->key);
}

static void on_committed(struct catalog_update *update, const struct catalog_result *result)
{
	struct catalog_upload *upload = (struct catalog_upload *)update;

	if (result->err) {
		/* If it was written after all, the condition keeps the parts. */
		fail(upload, result->err, result->error);
		return;
	}
	upload->done(result, upload->arg);
	free_upload(upload);
}

int catalog_upload_commit(struct catalog_upload *upload, catalog_done done, void *arg)
{
	char *key = catalog_model_key(upload->catalog, upload->model.name);
	int err = -ENOMEM;

	upload->done = done;
	upload->arg = arg;
	if (key)
		err = update_record(upload, key, prepare_commit, on_committed);
	free(key);
	if (err)
		catalog_upload_abort(upload);
	return err;
}

void catalog_upload_abort(struct catalog_upload *upload)
{
	delete_upload(upload);
	free_upload(upload);
}
