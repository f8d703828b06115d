/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A store to test on, of either kind: the same tests run on a file and on a real etcd,
 * in a directory that goes away. Included by the one file of a test program.
 */
#ifndef TESTS_CATALOG_BED_H
#define TESTS_CATALOG_BED_H

#include "etcd_server.h"

#include "../../userspace/catalog/entries.h"
#include "../../userspace/catalog/store.h"

#include <ftw.h>
#include <stdbool.h>
#include <systemd/sd-event.h>
#include <time.h>

#define WAIT_S 20 /* what takes longer has failed; nothing is expected to */
#define TIMEOUT_MS 2000

struct bed {
	bool etcd;
	struct etcd_server server;
	char directory[64];
	char path[128];
	sd_event *loop;
	struct catalog_store *store;
};

static struct bed bed;

static const struct catalog_tls no_tls;

/* A result, kept. */
struct outcome {
	unsigned int calls;
	int err;
	char error[CATALOG_ERROR_LEN];
	uint64_t revision;
	uint64_t lease;
	struct catalog_entries entries;
};

static inline void keep_outcome(const struct catalog_result *result, void *arg)
{
	struct outcome *outcome = arg;

	outcome->calls++;
	outcome->err = result->err;
	snprintf(outcome->error, sizeof(outcome->error), "%s", result->error);
	outcome->revision = result->revision;
	outcome->lease = result->lease;
	for (size_t i = 0; i < result->count; i++) {
		const struct catalog_entry *entry = &result->entries[i];
		struct catalog_entry *copy;

		copy = catalog_entries_append(&outcome->entries, entry->key, entry->value,
					      entry->size);
		assert_non_null(copy);
		copy->revision = entry->revision;
		copy->lease = entry->lease;
	}
}

static inline void forget(struct outcome *outcome)
{
	catalog_entries_clear(&outcome->entries);
	*outcome = (struct outcome){ 0 };
}

static inline uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Runs the loop until it holds. */
#define wait_until(condition)                                                               \
	do {                                                                                \
		uint64_t end_ = now_us() + WAIT_S * 1000000ULL;                             \
		while (!(condition)) {                                                      \
			assert_true(sd_event_run(bed.loop, 100000) >= 0);                   \
			if (now_us() > end_)                                                \
				fail_msg("%d s, and still not: %s", WAIT_S, #condition);    \
		}                                                                           \
	} while (0)

static inline struct catalog_store *bed_open(void)
{
	char error[CATALOG_ERROR_LEN] = "";
	struct catalog_store *store;

	store = bed.etcd ? catalog_etcd_open(bed.loop, bed.server.client, &no_tls, TIMEOUT_MS,
					     error) :
			   catalog_embedded_open(bed.loop, bed.path, error);
	if (!store)
		fail_msg("cannot open the store: %s", error);
	return store;
}

/* Once for a program that needs no etcd. */
static inline int setup_directory(void **state)
{
	const char *parent = getenv("TMPDIR");

	(void)state;
	assert_true(sd_event_new(&bed.loop) >= 0);
	snprintf(bed.directory, sizeof(bed.directory), "%s/distmind-catalog-XXXXXX",
		 parent && strlen(parent) < 32 ? parent : "/tmp");
	assert_non_null(mkdtemp(bed.directory));
	snprintf(bed.path, sizeof(bed.path), "%s/catalog", bed.directory);
	return 0;
}

/* Once for a program. */
static inline int setup_bed(void **state)
{
	setup_directory(state);
	if (etcd_server_program())
		etcd_server_create(&bed.server, 1, bed.directory);
	return 0;
}

static inline int remove_file(const char *path, const struct stat *status, int type,
			      struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

static inline int teardown_bed(void **state)
{
	(void)state;
	etcd_server_end(&bed.server);
	nftw(bed.directory, remove_file, 16, FTW_DEPTH | FTW_PHYS);
	sd_event_unref(bed.loop);
	return 0;
}

/* Around each test; tests keep out of each other's way by the names of their keys. */
/* For tests that open stores themselves. */
static inline int setup_no_store(void **state)
{
	(void)state;
	bed.etcd = true;
	return 0;
}

static inline int setup_file(void **state)
{
	(void)state;
	bed.etcd = false;
	return 0;
}

static inline int setup_embedded(void **state)
{
	(void)state;
	bed.etcd = false;
	bed.store = bed_open();
	return 0;
}

static inline int setup_etcd(void **state)
{
	(void)state;
	bed.etcd = true;
	if (etcd_server_program())
		bed.store = bed_open();
	return 0;
}

static inline int teardown_store(void **state)
{
	(void)state;
	catalog_store_close(bed.store);
	bed.store = NULL;
	return 0;
}

#define SKIP_WITHOUT_ETCD()                                                                 \
	do {                                                                                \
		if (bed.etcd && !etcd_server_program()) {                                   \
			print_message("# skipped: there is no /usr/bin/etcd: install "      \
				      "etcd-server\n");                                     \
			skip();                                                             \
		}                                                                           \
	} while (0)

/* A test, once on each. */
#define ON_EMBEDDED(test) { #test " (embedded)", test, setup_embedded, teardown_store, NULL }
#define ON_ETCD(test) { #test " (etcd)", test, setup_etcd, teardown_store, NULL }
#define ON_BOTH(test) ON_EMBEDDED(test), ON_ETCD(test)

#endif
