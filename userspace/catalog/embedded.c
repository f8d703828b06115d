// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The store of a single host: everything in memory, what must survive in a journal.
 *
 * A transaction is carried out within the call that asks for it, the sync of the file
 * included; only its result waits for the event loop. Since keys with a lease are not
 * in the file, what is written often (hosts, chunk locations) costs no sync.
 */
#include "entries.h"
#include "journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>
#include <time.h>

/* A result that waits to be told. */
struct delivery {
	TAILQ_ENTRY(delivery) link;
	catalog_done done;
	void *arg;
	struct catalog_watch *watch; /* NULL: of a request */
	struct catalog_result result;
	struct catalog_entries entries;
	char error[CATALOG_ERROR_LEN];
};

struct lease {
	LIST_ENTRY(lease) link;
	struct embedded *store;
	uint64_t id;
	uint64_t ttl_us;
	sd_event_source *timer;
};

struct catalog_watch {
	LIST_ENTRY(catalog_watch) link;
	struct embedded *store;
	char *prefix;
	catalog_done changed;
	void *arg;
	bool dead;
};

struct embedded {
	struct catalog_store base;
	sd_event *loop;
	sd_event_source *deliver;
	struct catalog_journal journal;
	struct catalog_entries entries;
	uint64_t revision;
	uint64_t last_lease;
	TAILQ_HEAD(, delivery) deliveries;
	LIST_HEAD(, lease) leases;
	LIST_HEAD(, catalog_watch) watches;
};

static void free_delivery(struct embedded *store, struct delivery *delivery)
{
	TAILQ_REMOVE(&store->deliveries, delivery, link);
	catalog_entries_clear(&delivery->entries);
	free(delivery);
}

static struct delivery *prepare(struct embedded *store, catalog_done done, void *arg)
{
	struct delivery *delivery = calloc(1, sizeof(*delivery));

	if (!delivery)
		return NULL;
	delivery->done = done;
	delivery->arg = arg;
	TAILQ_INSERT_TAIL(&store->deliveries, delivery, link);
	sd_event_source_set_enabled(store->deliver, SD_EVENT_ONESHOT);
	return delivery;
}

static int copy_entry(struct catalog_entries *to, const struct catalog_entry *entry)
{
	struct catalog_entry *copy = catalog_entries_append(to, entry->key, entry->value,
							    entry->size);

	if (!copy)
		return -ENOMEM;
	copy->revision = entry->revision;
	copy->lease = entry->lease;
	return 0;
}

static void finish(struct embedded *store, struct delivery *delivery, int err)
{
	delivery->result.err = err;
	delivery->result.error = delivery->error;
	delivery->result.revision = store->revision;
	delivery->result.entries = delivery->entries.rows;
	delivery->result.count = err ? 0 : delivery->entries.count;
	if (err && !delivery->error[0])
		snprintf(delivery->error, sizeof(delivery->error), "%s",
			 err == -ESTALE ? "another write came first" :
			 err == -ENOENT ? "the lease has ended" : strerror(-err));
}

/* One at a time: done() may change everything. */
static int on_deliver(sd_event_source *source, void *arg)
{
	struct embedded *store = arg;
	struct delivery *delivery = TAILQ_FIRST(&store->deliveries);

	if (!delivery)
		return 0;
	TAILQ_REMOVE(&store->deliveries, delivery, link);
	if (!TAILQ_EMPTY(&store->deliveries))
		sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	delivery->done(&delivery->result, delivery->arg);
	catalog_entries_clear(&delivery->entries);
	free(delivery);
	return 0;
}

/*
 * Watches
 */

static void watch_lost(struct catalog_watch *watch)
{
	struct delivery *delivery = prepare(watch->store, watch->changed, watch->arg);

	watch->dead = true;
	if (!delivery)
		return; /* its owner lists now and then */
	delivery->watch = watch;
	snprintf(delivery->error, sizeof(delivery->error), "changes were missed");
	finish(watch->store, delivery, -ESTALE);
}

static void notify(struct embedded *store, const struct catalog_entries *changes)
{
	struct catalog_watch *watch;

	LIST_FOREACH(watch, &store->watches, link) {
		struct delivery *delivery = NULL;
		int err = 0;

		for (size_t i = 0; i < changes->count && !err && !watch->dead; i++) {
			if (!catalog_has_prefix(changes->rows[i].key, watch->prefix))
				continue;
			if (!delivery)
				delivery = prepare(store, watch->changed, watch->arg);
			err = -ENOMEM;
			if (delivery)
				err = copy_entry(&delivery->entries, &changes->rows[i]);
		}
		if (delivery) {
			delivery->watch = watch;
			finish(store, delivery, err);
		}
		if (err)
			watch->dead = true;
	}
}

