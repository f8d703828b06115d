// SPDX-License-Identifier: GPL-2.0-or-later
#include "decision.h"

#include "baseline.h"
#include "reason.h"
#include "scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int placement_init(struct placement *placement, struct placement_pool *pool,
		   const struct placement_policy *policy, uint64_t seed)
{
	*placement = (struct placement){
		.pool = pool,
		.policy = policy,
		.random = seed * 0x9e3779b97f4a7c15ULL + 0x2545f4914f6cdd1dULL,
		.index = placement_index_new(),
	};
	return placement->index ? 0 : -ENOMEM;
}

void placement_free(struct placement *placement)
{
	placement_demand_free(&placement->demand);
	placement_prices_free(&placement->prices);
	placement_index_free(placement->index);
	placement_memo_free(placement->memo);
}

int placement_set_pool(struct placement *placement, struct placement_pool *pool)
{
	struct placement_index *index = placement_index_new();

	if (!index)
		return -ENOMEM;
	/* What is scarce follows from what there is. */
	for (uint32_t i = 0; i < PLACEMENT_KINDS_MAX; i++)
		if (pool->kinds[i].milli != placement->pool->kinds[i].milli)
			placement->repriced = false;
	placement_index_free(placement->index);
	placement_memo_free(placement->memo);
	placement->index = index;
	placement->memo = NULL;
	placement->pool = pool;
	return 0;
}

void placement_observe(struct placement *placement, const struct placement_need *need)
{
	placement_demand_add(&placement->demand, need);
}

int placement_price(struct placement *placement)
{
	int err;

	if (!placement_demand_changed(&placement->demand) && placement->repriced)
		return 0;
	err = placement_prices_make(&placement->prices, &placement->demand, placement->pool);
	placement->repriced = !err;
	return err;
}

/* The gpus of a box that are the holes of a place. */
static void take_gpus(const struct placement_pool *pool, const struct placement_need *need,
		      const uint32_t *holes, struct placement_answer *answer)
{
	const struct placement_box *box = &pool->boxes.rows[answer->box];
	const struct placement_hole *of_class = placement_class_holes(pool->classes, box->class);

	for (answer->count = 0; answer->count < need->count; answer->count++) {
		const struct placement_hole *hole = &of_class[holes[answer->count]];

		placement_each_gpu(pool, answer->box, number) {
			const struct placement_gpu *gpu = &pool->gpus.rows[number];
			uint32_t k = 0;

			if (gpu->state != PLACEMENT_READY || gpu->isolated ||
			    gpu->kind != hole->kind ||
			    placement_gpu_share_left(gpu) != hole->share ||
			    placement_gpu_memory_left(gpu) != hole->memory ||
			    gpu->memory_one != hole->memory_one)
				continue;
			while (k < answer->count && answer->gpus[k] != number)
				k++;
			if (k < answer->count)
				continue;
			answer->gpus[answer->count] = number;
			break;
		}
	}
}

static int decide_plain(struct placement *placement, const struct placement_need *need,
			struct placement_answer *answer)
{
	struct placement_scorer scorer = { placement->pool, &placement->prices };
	struct placement_place place;
	uint32_t class;
	int err;

	err = placement_index_best(placement->index, &scorer, need, &class);
	if (err)
		return err;
	if (class == PLACEMENT_NONE || !placement_score_class(&scorer, class, need, &place))
		return -ENOSPC;
	placement_score_holes(&scorer, class, need, place.holes, need->count, &answer->score);
	answer->box = placement->pool->classes->rows[class].first_box;
	take_gpus(placement->pool, need, place.holes, answer);
	return 0;
}

static int decide_scanning(struct placement *placement, const struct placement_claim *claim,
			   struct placement_answer *answer)
{
	struct placement_scorer scorer = { placement->pool, &placement->prices };
	struct placement_candidate best;

	if (!placement_scan(&scorer, claim, NULL, &best, 1))
		return -ENOSPC;
	answer->box = best.box;
	answer->count = claim->need.count;
	memcpy(answer->gpus, best.gpus, answer->count * sizeof(*best.gpus));
	answer->score = best.score;
	return 0;
}

/* One gpu after the other, each where it costs least. */
static int decide_anywhere(struct placement *placement, const struct placement_claim *claim,
			   struct placement_answer *answer)
{
	struct placement_scorer scorer = { placement->pool, &placement->prices };
	struct placement_claim one = *claim;
	struct placement_candidate best;
	uint8_t *except = calloc(1, placement->pool->gpus.count / 8 + 1);

	if (!except)
		return -ENOMEM;
	one.need.count = 1;
	answer->score = (struct placement_score){ 0 };
	for (answer->count = 0; answer->count < claim->need.count; answer->count++) {
		if (!placement_scan(&scorer, &one, except, &best, 1))
			break;
		if (!answer->count)
			answer->box = best.box;
		answer->gpus[answer->count] = best.gpus[0];
		except[best.gpus[0] / 8] |= (uint8_t)(1U << best.gpus[0] % 8);
		answer->score.total += best.score.total;
		for (int i = 0; i < PLACEMENT_TERMS; i++)
			answer->score.terms[i] += best.score.terms[i];
	}
	free(except);
	return answer->count == claim->need.count ? 0 : -ENOSPC;
}

static int decide_comparing(struct placement *placement, const struct placement_claim *claim,
			    struct placement_answer *answer)
{
	uint32_t holes[PLACEMENT_GPUS_MAX];
	int err;

	err = placement_compare(placement, &claim->need, &answer->box, holes);
	if (!err)
		take_gpus(placement->pool, &claim->need, holes, answer);
	return err;
}

int placement_decide(struct placement *placement, const struct placement_claim *claim,
		     struct placement_answer *answer)
{
	int err;

	answer->reason[0] = '\0';
	answer->count = 0;
	err = placement_claim_check(claim, answer->reason);
	if (err)
		return err;
	if (placement->policy->score && placement_claim_plain(claim) &&
	    placement_need_one_box(&claim->need)) {
		err = decide_comparing(placement, claim, answer);
	} else {
		err = placement_price(placement);
		if (err)
			;
		else if (!placement_need_one_box(&claim->need))
			err = decide_anywhere(placement, claim, answer);
		else if (placement_claim_plain(claim))
			err = decide_plain(placement, &claim->need, answer);
		else
			err = decide_scanning(placement, claim, answer);
	}
	if (err == -ENOSPC && !placement->terse)
		placement_reason(placement->pool, claim, answer->reason);
	else if (err && err != -ENOSPC)
		snprintf(answer->reason, sizeof(answer->reason), "cannot decide: %s",
			 strerror(-err));
	return err;
}

int placement_explain(struct placement *placement, const struct placement_claim *claim,
		      struct placement_candidate *best, uint32_t room)
{
	struct placement_scorer scorer = { placement->pool, &placement->prices };
	int err = placement_price(placement);

	return err ? err : (int)placement_scan(&scorer, claim, NULL, best, room);
}
