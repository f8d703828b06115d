// SPDX-License-Identifier: GPL-2.0-or-later
#include "view.h"

#include "../common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <time.h>

#define BACKOFF_MIN_US 100000
#define BACKOFF_MAX_US 5000000

struct catalog_sync {
	TAILQ_ENTRY(catalog_sync) link;
	catalog_done done;
	void *arg;
};

static void list(struct catalog_view *view, enum catalog_scope scope);
static void take_over(struct catalog_view *view);

static void serve(struct catalog_syncs *syncs, const struct catalog_result *listing)
{
	struct catalog_result result = {
		.err = listing->err,
		.error = listing->error,
		.revision = listing->revision,
	};
	struct catalog_sync *sync;

	while ((sync = TAILQ_FIRST(syncs))) {
		TAILQ_REMOVE(syncs, sync, link);
		sync->done(&result, sync->arg);
		free(sync);
	}
}

static void wait_for(struct catalog_view *view, uint64_t us)
{
	sd_event_source_set_time_relative(view->timer, us);
	sd_event_source_set_enabled(view->timer, SD_EVENT_ONESHOT);
}

static void retry_later(struct catalog_view *view)
{
	wait_for(view, view->backoff_us);
	view->backoff_us = view->backoff_us * 2 < BACKOFF_MAX_US ? view->backoff_us * 2 :
								    BACKOFF_MAX_US;
}

/* Returns whether anything changed. No memory: the next listing makes up for it. */
static bool put(struct catalog_view *view, const struct catalog_entry *from)
{
	struct catalog_entry *entry = catalog_entries_find(&view->entries, from->key);

	if (entry && entry->revision == from->revision)
		return false;
	if (entry)
		view->forget(entry, view->arg);
	entry = catalog_entries_put(&view->entries, from->key, from->value, from->size);
	if (!entry)
		return false;
	entry->revision = from->revision;
	entry->lease = from->lease;
	view->changed(entry, view->arg);
	return true;
}

static void drop(struct catalog_view *view, struct catalog_entry *entry)
{
	view->forget(entry, view->arg);
	catalog_entries_remove(&view->entries, entry);
}

static void apply_change(struct catalog_view *view, const struct catalog_entry *change)
{
	struct catalog_entry *entry;

	if (change->value) {
		put(view, change);
	} else {
		entry = catalog_entries_find(&view->entries, change->key);
		if (entry)
			drop(view, entry);
	}
	if (change->revision > view->revision)
		view->revision = change->revision;
}

/* No memory: the next listing makes up for it. */
static void note_early(struct catalog_view *view, const struct catalog_entry *change)
{
	struct catalog_entry *early = catalog_entries_append(&view->early, change->key,
							     change->value, change->size);

	if (early) {
		early->revision = change->revision;
		early->lease = change->lease;
	}
}

static void on_change(const struct catalog_result *result, void *arg)
{
	struct catalog_view *view = arg;

	if (result->err) {
		catalog_store_unwatch(view->store, view->watch);
		view->watch = NULL;
		if (!view->busy)
			retry_later(view);
		return;
	}
	view->untold = 0;
	for (size_t i = 0; i < result->count; i++)
		note_early(view, &result->entries[i]);
	/* What is being listed is taken over first. */
	if (view->listing || view->step != CATALOG_VIEW_STEADY)
		return;
	view->step = CATALOG_VIEW_CATCHES_UP;
	view->there = 0;
	sd_event_source_set_enabled(view->turn, SD_EVENT_ON);
	take_over(view);
}

/* Does the copy show at least what there was? Both are sorted. */
static bool is_current(const struct catalog_view *view, const struct catalog_result *names)
{
	const struct catalog_entry *rows = view->entries.rows;
	size_t count = view->entries.count, here = 0;

	if (names->revision < view->asked)
		return false;
	for (size_t i = 0; i < names->count; i++) {
		const struct catalog_entry *name = &names->entries[i];

		/* What has come since is fine, what should have gone is not. */
		for (; here < count && strcmp(rows[here].key, name->key) < 0; here++)
			if (rows[here].revision <= names->revision)
				return false;
		if (here == count || strcmp(rows[here].key, name->key) ||
		    rows[here].revision < name->revision)
			return false;
		here++;
	}
	for (; here < count; here++)
		if (rows[here].revision <= names->revision)
			return false;
	return true;
}

