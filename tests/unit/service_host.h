/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Another host of the pool, as far as the catalog knows: there is no daemon behind it.
 * Included by the one file of a test program.
 */
#ifndef TESTS_UNIT_SERVICE_HOST_H
#define TESTS_UNIT_SERVICE_HOST_H

#include "service_bed.h"

#include "../../userspace/catalog/state.h"

static inline void on_written(const struct catalog_result *result, void *arg)
{
	assert_int_equal(result->err, 0);
	*(bool *)arg = true;
}

/* The daemon has seen it when this returns. */
static inline void put_key(const char *key, const void *value, size_t size)
{
	struct catalog_write write = { .key = key, .value = value, .size = size };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	bool written = false, seen = false;

	assert_int_equal(catalog_store_txn(bed.models->catalog->store, &txn, on_written, &written),
			 0);
	wait_until(written);
	assert_int_equal(catalog_sync(bed.models->catalog, on_written, &seen), 0);
	wait_until(seen);
}

/* As put_host(), with an RDMA device of that address, or without. */
static inline void put_host_at(const char *name, uint64_t memory, uint64_t left, const char *hot,
			       const char *rdma_address)
{
	char key[128], text[512];

	snprintf(key, sizeof(key), "%s/view/host/%s", bed.config.pool, name);
	snprintf(text, sizeof(text),
		 "{\"address\":\"\",\"rdma_address\":\"%s\",\"rdma_port\":7471,\"memory_total\":%llu,"
		 "\"memory_free\":%llu,\"generation\":1,\"hot\":%s}",
		 rdma_address, (unsigned long long)memory, (unsigned long long)left, hot);
	put_key(key, text, strlen(text));
}

/* It gives memory, of which so much is free, and calls these models hot. */
static inline void put_host(const char *name, uint64_t memory, uint64_t left, const char *hot)
{
	put_host_at(name, memory, left, hot, "192.0.2.2");
}

static inline int compare_digests(const void *a, const void *b)
{
	return memcmp(a, b, CATALOG_DIGEST);
}

/* It holds all chunks of a model, and nothing else. */
static inline void put_chunks(const char *name, const struct sample *sample)
{
	const struct model_manifest *model = &sample->image.manifest;
	uint8_t *value = calloc(model->chunk_count + 1, CATALOG_DIGEST);
	char key[128];

	for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
		uint8_t *digests = value + BUCKET_HEADER;
		size_t count = 0;

		/* The generation of put_host(). */
		value[0] = 1;
		for (uint32_t i = 0; i < model->chunk_count; i++)
			if (catalog_bucket_of(model->chunks[i].digest.bytes) == bucket)
				memcpy(digests + count++ * CATALOG_DIGEST,
				       model->chunks[i].digest.bytes, CATALOG_DIGEST);
		qsort(digests, count, CATALOG_DIGEST, compare_digests);
		snprintf(key, sizeof(key), "%s/view/chunk/%s/%02zu", bed.config.pool, name, bucket);
		if (count)
			put_key(key, value, BUCKET_HEADER + count * CATALOG_DIGEST);
	}
	free(value);
}

#endif
