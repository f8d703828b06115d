/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which ranges of a region are free. The bookkeeping is outside of the region,
 * because the region is open to remote readers. Free ranges are a tree by their
 * size, of which the shortest that suffices is taken; neighbours that are free
 * become one. Everything costs the logarithm of how many free ranges there are.
 *
 * No lock of its own: the owner of the space has one. Extents belong to it.
 */
#ifndef DISTMIND_MEMORY_SPACE_H
#define DISTMIND_MEMORY_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_SPACE_UNIT 4096

struct memory_space;

struct memory_extent {
	uint64_t offset;
	uint64_t size; /* multiples of the unit */
	bool free;
	void *owner; /* for whoever took it */
	struct memory_extent *before, *after; /* by address */
	struct memory_extent *left, *right;   /* in the tree, while free */
};

/* The size is cut to whole units; NULL: no memory, or less than a unit. */
struct memory_space *memory_space_create(uint64_t size);
void memory_space_destroy(struct memory_space *space);

/* NULL: no free range is that long, or no memory for the bookkeeping (errno). */
struct memory_extent *memory_space_take(struct memory_space *space, uint64_t size);
void memory_space_give(struct memory_space *space, struct memory_extent *extent);

uint64_t memory_space_left(const struct memory_space *space);
uint64_t memory_space_longest(const struct memory_space *space);

#endif
