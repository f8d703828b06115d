// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Copies ahead of demand. Requests that find every copy of their model busy make
 * more copies by themselves, but each of these waits for a load. So a model that
 * takes too large a share of the gpus it is in gets another copy, even if others
 * must go for it; and as long as a gpu has room that nothing uses, whatever is
 * wanted most often for the copies it has goes there.
 */
#include "state.h"

/* As many copies in gpus as keep each below this share of its gpu's time. */
#define COPY_SHARE 0.4
/* A copy is not worth a load that must wait this long for the network. */
#define LINK_WAIT_MAX_NS 5000000

static bool has_room(const struct router *router, uint32_t gpu, uint32_t model)
{
	const struct shelf *shelf = &router->shelves[gpu];

	return shelf->used + router->models[model].bytes <= shelf->capacity;
}

/*
 * The gpu where a copy does least harm: the one that is free first, of those
 * without one whose host can load it at once; with room for it, if it must have.
 */
static uint32_t roomiest(const struct router *router, uint32_t model, bool room, uint64_t now)
{
	const struct copy *copies = copies_of(router, model);
	uint32_t best = ROUTER_NONE;

	for (uint32_t i = 0; i < router->gpu_count; i++) {
		const struct gpu *gpu = &router->gpus[i];

		if (copies[i].ready_ns != ROUTER_NEVER || (room && !has_room(router, i, model)) ||
		    gpu->copy_free_ns > now + LINK_WAIT_MAX_NS ||
		    (copies[router->gpu_count + gpu->host].ready_ns == ROUTER_NEVER &&
		     router->link_free_ns[gpu->host] > now + LINK_WAIT_MAX_NS))
			continue;
		if (best == ROUTER_NONE || gpu->free_ns < router->gpus[best].free_ns)
			best = i;
	}
	return best;
}

bool router_replicate(struct router *router, uint64_t now, uint32_t *model, uint32_t *gpu)
{
	struct router_request request = { .deadline_ns = ROUTER_NEVER };
	struct router_decision load;
	double most = 0, share;

	if (!router->policy->replicates)
		return false;
	*model = ROUTER_NONE;
	for (uint32_t i = 0; i < router->model_count; i++) {
		/* Not more copies than gpus; what nobody has is loaded when it is wanted. */
		if (!router->gpu_copies[i] || router->gpu_copies[i] >= router->gpu_count)
			continue;
		share = router_demand_gpus(router, i) / router->gpu_copies[i];
		if (share > most) {
			most = share;
			*model = i;
		}
	}
	if (*model == ROUTER_NONE)
		return false;
	*gpu = roomiest(router, *model, most < COPY_SHARE, now);
	if (*gpu == ROUTER_NONE)
		return false;
	request.model = *model;
	router_predict(router, &request, *gpu, now, &load);
	router_move(router, &load, *model, 0, now);
	return true;
}
