// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The store of a single host, in a file (database.h).
 *
 * A thread of its own carries out what touches the file, in the order in which it was asked for:
 * the disk may take its time, and the event loop does not wait for it. First it looks at all of
 * the file; one that is damaged is neither read nor written. Leases, watches and whoever is
 * told are the loop's. A request is a job until the thread has done it, and then a
 * delivery; watches and requests about leases alone begin as deliveries.
 *
 * lock: the jobs, those done, and stop. Everything else is the loop's, but for the database, what
 * is wrong with it and the job in hand, which are the thread's.
 */
#include "database.h"
#include "../common/thread.h"
#include "txn.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>
#include <time.h>
#include <unistd.h>

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

/* A request, or what a watch is told. */
struct delivery {
	TAILQ_ENTRY(delivery) link;
	catalog_done done; /* NULL: nobody waits */
	void *arg;
	struct catalog_watch *watch; /* NULL: of a request */
	struct catalog_result result;
	struct catalog_entries entries;
	char error[CATALOG_ERROR_LEN];
	/* Of a job: what is to be done, and what came of it. */
	int (*work)(struct embedded *store, struct delivery *job);
	char *key;
	enum catalog_scope scope;
	uint64_t lease;
	struct catalog_txn txn; /* a copy */
	struct catalog_entries changes;
	uint64_t revision;
	int err;
};

TAILQ_HEAD(deliveries, delivery);

struct embedded {
	struct catalog_store base;
	sd_event *loop;
	sd_event_source *deliver, *ended;
	struct catalog_database *database;
	uint64_t revision; /* of the last change that watches were told of */
	uint64_t last_lease;
	struct deliveries deliveries;
	LIST_HEAD(, lease) leases;
	LIST_HEAD(, catalog_watch) watches;

	pthread_t thread;
	bool running;
	int news; /* an eventfd: so many are done */
	pthread_mutex_t lock;
	/* For each job, and at the end. To signal a condition can wait for who was woken before. */
	sem_t wake;
	struct deliveries jobs, done;
	bool stop;
	char damage[CATALOG_ERROR_LEN]; /* of the file, in words; "": none is known */
};

static void free_delivery(struct delivery *delivery)
{
	catalog_txn_free(&delivery->txn);
	catalog_entries_clear(&delivery->entries);
	catalog_entries_clear(&delivery->changes);
	free(delivery->key);
	free(delivery);
}

static struct delivery *new_delivery(catalog_done done, void *arg)
{
	struct delivery *delivery = calloc(1, sizeof(*delivery));

