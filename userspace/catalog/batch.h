/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A transaction under construction, which owns its keys and values. Running out of memory
 * or room is noted, and told when it is sent.
 */
#ifndef CATALOG_BATCH_H
#define CATALOG_BATCH_H

#include "store.h"

struct catalog_batch {
	struct catalog_compare compares[CATALOG_TXN_MAX];
	struct catalog_write writes[CATALOG_TXN_MAX];
	size_t compare_count, write_count;
	size_t bytes; /* of values */
	int err;
};

/* To be freed, all zero to begin with. */
void catalog_batch_clear(struct catalog_batch *batch);

void catalog_batch_compare(struct catalog_batch *batch, uint64_t revision, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Copies the value. */
void catalog_batch_put(struct catalog_batch *batch, const void *value, size_t size, uint64_t lease,
		       const char *format, ...) __attribute__((format(printf, 5, 6)));
void catalog_batch_delete(struct catalog_batch *batch, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The batch can be cleared as soon as this returns. */
int catalog_batch_send(struct catalog_store *store, struct catalog_batch *batch, catalog_done done,
		       void *arg);

#endif
