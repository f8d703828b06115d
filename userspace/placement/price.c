// SPDX-License-Identifier: GPL-2.0-or-later
#include "price.h"

#include "cutting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Part of a hole's value that is its size: keeps what is worthless now from being wasted. */
#define SIZE_PART 0.1
/*
 * Small shares go on arriving, and filling holes, when larger ones find no place any
 * more: there are more of them than the demand of a moment says.
 */
#define SMALL (PLACEMENT_WHOLE / 3)
#define SMALL_TIMES 2

void placement_prices_free(struct placement_prices *prices)
{
	free(prices->steps);
	*prices = (struct placement_prices){ 0 };
}

/* Sizes rounded up to a multiple of grain; false: too many. */
static bool collect_sizes(const struct placement_demand *demand, uint32_t grain,
			  struct placement_cutting *cutting)
{
	uint32_t place[PLACEMENT_WHOLE + 1];

	memset(place, 0xff, sizeof(place));
	cutting->count = 0;
	for (uint32_t i = 0; i < demand->count; i++) {
		const struct placement_demand_row *row = &demand->rows[i];
		uint32_t size = (row->need.share + grain - 1) / grain * grain;

		if (!row->need.count)
			continue;
		if (size > PLACEMENT_WHOLE)
			size = PLACEMENT_WHOLE;
		if (place[size] == UINT32_MAX) {
			if (cutting->count == PLACEMENT_CUTTING_SIZES)
				return false;
			place[size] = cutting->count++;
			cutting->size[place[size]] = size;
			cutting->demand[place[size]] = 0;
		}
		cutting->demand[place[size]] +=
			row->count * row->need.count * (size <= SMALL ? SMALL_TIMES : 1);
	}
	return true;
}

static void price_holes(struct placement_prices *prices, const struct placement_demand *demand)
{
	struct placement_cutting cutting;

	for (uint32_t grain = 1; !collect_sizes(demand, grain, &cutting);)
		grain *= 2;
	if (cutting.count)
		placement_cutting_solve(&cutting, prices->hole);
	else
		memset(prices->hole, 0, sizeof(prices->hole));
	for (uint32_t r = 0; r <= PLACEMENT_WHOLE; r++)
		prices->hole[r] = PLACEMENT_WHOLE * (1 - SIZE_PART) * prices->hole[r] +
				  SIZE_PART * r;
}

/* What needs of one kind of several ask for is theirs in proportion. */
static void price_kinds(struct placement_prices *prices, const struct placement_demand *demand,
			const struct placement_pool *pool)
{
	double milli = 0, among, part;

	memset(prices->scarcity, 0, sizeof(prices->scarcity));
	for (uint32_t i = 0; i < demand->count; i++) {
		const struct placement_demand_row *row = &demand->rows[i];

		part = row->count * (double)placement_need_milli(&row->need);
		milli += part;
		among = 0;
		for (uint32_t k = 0; k < pool->kind_count; k++)
			if (row->need.kinds & 1ULL << k)
				among += (double)pool->kinds[k].milli;
		for (uint32_t k = 0; among > 0 && k < pool->kind_count; k++)
			if (row->need.kinds & 1ULL << k)
				prices->scarcity[k] += part / among;
	}
	for (uint32_t k = 0; milli > 0 && k < pool->kind_count; k++)
		prices->scarcity[k] *= (double)pool->milli / milli;
}

static void price_hosts(struct placement_prices *prices, const struct placement_demand *demand)
{
	double milli = 0, cpu = 0, memory = 0, gpu_memory = 0;

	for (uint32_t i = 0; i < demand->count; i++) {
		const struct placement_demand_row *row = &demand->rows[i];
		const struct placement_need *need = &row->need;

		if (!need->count)
			continue;
		milli += row->count * (double)placement_need_milli(need);
		cpu += row->count * (double)need->cpu;
		memory += row->count * (double)need->memory;
		gpu_memory += row->count * need->count * (double)need->gpu_memory;
	}
	prices->cpu = milli > 0 ? cpu / milli : 0;
	prices->memory = milli > 0 ? memory / milli : 0;
	prices->gpu_memory = milli > 0 ? gpu_memory / milli : 0;
}

