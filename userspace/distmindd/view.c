// SPDX-License-Identifier: GPL-2.0-or-later
#include "view.h"

#include "../placement/reason.h"
#include "../placement/records.h"
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void view_free(struct view *view)
{
	if (view->pool)
		placement_free(&view->placement);
	placement_pool_free(view->pool);
	*view = (struct view){ 0 };
}

void view_forget(struct view *view)
{
	view->fresh = false;
}

static int fill(struct placement_pool *view, const struct pool *pool, const struct config *config)
{
	struct placement_overcommit overcommit = {
		.share = config->share_overcommit,
		.memory = config->memory_overcommit,
	};
	struct pool_vgpu *vgpu;
	struct pool_gpu *gpu;
	int added;

	table_each(&pool->gpus, gpu) {
		added = placement_records_add_gpu(view, &gpu->record, &overcommit);
		if (added < 0)
			return added;
	}
	/* The rows of both are in the same order. */
	table_each(&pool->vgpus, vgpu) {
		gpu = table_find(&pool->gpus, vgpu->record.gpu);
		if (!gpu)
			continue;
		added = placement_records_add_vgpu(
			view, &vgpu->record,
			(uint32_t)(gpu - (struct pool_gpu *)pool->gpus.rows));
		if (added < 0)
			return added;
	}
	return 0;
}

/* A daemon that has just started knows no more of the demand than what is there. */
static void observe_all(struct placement *placement, const struct pool *pool)
{
	struct pool_vgpu *vgpu;

	table_each(&pool->vgpus, vgpu) {
		struct placement_need need = placement_records_need(&vgpu->record);

		placement_observe(placement, &need);
	}
}

static int refresh(struct view *view, const struct pool *pool, const struct config *config)
{
	struct placement_pool *made = placement_pool_new();
	int err = made ? 0 : -ENOMEM;

	/* Kinds that are gone take room from those that come: start anew. */
	if (view->pool && view->pool->kind_count == PLACEMENT_KINDS_MAX)
		view_free(view);
	for (uint32_t i = 0; view->pool && !err && i < view->pool->kind_count; i++)
		if (placement_pool_add_kind(made, view->pool->kinds[i].name) < 0)
			err = -ENOMEM;
	if (!err)
		err = fill(made, pool, config);
	if (!err && view->pool) {
		err = placement_set_pool(&view->placement, made);
	} else if (!err) {
		err = placement_init(&view->placement, made, config->policy, 1);
		if (!err)
			observe_all(&view->placement, pool);
	}
	if (err) {
		placement_pool_free(made);
		return err;
	}
	placement_pool_free(view->pool);
	view->pool = made;
	view->fresh = true;
	return 0;
}

int view_place(struct view *view, const struct pool *pool, const struct config *config,
	       const struct placement_request *request, const char *kind, bool observe,
	       struct placement_answer *answer)
{
	struct placement_request wanted = *request;
	int err = view->fresh ? 0 : refresh(view, pool, config), number;

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
