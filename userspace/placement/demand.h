/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The demand: which needs have been seen how often. Old ones fade: everything is
 * halved now and then, so that prices follow a load that changes. Owned by whoever
 * decides; it outlives pools.
 */
#ifndef DISTMIND_PLACEMENT_DEMAND_H
#define DISTMIND_PLACEMENT_DEMAND_H

#include "claim.h"

struct placement_demand_row {
	struct placement_need need;
	uint64_t hash;
	double count;
	double priced; /* the count when prices were last made */
};

struct placement_demand {
	struct placement_demand_row *rows;
	uint32_t count, room;
	uint32_t *slots; /* open addressing, a power of two of them; 0 is empty, else row + 1 */
	uint32_t slot_count;
	double total, priced_total;
	double next; /* the total at which to look whether prices should be made again */
};

/* All zero is an empty demand. */
void placement_demand_free(struct placement_demand *demand);

/* Out of memory, it is not counted. */
void placement_demand_add(struct placement_demand *demand, const struct placement_need *need);

/* Is it time for new prices? Asking twice in a row gives another answer. */
bool placement_demand_changed(struct placement_demand *demand);

#endif
