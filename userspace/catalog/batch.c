// SPDX-License-Identifier: GPL-2.0-or-later
#include "batch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void catalog_batch_clear(struct catalog_batch *batch)
{
	for (size_t i = 0; i < batch->compare_count; i++)
		free((char *)batch->compares[i].key);
	for (size_t i = 0; i < batch->write_count; i++) {
		free((char *)batch->writes[i].key);
		free((void *)batch->writes[i].value);
	}
	*batch = (struct catalog_batch){ 0 };
}

static char *key_of(struct catalog_batch *batch, size_t count, const char *format, va_list args)
{
	char *key;

	if (count == CATALOG_TXN_MAX) {
		batch->err = -EMSGSIZE;
		return NULL;
	}
	if (vasprintf(&key, format, args) < 0) {
		batch->err = -ENOMEM;
		return NULL;
	}
	return key;
}

void catalog_batch_compare(struct catalog_batch *batch, uint64_t revision, const char *format, ...)
{
	va_list args;
	char *key;

	va_start(args, format);
	key = key_of(batch, batch->compare_count, format, args);
	va_end(args);
	if (key)
		batch->compares[batch->compare_count++] = (struct catalog_compare){ key, revision };
}

void catalog_batch_put(struct catalog_batch *batch, const void *value, size_t size, uint64_t lease,
		       const char *format, ...)
{
	char *key, *copy = malloc(size + 1);
	va_list args;

	va_start(args, format);
	key = key_of(batch, batch->write_count, format, args);
	va_end(args);
	if (!key || !copy) {
		if (!copy)
			batch->err = -ENOMEM;
		free(key);
		free(copy);
		return;
	}
	if (size)
		memcpy(copy, value, size);
	batch->bytes += size;
	batch->writes[batch->write_count++] = (struct catalog_write){ key, copy, size, lease };
}

void catalog_batch_delete(struct catalog_batch *batch, const char *format, ...)
{
	va_list args;
	char *key;

	va_start(args, format);
	key = key_of(batch, batch->write_count, format, args);
	va_end(args);
	if (key)
		batch->writes[batch->write_count++] = (struct catalog_write){ .key = key };
}

int catalog_batch_send(struct catalog_store *store, struct catalog_batch *batch, catalog_done done,
		       void *arg)
{
	struct catalog_txn txn = {
		.compares = batch->compares,
		.compare_count = batch->compare_count,
		.writes = batch->writes,
		.write_count = batch->write_count,
	};

	return batch->err ? batch->err : catalog_store_txn(store, &txn, done, arg);
}