/* Returns whether there is something to go on with. */
static bool ended(struct catalog_view *view, const struct catalog_result *result)
{
	view->busy = false;
	view->listing = false;
	if (result->err == -ECANCELED) {
		serve(&view->served, result);
		serve(&view->waiting, result);
		return false;
	}
	if (result->err) {
		retry_later(view);
		view->settled(result, view->arg);
		serve(&view->served, result);
		return false;
	}
	return true;
}

static void succeeded(struct catalog_view *view, const struct catalog_result *result)
{
	view->backoff_us = BACKOFF_MIN_US;
	view->listed_us = clock_us();
	wait_for(view, view->period_us);
	view->settled(result, view->arg);
	serve(&view->served, result);
	if (!TAILQ_EMPTY(&view->waiting) && !view->busy)
		list(view, CATALOG_NAMES);
}

/*
 * A listing, or what the watch told, in turns
 */

/* Both are sorted. False: that was the last one. */
static bool drop_next(struct catalog_view *view)
{
	int order;

	if (view->here == view->entries.count)
		return false;
	order = view->there == view->listed.count ? -1 :
		strcmp(view->entries.rows[view->here].key, view->listed.rows[view->there].key);
	if (order < 0) {
		drop(view, &view->entries.rows[view->here]);
		view->differs = true;
	} else {
		view->here += order == 0;
		view->there++;
	}
	return true;
}

/* All of them at once would take long. */
static void free_value(struct catalog_entry *entry)
{
	free(entry->value);
	entry->value = NULL;
}

static bool put_next(struct catalog_view *view)
{
	struct catalog_entry *entry;

	if (view->there == view->listed.count)
		return false;
	entry = &view->listed.rows[view->there++];
	view->differs |= put(view, entry);
	free_value(entry);
	return true;
}

static bool catch_up(struct catalog_view *view)
{
	struct catalog_entry *change;

	if (view->there == view->early.count)
		return false;
	change = &view->early.rows[view->there++];
	if (change->revision > view->listed_revision)
		apply_change(view, change);
	free_value(change);
	return true;
}

/* True: there is more of it. */
static bool take_step(struct catalog_view *view)
{
	bool more = false;

	switch (view->step) {
	case CATALOG_VIEW_STEADY:
		return false;
	case CATALOG_VIEW_STARTS_OVER:
		more = view->entries.count;
		if (more)
			drop(view, &view->entries.rows[view->entries.count - 1]);
		break;
	case CATALOG_VIEW_DROPS:
		more = drop_next(view);
		break;
	case CATALOG_VIEW_PUTS:
		more = put_next(view);
		if (!more)
			view->revision = view->listed_revision;
		break;
	case CATALOG_VIEW_CATCHES_UP:
		more = catch_up(view);
		if (!more)
			view->step = CATALOG_VIEW_STEADY;
		break;
	}
	if (!more && view->step != CATALOG_VIEW_STEADY) {
		view->step++;
		view->here = view->there = 0;
	}
	return view->step != CATALOG_VIEW_STEADY;
}

static void finish_listing(struct catalog_view *view)
{
	struct catalog_result result = { .error = "", .revision = view->listed_revision };

	catalog_entries_clear(&view->listed);
	catalog_entries_clear(&view->early);
	view->busy = view->listing = false;
	/* Once the watch may have been overtaken, twice it was silent. */
	view->untold += view->differs;
	if (view->watch && (view->untold > 1 || view->back)) {
		catalog_store_unwatch(view->store, view->watch);
		view->watch = NULL;
	}
	if (!view->watch) {
		view->untold = 0;
		view->watch = catalog_store_watch(view->store, view->prefix,
						  view->listed_revision + 1, on_change, view);
	}
	succeeded(view, &result);
}

static void finish_changes(struct catalog_view *view)
{
	catalog_entries_clear(&view->early);
	view->settled(NULL, view->arg);
	/* Who wanted to be sure meanwhile was put off. */
	if (!TAILQ_EMPTY(&view->waiting) && !view->busy)
		list(view, CATALOG_NAMES);
}

static void take_over(struct catalog_view *view)
{
	while (take_step(view))
		if (view->over && view->over())
			return;
	sd_event_source_set_enabled(view->turn, SD_EVENT_OFF);
	if (view->listing)
		finish_listing(view);
	else
		finish_changes(view);
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	(void)source;
	(void)us;
	take_over(arg);
	return 0;
}