static struct catalog_watch *embedded_watch(struct catalog_store *base, const char *prefix,
					    uint64_t from, catalog_done changed, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct catalog_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->prefix = strdup(prefix);
	if (!watch->prefix) {
		free(watch);
		return NULL;
	}
	watch->store = store;
	watch->changed = changed;
	watch->arg = arg;
	LIST_INSERT_HEAD(&store->watches, watch, link);
	/* There is no history to take them from. */
	if (from <= store->revision)
		watch_lost(watch);
	return watch;
}

static void embedded_unwatch(struct catalog_watch *watch)
{
	struct delivery *delivery = TAILQ_FIRST(&watch->store->deliveries), *next;

	for (; delivery; delivery = next) {
		next = TAILQ_NEXT(delivery, link);
		if (delivery->watch == watch)
			free_delivery(watch->store, delivery);
	}
	LIST_REMOVE(watch, link);
	free(watch->prefix);
	free(watch);
}

/*
 * Reads and writes
 */

static int embedded_range(struct catalog_store *base, const char *key, enum catalog_scope scope,
			  catalog_done done, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery = prepare(store, done, arg);
	const struct catalog_entry *entry;
	int err = 0;

	if (!delivery)
		return -ENOMEM;
	catalog_entries_each(&store->entries, key, entry) {
		struct catalog_entry copy = *entry;

		if (scope == CATALOG_NAMES) {
			copy.value = NULL;
			copy.size = 0;
		}
		if (!err && (scope != CATALOG_ONE || !strcmp(entry->key, key)))
			err = copy_entry(&delivery->entries, &copy);
	}
	finish(store, delivery, err);
	return 0;
}

static struct lease *find_lease(struct embedded *store, uint64_t id)
{
	struct lease *lease;

	LIST_FOREACH(lease, &store->leases, link)
		if (lease->id == id)
			return lease;
	return NULL;
}

/* What of the writes must survive, as writes of the file. */
static size_t durable(struct embedded *store, const struct catalog_txn *txn,
		      struct catalog_write *writes)
{
	size_t count = 0;

	for (size_t i = 0; i < txn->write_count; i++) {
		const struct catalog_write *write = &txn->writes[i];
		const struct catalog_entry *old = catalog_entries_find(&store->entries, write->key);
		bool in_file = old && !old->lease;

		if (write->value && !write->lease)
			writes[count++] = *write;
		else if (in_file)
			writes[count++] = (struct catalog_write){ .key = write->key };
	}
	return count;
}

static int write_entry(struct embedded *store, const struct catalog_write *write,
		       uint64_t revision, struct catalog_entries *changes)
{
	struct catalog_entry *entry = catalog_entries_find(&store->entries, write->key);
	struct catalog_entry *change;

	if (!write->value) {
		if (entry)
			catalog_entries_remove(&store->entries, entry);
		else
			return 0;
	} else {
		entry = catalog_entries_put(&store->entries, write->key, write->value, write->size);
		if (!entry)
			return -ENOMEM;
		entry->revision = revision;
		entry->lease = write->lease;
	}
	change = catalog_entries_append(changes, write->key, write->value, write->size);
	if (!change)
		return -ENOMEM;
	change->revision = revision;
	change->lease = write->value ? write->lease : 0;
	return 0;
}

static int apply(struct embedded *store, const struct catalog_txn *txn, char *error)
{
	struct catalog_write writes[CATALOG_TXN_MAX];
	struct catalog_entries changes = { 0 };
	size_t count;
	int err = 0;

	for (size_t i = 0; i < txn->compare_count; i++) {
		const struct catalog_entry *entry =
			catalog_entries_find(&store->entries, txn->compares[i].key);

		if ((entry ? entry->revision : 0) != txn->compares[i].revision)
			return -ESTALE;
	}
	for (size_t i = 0; i < txn->write_count; i++)
		if (txn->writes[i].value && txn->writes[i].lease &&
		    !find_lease(store, txn->writes[i].lease))
			return -ENOENT;
	count = durable(store, txn, writes);
	if (count)
		err = catalog_journal_append(&store->journal, store->revision + 1, writes, count,
					     error);
	if (err)
		return err;
	for (size_t i = 0; i < txn->write_count; i++)
		/* The file has it: without the memory for it, only a restart shows the truth. */
		if (write_entry(store, &txn->writes[i], store->revision + 1, &changes))
			abort();
	if (changes.count)
		store->revision++;
	notify(store, &changes);
	catalog_entries_clear(&changes);
	/* If that fails the long file goes on being used. */
	if (catalog_journal_is_long(&store->journal))
		catalog_journal_rewrite(&store->journal, store->revision, &store->entries, error);
	return 0;
}

static int embedded_txn(struct catalog_store *base, const struct catalog_txn *txn,
			catalog_done done, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery = prepare(store, done, arg);

	if (!delivery)
		return -ENOMEM;
	finish(store, delivery, apply(store, txn, delivery->error));
	return 0;
}

/*
 * Leases
 */

