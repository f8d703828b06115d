// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An order goes from the loop to the thread, which has the other store carry it out, and comes
 * back as a report with what became of it. A report that brought entries goes to the thread once
 * more, which frees them: there may be many. Changes that a watch saw are reports from the
 * beginning. Both queues are in order, so the last report of a watch is the one that says that
 * the thread does not use it any more.
 *
 * lock: the queues, and stop. The other store and its loop are the thread's while it runs;
 * everything else is the loop's.
 */
#include "courier.h"

#include "entries.h"
#include "../common/thread.h"
#include "txn.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>
#include <unistd.h>

struct courier;

struct order {
	TAILQ_ENTRY(order) link;
	struct courier *courier;
	/* By the thread; negative errno: that is what became of it. NULL: it is to be freed. */
	int (*begin)(struct order *order);
	char *key;
	enum catalog_scope scope;
	struct catalog_txn txn; /* a copy */
	unsigned int ttl_s;
	uint64_t lease;
	struct catalog_watch *watch; /* NULL: of a request */
	catalog_done done; /* of a request */
	void *arg;
	struct catalog_result result;
	struct catalog_entries entries;
	char error[CATALOG_ERROR_LEN];
};

TAILQ_HEAD(orders, order);

struct catalog_watch {
	LIST_ENTRY(catalog_watch) link;
	struct courier *courier;
	uint64_t from;
	void *inner; /* the other store's watch, the thread's to use; NULL: none */
	struct order *end; /* given out when it is ended, which cannot fail */
	catalog_done changed; /* NULL: it has been ended */
	void *arg;
};

struct courier {
	struct catalog_store base;
	struct catalog_store *store;
	sd_event *inside;
	sd_event_source *ordered; /* of inside */
	sd_event_source *reported;
	int orders_fd, reports_fd; /* eventfds */
	LIST_HEAD(, catalog_watch) watches;

	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	struct orders orders, reports;
	bool stop;
	bool stopped; /* the thread's: it has seen that */
};

static void free_order(struct order *order)
{
	catalog_txn_free(&order->txn);
	catalog_entries_clear(&order->entries);
	free(order->key);
	free(order);
}

static struct order *take(struct courier *courier, struct orders *orders)
{
	struct order *order;

	pthread_mutex_lock(&courier->lock);
	order = TAILQ_FIRST(orders);
	if (order)
		TAILQ_REMOVE(orders, order, link);
	pthread_mutex_unlock(&courier->lock);
	return order;
}

static void give(struct courier *courier, struct orders *orders, struct order *order, int fd)
{
	pthread_mutex_lock(&courier->lock);
	TAILQ_INSERT_TAIL(orders, order, link);
	pthread_mutex_unlock(&courier->lock);
	eventfd_write(fd, 1);
}

/*
 * The thread
 */

static void report(struct order *order)
{
	give(order->courier, &order->courier->reports, order, order->courier->reports_fd);
}

static void on_result(const struct catalog_result *result, void *arg)
{
	struct order *order = arg;
	int err = result->err;

	if (!err)
		err = catalog_entries_take(&order->entries, result);
	snprintf(order->error, sizeof(order->error), "%s",
		 err == result->err ? result->error : strerror(-err));
	order->result = (struct catalog_result){
		.err = err, .error = order->error, .revision = result->revision,
		.entries = order->entries.rows, .count = order->entries.count,
		.lease = result->lease, .owner = err ? NULL : &order->entries,
	};
	report(order);
}

static void carry_out(struct order *order)
{
	int err;

	if (!order->begin) {
		free_order(order);
		return;
	}
	err = order->begin(order);
	if (err)
		on_result(&(struct catalog_result){ .err = err, .error = strerror(-err) }, order);
}

static int on_ordered(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct courier *courier = arg;
	struct order *order;
	eventfd_t count;

	(void)source;
	(void)revents;
	eventfd_read(fd, &count);
	pthread_mutex_lock(&courier->lock);
	courier->stopped = courier->stop;
	pthread_mutex_unlock(&courier->lock);
	while (!courier->stopped && (order = take(courier, &courier->orders)))
		carry_out(order);
	return 0;
}

static void *run(void *arg)
{
	struct courier *courier = arg;

	while (!courier->stopped && sd_event_run(courier->inside, UINT64_MAX) >= 0)
		;
	return NULL;
}

static int begin_range(struct order *order)
{
	return catalog_store_range(order->courier->store, order->key, order->scope, on_result,
				   order);
}