static void on_listed(const struct catalog_result *result, void *arg)
{
	struct catalog_result failed = { .err = -ENOMEM, .error = "no memory" };
	struct catalog_view *view = arg;

	if (!result->err && catalog_entries_take(&view->listed, result))
		result = &failed;
	if (result->err) {
		ended(view, result);
		return;
	}
	/* A store that was restored from a copy: the same revisions mean something else. */
	view->back = result->revision < view->asked;
	view->listed_revision = result->revision;
	view->differs = false;
	view->here = view->there = 0;
	view->step = view->back ? CATALOG_VIEW_STARTS_OVER : CATALOG_VIEW_DROPS;
	/* What is in the way comes first: it has been pending for longer. */
	sd_event_source_set_enabled(view->turn, SD_EVENT_ON);
	take_over(view);
}

static void on_names(const struct catalog_result *result, void *arg)
{
	struct catalog_view *view = arg;

	if (!ended(view, result))
		return;
	/* Some of what the watch told is not in the copy yet: ask again when it is. */
	if (view->step != CATALOG_VIEW_STEADY) {
		TAILQ_CONCAT(&view->waiting, &view->served, link);
		wait_for(view, view->period_us);
		return;
	}
	if (view->watch && is_current(view, result))
		succeeded(view, result);
	else
		list(view, CATALOG_BELOW);
}

static void list(struct catalog_view *view, enum catalog_scope scope)
{
	struct catalog_result failed = { .error = "no memory" };

	sd_event_source_set_enabled(view->timer, SD_EVENT_OFF);
	if (scope == CATALOG_NAMES)
		TAILQ_CONCAT(&view->served, &view->waiting, link);
	failed.err = catalog_store_range(view->store, view->prefix, scope,
					 scope == CATALOG_NAMES ? on_names : on_listed, view);
	if (failed.err) {
		retry_later(view);
		serve(&view->served, &failed);
		return;
	}
	view->asked = view->revision;
	view->busy = true;
	view->listing = scope == CATALOG_BELOW;
}

static int on_timer(sd_event_source *source, uint64_t us, void *arg)
{
	struct catalog_view *view = arg;

	(void)source;
	(void)us;
	if (!view->busy)
		list(view, CATALOG_NAMES);
	return 0;
}

int catalog_view_sync(struct catalog_view *view, catalog_done done, void *arg)
{
	struct catalog_sync *sync = calloc(1, sizeof(*sync));

	if (!sync)
		return -ENOMEM;
	sync->done = done;
	sync->arg = arg;
	TAILQ_INSERT_TAIL(&view->waiting, sync, link);
	/* By the timer, so that done() never comes from within this call. */
	if (!view->busy)
		wait_for(view, 0);
	return 0;
}

int catalog_view_open(struct catalog_view *view, struct sd_event *loop,
		      struct catalog_store *store, const char *prefix, unsigned int period_ms)
{
	int err;

	view->store = store;
	view->period_us = period_ms * 1000ULL;
	view->backoff_us = BACKOFF_MIN_US;
	TAILQ_INIT(&view->waiting);
	TAILQ_INIT(&view->served);
	view->prefix = strdup(prefix);
	if (!view->prefix)
		return -ENOMEM;
	err = sd_event_add_time_relative(loop, &view->timer, CLOCK_MONOTONIC, 0, 1000, on_timer,
					 view);
	/* A time that has passed is pending anew after each turn, and others come in between. */
	if (err >= 0)
		err = sd_event_add_time(loop, &view->turn, CLOCK_MONOTONIC, 0, 1, on_turn, view);
	if (err >= 0)
		err = sd_event_source_set_enabled(view->turn, SD_EVENT_OFF);
	return err < 0 ? err : 0;
}

void catalog_view_close(struct catalog_view *view)
{
	static const struct catalog_result canceled = {
		.err = -ECANCELED,
		.error = "the catalog is being closed",
	};

	catalog_store_unwatch(view->store, view->watch);
	sd_event_source_disable_unref(view->timer);
	sd_event_source_disable_unref(view->turn);
	serve(&view->served, &canceled);
	serve(&view->waiting, &canceled);
	while (view->entries.count)
		drop(view, &view->entries.rows[view->entries.count - 1]);
	catalog_entries_clear(&view->entries);
	catalog_entries_clear(&view->early);
	catalog_entries_clear(&view->listed);
	free(view->prefix);
}
