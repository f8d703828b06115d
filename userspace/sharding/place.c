// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Group by group: copies that exist stay, up to as many as are wanted; those that
 * lack go, largest first, to the donor that has the smallest part of what it should
 * have of the group; then chunks move from the donor that has most above its part to
 * the one that has least, as long as one of them is out of tolerance and the move
 * brings the larger of the two down. Among equals the donor with the least of the
 * whole model is taken, so that many small groups do not meet at the same donor, and
 * among those the one that a hash of chunk and donor prefers, so that models do not.
 */
#include "donors.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Nobody's part is nothing, because loads are divided by it. */
#define PART_MIN 1e-9

/* A donor while a model is placed. */
struct holder {
	double part;	/* of each group's bytes, so that all have the same time to read */
	uint64_t room;	/* left of the donor's */
	uint64_t load;	/* bytes of this group */
	uint64_t total; /* bytes of all groups so far */
};

/* Where the copies of one chunk are to be, and whether they were there before. */
struct place {
	uint32_t copies;
	uint32_t donors[SHARDING_COPIES_MAX];
	bool kept[SHARDING_COPIES_MAX];
};

struct placing {
	struct sharding_donors donors;
	struct sharding_chunk *chunks;
	uint32_t wanted;	/* copies of each */
	struct holder *holders; /* owned */
	uint32_t *ranked;	/* owned: donors by how full they are */
	struct place *places;	/* owned, one per chunk */
	uint32_t *order;	/* owned: chunks of a group by size */
	double even;		/* fill of a donor that has just its part of this group */
	struct sharding_change *change;
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

static uint64_t preference(const struct placing *placing, uint32_t chunk, uint32_t donor)
{
	return mix(placing->chunks[chunk].key ^ mix(placing->donors.list[donor].id));
}

/*
 * Parts in proportion to bandwidth; but a donor can have a chunk only once, so a
 * part above 1 is cut down and the others share what is left.
 */
static void find_parts(struct placing *placing)
{
	const struct sharding_donors *donors = &placing->donors;
	double left = placing->wanted < donors->count ? placing->wanted : donors->count;
	bool again = true;

	while (again) {
		double bandwidth = 0, taken = 0;

		again = false;
		for (uint32_t i = 0; i < donors->count; i++)
			if (placing->holders[i].part < 1)
				bandwidth += donors->list[i].bandwidth;
		for (uint32_t i = 0; i < donors->count; i++) {
			struct holder *holder = &placing->holders[i];

			if (holder->part >= 1)
				continue;
			holder->part = donors->list[i].bandwidth / bandwidth * left;
			if (holder->part < PART_MIN)
				holder->part = PART_MIN;
			if (holder->part >= 1) {
				holder->part = 1;
				taken += 1;
				again = true;
			}
		}
		left -= taken;
	}
}

static bool holds(const struct place *place, uint32_t donor)
{
	for (uint32_t i = 0; i < place->copies; i++)
		if (place->donors[i] == donor)
			return true;
	return false;
}

/* How much of its part of the group a donor has, and of its part of the model. */
static double group_fill(const struct holder *holder)
{
	return (double)holder->load / holder->part;
}

static double total_fill(const struct holder *holder)
{
	return (double)(holder->total + holder->load) / holder->part;
}

static bool better(const struct placing *placing, uint32_t chunk, uint32_t a, uint32_t b)
{
	const struct holder *x = &placing->holders[a], *y = &placing->holders[b];

	if (group_fill(x) != group_fill(y))
		return group_fill(x) < group_fill(y);
	if (total_fill(x) != total_fill(y))
		return total_fill(x) < total_fill(y);
	return preference(placing, chunk, a) > preference(placing, chunk, b);
}

/*
 * Of more copies than are wanted those at the fullest donors go: what is left is even then,
 * and nothing has to move.
 */
static void drop_surplus(const struct placing *placing, uint32_t chunk)
{
	struct place *place = &placing->places[chunk];

	while (place->copies > placing->wanted) {
		uint32_t worst = 0;

		for (uint32_t i = 1; i < place->copies; i++)
			if (better(placing, chunk, place->donors[worst], place->donors[i]))
				worst = i;
		place->copies--;
		memmove(&place->donors[worst], &place->donors[worst + 1],
			(place->copies - worst) * sizeof(place->donors[0]));
	}
}

static void keep_copies(struct placing *placing, uint32_t chunk)
{
	const struct sharding_chunk *from = &placing->chunks[chunk];
	struct place *place = &placing->places[chunk];

	for (uint32_t i = 0; i < from->copies; i++) {
		uint32_t donor = sharding_donors_find(&placing->donors, from->donors[i]);

		if (donor != SHARDING_NOBODY && !holds(place, donor))
			place->donors[place->copies++] = donor;
	}
	drop_surplus(placing, chunk);
	for (uint32_t i = 0; i < place->copies; i++) {
		place->kept[i] = true;
		placing->holders[place->donors[i]].load += from->size;
	}
}

static void add_copies(struct placing *placing, uint32_t chunk)
{
	struct place *place = &placing->places[chunk];
	uint32_t size = placing->chunks[chunk].size;

	while (place->copies < placing->wanted) {
		uint32_t best = SHARDING_NOBODY;

		for (uint32_t i = 0; i < placing->donors.count; i++)
			if (placing->holders[i].room >= size && !holds(place, i) &&
			    (best == SHARDING_NOBODY || better(placing, chunk, i, best)))
				best = i;
		if (best == SHARDING_NOBODY) {
			placing->change->short_copies += placing->wanted - place->copies;
			return;
		}
		place->donors[place->copies++] = best;
		placing->holders[best].load += size;
		placing->holders[best].room -= size;
	}
}

/* Which of a chunk's copies is at a donor. */
static uint32_t copy_at(const struct place *place, uint32_t donor)
{
	uint32_t copy = 0;

	while (copy < place->copies && place->donors[copy] != donor)
		copy++;
	return copy;
}

/*
 * Is this chunk of the giver's worth a move? One that is not there yet moves only
 * on paper, and it is enough that the larger of the two gets clearly smaller.
 * What is there stays, unless the taker lacks it, does not get further from even
 * by it, and the smaller of the two gets clearly larger: in a group of few chunks
 * there would be no end of small improvements.
 */
static bool worth_it(const struct placing *placing, const struct holder *giver,
		     const struct holder *taker, uint32_t size, bool kept)
{
	double taken = (double)(taker->load + size) / taker->part;
	double given = (double)(giver->load - size) / giver->part;
	double even = placing->even, before = group_fill(taker);

	if (taker->room < size || taken > group_fill(giver) * (1 - SHARDING_TOLERANCE))
		return false;
	return !kept || (before < even * (1 - SHARDING_TOLERANCE) && taken - even <= even - before &&
			 given >= before + even * SHARDING_TOLERANCE);
}

/* The chunk to move from one donor to another: the one nearest to what makes both even. */
static uint32_t find_move(const struct placing *placing, const uint32_t *order, uint32_t count,
			  uint32_t from, uint32_t to)
{
	const struct holder *giver = &placing->holders[from], *taker = &placing->holders[to];
	double excess = (double)giver->load - giver->part * placing->even;
	double lack = taker->part * placing->even - (double)taker->load;
	double ideal = excess < lack ? excess : lack, best_distance = 0;
	uint32_t best = SHARDING_NOBODY;
	bool best_kept = true;

	for (uint32_t i = 0; i < count; i++) {
		const struct place *place = &placing->places[order[i]];
		uint32_t size = placing->chunks[order[i]].size, copy = copy_at(place, from);
		double distance = size > ideal ? size - ideal : ideal - size;

		if (copy == place->copies || holds(place, to) ||
		    !worth_it(placing, giver, taker, size, place->kept[copy]))
			continue;
		if (best == SHARDING_NOBODY || place->kept[copy] < best_kept ||
		    (place->kept[copy] == best_kept && distance < best_distance)) {
			best = order[i];
			best_kept = place->kept[copy];
			best_distance = distance;
		}
	}
	return best;
}

static void move(struct placing *placing, uint32_t chunk, uint32_t from, uint32_t to)
{
	struct place *place = &placing->places[chunk];
	uint32_t copy = copy_at(place, from), size = placing->chunks[chunk].size;

	/* The room of a copy that exists is free only when it has moved. */
	if (!place->kept[copy])
		placing->holders[from].room += size;
	place->donors[copy] = to;
	place->kept[copy] = false;
	placing->holders[from].load -= size;
	placing->holders[to].load += size;
	placing->holders[to].room -= size;
}

static int by_fill(const void *a, const void *b, void *arg)
{
	const struct holder *holders = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	double x = group_fill(&holders[i]), y = group_fill(&holders[j]);

	if (x != y)
		return x < y ? -1 : 1;
	return i < j ? -1 : i > j;
}

static bool try_move(struct placing *placing, const uint32_t *order, uint32_t count, uint32_t from,
		     uint32_t to)
{
	uint32_t chunk = find_move(placing, order, count, from, to);

	if (chunk == SHARDING_NOBODY)
		return false;
	move(placing, chunk, from, to);
	return true;
}

/*
 * One move from the fullest donor, if it has too much, or to the emptiest, if it
 * has too little. The other end is the best that can give or take. It ends,
 * because in place of the larger fill of two come two that are both smaller than
 * it was.
 */
static bool even_out(struct placing *placing, const uint32_t *order, uint32_t count)
{
	uint32_t last = placing->donors.count - 1, *ranked = placing->ranked;
	double full, empty;

	for (uint32_t i = 0; i <= last; i++)
		ranked[i] = i;
	qsort_r(ranked, last + 1, sizeof(*ranked), by_fill, placing->holders);
	full = group_fill(&placing->holders[ranked[last]]) / placing->even;
	empty = group_fill(&placing->holders[ranked[0]]) / placing->even;
	for (uint32_t i = 0; i < last && full > 1 + SHARDING_TOLERANCE; i++)
		if (try_move(placing, order, count, ranked[last], ranked[i]))
			return true;
	for (uint32_t i = last; i > 0 && empty < 1 - SHARDING_TOLERANCE; i--)
		if (try_move(placing, order, count, ranked[i], ranked[0]))
			return true;
	return false;
}

static int by_size(const void *a, const void *b, void *arg)
{
	const struct sharding_chunk *chunks = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	if (chunks[i].size != chunks[j].size)
		return chunks[i].size > chunks[j].size ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* The chunks of one group, from to before to. */
static void place_group(struct placing *placing, uint32_t from, uint32_t to)
{
	uint32_t count = to - from, *order = placing->order;

	for (uint32_t i = 0; i < placing->donors.count; i++)
		placing->holders[i].load = 0;
	placing->even = 0;
	for (uint32_t i = 0; i < count; i++) {
		order[i] = from + i;
		placing->even += placing->chunks[from + i].size;
		keep_copies(placing, from + i);
	}
	qsort_r(order, count, sizeof(*order), by_size, placing->chunks);
	for (uint32_t i = 0; i < count; i++)
		add_copies(placing, order[i]);
	while (even_out(placing, order, count))
		;
	for (uint32_t i = 0; i < placing->donors.count; i++)
		placing->holders[i].total += placing->holders[i].load;
}

/* Writes down where a chunk's copies are to be, and what that takes. */
static int settle(struct placing *placing, uint32_t index)
{
	struct sharding_chunk *chunk = &placing->chunks[index];
	const struct place *place = &placing->places[index];
	struct sharding_change *change = placing->change;
	uint32_t had = 0, stay = 0, fresh, lacked;

	for (uint32_t i = 0; i < chunk->copies; i++) {
		uint32_t donor = sharding_donors_find(&placing->donors, chunk->donors[i]);

		had += donor != SHARDING_NOBODY;
		stay += donor != SHARDING_NOBODY && holds(place, donor);
	}
	fresh = place->copies - stay;
	lacked = place->copies > had ? place->copies - had : 0;
	change->new_copies += lacked;
	change->new_bytes += (uint64_t)lacked * chunk->size;
	change->moves += fresh - lacked;
	change->moved_bytes += (uint64_t)(fresh - lacked) * chunk->size;
	chunk->copies = place->copies;
	for (uint32_t i = 0; i < place->copies; i++)
		chunk->donors[i] = placing->donors.list[place->donors[i]].id;
	return place->copies ? 0 : -ENOSPC;
}

static int place_all(struct placing *placing, uint32_t count)
{
	int err = 0;

	for (uint32_t i = 0; i < placing->donors.count; i++)
		placing->holders[i].room = placing->donors.list[i].room;
	find_parts(placing);
	for (uint32_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count; to++)
			if (placing->chunks[to].group != placing->chunks[from].group)
				break;
		place_group(placing, from, to);
	}
	for (uint32_t i = 0; i < count; i++)
		if (settle(placing, i))
			err = -ENOSPC;
	return err;
}

int sharding_place(const struct sharding_donor *donors, size_t donor_count,
		   struct sharding_chunk *chunks, size_t chunk_count, uint32_t copies,
		   struct sharding_change *change)
{
	struct placing placing = { .chunks = chunks, .wanted = copies, .change = change };
	int err;

	*change = (struct sharding_change){ 0 };
	if (!copies || copies > SHARDING_COPIES_MAX)
		return -EINVAL;
	err = sharding_donors_create(&placing.donors, donors, donor_count, chunks, chunk_count);
	if (err)
		return err;
	placing.holders = calloc(donor_count, sizeof(*placing.holders));
	placing.ranked = calloc(donor_count, sizeof(*placing.ranked));
	placing.places = calloc(chunk_count + 1, sizeof(*placing.places));
	placing.order = calloc(chunk_count + 1, sizeof(*placing.order));
	if (placing.holders && placing.ranked && placing.places && placing.order)
		err = place_all(&placing, (uint32_t)chunk_count);
	else
		err = -ENOMEM;
	free(placing.holders);
	free(placing.ranked);
	free(placing.places);
	free(placing.order);
	sharding_donors_destroy(&placing.donors);
	return err;
}
