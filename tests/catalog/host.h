/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hosts for tests of the catalog: each a catalog of its own in the one event loop.
 * Manifests are lines of text, each the name of a chunk: its digest is the name's.
 */
#ifndef TESTS_CATALOG_HOST_H
#define TESTS_CATALOG_HOST_H

#include "bed.h"

#include "../../userspace/catalog/catalog.h"

#include <openssl/sha.h>

#define LIST_MS 200

struct host {
	struct catalog *catalog;
	struct catalog_store *store; /* the catalog's, to look at */
	struct catalog_options options;
	char pool[64];
	unsigned int joined, lost, fenced, changed; /* how often */
	unsigned int unreadable; /* records and manifests that it was told of */
};

static inline const uint8_t *digest_of(const char *name)
{
	static uint8_t digests[8][CATALOG_DIGEST];
	static unsigned int next;
	uint8_t *digest = digests[next++ % 8];

	SHA256((const unsigned char *)name, strlen(name), digest);
	return digest;
}

static inline int manifest_digests(const char *manifest, size_t size, uint8_t **digests,
				   size_t *count, void **made)
{
	const char *end = manifest + size;

	(void)made;
	*count = 0;
	*digests = malloc(size * CATALOG_DIGEST + 1);
	assert_non_null(*digests);
	while (manifest < end) {
		const char *stop = memchr(manifest, '\n', (size_t)(end - manifest));

		/* What is no manifest. */
		if (!stop || *manifest == '!') {
			free(*digests);
			return -EINVAL;
		}
		SHA256((const unsigned char *)manifest, (size_t)(stop - manifest),
		       *digests + (*count)++ * CATALOG_DIGEST);
		manifest = stop + 1;
	}
	return 0;
}

static inline void on_member(enum catalog_member_state state, const char *why, void *arg)
{
	struct host *host = arg;

	(void)why;
	host->joined += state == CATALOG_JOINED;
	host->lost += state == CATALOG_JOINING;
	host->fenced += state == CATALOG_FENCED;
}

static inline void on_changed(void *arg)
{
	struct host *host = arg;

	host->changed++;
}

static inline void on_unreadable(const struct catalog_model *model, void *arg)
{
	struct host *host = arg;

	assert_true(model->error[0]);
	host->unreadable++;
}

static inline void host_open_store(struct host *host, const char *pool,
				   struct catalog_store *store, unsigned int list_ms)
{
	memset(host, 0, sizeof(*host));
	snprintf(host->pool, sizeof(host->pool), "%s", pool);
	host->options = (struct catalog_options){
		.pool = host->pool,
		.list_ms = list_ms,
		.digests = manifest_digests,
		.changed = on_changed,
		.member = on_member,
		.unreadable = on_unreadable,
		.arg = host,
	};
	host->store = store;
	host->catalog = catalog_open(bed.loop, store, &host->options);
	assert_non_null(host->catalog);
}

static inline void host_open(struct host *host, const char *pool)
{
	host_open_store(host, pool, bed_open(), LIST_MS);
}

/* As if the process had died. */
static inline void host_die(struct host *host)
{
	catalog_close(host->catalog);
	host->catalog = NULL;
}

static inline void host_join(struct host *host, const char *name, unsigned int ttl_s, bool spooled)
{
	struct catalog_host record = {
		.address = "10.0.0.1:7070",
		.rdma_address = "10.1.0.1",
		.rdma_port = 7471,
		.memory_total = 8ULL << 30,
		.memory_free = 6ULL << 30,
	};
	unsigned int joined = host->joined;

	snprintf(record.name, sizeof(record.name), "%s", name);
	assert_int_equal(catalog_join(host->catalog, &record, ttl_s, spooled), 0);
	wait_until(host->joined > joined);
}

static inline int host_sync(struct host *host)
{
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_sync(host->catalog, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	return outcome.err;
}

static inline int host_flush(struct host *host)
{
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_flush(host->catalog, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	return outcome.err;
}

static inline struct catalog_upload *host_begin(struct host *host, const char *name,
						const char *manifest, unsigned int replicas)
{
	struct catalog_manifest text = { .text = strdup(manifest), .size = strlen(manifest) };
	struct catalog_upload *upload = NULL;
	struct outcome outcome = { 0 };

	SHA256((const unsigned char *)manifest, text.size, text.sha256);
	assert_int_equal(catalog_upload_begin(host->catalog, name, &text, replicas, &upload,
					      keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_string_equal(outcome.error, "");
	assert_int_equal(outcome.err, 0);
	return upload;
}

static inline int host_commit(struct catalog_upload *upload)
{
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_upload_commit(upload, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	return outcome.err;
}

static inline int host_push(struct host *host, const char *name, const char *manifest,
			    unsigned int replicas)
{
	return host_commit(host_begin(host, name, manifest, replicas));
}

static inline bool host_knows(struct host *host, const char *name)
{
	const struct catalog_model *model = catalog_model_find(host->catalog, name);

	return model && model->known;
}

static inline size_t holders(struct host *host, const char *chunk, bool live)
{
	struct catalog_holder all[16];
	size_t count = catalog_chunk_holders(host->catalog, digest_of(chunk), all, 16), found = 0;

	for (size_t i = 0; i < count; i++)
		found += all[i].live == live;
	return found;
}

/* How many keys there are below pool/rest. */
static inline size_t keys(struct host *host, const char *rest)
{
	struct outcome outcome = { 0 };
	char key[128];
	size_t count;

	snprintf(key, sizeof(key), "%s/%s", host->pool, rest);
	assert_int_equal(catalog_store_range(host->store, key, CATALOG_BELOW, keep_outcome,
					     &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	count = outcome.entries.count;
	forget(&outcome);
	return count;
}

#endif
