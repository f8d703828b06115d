/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A directory that keeps a donor's chunks over a restart: one file for each,
 * named by its digest in hex, holding its bytes and nothing else. A file appears
 * under its name only when all of it is on disk.
 *
 * The directory is locked while it is open. One thread at a time; calls wait for
 * the disk.
 */
#ifndef DISTMIND_MEMORY_SPOOL_H
#define DISTMIND_MEMORY_SPOOL_H

#include "arena.h"

struct memory_spool;

struct memory_spool_result {
	uint64_t chunks; /* restored */
	uint64_t bytes;
	uint64_t skipped; /* each was reported */
};

/* Made if it is not there; -EBUSY: another process has it. */
int memory_spool_open(struct memory_spool **spool, const char *path);
void memory_spool_close(struct memory_spool *spool);

int memory_spool_store(struct memory_spool *spool, const uint8_t digest[MEMORY_DIGEST_LEN],
		       const void *data, uint64_t length);
/* -ENOENT: there is no such file. */
int memory_spool_remove(struct memory_spool *spool, const uint8_t digest[MEMORY_DIGEST_LEN]);

/*
 * Every file whose bytes are those of its name becomes a sealed chunk. What is
 * damaged or does not fit is left where it is, and reported with the reason;
 * what an interrupted store left behind is removed.
 */
int memory_spool_restore(struct memory_spool *spool, struct memory_arena *arena,
			 void (*report)(void *arg, const char *file, const char *reason),
			 void *arg, struct memory_spool_result *result);

#endif
