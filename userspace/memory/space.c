// SPDX-License-Identifier: GPL-2.0-or-later
#include "space.h"

#include <errno.h>
#include <stdlib.h>

/*
 * What is at least as long is taken from the beginning of a free extent, the rest from its end: so
 * models with small chunks are apart from those with large ones, and what they leave behind is in
 * one piece more often.
 */
#define LARGE (1U << 20)

struct memory_space {
	struct memory_extent *first; /* by address */
	struct memory_extent *root; /* of those that are free */
	uint64_t left;
};

/*
 * The free extents are a tree by size, and a heap by numbers that are as good as random, which
 * keeps it about as flat as it can be (a treap).
 */

static bool shorter(const struct memory_extent *a, const struct memory_extent *b)
{
	return a->size != b->size ? a->size < b->size : a->offset < b->offset;
}

/* Mixed so that neighbours have nothing in common, and no two extents the same. */
static uint64_t priority(const struct memory_extent *extent)
{
	uint64_t mixed = extent->offset;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
	return mixed ^ (mixed >> 31);
}

/* Below those of a higher priority; the tree that it comes upon there is split by it. */
static void tree_add(struct memory_space *space, struct memory_extent *extent)
{
	struct memory_extent **at = &space->root, **left, **right, *tree;

	while (*at && priority(*at) > priority(extent))
		at = shorter(*at, extent) ? &(*at)->right : &(*at)->left;
	tree = *at;
	*at = extent;
	left = &extent->left;
	right = &extent->right;
	while (tree) {
		if (shorter(tree, extent)) {
			*left = tree;
			left = &tree->right;
			tree = tree->right;
		} else {
			*right = tree;
			right = &tree->left;
			tree = tree->left;
		}
	}
	*left = NULL;
	*right = NULL;
	extent->free = true;
}

/* The two trees below it become one in its place. */
static void tree_remove(struct memory_space *space, struct memory_extent *extent)
{
	struct memory_extent **at = &space->root, *left = extent->left, *right = extent->right;

	while (*at != extent)
		at = shorter(*at, extent) ? &(*at)->right : &(*at)->left;
	while (left && right) {
		if (priority(left) > priority(right)) {
			*at = left;
			at = &left->right;
			left = left->right;
		} else {
			*at = right;
			at = &right->left;
			right = right->left;
		}
	}
	*at = left ? left : right;
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
	tree_add(space, space->first);
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

/* The shortest that is long enough. */
static struct memory_extent *find(const struct memory_space *space, uint64_t size)
{
	struct memory_extent *extent = space->root, *best = NULL;

	while (extent) {
		if (extent->size >= size)
			best = extent;
		extent = extent->size >= size ? extent->left : extent->right;
	}
	return best;
}

/* What is behind so many bytes becomes an extent of its own. */
static void cut(struct memory_extent *extent, uint64_t size, struct memory_extent *rest)
{
	rest->offset = extent->offset + size;
	rest->size = extent->size - size;
	rest->before = extent;
	rest->after = extent->after;
	if (rest->after)
		rest->after->before = rest;
	extent->after = rest;
	extent->size = size;
}

/* Takes that much of a free one, which is longer, with the bookkeeping for the other part. */
static struct memory_extent *take_part(struct memory_space *space, struct memory_extent *extent,
				       uint64_t size, struct memory_extent *other)
{
	if (size >= LARGE) {
		cut(extent, size, other);
		tree_add(space, other);
		return extent;
	}
	cut(extent, extent->size - size, other);
	tree_add(space, extent);
	return other;
}

struct memory_extent *memory_space_take(struct memory_space *space, uint64_t size)
{
	struct memory_extent *extent, *other = NULL;

	if (!size) {
		errno = EINVAL;
		return NULL;
	}
	/* More than there is must not overflow when it is rounded up. */
	extent = size <= space->left ? find(space, size) : NULL;
	if (!extent) {
		errno = ENOSPC;
		return NULL;
	}
	size = (size + MEMORY_SPACE_UNIT - 1) / MEMORY_SPACE_UNIT * MEMORY_SPACE_UNIT;
	if (extent->size > size) {
		other = calloc(1, sizeof(*other));
		if (!other)
			return NULL;
	}
	tree_remove(space, extent);
	space->left -= size;
	return other ? take_part(space, extent, size, other) : extent;
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
		tree_remove(space, after);
		join(extent, after);
	}
	if (before && before->free) {
		tree_remove(space, before);
		join(before, extent);
		extent = before;
	}
	tree_add(space, extent);
}

uint64_t memory_space_left(const struct memory_space *space)
{
	return space->left;
}

uint64_t memory_space_longest(const struct memory_space *space)
{
	const struct memory_extent *extent = space->root;

	while (extent && extent->right)
		extent = extent->right;
	return extent ? extent->size : 0;
}