static int begin_txn(struct order *order)
{
	int err = catalog_store_txn(order->courier->store, &order->txn, on_result, order);

	catalog_txn_free(&order->txn);
	return err;
}

static int begin_grant(struct order *order)
{
	return catalog_store_lease_grant(order->courier->store, order->ttl_s, on_result, order);
}

static int begin_keep(struct order *order)
{
	return catalog_store_lease_keep(order->courier->store, order->lease, on_result, order);
}

static int begin_revoke(struct order *order)
{
	return catalog_store_lease_revoke(order->courier->store, order->lease, on_result, order);
}

static int begin_alarm(struct order *order)
{
	return catalog_store_alarm(order->courier->store, on_result, order);
}

static struct order *new_order(struct courier *courier, int (*begin)(struct order *order),
			       catalog_done done, void *arg)
{
	struct order *order = calloc(1, sizeof(*order));

	if (!order)
		return NULL;
	order->courier = courier;
	order->begin = begin;
	order->done = done;
	order->arg = arg;
	return order;
}

/* Without memory changes are missed: whoever watches lists now and then. */
static void on_change(const struct catalog_result *result, void *arg)
{
	struct catalog_watch *watch = arg;
	struct order *order = new_order(watch->courier, NULL, NULL, NULL);

	if (!order)
		return;
	order->watch = watch;
	on_result(result, order);
}

static int begin_watch(struct order *order)
{
	struct catalog_watch *watch = order->watch;

	watch->inner = catalog_store_watch(order->courier->store, order->key, watch->from,
					   on_change, watch);
	if (!watch->inner)
		return -ENOMEM;
	free_order(order);
	return 0;
}

static int begin_unwatch(struct order *order)
{
	catalog_store_unwatch(order->courier->store, order->watch->inner);
	report(order);
	return 0;
}

/*
 * The loop
 */

static void free_watch(struct catalog_watch *watch)
{
	LIST_REMOVE(watch, link);
	free(watch);
}

/* One at a time: done() may take long. */
static int on_reported(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct courier *courier = arg;
	struct order *order;
	eventfd_t count;

	(void)source;
	(void)revents;
	eventfd_read(fd, &count);
	order = take(courier, &courier->reports);
	if (!order)
		return 0;
	if (order->begin == begin_unwatch)
		free_watch(order->watch);
	else if (order->watch && order->watch->changed)
		order->watch->changed(&order->result, order->watch->arg);
	else if (!order->watch)
		order->done(&order->result, order->arg);
	if (!order->entries.count) {
		free_order(order);
		return 0;
	}
	order->begin = NULL;
	give(courier, &courier->orders, order, courier->orders_fd);
	return 0;
}

static int submit(struct order *order)
{
	if (!order)
		return -ENOMEM;
	give(order->courier, &order->courier->orders, order, order->courier->orders_fd);
	return 0;
}

static int courier_range(struct catalog_store *base, const char *key, enum catalog_scope scope,
			 catalog_done done, void *arg)
{
	struct order *order = new_order((struct courier *)base, begin_range, done, arg);

	if (!order)
		return -ENOMEM;
	order->scope = scope;
	order->key = strdup(key);
	if (!order->key) {
		free_order(order);
		return -ENOMEM;
	}
	return submit(order);
}

static int courier_txn(struct catalog_store *base, const struct catalog_txn *txn,
		       catalog_done done, void *arg)
{
	struct order *order = new_order((struct courier *)base, begin_txn, done, arg);

	if (!order)
		return -ENOMEM;
	if (catalog_txn_copy(&order->txn, txn)) {
		free_order(order);
		return -ENOMEM;
	}
	return submit(order);
}

static int courier_grant(struct catalog_store *base, unsigned int ttl_s, catalog_done done,
			 void *arg)
{
	struct order *order = new_order((struct courier *)base, begin_grant, done, arg);

	if (order)
		order->ttl_s = ttl_s;
	return submit(order);
}

static int courier_keep(struct catalog_store *base, uint64_t lease, catalog_done done, void *arg)
{
	struct order *order = new_order((struct courier *)base, begin_keep, done, arg);

	if (order)
		order->lease = lease;
	return submit(order);
}

static int courier_revoke(struct catalog_store *base, uint64_t lease, catalog_done done, void *arg)
{
	struct order *order = new_order((struct courier *)base, begin_revoke, done, arg);

	if (order)
		order->lease = lease;
	return submit(order);
}

static int courier_alarm(struct catalog_store *base, catalog_done done, void *arg)
{
	return submit(new_order((struct courier *)base, begin_alarm, done, arg));
}

