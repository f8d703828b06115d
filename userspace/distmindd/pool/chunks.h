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
#include "disk.h"
#include "../common/worker.h"
#include "network.h"

#include "../../catalog/catalog.h"
#include "../../memory/arena.h"
#include "../../memory/spooler.h"

#include <sys/queue.h>
#include <systemd/sd-event.h>

/*
 * Chunks that other hosts say are damaged, all pinned. A thread looks at the first of them. So many,
 * and one at a time: who complains without end gets no more than that.
 */
#define CHUNKS_EXAMINED_MAX 64
struct chunks_examination {
	struct worker_job job;
	struct memory_chunk *chunks[CHUNKS_EXAMINED_MAX];
	uint32_t count;
	bool good; /* what the thread found */
};

struct chunks {
	struct memory_arena *arena;
	/* All NULL without a spool. */
	struct memory_spool *spool;
	struct memory_spooler *spooler;
	sd_event_source *stored;
	TAILQ_HEAD(, chunks_store) stores; /* under way; owned */
	/*
	 * Of what the spool has from before. The memory that it needs is reserved in the arena,
	 * and neither used nor offered for anything else. What has found none is restored as soon
	 * as there is some, and a spool that cannot be read is tried again.
	 */
	struct {
		bool under_way;
		bool ended; /* once, so that the catalog has been told of all of it */
		uint64_t files; /* that there were when it began */
		uint64_t chunks, bytes, skipped; /* so far */
		uint64_t shortest; /* of those that were skipped for want of memory; 0: none was */
		int err; /* of the last one that was skipped, or of all of it */
		sd_event_source *again;
	} restore;
	struct disk disk; /* that the spool is on */
	struct cache *cache; /* NULL: none */
	struct network network;
	struct rdma *rdma;	/* what follows the network's device */
	sd_event_source *begin; /* of that, and of the restore */
	sd_event *loop; /* not owned */
	struct worker *worker;
	TAILQ_HEAD(, chunks_arrival) arrivals; /* under way; owned */
	struct catalog *catalog; /* not owned; told what is here */
	struct catalog_host host; /* this one, as it joins */
	bool donates;
	uint64_t damaged; /* chunks, as the catalog is told */
	struct chunks_examination examination;
	STAILQ_HEAD(, chunks_reload) reloads; /* under way; owned */
	bool connected[MEMORY_DONORS_MAX]; /* hosts that can be read from, by their index */
};

/* So many of whoever waits: more would not make the disk faster. */
#define CHUNKS_PENDING_MAX 64

/* Who waits until chunks are checked and on disk, before which they do not count; the caller's. */
struct chunks_wait {
	/* From the event loop. It notes the outcome, and calls nothing of this. */
	void (*kept)(void *arg, uint32_t which, int err);
	void *arg;
	uint32_t pending; /* chunks */
};

/*
 * Neither waits for the spool nor for the RDMA device: what is in the one is here by and by,
 * and with the first look for the other the pool is joined. No RDMA device is no error: one
 * may come. What is wrong has been logged.
 */
int chunks_open(struct chunks *chunks, sd_event *loop, const struct config_models *config);
/*
 * Ends all transfers without calling anybody: what they read into can be freed then. Nor is
 * anything stored any more.
 */
void chunks_stop(struct chunks *chunks);
void chunks_close(struct chunks *chunks);

/* From now on the catalog is told what is here. Joins when others can read from this host. */
int chunks_join(struct chunks *chunks, struct catalog *catalog);

bool chunks_have(struct chunks *chunks, const uint8_t *digest);
/* Not to be shed: the catalog does not know yet that it is here. */
bool chunks_storing(const struct chunks *chunks, const uint8_t *digest);

/* Where the bytes of chunks that arrive are read from; has one reference, the caller's. */
struct chunks_source *chunks_source_create(int fd);
void chunks_source_put(struct chunks *chunks, struct chunks_source *source);

/* What a chunk is said to be. */
struct chunks_bytes {
	uint8_t digest[MEMORY_DIGEST_LEN];
	uint64_t checksum;
	struct chunks_source *source; /* NULL: they are in place; must not block */
	uint64_t offset; /* in the source */
};

/*
 * Takes a chunk of the arena, whatever comes of it. One that is here already is fine. 0: it
 * is here; CHUNKS_PENDING: it is read, checked and brought to the disk, and wait->kept()
 * follows with the number that the caller gives it, which, and with -EBADMSG if the bytes are
 * not what they are said to be. Not while wait has CHUNKS_PENDING_MAX pending.
 */
#define CHUNKS_PENDING 1
int chunks_keep(struct chunks *chunks, struct memory_chunk *chunk, const struct chunks_bytes *bytes,
		struct chunks_wait *wait, uint32_t which);
/* The same, if it is not here yet. -ENOSPC. */
int chunks_add(struct chunks *chunks, const struct chunks_bytes *bytes, uint64_t size,
	       struct chunks_wait *wait, uint32_t which);
/* Nobody waits any more; what is pending is kept all the same. */
void chunks_forget(struct chunks *chunks, struct chunks_wait *wait);
/*
 * The catalog does not count on it any more. Who waits until it is on disk is told
 * -ECANCELED.
 */
void chunks_free(struct chunks *chunks, const uint8_t *digest);

/*
 * Somebody says that this chunk is damaged: if it is, nobody reads it any more, the catalog
 * does not count on it, and it is taken from the spool again or fetched from another host.
 * True: it was, or is not here. Sure: a digest says so, and the checksum is not asked.
 */
bool chunks_suspect(struct chunks *chunks, const uint8_t *digest, bool sure);
/*
 * The same if another host says so, which need not be right, nor mean well: by and by. What it says
 * again before somebody has looked is no news; who has too many complaints makes them again.
 */
void chunks_examine(struct chunks *chunks, const uint8_t *digest);
/* Into the log: whose copy it is, and where. */
void chunks_tell_damage(const char *host, const uint8_t *digest, const char *where);
/* It was damaged, and whether the spool has a good copy is not known yet. */
bool chunks_reloading(const struct chunks *chunks, const uint8_t *digest);

/*
 * Tells the catalog how much room is left, and how much of it in one piece; after something was
 * freed, above all.
 */
void chunks_report(struct chunks *chunks);

#endif
