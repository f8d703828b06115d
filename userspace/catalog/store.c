// SPDX-License-Identifier: GPL-2.0-or-later
/* What every backend is asked for is checked here, once. */
#include "store.h"

#include <errno.h>
#include <string.h>

static bool key_is_good(const char *key)
{
	return key && *key && strnlen(key, CATALOG_KEY_MAX + 1) <= CATALOG_KEY_MAX;
}

void catalog_store_close(struct catalog_store *store)
{
	if (store)
		store->ops->close(store);
}

int catalog_store_range(struct catalog_store *store, const char *key, enum catalog_scope scope,
			catalog_done done, void *arg)
{
	if (!key_is_good(key))
		return -EINVAL;
	return store->ops->range(store, key, scope, done, arg);
}

int catalog_store_txn(struct catalog_store *store, const struct catalog_txn *txn,
		      catalog_done done, void *arg)
{
	size_t bytes = 0;

	if (txn->compare_count > CATALOG_TXN_MAX || txn->write_count > CATALOG_TXN_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < txn->compare_count; i++)
		if (!key_is_good(txn->compares[i].key))
			return -EINVAL;
	for (size_t i = 0; i < txn->write_count; i++) {
		const struct catalog_write *write = &txn->writes[i];

		if (!key_is_good(write->key))
			return -EINVAL;
		if (write->value && write->size > CATALOG_VALUE_MAX)
			return -EMSGSIZE;
		bytes += write->value ? write->size : 0;
		for (size_t j = 0; j < i; j++)
			if (!strcmp(write->key, txn->writes[j].key))
				return -EINVAL;
	}
	if (bytes > CATALOG_TXN_BYTES)
		return -EMSGSIZE;
	return store->ops->txn(store, txn, done, arg);
}

int catalog_store_lease_grant(struct catalog_store *store, unsigned int ttl_s, catalog_done done,
			      void *arg)
{
	if (ttl_s < 1 || ttl_s > 86400)
		return -EINVAL;
	return store->ops->lease_grant(store, ttl_s, done, arg);
}

int catalog_store_lease_keep(struct catalog_store *store, uint64_t lease, catalog_done done,
			     void *arg)
{
	return store->ops->lease_keep(store, lease, done, arg);
}

int catalog_store_lease_revoke(struct catalog_store *store, uint64_t lease, catalog_done done,
			       void *arg)
{
	return store->ops->lease_revoke(store, lease, done, arg);
}

int catalog_store_alarm(struct catalog_store *store, catalog_done done, void *arg)
{
	return store->ops->alarm ? store->ops->alarm(store, done, arg) : -EOPNOTSUPP;
}

struct catalog_watch *catalog_store_watch(struct catalog_store *store, const char *prefix,
					  uint64_t from, catalog_done changed, void *arg)
{
	if (!key_is_good(prefix)) {
		errno = EINVAL;
		return NULL;
	}
	return store->ops->watch(store, prefix, from, changed, arg);
}

void catalog_store_unwatch(struct catalog_store *store, struct catalog_watch *watch)
{
	if (watch)
		store->ops->unwatch(watch);
}
