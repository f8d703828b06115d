// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache.h"

#include "../../common/hash.h"
#include "../../memory/arena.h"
#include "../../memory/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define USES_MAX 16 /* more make it worth no more, so that what was popular once can go */
#define REMEMBERED 4 /* times the bytes of the cache */
#define ROWS_TRIED 16
#define PINNED_SKIPPED 1024 /* on the way to these */

struct cache_chunk {
	struct model_digest digest;
	uint32_t size;
	uint32_t uses;
	uint64_t used_us;
	double claim; /* what it was worth before its last use: what it may put out */
	struct memory_chunk *memory; /* whose mark is this chunk; NULL: it is not here */
	uint32_t pins;
	bool damaged;
	TAILQ_ENTRY(cache_chunk) link;
};

TAILQ_HEAD(chunk_list, cache_chunk);

struct cache {
	struct memory_arena *arena;
	struct hash tables[HASH_PARTS]; /* all chunks, here or missing */
	/*
	 * By the number of uses, and of these the oldest first: the least useful chunk of
	 * all is the first of a list, however time goes on.
	 */
	struct chunk_list here[USES_MAX + 1];
	struct chunk_list missing; /* oldest first */
	uint64_t missing_bytes;
	uint64_t hits, misses, evictions;
};

int cache_open(struct cache **result, uint64_t size)
{
	struct cache *cache = calloc(1, sizeof(*cache));
	int err;

	if (!cache)
		return -ENOMEM;
	err = memory_arena_create(&cache->arena, size);
	if (err) {
		free(cache);
		return err;
	}
	for (int i = 0; i <= USES_MAX; i++)
		TAILQ_INIT(&cache->here[i]);
	TAILQ_INIT(&cache->missing);
	*result = cache;
	return 0;
}

void cache_close(struct cache *cache)
{
	const struct hash_slot *slot;

	if (!cache)
		return;
	for (size_t i = 0; i < HASH_PARTS; i++) {
		hash_each(&cache->tables[i], slot)
			free((void *)slot->value);
		hash_free(&cache->tables[i]);
	}
	memory_arena_destroy(cache->arena);
	free(cache);
}

/*
 * Manifests say how long a chunk is, and one may be wrong: whoever copies relies on the size
 * that it asked for.
 */
static struct cache_chunk *find(const struct cache *cache, const struct model_digest *digest,
				uint32_t size)
{
	uint64_t hash = hash_of_digest(digest->bytes);
	const struct hash_slot *slot;

	hash_each_of(&cache->tables[hash_part(hash)], hash, slot) {
		struct cache_chunk *chunk = (struct cache_chunk *)slot->value;

		if (chunk->size == size && model_digest_equal(&chunk->digest, digest))
			return chunk;
	}
	return NULL;
}

static struct chunk_list *list_of(struct cache *cache, const struct cache_chunk *chunk)
{
	return chunk->memory ? &cache->here[chunk->uses] : &cache->missing;
}

/* What its loss costs, for each byte that it takes. */
static double benefit(const struct cache_chunk *chunk, uint64_t now_us)
{
	return (double)chunk->uses / ((double)(now_us - chunk->used_us) / 1e6 + 1);
}

/*
 * Chunks that are not here
 */

static void forget(struct cache *cache, struct cache_chunk *chunk)
{
	uint64_t hash = hash_of_digest(chunk->digest.bytes);

	hash_remove(&cache->tables[hash_part(hash)], hash, (uintptr_t)chunk);
	TAILQ_REMOVE(&cache->missing, chunk, link);
	cache->missing_bytes -= chunk->size;
	free(chunk);
}

static struct cache_chunk *remember(struct cache *cache, const struct model_chunk *wanted)
{
	struct cache_chunk *chunk = calloc(1, sizeof(*chunk));
	uint64_t hash = hash_of_digest(wanted->digest.bytes);

