// SPDX-License-Identifier: GPL-2.0-or-later
/* The hash table, against an array that is searched from its beginning. */
#include "../../userspace/common/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define THINGS 3000

static struct {
	uint64_t hash;
	bool here;
} things[THINGS];

static bool finds(const struct hash *table, size_t thing)
{
	const struct hash_slot *slot;
	unsigned int found = 0;

	hash_each_of(table, things[thing].hash, slot) {
		assert_int_equal(slot->hash, things[thing].hash);
		found += slot->value == thing + 1;
	}
	assert_true(found <= 1);
	return found;
}

static void compare(const struct hash *table)
{
	const struct hash_slot *slot;
	size_t count = 0, seen = 0;

	for (size_t i = 0; i < THINGS; i++) {
		assert_int_equal(finds(table, i), things[i].here);
		count += things[i].here;
	}
	hash_each(table, slot) {
		assert_true(things[slot->value - 1].here);
		seen++;
	}
	assert_int_equal(table->count, count);
	assert_int_equal(seen, count);
	assert_true(!count || count < table->size);
}

/* mask: the fewer bits a hash has, the more of them are the same, or wrap around the end. */
static void change_at_random(uint64_t mask, uint64_t shift)
{
	struct hash table = { 0 };

	srandom(42);
	for (size_t i = 0; i < THINGS; i++) {
		things[i].hash = (((uint64_t)random() << 31 ^ (uint64_t)random()) & mask) + shift;
		things[i].here = false;
	}
	for (unsigned int round = 0; round < 40000; round++) {
		size_t i = (size_t)random() % THINGS;
		/* Grows and shrinks in turn. */
		bool add = random() % 10 < (round / 8000 % 2 ? 3 : 7);

		if (add && !things[i].here)
			assert_int_equal(hash_add(&table, things[i].hash, i + 1), 0);
		else if (!add && things[i].here)
			hash_remove(&table, things[i].hash, i + 1);
		else
			continue;
		things[i].here = add;
		assert_int_equal(finds(&table, i), add);
		if (!(round % 4000))
			compare(&table);
	}
	compare(&table);
	for (size_t i = 0; i < THINGS; i++)
		if (things[i].here)
			hash_remove(&table, things[i].hash, i + 1);
	assert_int_equal(table.count, 0);
	assert_null(hash_first(&table, things[0].hash));
	hash_free(&table);
}

static void what_was_added_and_not_removed_is_found(void **state)
{
	(void)state;
	change_at_random(UINT64_MAX, 0);
}

static void things_of_the_same_hash_are_told_apart(void **state)
{
	(void)state;
	change_at_random(7, 0);
}

static void searches_go_on_at_the_beginning_of_the_table(void **state)
{
	(void)state;
	/* All want the last slots. */
	change_at_random(63, UINT64_MAX - 63);
}

static void an_empty_table_has_nothing(void **state)
{
	struct hash table = { 0 };
	const struct hash_slot *slot;

	(void)state;
	assert_null(hash_first(&table, 1));
	hash_remove(&table, 1, 1);
	hash_each(&table, slot)
		fail();
	hash_free(&table);
}

static void what_was_reserved_needs_no_memory(void **state)
{
	struct hash table = { 0 };
	const struct hash_slot *slots;

	(void)state;
	assert_int_equal(hash_reserve(&table, 1000), 0);
	slots = table.slots;
	for (uintptr_t i = 1; i <= 1000; i++)
		assert_int_equal(hash_add(&table, i * 0x9e3779b97f4a7c15ULL, i), 0);
	assert_ptr_equal(table.slots, slots);
	hash_free(&table);
}

/* Each of them grows by itself, so that none has much to move. */
static void parts_are_of_the_same_size(void **state)
{
	static struct hash tables[HASH_PARTS];
	size_t count = 0;

	(void)state;
	for (uintptr_t i = 1; i <= 200000; i++) {
		uint64_t hash = i * 0x9e3779b97f4a7c15ULL;

		assert_int_equal(hash_add(&tables[hash_part(hash)], hash, i), 0);
	}
	for (size_t i = 0; i < HASH_PARTS; i++) {
		assert_in_range(tables[i].size, 1024, 2048);
		count += tables[i].count;
		hash_free(&tables[i]);
	}
	assert_int_equal(count, 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_added_and_not_removed_is_found),
		cmocka_unit_test(things_of_the_same_hash_are_told_apart),
		cmocka_unit_test(searches_go_on_at_the_beginning_of_the_table),
		cmocka_unit_test(an_empty_table_has_nothing),
		cmocka_unit_test(what_was_reserved_needs_no_memory),
		cmocka_unit_test(parts_are_of_the_same_size),
	};

	return cmocka_run_group_tests_name("common_hash", tests, NULL, NULL);
}
