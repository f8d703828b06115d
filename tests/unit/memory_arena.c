// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/memory/arena.h"
#include "../../userspace/memory/space.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MiB (1ULL << 20)

static void digest_of(const void *data, size_t len, uint8_t *digest)
{
	assert_true(EVP_Digest(data, len, digest, NULL, EVP_sha256(), NULL));
}

/* A sealed chunk of one byte, repeated. */
static int add(struct memory_arena *arena, uint8_t byte, uint64_t len, uint8_t *digest)
{
	struct memory_chunk *chunk;
	int err = memory_arena_allocate(arena, len, &chunk);

	if (err)
		return err;
	memset(chunk->data, byte, len);
	digest_of(chunk->data, len, digest);
	err = memory_arena_seal(arena, chunk, digest, 7);
	if (err)
		memory_arena_abandon(arena, chunk);
	return err;
}

static bool all_zero(struct memory_arena *arena)
{
	const uint8_t *base = memory_arena_base(arena);

	return !base[0] && !memcmp(base, base + 1, memory_arena_size(arena) - 1);
}

static uint64_t doomed(struct memory_arena *arena)
{
	struct memory_arena_stats stats;

	memory_arena_stats(arena, &stats);
	return stats.doomed;
}

static void wait_until_nothing_is_doomed(struct memory_arena *arena)
{
	while (doomed(arena))
		sched_yield();
}

static int create(void **state)
{
	return memory_arena_create((struct memory_arena **)state, 4 * MiB);
}

static int destroy(void **state)
{
	memory_arena_destroy(*state);
	return 0;
}

static void a_sealed_chunk_is_found_by_its_digest(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct memory_chunk *chunk;

	assert_int_equal(add(arena, 0x11, 5000, digest), 0);
	assert_int_equal(memory_arena_pin(arena, digest, &chunk), 0);
	assert_int_equal(chunk->length, 5000);
	assert_int_equal(chunk->data[4999], 0x11);
	memory_arena_unpin(arena, chunk);
	digest[0] ^= 1;
	assert_int_equal(memory_arena_pin(arena, digest, &chunk), -ENOENT);
}

static void a_chunk_is_invisible_until_it_is_sealed(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct memory_chunk *chunk, *found;

	assert_int_equal(memory_arena_allocate(arena, 100, &chunk), 0);
	memset(chunk->data, 0x22, 100);
	digest_of(chunk->data, 100, digest);
	assert_int_equal(memory_arena_pin(arena, digest, &found), -ENOENT);
	assert_int_equal(memory_arena_seal(arena, chunk, digest, 7), 0);
	assert_int_equal(memory_arena_pin(arena, digest, &found), 0);
	memory_arena_unpin(arena, found);
}

static void the_same_chunk_is_held_once(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct memory_arena_stats stats;

	assert_int_equal(add(arena, 0x44, MiB, digest), 0);
	assert_int_equal(add(arena, 0x44, MiB, digest), -EEXIST);
	memory_arena_stats(arena, &stats);
	assert_int_equal(stats.chunks, 1);
	assert_int_equal(stats.bytes, MiB);
	assert_int_equal(stats.used, MiB);
}

static void a_pinned_chunk_keeps_its_bytes_until_the_last_pin_goes(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digest[MEMORY_DIGEST_LEN], other[MEMORY_DIGEST_LEN];
	struct memory_chunk *first, *second, *none;
	struct memory_arena_stats stats;

	assert_int_equal(add(arena, 0x55, 4 * MiB, digest), 0);
	assert_int_equal(memory_arena_pin(arena, digest, &first), 0);
	assert_int_equal(memory_arena_pin(arena, digest, &second), 0);
	assert_int_equal(memory_arena_free(arena, digest), 0);
	assert_int_equal(memory_arena_free(arena, digest), -ENOENT);
	assert_int_equal(memory_arena_pin(arena, digest, &none), -ENOENT);
	assert_int_equal(add(arena, 0x66, 4096, other), -ENOSPC);
	memory_arena_unpin(arena, first);
	memory_arena_stats(arena, &stats);
	assert_int_equal(stats.doomed, 1);
	assert_int_equal(stats.pins, 1);
	assert_int_equal(second->data[4 * MiB - 1], 0x55);
	memory_arena_unpin(arena, second);
	wait_until_nothing_is_doomed(arena);
	assert_true(all_zero(arena));
	assert_int_equal(add(arena, 0x66, 4096, other), 0);
}

