/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The other hosts of the pool that can be read from: connections follow the catalog. */
#ifndef DISTMINDD_PEERS_H
#define DISTMINDD_PEERS_H

#include "chunks.h"

struct peers {
	struct chunks *chunks; /* not owned */
	struct peer *rows;     /* owned */
	size_t count;
};

void peers_open(struct peers *peers, struct chunks *chunks);
void peers_close(struct peers *peers);
/* The loader that they were known to is no more: they are looked up again for the next one. */
void peers_reset(struct peers *peers);

/* Connects to hosts that are new or have moved, leaves those that are gone. */
void peers_update(struct peers *peers, const struct catalog *catalog);

/* Its index for pieces of loads; -ENOENT: it cannot be read from. */
int peers_find(const struct peers *peers, const char *host);
/* Where a chunk can be read from; returns how many, at most MEMORY_REPLICAS_MAX. */
uint32_t peers_of_chunk(const struct peers *peers, struct catalog *catalog, const uint8_t *digest,
			uint32_t *donors);

#endif
