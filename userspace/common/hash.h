/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hash table of numbers: pointers, or rows of somebody's array plus one. It knows the hash of
 * each and no keys: who looks for a key looks at all that have its hash, of which there is one
 * but for chance, and compares.
 *
 *	hash_each_of(&table, hash, slot)
 *		if (same(key, (struct thing *)slot->value))
 *			return (struct thing *)slot->value;
 *
 * Hashes are expected to be good in all their bits. Adding and removing moves slots: pointers to
 * them are good until then. An empty table is all zero.
 *
 * A table that is full is made anew in one go, which takes 20 ns for each that it has, or more.
 * What may have very many, and must not keep others waiting for that, is an array of HASH_PARTS
 * tables, each of which grows by itself:
 *
 *	hash_add(&tables[hash_part(hash)], hash, value)
 */
#ifndef DISTMIND_COMMON_HASH_H
#define DISTMIND_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hash_slot {
	uint64_t hash;
	uintptr_t value; /* 0: it is free */
};

struct hash {
	struct hash_slot *slots;
	size_t size; /* of the slots, a power of two or 0; some are free */
	size_t count;
};

void hash_free(struct hash *table);
/* It is empty then, and its memory stays, for others. */
void hash_clear(struct hash *table);
/* Several of the same hash can be there. -ENOMEM. */
int hash_add(struct hash *table, uint64_t hash, uintptr_t value);
/* So many can be added then without a lack of memory. -ENOMEM. */
int hash_reserve(struct hash *table, size_t count);
/* The first with that hash, and the next after one; NULL: none. */
struct hash_slot *hash_first(const struct hash *table, uint64_t hash);
struct hash_slot *hash_next(const struct hash *table, const struct hash_slot *slot);
/* The one with that hash and value, which is there. */
void hash_remove(struct hash *table, uint64_t hash, uintptr_t value);

/* The table of an array that a hash belongs to: by bits that have no part in its place there. */
#define HASH_PARTS 256
static inline size_t hash_part(uint64_t hash)
{
	return hash >> 56;
}

/* Of a SHA-256. The end of it: what stands together is often sorted by the beginning. */
static inline uint64_t hash_of_digest(const uint8_t *digest)
{
	uint64_t hash;

	memcpy(&hash, digest + 32 - sizeof(hash), sizeof(hash));
	return hash;
}

#define hash_each_of(table, number, slot)                                                          \
	for ((slot) = hash_first(table, number); (slot); (slot) = hash_next(table, slot))

/* All of them, in no order. */
#define hash_each(table, slot)                                                                     \
	for ((slot) = (table)->slots; (slot) && (slot) < (table)->slots + (table)->size; (slot)++) \
		if ((slot)->value)

#endif
