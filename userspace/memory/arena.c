// SPDX-License-Identifier: GPL-2.0-or-later
#include "arena.h"

#include "../common/clock.h"
#include "../common/hash.h"
#include "space.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE (2ULL << 20)
#define CURSOR_PART ((size_t)1 << 24) /* slots of a table, more than there will be */

struct memory_arena {
	uint8_t *base;
	uint64_t size;
	uint64_t mapped;
	pthread_mutex_t lock; /* everything below */
	struct memory_space *space;
	struct hash tables[HASH_PARTS]; /* sealed ones */
	struct memory_arena_stats stats;
	uint64_t reserved; /* may be more than there is */
	TAILQ_HEAD(, memory_chunk) doomed; /* that are pinned, those first that were so first */
	TAILQ_HEAD(, memory_chunk) dirty; /* that are no more, which the thread clears */
	/* Not a condition: to signal one can wait, and who unpins may hold other locks. */
	sem_t wanted; /* so many are dirty, or it is the end */
	pthread_t thread;
};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static int map(struct memory_arena *arena, uint64_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	arena->mapped = round_up(size, HUGE_PAGE);
	arena->base = mmap(NULL, arena->mapped, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
	arena->stats.huge_pages = arena->base != MAP_FAILED;
	if (arena->base == MAP_FAILED) {
		arena->mapped = round_up(size, MEMORY_SPACE_UNIT);
		arena->base = mmap(NULL, arena->mapped, PROT_READ | PROT_WRITE, flags, -1, 0);
		if (arena->base == MAP_FAILED)
			return -errno;
		/* Advice: a kernel without transparent huge pages does without. */
		madvise(arena->base, arena->mapped, MADV_HUGEPAGE);
	}
	/* A fork must not leave the device with pages of the child. */
	madvise(arena->base, arena->mapped, MADV_DONTFORK);
	madvise(arena->base, arena->mapped, MADV_DONTDUMP);
	return 0;
}

/* A chunk that nobody can find any more. */
static void take_back(struct memory_arena *arena, struct memory_chunk *chunk)
{
	memset(chunk->data, 0, chunk->length);
	pthread_mutex_lock(&arena->lock);
	memory_space_give(arena->space, chunk->extent);
	if (chunk->doomed) {
		arena->stats.doomed--;
		arena->stats.doomed_bytes -= chunk->length;
	}
	pthread_mutex_unlock(&arena->lock);
	free(chunk);
}

static void *clean(void *arg)
{
	struct memory_arena *arena = arg;
	struct memory_chunk *chunk;

	for (;;) {
		while (sem_wait(&arena->wanted))
			; /* a signal */
		pthread_mutex_lock(&arena->lock);
		chunk = TAILQ_FIRST(&arena->dirty);
		if (chunk)
			TAILQ_REMOVE(&arena->dirty, chunk, link);
		pthread_mutex_unlock(&arena->lock);
		if (!chunk)
			return NULL;
		take_back(arena, chunk);
	}
}

int memory_arena_create(struct memory_arena **result, uint64_t size)
{
	struct memory_arena *arena;
	int err;

	size -= size % MEMORY_SPACE_UNIT;
	if (!size || size > SIZE_MAX - HUGE_PAGE)
		return -EINVAL;
	arena = calloc(1, sizeof(*arena));
	if (!arena)
		return -ENOMEM;
	arena->size = size;
	TAILQ_INIT(&arena->doomed);
	TAILQ_INIT(&arena->dirty);
	arena->space = memory_space_create(size);
	err = -ENOMEM;
	if (!arena->space)
		goto fail;
	err = map(arena, size);
	if (err)
		goto fail;
	pthread_mutex_init(&arena->lock, NULL);
	sem_init(&arena->wanted, 0, 0);
	err = -pthread_create(&arena->thread, NULL, clean, arena);
	if (err)
		goto fail_thread;
	*result = arena;
	return 0;
fail_thread:
	sem_destroy(&arena->wanted);
	pthread_mutex_destroy(&arena->lock);
	munmap(arena->base, arena->mapped);
fail:
	memory_space_destroy(arena->space);
	free(arena);
	return err;
}

void memory_arena_destroy(struct memory_arena *arena)
{
	const struct hash_slot *slot;

	if (!arena)
		return;
	sem_post(&arena->wanted);
	pthread_join(arena->thread, NULL);
	sem_destroy(&arena->wanted);
	for (size_t i = 0; i < HASH_PARTS; i++) {
		hash_each(&arena->tables[i], slot)
			free((void *)slot->value);
		hash_free(&arena->tables[i]);
	}
	munmap(arena->base, arena->mapped);
	pthread_mutex_destroy(&arena->lock);
	memory_space_destroy(arena->space);
	free(arena);
}

void *memory_arena_base(const struct memory_arena *arena)
{
	return arena->base;
}

uint64_t memory_arena_size(const struct memory_arena *arena)
{
	return arena->size;
}

static struct memory_chunk *find(const struct memory_arena *arena, const uint8_t *digest)
{
	uint64_t hash = hash_of_digest(digest);
	const struct hash_slot *slot;

	hash_each_of(&arena->tables[hash_part(hash)], hash, slot) {
		struct memory_chunk *chunk = (struct memory_chunk *)slot->value;

		if (!memcmp(chunk->digest, digest, MEMORY_DIGEST_LEN))
			return chunk;
	}
	return NULL;
}

uint64_t memory_arena_needs(uint64_t length)
{
	return length > UINT64_MAX - MEMORY_SPACE_UNIT ? UINT64_MAX :
							 round_up(length, MEMORY_SPACE_UNIT);
}

/* Of what is not used; the lock is held. */
static uint64_t reserved(const struct memory_arena *arena)
{
	uint64_t left = memory_space_left(arena->space);

	return arena->reserved < left ? arena->reserved : left;
}

void memory_arena_reserve(struct memory_arena *arena, uint64_t bytes)
{
	pthread_mutex_lock(&arena->lock);
	arena->reserved = bytes;
	pthread_mutex_unlock(&arena->lock);
}

static int allocate(struct memory_arena *arena, uint64_t length, bool from_reserve,
		    struct memory_chunk **result)
{
	uint64_t needs = memory_arena_needs(length);
	struct memory_chunk *chunk;
	int err = 0;

	if (!length)
		return -EINVAL;
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	pthread_mutex_lock(&arena->lock);
	if (!from_reserve && needs > memory_space_left(arena->space) - reserved(arena))
		err = -ENOSPC;
	if (!err) {
		chunk->extent = memory_space_take(arena->space, length);
		err = chunk->extent ? 0 : -errno;
	}
	if (!err) {
		chunk->extent->owner = chunk;
		arena->stats.filling++;
		if (from_reserve)
			arena->reserved -= needs < arena->reserved ? needs : arena->reserved;
	}
	pthread_mutex_unlock(&arena->lock);
	if (err) {
		free(chunk);
		return err;
	}
	chunk->data = arena->base + chunk->extent->offset;
	chunk->length = length;
	*result = chunk;
	return 0;
}

int memory_arena_allocate(struct memory_arena *arena, uint64_t length,
			  struct memory_chunk **chunk)
{
	return allocate(arena, length, false, chunk);
}

int memory_arena_allocate_reserved(struct memory_arena *arena, uint64_t length,
				   struct memory_chunk **chunk)
{
	return allocate(arena, length, true, chunk);
}

int memory_arena_seal(struct memory_arena *arena, struct memory_chunk *chunk,
		      const uint8_t digest[MEMORY_DIGEST_LEN], uint64_t checksum)
{
	uint64_t hash = hash_of_digest(digest);
	int err = 0;

	pthread_mutex_lock(&arena->lock);
	if (find(arena, digest)) {
		err = -EEXIST;
	} else {
		memcpy(chunk->digest, digest, MEMORY_DIGEST_LEN);
		chunk->checksum = checksum;
		err = hash_add(&arena->tables[hash_part(hash)], hash, (uintptr_t)chunk);
	}
	if (!err) {
		arena->stats.filling--;
		arena->stats.chunks++;
		arena->stats.bytes += chunk->length;
	}
	pthread_mutex_unlock(&arena->lock);
	return err;
}

void memory_arena_abandon(struct memory_arena *arena, struct memory_chunk *chunk)
{
	pthread_mutex_lock(&arena->lock);
	arena->stats.filling--;
	pthread_mutex_unlock(&arena->lock);
	take_back(arena, chunk);
}

int memory_arena_pin(struct memory_arena *arena, const uint8_t digest[MEMORY_DIGEST_LEN],
		     struct memory_chunk **result)
{
	struct memory_chunk *chunk;

	pthread_mutex_lock(&arena->lock);
	chunk = find(arena, digest);
	if (chunk) {
		chunk->pins++;
		arena->stats.pins++;
	}
	pthread_mutex_unlock(&arena->lock);
	if (!chunk)
		return -ENOENT;
	*result = chunk;
	return 0;
}

void memory_arena_unpin(struct memory_arena *arena, struct memory_chunk *chunk)
{
	bool last;

	pthread_mutex_lock(&arena->lock);
	chunk->pins--;
	arena->stats.pins--;
	last = chunk->doomed && !chunk->pins;
	if (last) {
		TAILQ_REMOVE(&arena->doomed, chunk, link);
		TAILQ_INSERT_TAIL(&arena->dirty, chunk, link);
	}
	pthread_mutex_unlock(&arena->lock);
	if (last)
		sem_post(&arena->wanted);
}

int memory_arena_free(struct memory_arena *arena, const uint8_t digest[MEMORY_DIGEST_LEN])
{
	uint64_t hash = hash_of_digest(digest);
	struct memory_chunk *chunk;
	bool pinned = false;

	pthread_mutex_lock(&arena->lock);
	chunk = find(arena, digest);
	if (chunk) {
		hash_remove(&arena->tables[hash_part(hash)], hash, (uintptr_t)chunk);
		arena->stats.chunks--;
		arena->stats.bytes -= chunk->length;
		pinned = chunk->pins;
	}
	if (pinned) {
		chunk->doomed = clock_ns();
		TAILQ_INSERT_TAIL(&arena->doomed, chunk, link);
		arena->stats.doomed++;
		arena->stats.doomed_bytes += chunk->length;
	}
	pthread_mutex_unlock(&arena->lock);
	if (!chunk)
		return -ENOENT;
	if (!pinned)
		take_back(arena, chunk);
	return 0;
}

uint64_t memory_arena_doomed_since(struct memory_arena *arena)
{
	const struct memory_chunk *first;
	uint64_t since;

	pthread_mutex_lock(&arena->lock);
	first = TAILQ_FIRST(&arena->doomed);
	since = first ? first->doomed : 0;
	pthread_mutex_unlock(&arena->lock);
	return since;
}

bool memory_arena_any_doomed(struct memory_arena *arena, struct memory_chunk *const *chunks,
			     size_t count, uint64_t before)
{
	bool any = false;

	pthread_mutex_lock(&arena->lock);
	for (size_t i = 0; i < count && !any; i++)
		any = chunks[i] && chunks[i]->doomed && chunks[i]->doomed <= before;
	pthread_mutex_unlock(&arena->lock);
	return any;
}

void memory_arena_mark(struct memory_arena *arena, const uint8_t *digest, uint64_t mark)
{
	struct memory_chunk *chunk;

	pthread_mutex_lock(&arena->lock);
	chunk = find(arena, digest);
	if (chunk)
		chunk->mark = mark;
	pthread_mutex_unlock(&arena->lock);
}

bool memory_arena_each(struct memory_arena *arena, size_t *cursor, size_t count,
		       bool (*tell)(void *arg, const struct memory_chunk *chunk), void *arg)
{
	size_t part = *cursor / CURSOR_PART, at = *cursor % CURSOR_PART;
	const struct hash_slot *slot;
	bool more = true;

	pthread_mutex_lock(&arena->lock);
	for (; more && part < HASH_PARTS && count; count--) {
		if (at >= arena->tables[part].size) {
			part++;
			at = 0;
			continue;
		}
		slot = &arena->tables[part].slots[at++];
		if (slot->value)
			more = tell(arg, (const struct memory_chunk *)slot->value);
	}
	pthread_mutex_unlock(&arena->lock);
	*cursor = part * CURSOR_PART + at;
	return more && part < HASH_PARTS;
}

static const struct memory_extent *extent_beside(const struct memory_extent *extent, bool behind)
{
	return behind ? extent->after : extent->before;
}

struct memory_chunk *memory_arena_beside(struct memory_arena *arena,
					 const struct memory_chunk *chunk, bool behind,
					 uint64_t *room)
{
	const struct memory_extent *extent;

	*room = 0;
	pthread_mutex_lock(&arena->lock);
	extent = extent_beside(chunk->extent, behind);
	if (extent && extent->free) {
		*room = extent->size;
		extent = extent_beside(extent, behind);
	}
	pthread_mutex_unlock(&arena->lock);
	return extent ? extent->owner : NULL;
}

void memory_arena_stats(struct memory_arena *arena, struct memory_arena_stats *stats)
{
	pthread_mutex_lock(&arena->lock);
	*stats = arena->stats;
	stats->size = arena->size;
	stats->used = arena->size - memory_space_left(arena->space);
	stats->reserved = reserved(arena);
	stats->longest = memory_space_longest(arena->space);
	if (stats->longest > stats->size - stats->used - stats->reserved)
		stats->longest = stats->size - stats->used - stats->reserved;
	pthread_mutex_unlock(&arena->lock);
}