static int compare_cpu(const void *left, const void *right)
{
	const struct placement_demand_row *a = *(const struct placement_demand_row *const *)left;
	const struct placement_demand_row *b = *(const struct placement_demand_row *const *)right;

	return a->need.cpu < b->need.cpu ? -1 : a->need.cpu > b->need.cpu;
}

static uint32_t level_of(uint32_t gpus)
{
	uint32_t level = 0;

	while (gpus > 1U << level && level < PLACEMENT_LEVELS - 1)
		level++;
	return level;
}

/* Appends the steps of one kind and level; rows are in the order of their cpu. */
static uint32_t add_steps(struct placement_step *steps, uint32_t count, double total,
			  const struct placement_demand_row *const *rows, uint32_t row_count,
			  uint64_t kind, uint32_t level)
{
	uint32_t first = count;
	double part = 0;

	for (uint32_t i = 0; i < row_count; i++) {
		const struct placement_need *need = &rows[i]->need;

		if ((need->kinds && !(need->kinds & kind)) || level_of(need->count) > level)
			continue;
		part += rows[i]->count / total;
		if (count > first && steps[count - 1].cpu == need->cpu)
			count--;
		steps[count++] = (struct placement_step){ need->cpu, part };
	}
	return count;
}

static int price_whole(struct placement_prices *prices, const struct placement_demand *demand,
		       const struct placement_pool *pool)
{
	const struct placement_demand_row **rows;
	uint32_t row_count = 0, count = 0;
	struct placement_step *steps;

	rows = calloc(demand->count ? demand->count : 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	prices->whole = 0;
	for (uint32_t i = 0; i < demand->count; i++)
		if (demand->rows[i].need.count && demand->rows[i].need.share >= PLACEMENT_WHOLE) {
			rows[row_count++] = &demand->rows[i];
			prices->whole += demand->rows[i].count / demand->total;
		}
	qsort(rows, row_count, sizeof(*rows), compare_cpu);
	steps = calloc((size_t)row_count * pool->kind_count * PLACEMENT_LEVELS + 1, sizeof(*steps));
	if (!steps) {
		free(rows);
		return -ENOMEM;
	}
	for (uint32_t kind = 0; kind < pool->kind_count; kind++) {
		for (uint32_t level = 0; level < PLACEMENT_LEVELS; level++) {
			prices->first_step[kind][level] = count;
			count = add_steps(steps, count, demand->total, rows, row_count,
					  1ULL << kind, level);
		}
		prices->first_step[kind][PLACEMENT_LEVELS] = count;
	}
	free(rows);
	free(prices->steps);
	prices->steps = steps;
	return 0;
}

int placement_prices_make(struct placement_prices *prices, const struct placement_demand *demand,
			  const struct placement_pool *pool)
{
	int err = price_whole(prices, demand, pool);

	if (err)
		return err;
	price_holes(prices, demand);
	price_kinds(prices, demand, pool);
	price_hosts(prices, demand);
	prices->epoch++;
	return 0;
}

double placement_prices_served(const struct placement_prices *prices, uint32_t kind,
			       uint32_t gpus, uint64_t cpu)
{
	uint32_t level, first, low, high, middle;

	if (!gpus || !prices->steps)
		return 0;
	level = 31 - (uint32_t)__builtin_clz(gpus);
	if (level >= PLACEMENT_LEVELS)
		level = PLACEMENT_LEVELS - 1;
	first = low = prices->first_step[kind][level];
	high = prices->first_step[kind][level + 1];
	while (low < high) {
		middle = low + (high - low) / 2;
		if (prices->steps[middle].cpu <= cpu)
			low = middle + 1;
		else
			high = middle;
	}
	return low > first ? prices->steps[low - 1].part : 0;
}