	if (!delivery)
		return NULL;
	delivery->done = done;
	delivery->arg = arg;
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

/* It is told by the loop, after all that are there already. */
static void deliver(struct embedded *store, struct delivery *delivery, int err, uint64_t revision)
{
	delivery->result.err = err;
	delivery->result.error = delivery->error;
	delivery->result.revision = revision;
	delivery->result.entries = delivery->entries.rows;
	delivery->result.count = err ? 0 : delivery->entries.count;
	delivery->result.owner = err ? NULL : &delivery->entries;
	if (!err)
		delivery->error[0] = '\0';
	else if (!delivery->error[0])
		snprintf(delivery->error, sizeof(delivery->error), "%s",
			 err == -ESTALE ? "another write came first" :
			 err == -ENOENT ? "the lease has ended" : strerror(-err));
	TAILQ_INSERT_TAIL(&store->deliveries, delivery, link);
	sd_event_source_set_enabled(store->deliver, SD_EVENT_ONESHOT);
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
	if (delivery->done)
		delivery->done(&delivery->result, delivery->arg);
	free_delivery(delivery);
	return 0;
}

/*
 * Watches
 */

static void watch_lost(struct catalog_watch *watch)
{
	struct delivery *delivery = new_delivery(watch->changed, watch->arg);

	watch->dead = true;
	if (!delivery)
		return; /* its owner lists now and then */
	delivery->watch = watch;
	snprintf(delivery->error, sizeof(delivery->error), "changes were missed");
	deliver(watch->store, delivery, -ESTALE, watch->store->revision);
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
				delivery = new_delivery(watch->changed, watch->arg);
			err = -ENOMEM;
			if (delivery)
				err = copy_entry(&delivery->entries, &changes->rows[i]);
		}
		if (delivery) {
			delivery->watch = watch;
			deliver(store, delivery, err, store->revision);
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
	struct deliveries *deliveries = &watch->store->deliveries;
	struct delivery *delivery = TAILQ_FIRST(deliveries), *next;

	for (; delivery; delivery = next) {
		next = TAILQ_NEXT(delivery, link);
		if (delivery->watch == watch) {
			TAILQ_REMOVE(deliveries, delivery, link);
			free_delivery(delivery);
		}
	}
	LIST_REMOVE(watch, link);
	free(watch->prefix);
	free(watch);
}

/*
 * The thread
 */

static void submit(struct embedded *store, struct delivery *job)
{
	pthread_mutex_lock(&store->lock);
	TAILQ_INSERT_TAIL(&store->jobs, job, link);
	pthread_mutex_unlock(&store->lock);
	sem_post(&store->wake);
}

static int refuse_damaged(const struct embedded *store, struct delivery *job)
{
	memcpy(job->error, store->damage, sizeof(job->error));
	return -EIO;
}

/* Rows are checked when they are read, too: so without memory this is left at that. */
static void look_for_damage(struct embedded *store)
{
	int err = catalog_database_check(store->database, store->damage);

	if (!err || err == -ENOMEM)
		store->damage[0] = '\0';
}

static void *carry_out(void *arg)
{
	struct embedded *store = arg;
	struct delivery *job;

	look_for_damage(store);
	for (;;) {
		while (sem_wait(&store->wake))
			; /* a signal */
		pthread_mutex_lock(&store->lock);
		job = store->stop ? NULL : TAILQ_FIRST(&store->jobs);
		if (job)
			TAILQ_REMOVE(&store->jobs, job, link);
		pthread_mutex_unlock(&store->lock);
		/* There is one for each time that it was woken, but at the end. */
		if (!job)
			return NULL;
		job->err = store->damage[0] ? refuse_damaged(store, job) : job->work(store, job);
		job->revision = catalog_database_revision(store->database);
		pthread_mutex_lock(&store->lock);
		TAILQ_INSERT_TAIL(&store->done, job, link);
		pthread_mutex_unlock(&store->lock);
		eventfd_write(store->news, 1);
	}
}

/* One at a time: what watches are told of it is a copy. */
static int on_done(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct embedded *store = arg;
	struct delivery *job;
	uint64_t count;

	(void)source;
	(void)revents;
	/* By one. */
	if (read(fd, &count, sizeof(count)) < 0)
		return 0;
	pthread_mutex_lock(&store->lock);
	job = TAILQ_FIRST(&store->done);
	if (job)
		TAILQ_REMOVE(&store->done, job, link);
	pthread_mutex_unlock(&store->lock);
	if (!job)
		return 0;
	store->revision = job->revision;
	notify(store, &job->changes);
	deliver(store, job, job->err, job->revision);
	return 0;
}

/*
 * Reads and writes
 */

static int range_work(struct embedded *store, struct delivery *job)
{
	return catalog_database_range(store->database, job->key, job->scope, &job->entries,
				      job->error);
}

static int embedded_range(struct catalog_store *base, const char *key, enum catalog_scope scope,
			  catalog_done done, void *arg)
{
	struct delivery *job = new_delivery(done, arg);

	if (!job)
		return -ENOMEM;
	job->work = range_work;
	job->scope = scope;
	job->key = strdup(key);
	if (!job->key) {
		free_delivery(job);
		return -ENOMEM;
	}
	submit((struct embedded *)base, job);
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

static int txn_work(struct embedded *store, struct delivery *job)
{
	return catalog_database_txn(store->database, &job->txn, &job->changes, job->error);
}

/* A lease that has ended is told after compares that do not hold, as by etcd. */
static int dead_lease_work(struct embedded *store, struct delivery *job)
{
	struct catalog_txn compares = job->txn;
	int err;

	compares.write_count = 0;
	err = catalog_database_txn(store->database, &compares, &job->changes, job->error);
	return err ? err : -ENOENT;
}

static int embedded_txn(struct catalog_store *base, const struct catalog_txn *txn,
			catalog_done done, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *job = new_delivery(done, arg);

	if (!job || catalog_txn_copy(&job->txn, txn)) {
		if (job)
			free_delivery(job);
		return -ENOMEM;
	}
	job->work = txn_work;
	for (size_t i = 0; i < txn->write_count; i++)
		if (txn->writes[i].value && txn->writes[i].lease &&
		    !find_lease(store, txn->writes[i].lease))
			job->work = dead_lease_work;
	submit(store, job);
	return 0;
}

/*
 * Leases
 */

static int lease_work(struct embedded *store, struct delivery *job)
{
	struct catalog_entries keys = { 0 };
	struct catalog_write *writes = NULL;
	int err;

	err = catalog_database_leased(store->database, job->lease, &keys, job->error);
	if (!err && keys.count) {
		writes = calloc(keys.count, sizeof(*writes));
		err = writes ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < keys.count && !err; i++)
		writes[i].key = keys.rows[i].key;
	if (!err && keys.count)
		err = catalog_database_txn(store->database, &(struct catalog_txn){
			.writes = writes, .write_count = keys.count,
		}, &job->changes, job->error);
	free(writes);
	catalog_entries_clear(&keys);
	return err;
}

/* Its keys go with it. Takes a job whose done() is called then. */
static void end_lease(struct lease *lease, struct delivery *job)
{
	job->work = lease_work;
	job->lease = lease->id;
	submit(lease->store, job);
	LIST_REMOVE(lease, link);
	sd_event_source_disable_unref(lease->timer);
	free(lease);
}

static int on_expiry(sd_event_source *source, uint64_t us, void *arg)
{
	struct delivery *job = new_delivery(NULL, NULL);
	struct lease *lease = arg;

	(void)us;
	if (job) {
		end_lease(lease, job);
		return 0;
	}
	/* Without memory it lives a little longer. */
	sd_event_source_set_time_relative(source, 1000000);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int embedded_grant(struct catalog_store *base, unsigned int ttl_s, catalog_done done,
			  void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery = new_delivery(done, arg);
	struct lease *lease = calloc(1, sizeof(*lease));
	int err = -ENOMEM;

	if (delivery && lease) {
		lease->store = store;
		lease->id = store->last_lease + 1;
		lease->ttl_us = ttl_s * 1000000ULL;
		err = sd_event_add_time_relative(store->loop, &lease->timer, CLOCK_BOOTTIME,
						 lease->ttl_us, 0, on_expiry, lease);
	}
	if (err < 0) {
		free(delivery);
		free(lease);
		return -ENOMEM;
	}
	store->last_lease++;
	LIST_INSERT_HEAD(&store->leases, lease, link);
	delivery->result.lease = lease->id;
	deliver(store, delivery, 0, store->revision);
	return 0;
}

static int embedded_keep(struct catalog_store *base, uint64_t id, catalog_done done, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery = new_delivery(done, arg);
	struct lease *lease = find_lease(store, id);

	if (!delivery)
		return -ENOMEM;
	if (lease)
		sd_event_source_set_time_relative(lease->timer, lease->ttl_us);
	delivery->result.lease = id;
	deliver(store, delivery, lease ? 0 : -ENOENT, store->revision);
	return 0;
}

static int embedded_revoke(struct catalog_store *base, uint64_t id, catalog_done done, void *arg)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery = new_delivery(done, arg);
	struct lease *lease = find_lease(store, id);

	if (!delivery)
		return -ENOMEM;
	if (lease)
		end_lease(lease, delivery);
	else
		deliver(store, delivery, -ENOENT, store->revision);
	return 0;
}

/*
 * Beginning and end
 */

static void stop_thread(struct embedded *store)
{
	if (!store->running)
		return;
	pthread_mutex_lock(&store->lock);
	store->stop = true;
	pthread_mutex_unlock(&store->lock);
	sem_post(&store->wake);
	/* For as long as the disk takes for the job in hand. */
	pthread_join(store->thread, NULL);
	store->running = false;
}

static void embedded_close(struct catalog_store *base)
{
	struct embedded *store = (struct embedded *)base;
	struct delivery *delivery;
	struct lease *lease;

	stop_thread(store);
	TAILQ_CONCAT(&store->deliveries, &store->done, link);
	TAILQ_CONCAT(&store->deliveries, &store->jobs, link);
	/* done() may ask for more, which ends in the same way. */
	while ((delivery = TAILQ_FIRST(&store->deliveries))) {
		struct catalog_result canceled = {
			.err = -ECANCELED,
			.error = "the catalog is being closed",
		};

		TAILQ_REMOVE(&store->deliveries, delivery, link);
		if (delivery->done && !delivery->watch)
			delivery->done(&canceled, delivery->arg);
		free_delivery(delivery);
		TAILQ_CONCAT(&store->deliveries, &store->jobs, link);
	}
	while (!LIST_EMPTY(&store->watches))
		embedded_unwatch(LIST_FIRST(&store->watches));
	while ((lease = LIST_FIRST(&store->leases))) {
		LIST_REMOVE(lease, link);
		sd_event_source_disable_unref(lease->timer);
		free(lease);
	}
	sd_event_source_disable_unref(store->ended);
	sd_event_source_disable_unref(store->deliver);
	sd_event_unref(store->loop);
	if (store->news >= 0)
		close(store->news);
	catalog_database_close(store->database);
	sem_destroy(&store->wake);
	pthread_mutex_destroy(&store->lock);
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

static int start_thread(struct embedded *store)
{
	int err = thread_start(&store->thread, carry_out, store);

	store->running = !err;
	return err;
}

static int use_loop(struct embedded *store, struct sd_event *loop)
{
	int err;

	store->loop = sd_event_ref(loop);
	store->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (store->news < 0)
		return -errno;
	err = sd_event_add_io(loop, &store->ended, store->news, EPOLLIN, on_done, store);
	if (err >= 0)
		err = sd_event_add_defer(loop, &store->deliver, on_deliver, store);
	if (err >= 0)
		err = sd_event_source_set_enabled(store->deliver, SD_EVENT_OFF);
	return err < 0 ? err : start_thread(store);
}

struct catalog_store *catalog_embedded_open(struct sd_event *loop, const char *path, char *error)
{
	struct embedded *store = calloc(1, sizeof(*store));
	int err;

	snprintf(error, CATALOG_ERROR_LEN, "no memory");
	if (!store)
		return NULL;
	store->base.ops = &embedded_ops;
	store->news = -1;
	pthread_mutex_init(&store->lock, NULL);
	sem_init(&store->wake, 0, 0);
	TAILQ_INIT(&store->deliveries);
	TAILQ_INIT(&store->jobs);
	TAILQ_INIT(&store->done);
	LIST_INIT(&store->leases);
	LIST_INIT(&store->watches);
	err = catalog_database_open(&store->database, path, error);
	if (!err) {
		store->revision = catalog_database_revision(store->database);
		err = use_loop(store, loop);
		if (err)
			snprintf(error, CATALOG_ERROR_LEN, "cannot use the event loop: %s",
				 strerror(-err));
	}
	if (!err)
		return &store->base;
	embedded_close(&store->base);
	errno = -err;
	return NULL;
}