static struct catalog_watch *courier_watch(struct catalog_store *base, const char *prefix,
					   uint64_t from, catalog_done changed, void *arg)
{
	struct courier *courier = (struct courier *)base;
	struct order *begin = new_order(courier, begin_watch, NULL, NULL);
	struct order *end = new_order(courier, begin_unwatch, NULL, NULL);
	struct catalog_watch *watch = calloc(1, sizeof(*watch));
	char *key = strdup(prefix);

	if (!begin || !end || !watch || !key) {
		free(begin);
		free(end);
		free(watch);
		free(key);
		return NULL;
	}
	*watch = (struct catalog_watch){
		.courier = courier, .from = from, .end = end, .changed = changed, .arg = arg,
	};
	LIST_INSERT_HEAD(&courier->watches, watch, link);
	begin->key = key;
	begin->watch = end->watch = watch;
	submit(begin);
	return watch;
}

static void courier_unwatch(struct catalog_watch *watch)
{
	struct order *end = watch->end;

	watch->changed = NULL;
	watch->end = NULL;
	submit(end);
}

/*
 * Beginning and end
 */

static void stop_thread(struct courier *courier)
{
	if (!courier->running)
		return;
	pthread_mutex_lock(&courier->lock);
	courier->stop = true;
	pthread_mutex_unlock(&courier->lock);
	eventfd_write(courier->orders_fd, 1);
	/* For as long as it takes for the answer in hand. */
	pthread_join(courier->thread, NULL);
	courier->running = false;
}

static void courier_close(struct catalog_store *base)
{
	static const struct catalog_result canceled = {
		.err = -ECANCELED, .error = "the catalog is being closed",
	};
	struct courier *courier = (struct courier *)base;
	struct catalog_watch *watch;
	struct order *order;

	stop_thread(courier);
	/* What it had not ended is reported, and its watches are gone. */
	catalog_store_close(courier->store);
	/* done() may ask for more, which ends in the same way. */
	while ((order = take(courier, &courier->reports)) ||
	       (order = take(courier, &courier->orders))) {
		if (order->done && order->begin)
			order->done(&canceled, order->arg);
		free_order(order);
	}
	while ((watch = LIST_FIRST(&courier->watches))) {
		free(watch->end);
		free_watch(watch);
	}
	sd_event_source_disable_unref(courier->ordered);
	sd_event_source_disable_unref(courier->reported);
	sd_event_unref(courier->inside);
	if (courier->orders_fd >= 0)
		close(courier->orders_fd);
	if (courier->reports_fd >= 0)
		close(courier->reports_fd);
	pthread_mutex_destroy(&courier->lock);
	free(courier);
}

static const struct catalog_store_ops courier_ops = {
	.range = courier_range,
	.txn = courier_txn,
	.lease_grant = courier_grant,
	.lease_keep = courier_keep,
	.lease_revoke = courier_revoke,
	.watch = courier_watch,
	.unwatch = courier_unwatch,
	.alarm = courier_alarm,
	.close = courier_close,
};

static int start_thread(struct courier *courier)
{
	int err = thread_start(&courier->thread, run, courier);

	courier->running = !err;
	return err;
}

static int use_loops(struct courier *courier, struct sd_event *loop)
{
	int err;

	courier->orders_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	courier->reports_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (courier->orders_fd < 0 || courier->reports_fd < 0)
		return -errno;
	err = sd_event_add_io(courier->inside, &courier->ordered, courier->orders_fd, EPOLLIN,
			      on_ordered, courier);
	if (err >= 0)
		err = sd_event_add_io(loop, &courier->reported, courier->reports_fd, EPOLLIN,
				      on_reported, courier);
	return err < 0 ? err : start_thread(courier);
}

struct catalog_store *catalog_courier_open(struct sd_event *loop, struct sd_event *inside,
					   struct catalog_store *store)
{
	struct courier *courier = calloc(1, sizeof(*courier));
	int err;

	if (!courier) {
		catalog_store_close(store);
		errno = ENOMEM;
		return NULL;
	}
	courier->base.ops = &courier_ops;
	courier->store = store;
	courier->inside = sd_event_ref(inside);
	courier->orders_fd = courier->reports_fd = -1;
	pthread_mutex_init(&courier->lock, NULL);
	LIST_INIT(&courier->watches);
	TAILQ_INIT(&courier->orders);
	TAILQ_INIT(&courier->reports);
	err = use_loops(courier, loop);
	if (!err)
		return &courier->base;
	courier_close(&courier->base);
	errno = -err;
	return NULL;
}
