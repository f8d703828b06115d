// SPDX-License-Identifier: GPL-2.0-or-later
#include "view.h"

#include "../../placement/reason.h"
#include "../../placement/records.h"
#include "inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void view_free(struct view *view)
{
	if (view->pool)
		placement_free(&view->placement);
	placement_pool_free(view->pool);
	free(view->vgpus);
	*view = (struct view){ 0 };
}

void view_forget(struct view *view)
{
	view->fresh = false;
}

static int fill_gpus(struct placement_pool *view, const struct inventory *inventory,
		     const struct config *config)
{
	struct placement_rules rules = {
		.share = config->share_overcommit,
		.memory = config->memory_overcommit,
		.spares = config->spares,
	};
	struct inventory_gpu *gpu;
	int added;

	table_each(&inventory->gpus, gpu) {
		added = placement_records_add_gpu(view, &gpu->record, &rules);
		if (added < 0)
			return added;
	}
	return 0;
}

/* After the gpus, whose rows are in the same order. */
static int fill_vgpus(struct placement_pool *view, const struct inventory *inventory, uint32_t *ids)
{
	struct inventory_vgpu *vgpu;
	struct inventory_gpu *gpu;
	uint32_t number;
	int added;

	table_each(&inventory->vgpus, vgpu) {
		gpu = table_find(&inventory->gpus, vgpu->record.gpu);
		if (!gpu)
			continue;
		number = (uint32_t)(gpu - (struct inventory_gpu *)inventory->gpus.rows);
		/*
		 * On gpus that nobody is placed on there is nothing to be counted, but for what
		 * is to be moved: not what is stuck, nor what was too large for its gpu, of which
		 * only a part would be.
		 */
		if (!inventory_vgpu_bound(inventory, vgpu) &&
		    (vgpu->stuck || vgpu->record.memory > view->gpus.rows[number].memory))
			continue;
		added = placement_records_add_vgpu(view, &vgpu->record, &gpu->record, number);
		if (added == -ENOENT)
			continue;
		if (added < 0)
			return added;
		ids[added] = vgpu->record.id;
	}
	return 0;
}

/* A daemon that has just started knows no more of the demand than what is there. */
static void observe_all(struct placement *placement, const struct inventory *inventory)
{
	struct inventory_vgpu *vgpu;

	table_each(&inventory->vgpus, vgpu) {
		struct placement_need need = placement_records_need(&vgpu->record);

		if (!placement_records_is_weights(&vgpu->record))
			placement_observe(placement, &need);
	}
}

static int refresh(struct view *view, const struct inventory *inventory, const struct config *config)
{
	struct placement_pool *made = placement_pool_new();
	uint32_t *vgpus = calloc(inventory->vgpus.count + 1, sizeof(*vgpus));
	int err = made && vgpus ? 0 : -ENOMEM;

	/* Kinds that are gone take room from those that come: start anew. */
	if (view->pool && view->pool->kind_count == PLACEMENT_KINDS_MAX)
		view_free(view);
	for (uint32_t i = 0; view->pool && !err && i < view->pool->kind_count; i++)
		if (placement_pool_add_kind(made, view->pool->kinds[i].name) < 0)
			err = -ENOMEM;
	if (!err)
		err = fill_gpus(made, inventory, config);
	if (!err)
		err = fill_vgpus(made, inventory, vgpus);
	if (!err && view->pool) {
		err = placement_set_pool(&view->placement, made);
	} else if (!err) {
		err = placement_init(&view->placement, made, config->policy, 1);
		if (!err)
			observe_all(&view->placement, inventory);
	}
	if (err) {
		placement_pool_free(made);
		free(vgpus);
		return err;
	}
	placement_pool_free(view->pool);
	free(view->vgpus);
	view->pool = made;
	view->vgpus = vgpus;
	view->fresh = true;
	return 0;
}

int view_place(struct view *view, const struct inventory *inventory, const struct config *config,
	       const struct placement_claim *claim, const char *kind, bool observe,
	       struct placement_answer *answer)
{
	struct placement_claim wanted = *claim;
	int err = view->fresh ? 0 : refresh(view, inventory, config), number;

	answer->reason[0] = '\0';
	if (err) {
		snprintf(answer->reason, sizeof(answer->reason), "the daemon cannot decide: %s",
			 strerror(-err));
		return err;
	}
	if (kind[0]) {
		number = placement_pool_find_kind(view->pool, kind);
		if (number < 0) {
			placement_reason_kind(view->pool, kind, answer->reason);
			return -ENOSPC;
		}
		wanted.need.kinds = 1ULL << number;
	}
	view->placement.policy = config->policy;
	if (observe)
		placement_observe(&view->placement, &wanted.need);
	err = placement_decide(&view->placement, &wanted, answer);
	for (uint32_t i = 0; !err && i < answer->count; i++)
		answer->gpus[i] = view->pool->gpus.rows[answer->gpus[i]].id;
	return err;
}

static bool box_failed(const struct placement_pool *pool, uint32_t box)
{
	placement_each_gpu(pool, box, gpu)
		if (pool->gpus.rows[gpu].state != PLACEMENT_FAILED)
			return false;
	return true;
}

static int plan_recovery(struct placement *placement, struct placement_plan *plan)
{
	const struct placement_pool *pool = placement->pool;
	int err = 0;

	for (uint32_t box = 0; box < pool->boxes.count && !err; box++) {
		if (box_failed(pool, box)) {
			err = placement_recover_box(placement, box, plan);
			continue;
		}
		placement_each_gpu(pool, box, gpu)
			if (!err && pool->gpus.rows[gpu].state == PLACEMENT_FAILED &&
			    pool->gpus.rows[gpu].first_hold != PLACEMENT_NONE)
				err = placement_recover_gpu(placement, gpu, plan);
	}
	return err;
}

static void describe_move(const struct view *view, const struct placement_move *move,
			  struct view_move *described)
{
	described->vgpu = view->vgpus[move->grant];
	described->from = view->pool->gpus.rows[move->from[0]].id;
	described->to = view->pool->gpus.rows[move->to[0]].id;
	memcpy(described->why, move->why, sizeof(described->why));
}

int view_recover(struct view *view, const struct inventory *inventory, const struct config *config,
		 struct view_recovery *recovery)
{
	struct placement_plan plan = PLACEMENT_PLAN_EMPTY;
	int err = view->fresh ? 0 : refresh(view, inventory, config);

	*recovery = (struct view_recovery){ 0 };
	if (err)
		return err;
	view->placement.policy = config->policy;
	err = plan_recovery(&view->placement, &plan);
	recovery->moves = err ? NULL : calloc(plan.count + 1, sizeof(*recovery->moves));
	if (!err && !recovery->moves)
		err = -ENOMEM;
	for (uint32_t i = 0; i < plan.count && !err; i++) {
		if (plan.moves[i].to_box == PLACEMENT_NONE)
			recovery->waiting++;
		else
			describe_move(view, &plan.moves[i], &recovery->moves[recovery->count++]);
	}
	/* Planned is not done: the view is of what is. */
	if (plan.count)
		view_forget(view);
	placement_plan_free(&plan);
	return err;
}