	if (!chunk)
		return NULL;
	chunk->digest = wanted->digest;
	chunk->size = wanted->size;
	while (cache->missing_bytes > REMEMBERED * memory_arena_size(cache->arena))
		forget(cache, TAILQ_FIRST(&cache->missing));
	if (hash_add(&cache->tables[hash_part(hash)], hash, (uintptr_t)chunk)) {
		free(chunk);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&cache->missing, chunk, link);
	cache->missing_bytes += chunk->size;
	return chunk;
}

/*
 * Room
 */

static void evict(struct cache *cache, struct cache_chunk *chunk)
{
	TAILQ_REMOVE(list_of(cache, chunk), chunk, link);
	memory_arena_free(cache->arena, chunk->digest.bytes);
	chunk->memory = NULL;
	chunk->damaged = false;
	TAILQ_INSERT_TAIL(&cache->missing, chunk, link);
	cache->missing_bytes += chunk->size;
	cache->evictions++;
}

/* Those that are here and not pinned, the least useful first. */
struct candidates {
	struct cache_chunk *at[USES_MAX + 1];
	uint32_t skipped;
};

static void candidates_begin(struct cache *cache, struct candidates *candidates)
{
	candidates->skipped = 0;
	for (int i = 0; i <= USES_MAX; i++)
		candidates->at[i] = TAILQ_FIRST(&cache->here[i]);
}

static struct cache_chunk *candidates_next(struct candidates *candidates, uint64_t now_us)
{
	struct cache_chunk *chunk, **least = NULL;

	for (int i = 0; i <= USES_MAX; i++) {
		struct cache_chunk **at = &candidates->at[i];

		while (*at && (*at)->pins && candidates->skipped++ < PINNED_SKIPPED)
			*at = TAILQ_NEXT(*at, link);
		if (*at && !(*at)->pins &&
		    (!least || benefit(*at, now_us) < benefit(*least, now_us)))
			least = at;
	}
	if (!least)
		return NULL;
	chunk = *least;
	*least = TAILQ_NEXT(chunk, link);
	return chunk;
}

/* Chunks side by side that may all go, and the room that they then leave. */
struct row {
	struct cache_chunk *first, *last;
	uint64_t room;
};

static struct cache_chunk *beside(struct cache *cache, const struct cache_chunk *chunk, bool behind,
				  uint64_t *room)
{
	struct memory_chunk *memory;
	uint64_t between;

	memory = memory_arena_beside(cache->arena, chunk->memory, behind, &between);
	*room += between;
	return memory ? (struct cache_chunk *)(uintptr_t)memory->mark : NULL;
}

static bool may_go(const struct cache_chunk *chunk, const struct cache_chunk *wanted,
		   uint64_t now_us)
{
	return chunk && !chunk->pins && benefit(chunk, now_us) < wanted->claim;
}

/* Around one chunk, by the less useful neighbour each time. False: it cannot become long enough. */
static bool find_row(struct cache *cache, struct cache_chunk *chunk,
		     const struct cache_chunk *wanted, uint64_t now_us, struct row *row)
{
	struct cache_chunk *before, *behind;

	*row = (struct row){ .first = chunk, .last = chunk, .room = chunk->size };
	before = beside(cache, chunk, false, &row->room);
	behind = beside(cache, chunk, true, &row->room);
	while (row->room < wanted->size) {
		if (!may_go(before, wanted, now_us))
			before = NULL;
		if (!may_go(behind, wanted, now_us))
			behind = NULL;
		if (behind && (!before || benefit(behind, now_us) <= benefit(before, now_us))) {
			row->last = behind;
			row->room += behind->size;
			behind = beside(cache, behind, true, &row->room);
		} else if (before) {
			row->first = before;
			row->room += before->size;
			before = beside(cache, before, false, &row->room);
		} else {
			return false;
		}
	}
	return true;
}

static void evict_row(struct cache *cache, const struct row *row)
{
	struct cache_chunk *chunk, *next = row->first;
	uint64_t room = 0;

	do {
		chunk = next;
		next = beside(cache, chunk, true, &room);
		evict(cache, chunk);
	} while (chunk != row->last);
}

