/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What loads have read goes from the memory of the gpu into the cache of the host: by the
 * event loop, a little in each turn, while it has nothing else to do and no load is under
 * way.
 */
#ifndef DISTMINDD_KEEP_H
#define DISTMINDD_KEEP_H

#include "cache.h"
#include "manifests.h"

#include <sys/queue.h>
#include <systemd/sd-event.h>

struct keep {
	struct cache *cache; /* not owned; NULL: there is none */
	sd_event_source *turn;
	TAILQ_HEAD(, keep_job) jobs; /* owned */
	uint32_t loads; /* under way */
};

int keep_open(struct keep *keep, sd_event *loop, struct cache *cache);
void keep_close(struct keep *keep);

/* Every load begins, and ends when nothing of it is under way any more. */
void keep_load_begins(struct keep *keep);
void keep_load_ends(struct keep *keep);

/* The image of a model that a load, which began then, has brought; until it is dropped. */
void keep_add(struct keep *keep, struct manifest *manifest, const uint8_t *image,
	      uint64_t load_us);
/* The image goes. It need not have been added. */
void keep_drop(struct keep *keep, const uint8_t *image);

#endif
