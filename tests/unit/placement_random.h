/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pools and claims at random, for the tests of placement. */
#ifndef TESTS_UNIT_PLACEMENT_RANDOM_H
#define TESTS_UNIT_PLACEMENT_RANDOM_H

#include "../../userspace/placement/plan.h"
#include "../../userspace/placement/scan.h"
#include "../../userspace/sim/random.h"

#include <errno.h>
#include <stdio.h>

#define BOXES_MAX 12
#define GPUS_MAX (BOXES_MAX * 8)
#define G (1ULL << 30)

static inline uint32_t below(struct sim_random *random, uint32_t limit)
{
	return (uint32_t)(sim_random_next(random) % limit);
}

/* A box in a host of its own. */
static inline uint32_t add_box(struct placement_pool *pool, uint64_t cpu, uint64_t memory,
			       uint32_t gpus, uint32_t kind)
{
	uint32_t host = (uint32_t)placement_pool_add_host(pool, cpu, memory);
	struct placement_gpu_offer offer = {
		.box = (uint32_t)placement_pool_add_box(pool, host, 0, 0),
		.kind = kind,
		.share = PLACEMENT_WHOLE,
		.memory = 16 * G,
		.memory_one = 16 * G,
	};

	for (uint32_t i = 0; i < gpus; i++) {
		offer.id = pool->gpus.count;
		placement_pool_add_gpu(pool, &offer);
	}
	return offer.box;
}

static inline struct placement_pool *random_pool(struct sim_random *random, uint64_t seed)
{
	static const char *const kinds[] = { "A100", "T4", "V100" };
	struct placement_pool *pool = placement_pool_new();
	uint32_t boxes;

	sim_random_seed(random, seed);
	boxes = 2 + below(random, BOXES_MAX - 2);
	for (int i = 0; i < 3; i++)
		placement_pool_add_kind(pool, kinds[i]);
	for (uint32_t i = 0; i < boxes; i++)
		add_box(pool, 1000ULL * (8 + below(random, 64)), G * (16 + below(random, 128)),
			1 + below(random, 8), below(random, 3));
	return pool;
}

static inline struct placement_claim random_claim(struct sim_random *random)
{
	static const uint32_t shares[] = { 50, 160, 230, 320, 470, 650, 810, 1000 };
	struct placement_claim claim = {
		.need = {
			.count = below(random, 10) ? 1 : below(random, 5),
			.share = shares[below(random, 8)],
			.cpu = 1000 * below(random, 12),
			.memory = G * below(random, 16),
			.gpu_memory = below(random, 3) ? 0 : G * below(random, 6),
			.kinds = below(random, 4) ? 0 : 1 + below(random, 7),
			.same_box = true,
		},
	};

	if (claim.need.count > 1)
		claim.need.share = PLACEMENT_WHOLE;
	if (!claim.need.count)
		claim.need.cpu += 1000;
	return claim;
}

#endif
