// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan.h"
#include "scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* So many gpus that cannot be freed, one after the other, and it is given up. */
#define FAILURES_MAX 256

struct candidate {
	uint32_t gpu, holds, share;
};

static int compare_effort(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->holds != b->holds)
		return a->holds < b->holds ? -1 : 1;
	if (a->share != b->share)
		return a->share < b->share ? -1 : 1;
	return a->gpu < b->gpu ? -1 : a->gpu > b->gpu;
}

/* Gpus of shares that are not part of something larger: moving a whole one frees none. */
static bool describe(const struct placement_pool *pool, uint32_t number,
		     struct candidate *candidate)
{
	const struct placement_gpu *gpu = &pool->gpus.rows[number];

	*candidate = (struct candidate){ .gpu = number, .share = gpu->share_used };
	if (gpu->state != PLACEMENT_READY && gpu->state != PLACEMENT_DRAINING)
		return false;
	for (uint32_t i = gpu->first_hold; i != PLACEMENT_NONE;
	     i = pool->holds.rows[i].next_on_gpu) {
		const struct placement_need *need =
			&pool->grants.rows[pool->holds.rows[i].grant].claim.need;

		if (need->count != 1 || need->share >= PLACEMENT_WHOLE)
			return false;
		candidate->holds++;
	}
	return candidate->holds;
}

static void set_bit(uint8_t *set, uint32_t i)
{
	set[i / 8] |= (uint8_t)(1U << i % 8);
}

static bool has_bit(const uint8_t *set, uint32_t i)
{
	return set[i / 8] & 1U << i % 8;
}

/* Everything off a gpu, onto others that are in use; 1: done, 0: it stays as it was. */
static int free_gpu(struct placement *placement, uint32_t gpu, uint8_t *except,
		    struct placement_plan *plan)
{
	struct placement_scorer scorer = { placement->pool, &placement->prices };
	struct placement_pool *pool = placement->pool;
	struct placement_candidate best;
	uint32_t before = plan->count;
	int err;

	set_bit(except, gpu);
	while (pool->gpus.rows[gpu].first_hold != PLACEMENT_NONE) {
		struct placement_claim claim;
		struct placement_move *move;

		err = placement_plan_reserve(plan, 1, 0);
		if (err)
			return err;
		move = placement_plan_take(
			plan, pool, pool->holds.rows[pool->gpus.rows[gpu].first_hold].grant);
		claim = move->claim;
		claim.moves = true;
		claim.from = gpu;
		if (placement_scan(&scorer, &claim, except, &best, 1)) {
			placement_plan_put(move, pool, best.box, best.gpus);
			snprintf(move->why, sizeof(move->why), "frees gpu %u",
				 pool->gpus.rows[gpu].id);
			continue;
		}
		while (plan->count > before)
			placement_plan_back(plan, pool);
		except[gpu / 8] &= (uint8_t)~(1U << gpu % 8);
		return 0;
	}
	plan->freed++;
	return 1;
}

int placement_repack(struct placement *placement, uint32_t most, struct placement_plan *plan)
{
	struct placement_pool *pool = placement->pool;
	uint32_t count = 0, failures = 0;
	struct candidate *candidates;
	uint8_t *except;   /* gpus not to move to: unused ones, and those freed */
	uint8_t *received; /* gpus moved to: they stay in use, for nothing is moved twice */
	uint32_t before;
	int ret;

	ret = placement_price(placement);
	if (ret)
		return ret;
	candidates = calloc(pool->gpus.count + 1, sizeof(*candidates));
	except = calloc(1, pool->gpus.count / 8 + 1);
	received = calloc(1, pool->gpus.count / 8 + 1);
	ret = candidates && except && received ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < pool->gpus.count && !ret; i++) {
		count += describe(pool, i, &candidates[count]);
		if (pool->gpus.rows[i].first_hold == PLACEMENT_NONE)
			set_bit(except, i);
	}
	if (!ret)
		qsort(candidates, count, sizeof(*candidates), compare_effort);
	for (uint32_t i = 0; i < count && ret >= 0 && failures < FAILURES_MAX; i++) {
		if (has_bit(received, candidates[i].gpu) ||
		    plan->count + candidates[i].holds > most)
			continue;
		before = plan->count;
		ret = free_gpu(placement, candidates[i].gpu, except, plan);
		failures = ret == 1 ? 0 : failures + 1;
		for (; before < plan->count; before++)
			set_bit(received, plan->moves[before].to[0]);
	}
	free(candidates);
	free(except);
	free(received);
	return ret < 0 ? ret : 0;
}