/* What goes is in one place and about as much as is wanted, or nothing does. */
static int make_room(struct cache *cache, const struct cache_chunk *wanted, uint64_t now_us,
		     struct memory_chunk **memory)
{
	struct candidates candidates;
	struct cache_chunk *chunk;
	struct row row;
	int err;

	err = memory_arena_allocate(cache->arena, wanted->size, memory);
	if (err != -ENOSPC)
		return err;
	candidates_begin(cache, &candidates);
	for (int i = 0; i < ROWS_TRIED; i++) {
		chunk = candidates_next(&candidates, now_us);
		if (!may_go(chunk, wanted, now_us))
			return -ENOSPC;
		if (!find_row(cache, chunk, wanted, now_us, &row))
			continue;
		evict_row(cache, &row);
		return memory_arena_allocate(cache->arena, wanted->size, memory);
	}
	return -ENOSPC;
}

/*
 * Uses
 */

static void use(struct cache *cache, struct cache_chunk *chunk, uint64_t now_us)
{
	/* A load that has it twice has it once. */
	if (chunk->uses && chunk->used_us == now_us)
		return;
	TAILQ_REMOVE(list_of(cache, chunk), chunk, link);
	chunk->claim = benefit(chunk, now_us);
	chunk->uses += chunk->uses < USES_MAX;
	chunk->used_us = now_us;
	TAILQ_INSERT_TAIL(list_of(cache, chunk), chunk, link);
}

struct cache_chunk *cache_pin(struct cache *cache, const struct model_chunk *wanted,
			      uint64_t now_us)
{
	struct cache_chunk *chunk = find(cache, &wanted->digest, wanted->size);

	if (!chunk)
		chunk = remember(cache, wanted);
	if (chunk)
		use(cache, chunk, now_us);
	if (!chunk || !chunk->memory || chunk->damaged) {
		cache->misses++;
		return NULL;
	}
	cache->hits++;
	chunk->pins++;
	return chunk;
}

const void *cache_data(const struct cache_chunk *chunk)
{
	return chunk->memory->data;
}

void cache_unpin(struct cache *cache, struct cache_chunk *chunk, bool damaged)
{
	chunk->damaged |= damaged;
	if (!--chunk->pins && chunk->damaged)
		evict(cache, chunk);
}

int cache_keep(struct cache *cache, const struct model_chunk *wanted, const void *bytes,
	       uint64_t load_us, uint64_t now_us)
{
	struct cache_chunk *chunk = find(cache, &wanted->digest, wanted->size);
	struct memory_chunk *memory;
	int err;

	if (!chunk || chunk->memory || chunk->used_us < load_us)
		return -ENOENT;
	err = make_room(cache, chunk, now_us, &memory);
	if (err)
		return err;
	memcpy(memory->data, bytes, chunk->size);
	err = -EBADMSG;
	if (chunk_checksum(memory->data, chunk->size) == wanted->checksum)
		err = memory_arena_seal(cache->arena, memory, chunk->digest.bytes,
					wanted->checksum);
	if (err) {
		memory_arena_abandon(cache->arena, memory);
		return err;
	}
	/* Sealed, it stays there until evict(). */
	memory_arena_mark(cache->arena, chunk->digest.bytes, (uintptr_t)chunk);
	TAILQ_REMOVE(&cache->missing, chunk, link);
	cache->missing_bytes -= chunk->size;
	/* Behind those that a load has used since its own: so it stays a little longer. */
	chunk->memory = memory;
	TAILQ_INSERT_TAIL(list_of(cache, chunk), chunk, link);
	return 0;
}

void cache_stats(struct cache *cache, struct cache_stats *stats)
{
	struct memory_arena_stats arena;

	memory_arena_stats(cache->arena, &arena);
	*stats = (struct cache_stats){
		.size = arena.size, .bytes = arena.bytes, .chunks = arena.chunks,
		.hits = cache->hits, .misses = cache->misses, .evictions = cache->evictions,
	};
}
