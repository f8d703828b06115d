// SPDX-License-Identifier: GPL-2.0-or-later
/* The cache of chunks in the memory of a host: what it keeps, and what has to go. */
#include "unit.h"

#include "../../userspace/common/checksum.h"
#include "../../userspace/distmindd/pool/cache.h"

#include <errno.h>
#include <string.h>

#define SIZE (1U << 20)
#define ROOM 8 /* chunks of these tests in the cache */
#define CHUNK (SIZE / ROOM)
#define SECOND 1000000ULL

static uint8_t bytes[CHUNK];

static int setup(void **state)
{
	return cache_open((struct cache **)state, SIZE);
}

static int teardown(void **state)
{
	cache_close(*state);
	return 0;
}

/* Its bytes, which follow from a number, are in the array until the next call. */
static struct model_chunk make(uint32_t number)
{
	struct model_chunk chunk = { .size = CHUNK };

	memset(bytes, (int)number, sizeof(bytes));
	memcpy(bytes, &number, sizeof(number));
	assert_int_equal(model_digest_make(bytes, sizeof(bytes), &chunk.digest), 0);
	chunk.checksum = chunk_checksum(bytes, sizeof(bytes));
	return chunk;
}

/* A load wants a chunk and does not find it: what comes of keeping it. */
static int miss(struct cache *cache, uint32_t number, uint64_t second)
{
	struct model_chunk wanted = make(number);

	assert_null(cache_pin(cache, &wanted, second * SECOND));
	return cache_keep(cache, &wanted, bytes, second * SECOND, second * SECOND);
}

/* A load wants a chunk, and keeps it if it was not there. Was it? */
static bool load(struct cache *cache, uint32_t number, uint64_t second)
{
	struct model_chunk wanted = make(number);
	struct cache_chunk *chunk = cache_pin(cache, &wanted, second * SECOND);

	if (!chunk) {
		cache_keep(cache, &wanted, bytes, second * SECOND, second * SECOND);
		return false;
	}
	assert_memory_equal(cache_data(chunk), bytes, CHUNK);
	cache_unpin(cache, chunk, false);
	return true;
}

/* Loads of several chunks at once: how many of them were there? */
static unsigned int load_all(struct cache *cache, uint32_t first, uint32_t count, uint64_t second)
{
	unsigned int hits = 0;

	for (uint32_t i = first; i < first + count; i++)
		hits += load(cache, i, second);
	return hits;
}

static uint64_t evictions(struct cache *cache)
{
	struct cache_stats stats;

	cache_stats(cache, &stats);
	return stats.evictions;
}

static void what_a_load_missed_is_kept_and_found(void **state)
{
	struct cache_stats stats;

	assert_int_equal(miss(*state, 1, 1), 0);
	assert_true(load(*state, 1, 2));
	assert_false(load(*state, 2, 2));
	cache_stats(*state, &stats);
	assert_int_equal(stats.size, SIZE);
	assert_int_equal(stats.chunks, 2);
	assert_int_equal(stats.bytes, 2 * CHUNK);
	assert_int_equal(stats.hits, 1);
	assert_int_equal(stats.misses, 2);
	assert_int_equal(stats.evictions, 0);
}

/* Of a model whose chunks are in the donation too, these are not wanted from here. */
static void what_no_load_missed_is_not_kept(void **state)
{
	struct model_chunk chunk = make(1);

	assert_int_equal(cache_keep(*state, &chunk, bytes, 0, SECOND), -ENOENT);
	assert_null(cache_pin(*state, &chunk, SECOND));
	assert_int_equal(cache_keep(*state, &chunk, bytes, 2 * SECOND, 3 * SECOND), -ENOENT);
	assert_int_equal(cache_keep(*state, &chunk, bytes, SECOND, 3 * SECOND), 0);
	assert_int_equal(cache_keep(*state, &chunk, bytes, SECOND, 3 * SECOND), -ENOENT);
}

static void damaged_bytes_are_not_kept(void **state)
{
	struct model_chunk chunk = make(1);

	assert_null(cache_pin(*state, &chunk, SECOND));
	bytes[CHUNK - 1] ^= 1;
	assert_int_equal(cache_keep(*state, &chunk, bytes, SECOND, SECOND), -EBADMSG);
	assert_int_equal(miss(*state, 1, 2), 0);
	assert_true(load(*state, 1, 3));
}

static void what_turns_out_damaged_is_found_no_more(void **state)
{
	struct model_chunk chunk = make(1);
	struct cache_chunk *one, *other;
	struct cache_stats stats;

	miss(*state, 1, 1);
	one = cache_pin(*state, &chunk, 2 * SECOND);
	other = cache_pin(*state, &chunk, 3 * SECOND);
	cache_unpin(*state, one, true);
	assert_null(cache_pin(*state, &chunk, 4 * SECOND));
	/* Whoever copies from it still can. */
	assert_memory_equal(cache_data(other), bytes, CHUNK);
	cache_unpin(*state, other, false);
	cache_stats(*state, &stats);
	assert_int_equal(stats.chunks, 0);
	assert_int_equal(cache_keep(*state, &chunk, bytes, 4 * SECOND, 5 * SECOND), 0);
	assert_true(load(*state, 1, 6));
}

