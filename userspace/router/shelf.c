// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Caches of models. What is given up first is the policy's choice.
 *
 * The cheapest copy: the demand for the model that this copy alone can serve x
 * the time to bring it back / its bytes (as in GreedyDual-Size-Frequency, but for
 * the ageing: demand itself is forgotten over time). A copy is needed when the
 * gpus of all others are busy, so a pool that has little to do keeps one copy of
 * everything, and a busy one keeps many of what is wanted most.
 */
#include <math.h>

#include "state.h"

/* The share of requests for the model that find the gpus of so many copies busy. */
static double all_busy(const struct router *router, uint32_t model, uint32_t copies)
{
	double busy;

	if (!copies)
		return 1;
	/* With few copies its own requests alone may keep their gpus busy. */
	busy = fmax(router->busy, router_demand_gpus(router, model) / copies);
	return busy < 1 ? __builtin_powi(busy, (int)copies) : 1;
}

static double worth(const struct router *router, uint32_t shelf, uint32_t index)
{
	const struct router_model *model = &router->models[index];
	uint32_t others = router->gpu_copies[index] - 1;
	enum router_tier from = ROUTER_TIER_POOL;

	if (shelf >= router->gpu_count)
		others += router->host_copies[index];
	else if (copies_of(router, index)[router->gpu_count + router->gpus[shelf].host].ready_ns !=
		 ROUTER_NEVER)
		from = ROUTER_TIER_HOST;
	return ((double)router->demand[index] + 1) * all_busy(router, index, others) *
	       (double)model->lead_ns[from] / (double)model->bytes;
}

/* The position in the list of what should go first, or ROUTER_NONE: all are pinned. */
static uint32_t victim(const struct router *router, uint32_t index)
{
	const struct shelf *shelf = &router->shelves[index];
	uint32_t best = ROUTER_NONE;
	double least = 0, value;

	for (uint32_t i = 0; i < shelf->count; i++) {
		const struct copy *copy = &copies_of(router, shelf->models[i])[index];

		if (copy->pins)
			continue;
		switch (router->policy->eviction) {
		case ROUTER_EVICT_RAREST:
			value = copy->uses;
			break;
		case ROUTER_EVICT_CHEAPEST:
			value = worth(router, index, shelf->models[i]);
			break;
		default:
			value = (double)copy->used_ns;
		}
		if (best == ROUTER_NONE || value < least) {
			best = i;
			least = value;
		}
	}
	return best;
}

double router_shelf_price(const struct router *router, uint32_t index, uint64_t bytes)
{
	const struct shelf *shelf = &router->shelves[index];
	uint32_t position;

	if (shelf->used + bytes <= shelf->capacity)
		return 0;
	position = victim(router, index);
	return position == ROUTER_NONE ? INFINITY : worth(router, index, shelf->models[position]);
}

static void count_copy(struct router *router, uint32_t shelf, uint32_t model, int by)
{
	uint32_t *count = shelf < router->gpu_count ? router->gpu_copies : router->host_copies;

	count[model] += (uint32_t)by;
}

void router_shelf_trim(struct router *router, uint32_t index)
{
	struct shelf *shelf = &router->shelves[index];
	uint32_t position, model;

	while (shelf->used > shelf->capacity) {
		position = victim(router, index);
		if (position == ROUTER_NONE)
			return;
		model = shelf->models[position];
		shelf->models[position] = shelf->models[--shelf->count];
		shelf->used -= router->models[model].bytes;
		copies_of(router, model)[index].ready_ns = ROUTER_NEVER;
		count_copy(router, index, model, -1);
	}
}

void router_shelf_use(struct router *router, uint32_t index, uint32_t model, uint64_t ready_ns,
		      uint64_t now)
{
	struct copy *copy = &copies_of(router, model)[index];
	struct shelf *shelf = &router->shelves[index];

	copy->used_ns = now;
	if (copy->ready_ns != ROUTER_NEVER) {
		copy->uses++;
		return;
	}
	copy->ready_ns = ready_ns;
	copy->uses = 1;
	shelf->models[shelf->count++] = model;
	shelf->used += router->models[model].bytes;
	count_copy(router, index, model, 1);
	/* It must not be the one that makes room for itself. */
	copy->pins++;
	router_shelf_trim(router, index);
	copy->pins--;
}
