/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A directory that keeps a donor's chunks over a restart: one file for each,
 * named by its digest in hex, holding its bytes and, after them, their checksum.
 * A file appears under its name only when all of it is on disk. Chunks are stored
 * some at a time, and the disk is waited for twice for all of them: for their
 * bytes, and for their names.
 *
 * What is found to be damaged gets another name (DIGEST.damaged), so that an
 * operator can look at it and nobody else does.
 *
 * The directory is locked while it is open. One thread at a time; calls wait for
 * the disk.
 */
#ifndef DISTMIND_MEMORY_SPOOL_H
#define DISTMIND_MEMORY_SPOOL_H

#include "arena.h"

#define MEMORY_SPOOL_NAME_LEN 256

struct memory_spool;
struct memory_spool_scan; /* a walk over all files */

/* Of a batch: a chunk, which is sealed, and what came of it. */
struct memory_spool_item {
	const struct memory_chunk *chunk;
	int err; /* 0: its file and its name are on disk */
};

/* A file. */
struct memory_spool_restored {
	char name[MEMORY_SPOOL_NAME_LEN];
	uint8_t digest[MEMORY_DIGEST_LEN]; /* if it is a chunk's */
	uint64_t length;
	/*
	 * 0: it is a sealed chunk of the arena now, and was none before; -EEXIST: it was one
	 * before; -EBADMSG: damaged; others.
	 */
	int err;
};

/* Made if it is not there; -EBUSY: another process has it. */
int memory_spool_open(struct memory_spool **spool, const char *path);
void memory_spool_close(struct memory_spool *spool);

void memory_spool_store(struct memory_spool *spool, struct memory_spool_item *stores,
			size_t count);
/* Could a chunk of that length be stored now? It is written like one, and removed. */
int memory_spool_probe(struct memory_spool *spool, uint64_t length);
/* -ENOENT: there is no such file. */
int memory_spool_remove(struct memory_spool *spool, const uint8_t digest[MEMORY_DIGEST_LEN]);

/* Restores one chunk, as a step of a scan does. -ENOENT: there is no such file. */
void memory_spool_reload(struct memory_spool *spool, struct memory_arena *arena,
			 const uint8_t digest[MEMORY_DIGEST_LEN],
			 struct memory_spool_restored *restored);

/* What there is to restore. */
struct memory_spool_count {
	uint64_t files;
	uint64_t bytes;	  /* of the arena, that those need which are not in it */
	uint64_t damaged; /* files that were put aside before */
};

/*
 * A file is restored by each step; what is damaged is put aside, what does not fit is left
 * where it is, what an interrupted store left behind is removed. Chunks take what is reserved in
 * the arena. Between steps the spool may be used.
 */
int memory_spool_scan_open(struct memory_spool *spool, struct memory_spool_scan **scan);
/*
 * Adds some files to the count, which is zero at first; before the first step. 1: there are more,
 * for another call; 0: that were all; negative errno: the directory cannot be read.
 */
int memory_spool_scan_count(struct memory_spool_scan *scan, struct memory_arena *arena,
			    struct memory_spool_count *count);
/* 1: a file; 0: there was no other one; negative errno: the directory cannot be read. */
int memory_spool_scan_step(struct memory_spool_scan *scan, struct memory_arena *arena,
			   struct memory_spool_restored *restored);
void memory_spool_scan_close(struct memory_spool_scan *scan);
/* Why, in words, for one that was not restored. */
const char *memory_spool_reason(int err);

#endif