static void a_doomed_chunk_can_come_anew(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct memory_chunk *old, *new;

	assert_int_equal(add(arena, 0x77, MiB, digest), 0);
	assert_int_equal(memory_arena_pin(arena, digest, &old), 0);
	assert_int_equal(memory_arena_free(arena, digest), 0);
	assert_int_equal(add(arena, 0x77, MiB, digest), 0);
	assert_int_equal(memory_arena_pin(arena, digest, &new), 0);
	assert_ptr_not_equal(old, new);
	memory_arena_unpin(arena, old);
	assert_int_equal(new->data[MiB - 1], 0x77);
	memory_arena_unpin(arena, new);
}

static void freed_memory_is_cleared_at_once(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digests[16][MEMORY_DIGEST_LEN];

	for (int i = 0; i < 16; i++)
		assert_int_equal(add(arena, i + 1, 100000 + i * 4096, digests[i]), 0);
	assert_false(all_zero(arena));
	for (int i = 0; i < 16; i++)
		assert_int_equal(memory_arena_free(arena, digests[i]), 0);
	assert_true(all_zero(arena));
}

static void neighbours_and_the_room_between_them_are_known(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digests[4][MEMORY_DIGEST_LEN];
	struct memory_chunk *chunks[4];
	uint64_t room;

	for (int i = 0; i < 4; i++) {
		assert_int_equal(add(arena, i + 1, MiB, digests[i]), 0);
		assert_int_equal(memory_arena_pin(arena, digests[i], &chunks[i]), 0);
		memory_arena_unpin(arena, chunks[i]);
	}
	assert_ptr_equal(memory_arena_beside(arena, chunks[1], true, &room), chunks[2]);
	assert_int_equal(room, 0);
	assert_null(memory_arena_beside(arena, chunks[3], true, &room));
	assert_int_equal(room, 0);
	assert_int_equal(memory_arena_free(arena, digests[2]), 0);
	assert_ptr_equal(memory_arena_beside(arena, chunks[1], true, &room), chunks[3]);
	assert_int_equal(room, MiB);
	assert_ptr_equal(memory_arena_beside(arena, chunks[3], false, &room), chunks[1]);
	assert_int_equal(room, MiB);
	assert_int_equal(memory_arena_free(arena, digests[0]), 0);
	assert_null(memory_arena_beside(arena, chunks[1], false, &room));
	assert_int_equal(room, MiB);
}

static void impossible_lengths_are_refused(void **state)
{
	struct memory_arena *arena = *state, *none;
	struct memory_chunk *chunk;

	assert_int_equal(memory_arena_allocate(arena, 0, &chunk), -EINVAL);
	assert_int_equal(memory_arena_allocate(arena, 4 * MiB + 1, &chunk), -ENOSPC);
	assert_int_equal(memory_arena_allocate(arena, UINT64_MAX, &chunk), -ENOSPC);
	assert_int_equal(memory_arena_create(&none, 0), -EINVAL);
	assert_int_equal(memory_arena_create(&none, 4095), -EINVAL);
	assert_int_equal(memory_arena_create(&none, UINT64_MAX), -EINVAL);
}

static bool count_one(void *arg, const struct memory_chunk *chunk)
{
	assert_int_equal(chunk->length, 1 + chunk->data[0]);
	return ++*(int *)arg != 5000;
}

static void many_chunks_are_all_listed(void **state)
{
	struct memory_arena *arena;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct memory_chunk *chunk;
	int seen = 0, calls = 0;
	size_t cursor = 0;

	(void)state;
	assert_int_equal(memory_arena_create(&arena, 3000 * 4096), 0);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(memory_arena_allocate(arena, 4, &chunk), 0);
		chunk->data[0] = 3;
		memcpy(chunk->data + 1, (uint8_t[]){ i, i >> 8 }, 2);
		digest_of(chunk->data, 4, digest);
		assert_int_equal(memory_arena_seal(arena, chunk, digest, 7), 0);
	}
	assert_int_equal(memory_arena_allocate(arena, 1, &chunk), -ENOSPC);
	/* By and by, and not more than the caller wants. */
	while (memory_arena_each(arena, &cursor, 16, count_one, &seen))
		assert_true(seen <= ++calls * 16);
	assert_int_equal(seen, 3000);
	cursor = 0;
	while (memory_arena_each(arena, &cursor, 16, count_one, &seen))
		;
	assert_int_equal(seen, 5000);
	memory_arena_destroy(arena);
}

