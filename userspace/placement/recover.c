// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan.h"

#include "reason.h"
#include "scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is lost: gpus, and perhaps the host they are in. */
struct loss {
	struct placement *placement;
	struct placement_plan *plan;
	const uint32_t *gpus;
	uint32_t gpu_count;
	uint32_t *grants; /* that it leaves without a place, each once */
	uint32_t grant_count, grant_room;
};

static int add_grant(struct loss *loss, uint32_t grant)
{
	uint32_t *grown;

	for (uint32_t i = 0; i < loss->grant_count; i++)
		if (loss->grants[i] == grant)
			return 0;
	if (loss->grant_count == loss->grant_room) {
		loss->grant_room = loss->grant_room ? 2 * loss->grant_room : 32;
		grown = reallocarray(loss->grants, loss->grant_room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		loss->grants = grown;
	}
	loss->grants[loss->grant_count++] = grant;
	return 0;
}

static int find_grants(struct loss *loss)
{
	const struct placement_pool *pool = loss->placement->pool;
	uint32_t host = loss->plan->host;
	int err = 0;

	for (uint32_t i = 0; i < loss->gpu_count; i++)
		for (uint32_t k = pool->gpus.rows[loss->gpus[i]].first_hold;
		     k != PLACEMENT_NONE && !err; k = pool->holds.rows[k].next_on_gpu)
			err = add_grant(loss, pool->holds.rows[k].grant);
	if (host == PLACEMENT_NONE)
		return err;
	for (uint32_t box = pool->hosts.rows[host].first_box; box != PLACEMENT_NONE;
	     box = pool->boxes.rows[box].next_of_host)
		for (uint32_t k = pool->boxes.rows[box].first_grant; k != PLACEMENT_NONE && !err;
		     k = pool->grants.rows[k].next_in_box)
			err = add_grant(loss, k);
	return err;
}

static int compare_size(const void *left, const void *right, void *arg)
{
	const struct placement_grant *grants = arg;
	const struct placement_need *a = &grants[*(const uint32_t *)left].claim.need;
	const struct placement_need *b = &grants[*(const uint32_t *)right].claim.need;
	uint64_t a_milli = placement_need_milli(a), b_milli = placement_need_milli(b);

	if (a_milli != b_milli)
		return a_milli > b_milli ? -1 : 1;
	return a->cpu > b->cpu ? -1 : a->cpu < b->cpu;
}

static bool gpu_fits(const struct placement_pool *pool, uint32_t number,
		     const struct placement_claim *claim)
{
	const struct placement_gpu *gpu = &pool->gpus.rows[number];
	struct placement_hole hole = placement_gpu_hole(gpu);

	return (gpu->state == PLACEMENT_READY || gpu->state == PLACEMENT_SPARE) &&
	       placement_fits_hole(pool, &hole, &claim->need) &&
	       placement_suits_gpu(pool, number, claim);
}

static bool host_fits(const struct placement_pool *pool, uint32_t box,
		      const struct placement_need *need)
{
	const struct placement_class *class =
		&pool->classes->rows[pool->boxes.rows[box].class];

	return class->cpu >= need->cpu && class->memory >= need->memory;
}

static bool holds(const uint32_t *gpus, uint32_t count, uint32_t gpu)
{
	for (uint32_t i = 0; i < count; i++)
		if (gpus[i] == gpu)
			return true;
	return false;
}

/*
 * The gpus of one box for a move: those it had there and still can have, then spares,
 * then if allowed others. Returns how many, up to what it needs.
 */
static uint32_t gather(const struct placement_pool *pool, const struct placement_move *move,
		       uint32_t box, bool others, uint32_t *gpus)
{
	const struct placement_claim *claim = &move->claim;
	uint32_t count = 0, wanted = claim->need.count;

	if (!host_fits(pool, box, &claim->need))
		return 0;
	for (uint32_t i = 0; i < wanted; i++)
		if (pool->gpus.rows[move->from[i]].box == box &&
		    gpu_fits(pool, move->from[i], claim))
			gpus[count++] = move->from[i];
	for (int spare = 1; spare >= !others; spare--)
		placement_each_gpu(pool, box, gpu) {
			if (count == wanted)
				return count;
			if ((pool->gpus.rows[gpu].state == PLACEMENT_SPARE) == spare &&
			    !holds(gpus, count, gpu) && gpu_fits(pool, gpu, claim))
				gpus[count++] = gpu;
		}
	return count;
}

static void put(struct loss *loss, struct placement_move *move, uint32_t box,
		const uint32_t *gpus, const char *why)
{
	struct placement_pool *pool = loss->placement->pool;

	for (uint32_t i = 0; i < move->claim.need.count; i++)
		if (pool->gpus.rows[gpus[i]].state == PLACEMENT_SPARE) {
			placement_plan_change(loss->plan, pool, gpus[i], PLACEMENT_READY);
			move->spare = true;
		}
	placement_plan_put(move, pool, box, gpus);
	snprintf(move->why, sizeof(move->why), "%s", why);
}

/* Spares, those of its own box first. */
static bool put_on_spares(struct loss *loss, struct placement_move *move)
{
	const struct placement_pool *pool = loss->placement->pool;
	uint32_t gpus[PLACEMENT_GPUS_MAX], wanted = move->claim.need.count;

	if (!pool->spares || !wanted)
		return false;
	if (gather(pool, move, move->from_box, false, gpus) == wanted) {
		put(loss, move, move->from_box, gpus, "a spare of the same box");
		return true;
	}
	for (uint32_t box = 0; box < pool->boxes.count; box++)
		if (gather(pool, move, box, false, gpus) == wanted) {
			put(loss, move, box, gpus, "a spare of another box");
			return true;
		}
	return false;
}

/* Several gpus that belong together stay together, and most of them where they are. */
static bool put_in_same_box(struct loss *loss, struct placement_move *move)
{
	uint32_t gpus[PLACEMENT_GPUS_MAX], wanted = move->claim.need.count;

	if (wanted < 2 || !placement_need_one_box(&move->claim.need) ||
	    gather(loss->placement->pool, move, move->from_box, true, gpus) < wanted)
		return false;
	put(loss, move, move->from_box, gpus, "other gpus of the same box");
	return true;
}

/* Of several gpus anywhere, only those that are lost are replaced. */
static bool put_beside(struct loss *loss, struct placement_move *move)
{
	struct placement_scorer scorer = { loss->placement->pool, &loss->placement->prices };
	const struct placement_pool *pool = loss->placement->pool;
	struct placement_claim one = move->claim;
	uint32_t gpus[PLACEMENT_GPUS_MAX], wanted = one.need.count, kept = 0;
	struct placement_candidate best;
	uint8_t *except;

	if (placement_need_one_box(&one.need) || placement_price(loss->placement))
		return false;
	except = calloc(1, pool->gpus.count / 8 + 1);
	one.need.count = 1;
	for (uint32_t i = 0; except && i < wanted; i++) {
		gpus[i] = move->from[i];
		except[gpus[i] / 8] |= (uint8_t)(1U << gpus[i] % 8);
	}
	for (; except && kept < wanted; kept++) {
		if (gpu_fits(pool, gpus[kept], &one))
			continue;
		if (!placement_scan(&scorer, &one, except, &best, 1))
			break;
		gpus[kept] = best.gpus[0];
		except[gpus[kept] / 8] |= (uint8_t)(1U << gpus[kept] % 8);
	}
	free(except);
	if (!except || kept < wanted)
		return false;
	put(loss, move, pool->gpus.rows[gpus[0]].box, gpus, "beside those that are left");
	return true;
}

static int place(struct loss *loss, uint32_t grant)
{
	struct placement_pool *pool = loss->placement->pool;
	struct placement_move *move = placement_plan_take(loss->plan, pool, grant);
	struct placement_answer answer;
	int err;

	if (put_on_spares(loss, move) || put_in_same_box(loss, move) || put_beside(loss, move))
		return 0;
	err = placement_decide(loss->placement, &move->claim, &answer);
	if (!err) {
		put(loss, move, answer.box, answer.gpus, "where it costs least");
		return 0;
	}
	memcpy(move->why, answer.reason, sizeof(move->why));
	loss->plan->stranded++;
	return err == -ENOSPC ? 0 : err;
}

static int recover(struct loss *loss)
{
	struct placement_pool *pool = loss->placement->pool;
	uint32_t gpus = 0;
	int err;

	err = find_grants(loss);
	for (uint32_t i = 0; i < loss->grant_count; i++)
		gpus += pool->grants.rows[loss->grants[i]].claim.need.count;
	if (!err)
		err = placement_plan_reserve(loss->plan, loss->grant_count,
					     loss->gpu_count + gpus);
	if (err)
		goto out;
	for (uint32_t i = 0; i < loss->gpu_count; i++)
		placement_plan_change(loss->plan, pool, loss->gpus[i], PLACEMENT_FAILED);
	if (loss->plan->host != PLACEMENT_NONE)
		placement_pool_set_host(pool, loss->plan->host, true);
	if (loss->grant_count)
		qsort_r(loss->grants, loss->grant_count, sizeof(*loss->grants), compare_size,
			pool->grants.rows);
	for (uint32_t i = 0; i < loss->grant_count && !err; i++)
		err = place(loss, loss->grants[i]);
out:
	free(loss->grants);
	return err;
}

int placement_recover_gpu(struct placement *placement, uint32_t gpu, struct placement_plan *plan)
{
	struct loss loss = {
		.placement = placement, .plan = plan, .gpus = &gpu, .gpu_count = 1,
	};

	return recover(&loss);
}

static int recover_boxes(struct placement *placement, uint32_t box, bool next,
			 struct placement_plan *plan)
{
	const struct placement_pool *pool = placement->pool;
	struct loss loss = { .placement = placement, .plan = plan };
	uint32_t *gpus, count = 0;
	int err;

	for (uint32_t i = box; i != PLACEMENT_NONE;
	     i = next ? pool->boxes.rows[i].next_of_host : PLACEMENT_NONE)
		count += pool->boxes.rows[i].gpu_count;
	gpus = calloc(count ? count : 1, sizeof(*gpus));
	if (!gpus)
		return -ENOMEM;
	for (uint32_t i = box; i != PLACEMENT_NONE;
	     i = next ? pool->boxes.rows[i].next_of_host : PLACEMENT_NONE)
		placement_each_gpu(pool, i, gpu)
			gpus[loss.gpu_count++] = gpu;
	loss.gpus = gpus;
	err = recover(&loss);
	free(gpus);
	return err;
}

int placement_recover_box(struct placement *placement, uint32_t box, struct placement_plan *plan)
{
	return recover_boxes(placement, box, false, plan);
}

int placement_recover_host(struct placement *placement, uint32_t host,
			   struct placement_plan *plan)
{
	plan->host = host;
	return recover_boxes(placement, placement->pool->hosts.rows[host].first_box, true, plan);
}