static void end_lease(struct lease *lease)
{
	struct embedded *store = lease->store;
	char error[CATALOG_ERROR_LEN], key[CATALOG_KEY_MAX + 1];
	struct catalog_write write = { .key = key };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };

	for (size_t i = store->entries.count; i-- > 0;) {
		if (store->entries.rows[i].lease != lease->id)
			continue;
		snprintf(key, sizeof(key), "%s", store->entries.rows[i].key);
		apply(store, &txn, error);
	}
	LIST_REMOVE(lease, link);
	sd_event_source_disable_unref(lease->timer);
	free(lease);
}

static int on_expiry(sd_event_source *source, uint64_t us, void *arg)
{
	(void)source;
	(void)us;
	end_lease(arg);
	return 0;
}

static int embedded_grant(struct catalog_store *base, unsigned int ttl_s, catalog_done done,
			  void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery;
	struct lease *lease = calloc(1, sizeof(*lease));
	int err;

	if (!lease)
		return -ENOMEM;
	lease->store = store;
	lease->id = store->last_lease + 1;
	lease->ttl_us = ttl_s * 1000000ULL;
	err = sd_event_add_time_relative(store->loop, &lease->timer, CLOCK_BOOTTIME, lease->ttl_us,
					 0, on_expiry, lease);
	delivery = err < 0 ? NULL : prepare(store, done, arg);
	if (!delivery) {
		sd_event_source_disable_unref(lease->timer);
		free(lease);
		return -ENOMEM;
	}
	store->last_lease++;
	LIST_INSERT_HEAD(&store->leases, lease, link);
	delivery->result.lease = lease->id;
	finish(store, delivery, 0);
	return 0;
}

static int embedded_keep(struct catalog_store *base, uint64_t id, catalog_done done, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery = prepare(store, done, arg);
	struct lease *lease = find_lease(store, id);

	if (!delivery)
		return -ENOMEM;
	if (lease)
		sd_event_source_set_time_relative(lease->timer, lease->ttl_us);
	delivery->result.lease = id;
	finish(store, delivery, lease ? 0 : -ENOENT);
	return 0;
}

static int embedded_revoke(struct catalog_store *base, uint64_t id, catalog_done done, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery = prepare(store, done, arg);
	struct lease *lease = find_lease(store, id);

	if (!delivery)
		return -ENOMEM;
	if (lease)
		end_lease(lease);
	finish(store, delivery, lease ? 0 : -ENOENT);
	return 0;
}

static void embedded_close(struct catalog_store *base)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery;
	struct lease *lease;

	/* done() may ask for more, which ends in the same way. */
	while ((delivery = TAILQ_FIRST(&store->deliveries))) {
		struct catalog_result canceled = {
			.err = -ECANCELED,
			.error = "the catalog is being closed",
		};

		if (!delivery->watch)
			delivery->done(&canceled, delivery->arg);
		free_delivery(store, delivery);
	}
	while (!LIST_EMPTY(&store->watches))
		embedded_unwatch(LIST_FIRST(&store->watches));
	while ((lease = LIST_FIRST(&store->leases))) {
		LIST_REMOVE(lease, link);
		sd_event_source_disable_unref(lease->timer);
		free(lease);
	}
	sd_event_source_disable_unref(store->deliver);
	sd_event_unref(store->loop);
	catalog_journal_close(&store->journal);
	catalog_entries_clear(&store->entries);
	free(store);
}

static const struct catalog_store_ops embedded_ops = {
	.range = embedded_range,
	.txn = embedded_txn,
	.lease_grant = embedded_grant,
	.lease_keep = embedded_keep,
	.lease_revoke = embedded_revoke,
	.watch = embedded_watch,
	.unwatch = embedded_unwatch,
	.close = embedded_close,
};

struct catalog_store *catalog_embedded_open(struct sd_event *loop, const char *path, char *error)
{
	struct embedded *store = calloc(1, sizeof(*store));
	int err;

	if (!store) {
		snprintf(error, CATALOG_ERROR_LEN, "no memory");
		return NULL;
	}
	store->base.ops = &embedded_ops;
	TAILQ_INIT(&store->deliveries);
	LIST_INIT(&store->leases);
	LIST_INIT(&store->watches);
	err = catalog_journal_open(&store->journal, path, &store->entries, &store->revision, error);
	if (err) {
		free(store);
		errno = -err;
		return NULL;
	}
	store->loop = sd_event_ref(loop);
	err = sd_event_add_defer(loop, &store->deliver, on_deliver, store);
	if (err >= 0)
		err = sd_event_source_set_enabled(store->deliver, SD_EVENT_OFF);
	if (err < 0) {
		snprintf(error, CATALOG_ERROR_LEN, "cannot use the event loop: %s", strerror(-err));
		embedded_close(&store->base);
		errno = -err;
		return NULL;
	}
	return &store->base;
}