static void the_one_goes_whose_loss_costs_least(void **state)
{
	load_all(*state, 0, ROOM, 1);
	/* 5 was used last, but 6 never again; 7 long ago, but often. */
	for (uint64_t second = 2; second < 10; second++)
		assert_true(load(*state, 7, second));
	for (uint32_t i = 0; i < 6; i++)
		assert_true(load(*state, i, 20 + i));
	assert_int_equal(miss(*state, 100, 30), -ENOSPC);
	assert_int_equal(miss(*state, 100, 35), 0);
	assert_int_equal(evictions(*state), 1);
	assert_int_equal(load_all(*state, 0, 6, 36), 6);
	assert_true(load(*state, 7, 36));
	assert_true(load(*state, 100, 36));
	assert_false(load(*state, 6, 36));
}

static void a_scan_takes_only_room_that_is_free(void **state)
{
	load_all(*state, 0, ROOM - 1, 1);
	assert_int_equal(miss(*state, 100, 1000), 0);
	for (uint32_t i = 1; i < 100; i++)
		assert_int_equal(miss(*state, 100 + i, 1000 + i), -ENOSPC);
	assert_int_equal(load_all(*state, 0, ROOM - 1, 2000), ROOM - 1);
	assert_int_equal(evictions(*state), 0);
}

static void models_that_take_turns_do_not_put_each_other_out(void **state)
{
	load_all(*state, 0, ROOM / 2, 1);
	load_all(*state, 100, ROOM / 2, 2);
	load_all(*state, 200, ROOM / 2, 3);
	for (uint64_t second = 4; second < 40; second += 3) {
		assert_int_equal(load_all(*state, 0, ROOM / 2, second), ROOM / 2);
		assert_int_equal(load_all(*state, 100, ROOM / 2, second + 1), ROOM / 2);
		assert_int_equal(load_all(*state, 200, ROOM / 2, second + 2), 0);
	}
	assert_int_equal(evictions(*state), 0);
}

static void of_a_model_that_does_not_fit_a_part_stays(void **state)
{
	for (uint64_t second = 1; second < 10; second++)
		assert_int_equal(load_all(*state, 0, 2 * ROOM, second), second > 1 ? ROOM : 0);
	assert_int_equal(evictions(*state), 0);
}

static void what_is_popular_now_puts_out_what_was_popular_once(void **state)
{
	uint64_t second = 1;

	for (; second < 100; second++)
		load_all(*state, 0, ROOM, second);
	for (; second < 200; second++)
		load_all(*state, 100, ROOM, second);
	assert_int_equal(load_all(*state, 100, ROOM, second), ROOM);
	assert_int_equal(evictions(*state), ROOM);
}

static void what_is_pinned_stays(void **state)
{
	struct cache_chunk *pinned[ROOM];

	load_all(*state, 0, ROOM, 1);
	for (uint32_t i = 0; i < ROOM; i++) {
		struct model_chunk chunk = make(i);

		pinned[i] = cache_pin(*state, &chunk, 2 * SECOND);
		assert_non_null(pinned[i]);
	}
	assert_int_equal(miss(*state, 100, 1000), -ENOSPC);
	assert_int_equal(miss(*state, 100, 1001), -ENOSPC);
	for (uint32_t i = 0; i < ROOM; i++) {
		make(i);
		assert_memory_equal(cache_data(pinned[i]), bytes, CHUNK);
		cache_unpin(*state, pinned[i], false);
	}
	assert_int_equal(miss(*state, 100, 1002), 0);
}

static void a_load_that_has_a_chunk_twice_uses_it_once(void **state)
{
	struct model_chunk twice;

	load_all(*state, 0, ROOM, 1);
	twice = make(100);
	assert_null(cache_pin(*state, &twice, 1000 * SECOND));
	assert_int_equal(miss(*state, 100, 1000), -ENOSPC);
	assert_int_equal(miss(*state, 100, 1001), 0);
}

static void what_can_never_fit_puts_nothing_out(void **state)
{
	struct model_chunk large = make(100);

	large.size = SIZE + 1;
	load_all(*state, 0, ROOM, 1);
	for (uint64_t second = 1000; second < 1010; second++) {
		assert_null(cache_pin(*state, &large, second * SECOND));
		assert_int_equal(cache_keep(*state, &large, NULL, second * SECOND,
					    second * SECOND),
				 -ENOSPC);
	}
	assert_int_equal(evictions(*state), 0);
}

