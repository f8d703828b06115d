/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prices: what the free parts of a pool are worth, given the demand. Everything is
 * in thousandths of a gpu. Made from time to time (a new epoch), not changed between.
 */
#ifndef DISTMIND_PLACEMENT_PRICE_H
#define DISTMIND_PLACEMENT_PRICE_H

#include "demand.h"
#include "pool.h"

#define PLACEMENT_LEVELS 7 /* of numbers of gpus: 1, 2, 4, ... 64 */

/* Claims for whole gpus, that need no more than that much cpu: their part of all. */
struct placement_step {
	uint64_t cpu;
	double part;
};

struct placement_prices {
	uint32_t epoch; /* 0: none yet */
	double hole[PLACEMENT_WHOLE + 1];
	/* What goes with a thousandth of a gpu in the mean; 0: nothing is asked for. */
	double cpu, memory, gpu_memory;
	double scarcity[PLACEMENT_KINDS_MAX]; /* demand for this very kind, against its part */
	double whole; /* part of the claims that are for whole gpus */
	struct placement_step *steps; /* for each kind and level, growing */
	uint32_t first_step[PLACEMENT_KINDS_MAX][PLACEMENT_LEVELS + 1];
};

void placement_prices_free(struct placement_prices *prices);

/* -ENOMEM: they stay as they were. */
int placement_prices_make(struct placement_prices *prices, const struct placement_demand *demand,
			  const struct placement_pool *pool);

/* The part of the claims that whole gpus with that much cpu beside them serve. */
double placement_prices_served(const struct placement_prices *prices, uint32_t kind,
			       uint32_t gpus, uint64_t cpu);

#endif
