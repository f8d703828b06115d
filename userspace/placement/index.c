// SPDX-License-Identifier: GPL-2.0-or-later
#include "index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 1024
#define SLOTS (2 * ENTRIES_MAX)

struct item {
	float total;
	uint32_t class, generation;
};

struct entry {
	struct placement_need need;
	uint64_t hash;
	uint64_t used; /* when; for the one to give up */
	struct item *heap;
	uint32_t count, room;
	/* Births read so far, as of how many tidyings; and the prices of the totals. */
	uint32_t read, tidied, epoch;
};

struct placement_index {
	struct entry *entries;
	uint32_t count, room;
	uint32_t slots[SLOTS]; /* open addressing; 0 is empty, else entry + 1 */
	uint64_t clock;
};

struct placement_index *placement_index_new(void)
{
	return calloc(1, sizeof(struct placement_index));
}

void placement_index_free(struct placement_index *index)
{
	if (!index)
		return;
	for (uint32_t i = 0; i < index->count; i++)
		free(index->entries[i].heap);
	free(index->entries);
	free(index);
}

/*
 * The heap
 */

static bool before(const struct item *a, const struct item *b)
{
	return a->total != b->total ? a->total < b->total : a->class < b->class;
}

static void sift_up(struct item *heap, uint32_t at)
{
	struct item item = heap[at];

	while (at && before(&item, &heap[(at - 1) / 2])) {
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = item;
}

static void sift_down(struct item *heap, uint32_t count, uint32_t at)
{
	struct item item = heap[at];
	uint32_t child;

	while ((child = 2 * at + 1) < count) {
		if (child + 1 < count && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &item))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = item;
}

static int push(struct entry *entry, struct item item)
{
	struct item *heap;
	uint32_t room;

	if (entry->count == entry->room) {
		room = entry->room ? 2 * entry->room : 32;
		heap = reallocarray(entry->heap, room, sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		entry->heap = heap;
		entry->room = room;
	}
	entry->heap[entry->count++] = item;
	return 0;
}

static void drop_dead(struct entry *entry, const struct placement_classes *classes)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < entry->count; i++)
		if (placement_class_alive(classes, entry->heap[i].class,
					  entry->heap[i].generation))
			entry->heap[kept++] = entry->heap[i];
	entry->count = kept;
	for (uint32_t i = kept / 2; i--;)
		sift_down(entry->heap, kept, i);
}

static int read_births(struct entry *entry, const struct placement_scorer *scorer)
{
	const struct placement_classes *classes = scorer->pool->classes;
	uint32_t old = entry->count, many;
	struct placement_place place;
	int err;

	for (; entry->read < classes->birth_count; entry->read++) {
		struct placement_birth birth = classes->births[entry->read];

		if (!placement_class_alive(classes, birth.class, birth.generation) ||
		    !placement_score_class(scorer, birth.class, &entry->need, &place))
			continue;
		err = push(entry, (struct item){ (float)place.total, birth.class,
						 birth.generation });
		if (err)
			return err;
	}
	many = entry->count - old;
	if (many > old / 8)
		for (uint32_t i = entry->count / 2; i--;)
			sift_down(entry->heap, entry->count, i);
	else
		for (uint32_t i = old; i < entry->count; i++)
			sift_up(entry->heap, i);
	return 0;
}

static int bring_up_to_date(struct entry *entry, const struct placement_scorer *scorer)
{
	const struct placement_classes *classes = scorer->pool->classes;
	int err;

	if (entry->epoch == scorer->prices->epoch && entry->tidied + 1 == classes->tidied)
		entry->read = classes->moved[entry->read];
	else if (entry->epoch != scorer->prices->epoch || entry->tidied != classes->tidied)
		entry->read = entry->count = 0;
	entry->epoch = scorer->prices->epoch;
	entry->tidied = classes->tidied;
	err = read_births(entry, scorer);
	if (err) {
		/* As if it had never been read, for it is no heap now. */
		entry->epoch = entry->count = 0;
		return err;
	}
	if (entry->count > 2 * classes->live + 64)
		drop_dead(entry, classes);
	return 0;
}

/*
 * The entries
 */

static uint32_t *find_slot(struct placement_index *index, const struct placement_need *need,
			   uint64_t hash)
{
	uint32_t i = (uint32_t)hash & (SLOTS - 1);

	while (index->slots[i]) {
		const struct entry *entry = &index->entries[index->slots[i] - 1];

		if (entry->hash == hash && placement_need_equal(&entry->need, need))
			break;
		i = (i + 1) & (SLOTS - 1);
	}
	return &index->slots[i];
}

/* The one that was not asked for the longest, and all slots anew. */
static void give_up_oldest(struct placement_index *index)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < index->count; i++)
		if (index->entries[i].used < index->entries[oldest].used)
			oldest = i;
	free(index->entries[oldest].heap);
	index->entries[oldest] = index->entries[--index->count];
	memset(index->slots, 0, sizeof(index->slots));
	for (uint32_t i = 0; i < index->count; i++)
		*find_slot(index, &index->entries[i].need, index->entries[i].hash) = i + 1;
}

static struct entry *find_entry(struct placement_index *index, const struct placement_need *need)
{
	uint64_t hash = placement_need_hash(need);
	uint32_t *slot = find_slot(index, need, hash);

	if (*slot)
		return &index->entries[*slot - 1];
	if (index->count == ENTRIES_MAX) {
		give_up_oldest(index);
		slot = find_slot(index, need, hash);
	}
	if (index->count == index->room) {
		uint32_t room = index->room ? 2 * index->room : 32;
		struct entry *entries = reallocarray(index->entries, room, sizeof(*entries));

		if (!entries)
			return NULL;
		index->entries = entries;
		index->room = room;
	}
	index->entries[index->count] = (struct entry){ .need = *need, .hash = hash };
	*slot = ++index->count;
	return &index->entries[index->count - 1];
}

int placement_index_best(struct placement_index *index, const struct placement_scorer *scorer,
			 const struct placement_need *need, uint32_t *class)
{
	struct entry *entry = find_entry(index, need);
	int err;

	if (!entry)
		return -ENOMEM;
	entry->used = ++index->clock;
	err = bring_up_to_date(entry, scorer);
	if (err)
		return err;
	while (entry->count && !placement_class_alive(scorer->pool->classes, entry->heap[0].class,
						      entry->heap[0].generation)) {
		entry->heap[0] = entry->heap[--entry->count];
		sift_down(entry->heap, entry->count, 0);
	}
	*class = entry->count ? entry->heap[0].class : PLACEMENT_NONE;
	return 0;
}
