// SPDX-License-Identifier: GPL-2.0-or-later
/* Open addressing with linear probing; a slot that becomes free is filled by those behind it. */
#include "hash.h"

#include <errno.h>
#include <stdlib.h>

#define SIZE_MIN 16

void hash_free(struct hash *table)
{
	free(table->slots);
	*table = (struct hash){ 0 };
}

void hash_clear(struct hash *table)
{
	if (table->count)
		memset(table->slots, 0, table->size * sizeof(*table->slots));
	table->count = 0;
}

/* The first slot from there on that is free or has that hash. */
static struct hash_slot *probe(const struct hash *table, uint64_t hash, size_t at)
{
	for (;; at++) {
		struct hash_slot *slot = &table->slots[at & (table->size - 1)];

		if (!slot->value || slot->hash == hash)
			return slot;
	}
}

struct hash_slot *hash_first(const struct hash *table, uint64_t hash)
{
	struct hash_slot *slot = table->count ? probe(table, hash, hash) : NULL;

	return slot && slot->value ? slot : NULL;
}

struct hash_slot *hash_next(const struct hash *table, const struct hash_slot *slot)
{
	struct hash_slot *next = probe(table, slot->hash, (size_t)(slot - table->slots) + 1);

	return next->value ? next : NULL;
}

static void insert(struct hash *table, uint64_t hash, uintptr_t value)
{
	size_t at = hash;

	while (table->slots[at & (table->size - 1)].value)
		at++;
	table->slots[at & (table->size - 1)] = (struct hash_slot){ hash, value };
}

int hash_reserve(struct hash *table, size_t count)
{
	struct hash grown = { .size = table->size ? table->size : SIZE_MIN, .count = table->count };
	const struct hash_slot *slot;

	/* A quarter stays free, so that searches stay short. */
	while (count > grown.size / 4 * 3) {
		if (grown.size > SIZE_MAX / 2 / sizeof(*grown.slots))
			return -ENOMEM;
		grown.size *= 2;
	}
	if (grown.size == table->size)
		return 0;
	grown.slots = calloc(grown.size, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	hash_each(table, slot)
		insert(&grown, slot->hash, slot->value);
	free(table->slots);
	*table = grown;
	return 0;
}

int hash_add(struct hash *table, uint64_t hash, uintptr_t value)
{
	int err = hash_reserve(table, table->count + 1);

	/* A table that cannot grow is used until one slot is left, where searches end. */
	if (err && table->count + 1 >= table->size)
		return err;
	insert(table, hash, value);
	table->count++;
	return 0;
}

void hash_remove(struct hash *table, uint64_t hash, uintptr_t value)
{
	size_t mask = table->size - 1, hole, at, home;
	struct hash_slot *slot;

	hash_each_of(table, hash, slot)
		if (slot->value == value)
			break;
	if (!slot)
		return;
	hole = (size_t)(slot - table->slots);
	for (at = (hole + 1) & mask; table->slots[at].value; at = (at + 1) & mask) {
		home = table->slots[at].hash & mask;
		/* It stays if its search, which begins at home, does not pass the hole. */
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		table->slots[hole] = table->slots[at];
		hole = at;
	}
	table->slots[hole].value = 0;
	table->count--;
}
