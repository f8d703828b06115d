// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan.h"

#include <errno.h>
#include <stdlib.h>

void placement_plan_free(struct placement_plan *plan)
{
	free(plan->moves);
	free(plan->changed);
	*plan = (struct placement_plan){ .host = PLACEMENT_NONE };
}

int placement_plan_reserve(struct placement_plan *plan, uint32_t moves, uint32_t changes)
{
	void *grown;

	if (plan->count + moves > plan->room) {
		grown = reallocarray(plan->moves, plan->count + moves, sizeof(*plan->moves));
		if (!grown)
			return -ENOMEM;
		plan->moves = grown;
		plan->room = plan->count + moves;
	}
	if (plan->changed_count + changes > plan->changed_room) {
		grown = reallocarray(plan->changed, plan->changed_count + changes,
				     sizeof(*plan->changed));
		if (!grown)
			return -ENOMEM;
		plan->changed = grown;
		plan->changed_room = plan->changed_count + changes;
	}
	return 0;
}

void placement_plan_change(struct placement_plan *plan, struct placement_pool *pool, uint32_t gpu,
			   enum placement_state state)
{
	plan->changed[plan->changed_count].gpu = gpu;
	plan->changed[plan->changed_count++].state = pool->gpus.rows[gpu].state;
	placement_pool_set_state(pool, gpu, state);
}

struct placement_move *placement_plan_take(struct placement_plan *plan,
					   struct placement_pool *pool, uint32_t number)
{
	const struct placement_grant *grant = &pool->grants.rows[number];
	struct placement_move *move = &plan->moves[plan->count++];
	uint32_t count = 0;

	*move = (struct placement_move){
		.grant = number,
		.claim = grant->claim,
		.from_box = grant->box,
		.to_box = PLACEMENT_NONE,
	};
	for (uint32_t i = grant->first_hold; i != PLACEMENT_NONE;
	     i = pool->holds.rows[i].next_of_grant)
		move->from[count++] = pool->holds.rows[i].gpu;
	placement_pool_release(pool, number);
	return move;
}

/* Room for what was just released is there: that cannot fail. */
void placement_plan_put(struct placement_move *move, struct placement_pool *pool, uint32_t box,
			const uint32_t *gpus)
{
	for (uint32_t i = 0; i < move->claim.need.count; i++)
		move->to[i] = gpus[i];
	move->to_box = box;
	placement_pool_grant(pool, &move->claim, box, gpus);
}

void placement_plan_back(struct placement_plan *plan, struct placement_pool *pool)
{
	const struct placement_move *move = &plan->moves[--plan->count];

	if (move->to_box != PLACEMENT_NONE)
		placement_pool_release(pool, move->grant);
	placement_pool_grant(pool, &move->claim, move->from_box, move->from);
}

void placement_plan_undo(struct placement_plan *plan, struct placement *placement)
{
	struct placement_pool *pool = placement->pool;

	/* Grants get their numbers back, for the last freed is the first used. */
	while (plan->count)
		placement_plan_back(plan, pool);
	while (plan->changed_count) {
		plan->changed_count--;
		placement_pool_set_state(pool, plan->changed[plan->changed_count].gpu,
					 plan->changed[plan->changed_count].state);
	}
	if (plan->host != PLACEMENT_NONE)
		placement_pool_set_host(pool, plan->host, false);
	plan->host = PLACEMENT_NONE;
	plan->stranded = plan->freed = 0;
}