/* Loads want it again and again, and then it is kept, or not. */
static int keep_hot(struct cache *cache, uint32_t number, uint32_t size, uint64_t second)
{
	struct model_chunk wanted = make(number);

	wanted.size = size;
	assert_int_equal(model_digest_make(bytes, size, &wanted.digest), 0);
	wanted.checksum = chunk_checksum(bytes, size);
	for (uint64_t i = 0; i < 10; i++)
		assert_null(cache_pin(cache, &wanted, (second + i) * SECOND));
	return cache_keep(cache, &wanted, bytes, second * SECOND, (second + 9) * SECOND);
}

#define SMALL (CHUNK / 8)
#define SMALLS (SIZE / SMALL)

/* A cache full of small chunks, which were then used in another order than they lie. */
static void fill_with_small(struct cache *cache, struct model_chunk *small)
{
	for (uint32_t i = 0; i < SMALLS; i++) {
		small[i] = make(i);
		small[i].size = SMALL;
		assert_int_equal(model_digest_make(bytes, SMALL, &small[i].digest), 0);
		small[i].checksum = chunk_checksum(bytes, SMALL);
		assert_null(cache_pin(cache, &small[i], SECOND));
		assert_int_equal(cache_keep(cache, &small[i], bytes, SECOND, SECOND), 0);
	}
	for (uint32_t i = 0; i < SMALLS; i++)
		cache_unpin(cache, cache_pin(cache, &small[i * 29 % SMALLS], (2 + i) * SECOND),
			    false);
}

static void a_large_chunk_puts_out_as_much_as_it_needs(void **state)
{
	struct model_chunk small[SMALLS];

	fill_with_small(*state, small);
	assert_int_equal(keep_hot(*state, 1000, CHUNK, 1000), 0);
	assert_int_equal(evictions(*state), CHUNK / SMALL);
}

static void a_chunk_that_is_refused_puts_nothing_out(void **state)
{
	struct cache_chunk *pinned[SMALLS / 4];
	struct model_chunk small[SMALLS];

	fill_with_small(*state, small);
	/* So that no row of those that could go is long enough. */
	for (uint32_t i = 0; i < SMALLS / 4; i++)
		assert_non_null(pinned[i] = cache_pin(*state, &small[4 * i], 999 * SECOND));
	assert_int_equal(keep_hot(*state, 1000, CHUNK, 1000), -ENOSPC);
	assert_int_equal(evictions(*state), 0);
	/* But one that fits between them is taken. */
	assert_int_equal(keep_hot(*state, 1001, 3 * SMALL, 1100), 0);
	assert_int_equal(evictions(*state), 3);
	for (uint32_t i = 0; i < SMALLS / 4; i++)
		cache_unpin(*state, pinned[i], false);
}

static void what_was_asked_for_long_ago_is_forgotten(void **state)
{
	load_all(*state, 0, ROOM, 1);
	assert_int_equal(miss(*state, 100, 1000), -ENOSPC);
	for (uint32_t i = 1; i < 10 * ROOM; i++)
		assert_int_equal(miss(*state, 100 + i, 1000), -ENOSPC);
	/* As if it were the first time. */
	assert_int_equal(miss(*state, 100, 1001), -ENOSPC);
	assert_int_equal(miss(*state, 100, 1002), 0);
}

/* Two manifests can say different things of one digest: one of them is wrong. */
static void a_chunk_of_another_size_is_another_chunk(void **state)
{
	struct model_chunk chunk = make(1), longer = chunk;

	longer.size = 2 * CHUNK;
	assert_null(cache_pin(*state, &longer, SECOND));
	assert_null(cache_pin(*state, &chunk, 2 * SECOND));
	assert_int_equal(cache_keep(*state, &chunk, bytes, 2 * SECOND, 2 * SECOND), 0);
	assert_true(load(*state, 1, 3));
	assert_null(cache_pin(*state, &longer, 4 * SECOND));
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(what_a_load_missed_is_kept_and_found),
		CACHE_TEST(what_no_load_missed_is_not_kept),
		CACHE_TEST(damaged_bytes_are_not_kept),
		CACHE_TEST(what_turns_out_damaged_is_found_no_more),
		CACHE_TEST(the_one_goes_whose_loss_costs_least),
		CACHE_TEST(a_scan_takes_only_room_that_is_free),
		CACHE_TEST(models_that_take_turns_do_not_put_each_other_out),
		CACHE_TEST(of_a_model_that_does_not_fit_a_part_stays),
		CACHE_TEST(what_is_popular_now_puts_out_what_was_popular_once),
		CACHE_TEST(what_is_pinned_stays),
		CACHE_TEST(a_load_that_has_a_chunk_twice_uses_it_once),
		CACHE_TEST(what_can_never_fit_puts_nothing_out),
		CACHE_TEST(a_large_chunk_puts_out_as_much_as_it_needs),
		CACHE_TEST(a_chunk_that_is_refused_puts_nothing_out),
		CACHE_TEST(what_was_asked_for_long_ago_is_forgotten),
		CACHE_TEST(a_chunk_of_another_size_is_another_chunk),
	};

	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