static uint64_t processor_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Everybody waits for the lock meanwhile, the event loop too. */
static void no_chunk_takes_long_because_there_are_many(void **state)
{
	enum { CHUNKS = 400000 };
	uint8_t digest[MEMORY_DIGEST_LEN];
	uint64_t begun, took, longest = 0;
	struct memory_arena *arena;
	struct memory_chunk *chunk;
	unsigned int seed = 5;

	(void)state;
	assert_int_equal(memory_arena_create(&arena, CHUNKS * 4096ULL), 0);
	for (int i = 0; i < CHUNKS; i++) {
		for (size_t j = 0; j < sizeof(digest); j++)
			digest[j] = (uint8_t)(rand_r(&seed) >> 8);
		assert_int_equal(memory_arena_allocate(arena, 4096, &chunk), 0);
		begun = processor_ns();
		assert_int_equal(memory_arena_seal(arena, chunk, digest, 7), 0);
		took = processor_ns() - begun;
		longest = took > longest ? took : longest;
	}
	assert_in_range(longest, 1, 5000000);
	memory_arena_destroy(arena);
}

/* The space against a map of its units: never twice, never lost. */
static void the_space_loses_and_repeats_nothing(void **state)
{
	enum { UNITS = 512, HELD = 64 };
	struct memory_space *space = memory_space_create(UNITS * MEMORY_SPACE_UNIT + 5);
	struct memory_extent *held[HELD] = { NULL };
	uint8_t map[UNITS] = { 0 };
	uint64_t used = 0;
	unsigned int seed = 3;

	(void)state;
	for (int round = 0; round < 100000; round++) {
		int i = rand_r(&seed) % HELD;
		uint64_t first, units;

		if (held[i]) {
			first = held[i]->offset / MEMORY_SPACE_UNIT;
			units = held[i]->size / MEMORY_SPACE_UNIT;
			memset(map + first, 0, units);
			used -= held[i]->size;
			memory_space_give(space, held[i]);
			held[i] = NULL;
		} else {
			uint64_t size = 1 + rand_r(&seed) % (40 * MEMORY_SPACE_UNIT);
			uint64_t longest = memory_space_longest(space);

			held[i] = memory_space_take(space, size);
			if (!held[i]) {
				assert_true(longest < size);
				continue;
			}
			first = held[i]->offset / MEMORY_SPACE_UNIT;
			units = held[i]->size / MEMORY_SPACE_UNIT;
			assert_in_range(held[i]->size, size, size + MEMORY_SPACE_UNIT - 1);
			for (uint64_t u = first; u < first + units; u++) {
				assert_true(u < UNITS && !map[u]);
				map[u] = 1;
			}
			used += held[i]->size;
		}
		assert_int_equal(memory_space_left(space), UNITS * MEMORY_SPACE_UNIT - used);
	}
	for (int i = 0; i < HELD; i++)
		if (held[i])
			memory_space_give(space, held[i]);
	assert_int_equal(memory_space_longest(space), UNITS * MEMORY_SPACE_UNIT);
	memory_space_destroy(space);
}

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Donors unpin with the fabric's lock, however many chunks a reader had that goes away. */
static void who_unpins_does_not_clear(void **state)
{
	enum { COUNT = 32 };
	const uint64_t len = 2 * MiB;
	uint8_t digests[COUNT][MEMORY_DIGEST_LEN];
	struct memory_chunk *chunks[COUNT];
	struct memory_arena *arena;
	uint64_t begin, clear, unpin;

	(void)state;
	assert_int_equal(memory_arena_create(&arena, COUNT * len), 0);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(add(arena, i + 1, len, digests[i]), 0);
		assert_int_equal(memory_arena_pin(arena, digests[i], &chunks[i]), 0);
		assert_int_equal(memory_arena_free(arena, digests[i]), 0);
	}
	begin = cpu_ns();
	for (int i = 0; i < COUNT; i++)
		memory_arena_unpin(arena, chunks[i]);
	unpin = cpu_ns() - begin;
	wait_until_nothing_is_doomed(arena);
	assert_true(all_zero(arena));
	/* Against a memset of as much. */
	begin = cpu_ns();
	memset(memory_arena_base(arena), 0, COUNT * len);
	clear = cpu_ns() - begin;
	assert_in_range(unpin, 0, clear / 4);
	memory_arena_destroy(arena);
}

