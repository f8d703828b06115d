/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chunks that were read from other hosts and may be wanted again, in memory of this host
 * that nobody else can read. The donation (chunks.h) is a promise to the pool, this is not:
 * no other host is told, and what is here may go at any time.
 *
 * A chunk costs the more to read again the more bytes it has, so what its loss costs for
 * each byte is how often it was used, divided by how long ago that was. The one whose loss
 * costs least goes first, with as many of its neighbours as it takes to make room in one piece,
 * but only for one that is worth more than each of them: what comes in is worth what
 * it was before the load that brings it. So what was never asked for before gets only room
 * that is free, and models that take turns and do not fit together do not put each other
 * out. For that, chunks that are not here are remembered too, four times as many.
 *
 * All calls are the event loop's. Times are of CLOCK_MONOTONIC.
 */
#ifndef DISTMINDD_CACHE_H
#define DISTMINDD_CACHE_H

#include "../../model/chunk.h"

struct cache;
struct cache_chunk; /* that is here, or was asked for in vain; the cache's */

struct cache_stats {
	uint64_t size;
	uint64_t bytes, chunks; /* that are here */
	uint64_t hits, misses;	/* chunks that were asked for */
	uint64_t evictions;
};

/* Memory is taken as it is needed, or all of it if there are huge pages. */
int cache_open(struct cache **cache, uint64_t size);
/* Nothing may be pinned. NULL is fine. */
void cache_close(struct cache *cache);

/*
 * A load wants a chunk: NULL, or it stays until it is unpinned. All chunks of a load are
 * wanted at the same time, that of its beginning.
 */
struct cache_chunk *cache_pin(struct cache *cache, const struct model_chunk *wanted,
			      uint64_t now_us);
const void *cache_data(const struct cache_chunk *chunk);
/* Damaged: its bytes are not what they were, and nobody gets it any more. */
void cache_unpin(struct cache *cache, struct cache_chunk *chunk, bool damaged);

/*
 * Takes in a copy of bytes that a load, or a later one, wanted and did not find. -ENOENT:
 * none did, or it is here by now; -ENOSPC: it is not worth what would have to go; -EBADMSG:
 * the bytes are not those of the checksum.
 */
int cache_keep(struct cache *cache, const struct model_chunk *chunk, const void *bytes,
	       uint64_t load_us, uint64_t now_us);

void cache_stats(struct cache *cache, struct cache_stats *stats);

#endif
