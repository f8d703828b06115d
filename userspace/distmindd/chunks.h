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
#include "config.h"

#include "../catalog/catalog.h"
#include "../memory/arena.h"
#include "../memory/client.h"
#include "../memory/donor.h"
#include "../memory/registration.h"
#include "../memory/spool.h"

#include <systemd/sd-event.h>

struct chunks {
	struct memory_arena *arena;
	struct memory_spool *spool; /* NULL: none */
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

/* No RDMA device is no error. What is wrong has been logged. */
int chunks_open(struct chunks *chunks, sd_event *loop, const struct config_models *config);
/* Ends all transfers without calling anybody: what they read into can be freed then. */
void chunks_stop(struct chunks *chunks);
void chunks_close(struct chunks *chunks);

/* Says what was restored from the spool, and joins. */
int chunks_join(struct chunks *chunks, struct catalog *catalog);

bool chunks_have(struct chunks *chunks, const uint8_t *digest);
/*
 * Takes a chunk that the caller has filled, whatever comes of it. -EBADMSG: the bytes are
 * not those of the digest. One that is here already is fine.
 */
int chunks_keep(struct chunks *chunks, struct memory_chunk *chunk, const uint8_t *digest);
/* The same, of bytes elsewhere. -ENOSPC. */
int chunks_add(struct chunks *chunks, const void *data, uint64_t size, const uint8_t *digest);
/* The catalog does not count on it any more. */
void chunks_free(struct chunks *chunks, const uint8_t *digest);

/* Tells the catalog how much room is left. */
void chunks_report(struct chunks *chunks);

#endif
