/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The chunks that this host has in its memory: its donation, and what it keeps for a push
 * until donors have taken it. What is here is said to be here in the catalog, survives in
 * the spool if there is one, and can be read by other hosts if there is an RDMA device.
 * Nothing of that holds for the cache, which is beside it and for this host alone.
 */
#ifndef DISTMINDD_CHUNKS_H
#define DISTMINDD_CHUNKS_H

#include "cache.h"
#include "../common/config.h"

#include "../../catalog/catalog.h"
#include "../../memory/arena.h"
#include "../../memory/client.h"
#include "../../memory/donor.h"
#include "../../memory/registration.h"
#include "../../memory/spooler.h"

#include <sys/queue.h>
#include <systemd/sd-event.h>

struct chunks {
	struct memory_arena *arena;
	/* All NULL without a spool. */
	struct memory_spool *spool;
	struct memory_spooler *spooler;
	sd_event_source *stored;
	TAILQ_HEAD(, chunks_store) stores; /* under way; owned */
	struct cache *cache; /* NULL: none */
	/* All NULL without an RDMA device. */
	struct memory_fabric *fabric;
	struct memory_donor *donor;
	struct memory_client *client;
	struct memory_registrations *registrations;
	struct memory_registration registration; /* of the arena, to read into it */
	sd_event_source *news;
	struct catalog *catalog; /* not owned; told what is here */
	struct catalog_host host; /* this one, as it joins */
	bool donates;
	bool connected[MEMORY_DONORS_MAX]; /* as last logged */
};

/* So many of whoever waits: more would not make the disk faster. */
#define CHUNKS_PENDING_MAX 16

/* Who waits until chunks are on disk, before which they do not count; the caller's. */
struct chunks_wait {
	/* From the event loop. It notes the outcome, and calls nothing of this. */
	void (*kept)(void *arg, uint32_t which, int err);
	void *arg;
	uint32_t pending; /* chunks */
};

/* No RDMA device is no error. What is wrong has been logged. */
int chunks_open(struct chunks *chunks, sd_event *loop, const struct config_models *config);
/*
 * Ends all transfers without calling anybody: what they read into can be freed then. Nor is
 * anything stored any more.
 */
void chunks_stop(struct chunks *chunks);
void chunks_close(struct chunks *chunks);

/* Says what was restored from the spool, and joins. */
int chunks_join(struct chunks *chunks, struct catalog *catalog);

bool chunks_have(struct chunks *chunks, const uint8_t *digest);
/* Not to be shed: the catalog does not know yet that it is here. */
bool chunks_storing(const struct chunks *chunks, const uint8_t *digest);
/*
 * Takes a chunk that the caller has filled, whatever comes of it. One that is here already is
 * fine. 0: it is here; CHUNKS_PENDING: it is on its way to the disk, and wait->kept() follows
 * with the number that the caller gives it, which; -EBADMSG: the bytes are not those of the
 * digest. Not while wait has CHUNKS_PENDING_MAX pending.
 */
#define CHUNKS_PENDING 1
int chunks_keep(struct chunks *chunks, struct memory_chunk *chunk, const uint8_t *digest,
		struct chunks_wait *wait, uint32_t which);
/* The same, of bytes elsewhere. -ENOSPC. */
int chunks_add(struct chunks *chunks, const void *data, uint64_t size, const uint8_t *digest,
	       struct chunks_wait *wait, uint32_t which);
/* Nobody waits any more; what is pending is kept all the same. */
void chunks_forget(struct chunks *chunks, struct chunks_wait *wait);
/*
 * The catalog does not count on it any more. Who waits until it is on disk is told
 * -ECANCELED.
 */
void chunks_free(struct chunks *chunks, const uint8_t *digest);

/* Tells the catalog how much room is left. */
void chunks_report(struct chunks *chunks);

#endif
