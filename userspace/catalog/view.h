/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A copy of all keys below a prefix, kept current by a watch, and listed afresh at the
 * start and when the watch ends. Periodically, and when somebody wants to be sure, only the
 * names and revisions are listed, and the rest if they show that something is missing. If
 * the watch did not tell that it is broken, and is replaced. While no server answers the
 * copy stays what it was.
 *
 * A listing of everything is taken over in several turns of the event loop if it is long, and
 * so is what the watch tells. Meanwhile some entries are as they were, and others as they are.
 */
#ifndef CATALOG_VIEW_H
#define CATALOG_VIEW_H

#include "entries.h"

#include <sys/queue.h>

struct sd_event;
struct sd_event_source;
struct catalog_sync;
TAILQ_HEAD(catalog_syncs, catalog_sync);

struct catalog_view {
	struct catalog_store *store;
	struct sd_event_source *timer, *turn;
	char *prefix;
	uint64_t period_us, backoff_us;
	/* Before an entry goes or changes, and after it came or changed. */
	void (*forget)(struct catalog_entry *entry, void *arg);
	void (*changed)(struct catalog_entry *entry, void *arg);
	/* After each listing or bunch of changes; the result of a listing, or NULL. */
	void (*settled)(const struct catalog_result *listing, void *arg);
	bool (*over)(void); /* NULL, or tells that a turn has taken long enough */
	void *arg;

	struct catalog_entries entries;
	uint64_t revision; /* of the last listing or change */
	uint64_t asked;	   /* what it was when the request under way began */
	uint64_t listed_us; /* when it was last listed, CLOCK_MONOTONIC; 0: never */
	bool busy;    /* names or everything are being listed */
	bool listing; /* everything */
	struct catalog_entries early; /* changes that are not in the copy yet */
	/* A listing, or only changes, being taken over. */
	enum {
		CATALOG_VIEW_STEADY,
		CATALOG_VIEW_STARTS_OVER, /* nothing of before is worth anything */
		CATALOG_VIEW_DROPS, /* what is not listed */
		CATALOG_VIEW_PUTS, /* what is */
		CATALOG_VIEW_CATCHES_UP, /* with what came early */
	} step;
	struct catalog_entries listed;
	uint64_t listed_revision;
	size_t here, there; /* how far it is, in both */
	bool differs, back;
	struct catalog_watch *watch;
	unsigned int untold; /* listings that found news since the watch told any */
	struct catalog_syncs waiting; /* for a listing that has yet to begin */
	struct catalog_syncs served;  /* by the one that runs */
};

/* The hooks and arg are set, all else is zero. */
int catalog_view_open(struct catalog_view *view, struct sd_event *loop,
		      struct catalog_store *store, const char *prefix, unsigned int period_ms);
/* Calls forget() for everything. The store's own close ends what is pending. */
void catalog_view_close(struct catalog_view *view);

/* done(): the view now shows at least everything that was written before this call. */
int catalog_view_sync(struct catalog_view *view, catalog_done done, void *arg);

#endif