/*
 * A space full of small extents of which every second one is given back: how long it takes to
 * learn that nothing longer can be had, and to take and give what can.
 */
static uint64_t time_pieces(uint32_t count)
{
	const uint64_t size = 64 << 10;
	struct memory_space *space = memory_space_create(count * size);
	struct memory_extent **extents = calloc(count, sizeof(*extents));
	uint64_t begin;

	for (uint32_t i = 0; i < count; i++)
		assert_non_null(extents[i] = memory_space_take(space, size));
	for (uint32_t i = 0; i < count; i += 2)
		memory_space_give(space, extents[i]);
	begin = cpu_ns();
	for (int i = 0; i < 200; i++) {
		assert_int_equal(memory_space_longest(space), size);
		assert_null(memory_space_take(space, size + 1));
		memory_space_give(space, memory_space_take(space, size - i));
	}
	begin = cpu_ns() - begin;
	free(extents);
	memory_space_destroy(space);
	return begin;
}

/* 800 times as many must not cost 40 times as much. */
static void a_space_in_many_pieces_is_as_quick_as_one_in_few(void **state)
{
	(void)state;
	assert_in_range(time_pieces(160000), 0, 40 * time_pieces(200));
}

/* What small ones leave behind, when they all go, is one piece again, beside the large ones. */
static void small_extents_are_apart_from_large_ones(void **state)
{
	enum { COUNT = 64 };
	struct memory_space *space = memory_space_create(COUNT * 5 * MiB);
	struct memory_extent *small[COUNT];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		assert_non_null(memory_space_take(space, 4 * MiB));
		assert_non_null(small[i] = memory_space_take(space, MiB / 2));
	}
	for (int i = 0; i < COUNT; i++)
		memory_space_give(space, small[i]);
	assert_int_equal(memory_space_longest(space), COUNT * MiB);
	memory_space_destroy(space);
}

struct racer {
	struct memory_arena *arena;
	uint8_t (*digests)[MEMORY_DIGEST_LEN];
	int torn;
};

static void *pin_and_look(void *arg)
{
	struct racer *racer = arg;
	struct memory_chunk *chunk;
	unsigned int seed = 5;

	for (int round = 0; round < 20000; round++) {
		int i = rand_r(&seed) % 4;

		if (memory_arena_pin(racer->arena, racer->digests[i], &chunk))
			continue;
		if (chunk->data[0] != i + 1 || chunk->data[chunk->length - 1] != i + 1)
			racer->torn++;
		memory_arena_unpin(racer->arena, chunk);
	}
	return NULL;
}

static void a_reader_never_sees_a_torn_chunk(void **state)
{
	struct memory_arena *arena = *state;
	uint8_t digests[4][MEMORY_DIGEST_LEN];
	struct racer racer = { .arena = arena, .digests = digests };
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		assert_int_equal(add(arena, i + 1, 9000, digests[i]), 0);
	assert_int_equal(pthread_create(&thread, NULL, pin_and_look, &racer), 0);
	for (int round = 0; round < 2000; round++) {
		uint8_t digest[MEMORY_DIGEST_LEN];

		assert_int_equal(memory_arena_free(arena, digests[round % 4]), 0);
		assert_int_equal(add(arena, round % 4 + 1, 9000, digest), 0);
	}
	pthread_join(thread, NULL);
	assert_int_equal(racer.torn, 0);
}

#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, create, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ARENA(a_sealed_chunk_is_found_by_its_digest),
		WITH_ARENA(a_chunk_is_invisible_until_it_is_sealed),
		WITH_ARENA(the_same_chunk_is_held_once),
		WITH_ARENA(a_pinned_chunk_keeps_its_bytes_until_the_last_pin_goes),
		WITH_ARENA(a_doomed_chunk_can_come_anew),
		cmocka_unit_test(who_unpins_does_not_clear),
		WITH_ARENA(freed_memory_is_cleared_at_once),
		WITH_ARENA(neighbours_and_the_room_between_them_are_known),
		WITH_ARENA(impossible_lengths_are_refused),
		cmocka_unit_test(many_chunks_are_all_listed),
		cmocka_unit_test(no_chunk_takes_long_because_there_are_many),
		cmocka_unit_test(the_space_loses_and_repeats_nothing),
		cmocka_unit_test(a_space_in_many_pieces_is_as_quick_as_one_in_few),
		cmocka_unit_test(small_extents_are_apart_from_large_ones),
		WITH_ARENA(a_reader_never_sees_a_torn_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
