// SPDX-License-Identifier: GPL-2.0-or-later
#include "demand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4096
#define FIRST_LOOK 20
#define LONGEST_WAIT 16384
#define FADE_AT 131072
/* Part of the claims that would have to be others for it to be the same demand. */
#define NOTICED 0.05

void placement_demand_free(struct placement_demand *demand)
{
	free(demand->rows);
	free(demand->slots);
	*demand = (struct placement_demand){ 0 };
}

static uint32_t *find_slot(const struct placement_demand *demand,
			   const struct placement_need *need, uint64_t hash)
{
	uint32_t mask = demand->slot_count - 1, i = (uint32_t)hash & mask;

	while (demand->slots[i]) {
		const struct placement_demand_row *row = &demand->rows[demand->slots[i] - 1];

		if (row->hash == hash && placement_need_equal(&row->need, need))
			break;
		i = (i + 1) & mask;
	}
	return &demand->slots[i];
}

static void fill_slots(struct placement_demand *demand)
{
	memset(demand->slots, 0, demand->slot_count * sizeof(*demand->slots));
	for (uint32_t i = 0; i < demand->count; i++)
		*find_slot(demand, &demand->rows[i].need, demand->rows[i].hash) = i + 1;
}

static bool make_room(struct placement_demand *demand)
{
	uint32_t room = demand->room ? 2 * demand->room : 64;
	struct placement_demand_row *rows;
	uint32_t *slots;

	if (demand->count < demand->room)
		return true;
	if (room > ROWS_MAX)
		return false;
	rows = reallocarray(demand->rows, room, sizeof(*rows));
	if (!rows)
		return false;
	demand->rows = rows;
	slots = reallocarray(demand->slots, room, 2 * sizeof(*slots));
	if (!slots)
		return false;
	demand->slots = slots;
	demand->slot_count = 2 * room;
	demand->room = room;
	fill_slots(demand);
	return true;
}

static void fade(struct placement_demand *demand)
{
	uint32_t kept = 0;

	demand->total = 0;
	for (uint32_t i = 0; i < demand->count; i++) {
		struct placement_demand_row row = demand->rows[i];

		row.count /= 2;
		row.priced /= 2;
		if (row.count < 1)
			continue;
		demand->total += row.count;
		demand->rows[kept++] = row;
	}
	demand->count = kept;
	demand->priced_total /= 2;
	demand->next = demand->total + LONGEST_WAIT;
	fill_slots(demand);
}

void placement_demand_add(struct placement_demand *demand, const struct placement_need *need)
{
	uint64_t hash = placement_need_hash(need);
	uint32_t *slot;

	if (!demand->slot_count && !make_room(demand))
		return;
	slot = find_slot(demand, need, hash);
	if (!*slot) {
		if (demand->count == ROWS_MAX)
			fade(demand);
		if (!make_room(demand))
			return;
		demand->rows[demand->count] =
			(struct placement_demand_row){ .need = *need, .hash = hash };
		slot = find_slot(demand, need, hash);
		*slot = ++demand->count;
	}
	demand->rows[*slot - 1].count++;
	demand->total++;
	if (demand->total > FADE_AT)
		fade(demand);
}

bool placement_demand_changed(struct placement_demand *demand)
{
	double apart = 0;

	if (demand->total < demand->next || !demand->total)
		return false;
	demand->next = demand->total < FIRST_LOOK	? FIRST_LOOK :
		       demand->total < LONGEST_WAIT	? 2 * demand->total :
							  demand->total + LONGEST_WAIT;
	for (uint32_t i = 0; demand->priced_total && i < demand->count; i++)
		apart += fabs(demand->rows[i].count / demand->total -
			      demand->rows[i].priced / demand->priced_total);
	if (demand->priced_total && apart < 2 * NOTICED)
		return false;
	for (uint32_t i = 0; i < demand->count; i++)
		demand->rows[i].priced = demand->rows[i].count;
	demand->priced_total = demand->total;
	return true;
}
