// SPDX-License-Identifier: GPL-2.0-or-later
#include "space.h"

#include <errno.h>
#include <stdlib.h>

#define FINE_BITS 3
#define FINE (1 << FINE_BITS)
#define COARSE 64

struct memory_space {
	struct memory_extent *first; /* by address */
	struct memory_extent *bins[COARSE][FINE];
	uint64_t coarse_used;	  /* a bit for each row that has something */
	uint8_t fine_used[COARSE]; /* and for each bin in it */
	uint64_t left;
};

/* The class whose extents are at least as long as its own lower bound. */
static void class_of(uint64_t units, unsigned int *coarse, unsigned int *fine)
{
	unsigned int log = 63 - __builtin_clzll(units);

	*coarse = log;
	*fine = log >= FINE_BITS ? (units >> (log - FINE_BITS)) & (FINE - 1) :
				   (units << (FINE_BITS - log)) & (FINE - 1);
}

static void bin_add(struct memory_space *space, struct memory_extent *extent)
{
	unsigned int coarse, fine;

	class_of(extent->size / MEMORY_SPACE_UNIT, &coarse, &fine);
	extent->free = true;
	extent->prev = NULL;
	extent->next = space->bins[coarse][fine];
	if (extent->next)
		extent->next->prev = extent;
	space->bins[coarse][fine] = extent;
	space->coarse_used |= 1ULL << coarse;
	space->fine_used[coarse] |= 1U << fine;
}

static void bin_remove(struct memory_space *space, struct memory_extent *extent)
{
	unsigned int coarse, fine;

	class_of(extent->size / MEMORY_SPACE_UNIT, &coarse, &fine);
	if (extent->next)
		extent->next->prev = extent->prev;
	if (extent->prev)
		extent->prev->next = extent->next;
	else
		space->bins[coarse][fine] = extent->next;
	if (!space->bins[coarse][fine])
		space->fine_used[coarse] &= ~(1U << fine);
	if (!space->fine_used[coarse])
		space->coarse_used &= ~(1ULL << coarse);
	extent->free = false;
}

struct memory_space *memory_space_create(uint64_t size)
{
	struct memory_space *space;

	size -= size % MEMORY_SPACE_UNIT;
	if (!size) {
		errno = EINVAL;
		return NULL;
	}
	space = calloc(1, sizeof(*space));
	if (!space)
		return NULL;
	space->first = calloc(1, sizeof(*space->first));
	if (!space->first) {
		free(space);
		return NULL;
	}
	space->first->size = size;
	space->left = size;
	bin_add(space, space->first);
	return space;
}

void memory_space_destroy(struct memory_space *space)
{
	struct memory_extent *extent, *after;

	if (!space)
		return;
	for (extent = space->first; extent; extent = after) {
		after = extent->after;
		free(extent);
	}
	free(space);
}

/* Any extent of a class above that of the size will do; of its own, some will. */
static struct memory_extent *find(const struct memory_space *space, uint64_t units)
{
	unsigned int coarse, fine, row;
	struct memory_extent *extent;
	uint64_t rows;

	class_of(units, &coarse, &fine);
	for (extent = space->bins[coarse][fine]; extent; extent = extent->next)
		if (extent->size / MEMORY_SPACE_UNIT >= units)
			return extent;
	row = space->fine_used[coarse] & ~((2U << fine) - 1);
	if (!row) {
		rows = coarse == COARSE - 1 ? 0 : space->coarse_used & ~((2ULL << coarse) - 1);
		if (!rows)
			return NULL;
		coarse = __builtin_ctzll(rows);
		row = space->fine_used[coarse];
	}
	return space->bins[coarse][__builtin_ctz(row)];
}

static void link_after(struct memory_extent *extent, struct memory_extent *rest)
{
	rest->before = extent;
	rest->after = extent->after;
	if (rest->after)
		rest->after->before = rest;
	extent->after = rest;
}

struct memory_extent *memory_space_take(struct memory_space *space, uint64_t size)
{
	struct memory_extent *extent, *rest;
	uint64_t units = size / MEMORY_SPACE_UNIT + !!(size % MEMORY_SPACE_UNIT);

	if (!units) {
		errno = EINVAL;
		return NULL;
	}
	extent = find(space, units);
	if (!extent) {
		errno = ENOSPC;
		return NULL;
	}
	size = units * MEMORY_SPACE_UNIT;
	rest = NULL;
	if (extent->size > size) {
		rest = calloc(1, sizeof(*rest));
		if (!rest)
			return NULL;
	}
	bin_remove(space, extent);
	if (rest) {
		rest->offset = extent->offset + size;
		rest->size = extent->size - size;
		extent->size = size;
		link_after(extent, rest);
		bin_add(space, rest);
	}
	space->left -= size;
	return extent;
}

/* The second of two neighbours goes into the first. */
static void join(struct memory_extent *extent, struct memory_extent *after)
{
	extent->size += after->size;
	extent->after = after->after;
	if (extent->after)
		extent->after->before = extent;
	free(after);
}

void memory_space_give(struct memory_space *space, struct memory_extent *extent)
{
	struct memory_extent *before = extent->before, *after = extent->after;

	space->left += extent->size;
	if (after && after->free) {
		bin_remove(space, after);
		join(extent, after);
	}
	if (before && before->free) {
		bin_remove(space, before);
		join(before, extent);
		extent = before;
	}
	bin_add(space, extent);
}

uint64_t memory_space_left(const struct memory_space *space)
{
	return space->left;
}

uint64_t memory_space_longest(const struct memory_space *space)
{
	const struct memory_extent *extent;
	unsigned int coarse;
	uint64_t longest = 0;

	if (!space->coarse_used)
		return 0;
	coarse = 63 - __builtin_clzll(space->coarse_used);
	extent = space->bins[coarse][31 - __builtin_clz(space->fine_used[coarse])];
	for (; extent; extent = extent->next)
		if (extent->size > longest)
			longest = extent->size;
	return longest;
}
