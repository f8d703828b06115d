/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory that a donor gives, or that a host has as its cache: one region,
 * a donor's registered once, that holds chunks. A chunk is named by the SHA-256
 * of its bytes.
 *
 *   allocate -> the caller fills it -> seal -> pin, unpin ... -> free
 *        `--------- abandon
 *
 * A chunk that is being filled belongs to its caller alone, who also checks that
 * its bytes are those of the digest (check.h). Sealing makes it visible; from then
 * on nobody writes to it. A chunk that is
 * pinned is neither moved nor reused: free makes it invisible at once, and its
 * memory is taken back when the last pin is gone. Remote readers may read the
 * whole region, therefore it holds nothing but chunks and zeroes: memory is
 * cleared before it is taken back, and all bookkeeping is elsewhere.
 *
 * Any thread may call anything. One lock, which is a leaf and is never held
 * while bytes are cleared. Who frees or abandons a chunk clears it. Who unpins may
 * hold locks, and cannot know whether the chunk was freed meanwhile: then a thread of
 * the arena's own clears it.
 */
#ifndef DISTMIND_MEMORY_ARENA_H
#define DISTMIND_MEMORY_ARENA_H

#include "wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct memory_arena;

/* Contents and length are constant while the holder has it; the rest is the arena's. */
struct memory_chunk {
	uint8_t *data;
	uint64_t length;
	uint8_t digest[MEMORY_DIGEST_LEN]; /* both once sealed */
	uint64_t checksum;
	uint32_t pins;
	uint64_t doomed; /* when it was freed though it was pinned, see clock_ns(); 0: not */
	uint64_t mark; /* see memory_arena_mark() */
	struct memory_extent *extent;
	TAILQ_ENTRY(memory_chunk) link; /* if doomed, among those like it */
};

struct memory_arena_stats {
	uint64_t size;
	uint64_t used;	  /* by chunks in any state, rounded up to units */
	uint64_t longest; /* chunk that can be allocated now */
	uint64_t reserved; /* of what is not used; see memory_arena_reserve() */
	uint64_t chunks;  /* sealed */
	uint64_t bytes;	  /* of these */
	uint64_t filling;
	uint64_t pins;
	uint64_t doomed; /* chunks that wait until their last pin is gone and they are cleared */
	uint64_t doomed_bytes; /* of these */
	bool huge_pages;
};

/* Huge pages if the system has enough of them; -EINVAL: less than a page. */
int memory_arena_create(struct memory_arena **arena, uint64_t size);
/* Nothing may be pinned or being filled. */
void memory_arena_destroy(struct memory_arena *arena);

/* The region, for registration. */
void *memory_arena_base(const struct memory_arena *arena);
uint64_t memory_arena_size(const struct memory_arena *arena);

/* All zeroes. -ENOSPC: there is no room for that length beside what is reserved. */
int memory_arena_allocate(struct memory_arena *arena, uint64_t length,
			  struct memory_chunk **chunk);
/*
 * From now on so many bytes are for memory_arena_allocate_reserved() alone, which takes from them,
 * and may have more as long as there is room. Each chunk counts as memory_arena_needs() says;
 * UINT64_MAX: all of it.
 */
void memory_arena_reserve(struct memory_arena *arena, uint64_t bytes);
int memory_arena_allocate_reserved(struct memory_arena *arena, uint64_t length,
				   struct memory_chunk **chunk);
/* How much of it a chunk of that length takes. */
uint64_t memory_arena_needs(uint64_t length);
/*
 * -EEXIST: there is such a chunk already; the caller then still has the chunk, to
 * abandon it. On success it has not.
 */
int memory_arena_seal(struct memory_arena *arena, struct memory_chunk *chunk,
		      const uint8_t digest[MEMORY_DIGEST_LEN], uint64_t checksum);
void memory_arena_abandon(struct memory_arena *arena, struct memory_chunk *chunk);

/* -ENOENT: no such chunk is sealed. */
int memory_arena_pin(struct memory_arena *arena, const uint8_t digest[MEMORY_DIGEST_LEN],
		     struct memory_chunk **chunk);
/* Costs the same whether it is the last pin of a chunk that was freed or not. */
void memory_arena_unpin(struct memory_arena *arena, struct memory_chunk *chunk);
/* -ENOENT: no such chunk is sealed. */
int memory_arena_free(struct memory_arena *arena, const uint8_t digest[MEMORY_DIGEST_LEN]);

/* Since when one that was freed has been pinned, the first of all; 0: none is. */
uint64_t memory_arena_doomed_since(struct memory_arena *arena);
/* Is one of these, which the caller has pinned, or NULL, one that was freed before that time? */
bool memory_arena_any_doomed(struct memory_arena *arena, struct memory_chunk *const *chunks,
			     size_t count, uint64_t before);

/* Notes a number with a chunk, if it is there, for whoever looks at all of them later. */
void memory_arena_mark(struct memory_arena *arena, const uint8_t *digest, uint64_t mark);
/*
 * At most so many of those that are sealed, in no order, from the cursor on, which is 0 at first.
 * True: there are more, for another call. What comes or goes between two calls may be seen or not,
 * and others twice. tell() says whether it wants more, and must not call the arena.
 */
bool memory_arena_each(struct memory_arena *arena, size_t *cursor, size_t count,
		       bool (*tell)(void *arg, const struct memory_chunk *chunk), void *arg);
/*
 * What is before or behind a chunk that is not free: the chunk there, or NULL at the end of the
 * arena, and in room the free bytes between them. It is there as long as the caller sees to that.
 */
struct memory_chunk *memory_arena_beside(struct memory_arena *arena,
					 const struct memory_chunk *chunk, bool behind,
					 uint64_t *room);
void memory_arena_stats(struct memory_arena *arena, struct memory_arena_stats *stats);

#endif
