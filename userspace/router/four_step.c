// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rule of the DistMind paper: an idle gpu where the model is cached; any
 * idle gpu; the least loaded where it is cached, with load below 2; the least
 * loaded, with load below 4; else back to the queue. A copy in the gpu's own
 * memory is preferred to one of its host, which the original does not have.
 */
#include <errno.h>

#include "state.h"

#define CACHED_LOAD_MAX 2
#define LOAD_MAX 4

/* Fewer requests first, then a nearer copy, then the one that has been free for longest. */
static bool better(const struct router *router, const struct router_decision *a,
		   const struct router_decision *b)
{
	const struct gpu *x = &router->gpus[a->gpu], *y = &router->gpus[b->gpu];

	if (b->gpu == ROUTER_NONE || x->outstanding != y->outstanding)
		return b->gpu == ROUTER_NONE || x->outstanding < y->outstanding;
	return a->tier != b->tier ? a->tier < b->tier : x->free_ns < y->free_ns;
}

static int route(struct router *router, const struct router_request *request, uint64_t now,
		 struct router_decision *decision)
{
	struct router_decision this, cached = { .gpu = ROUTER_NONE }, any = { .gpu = ROUTER_NONE };

	for (uint32_t i = 0; i < router->gpu_count; i++) {
		router_predict(router, request, i, now, &this);
		if (this.tier != ROUTER_TIER_POOL && better(router, &this, &cached))
			cached = this;
		if (better(router, &this, &any))
			any = this;
	}
	*decision = any;
	if (cached.gpu != ROUTER_NONE && !router->gpus[cached.gpu].outstanding)
		*decision = cached;
	else if (!router->gpus[any.gpu].outstanding)
		return 0;
	else if (cached.gpu != ROUTER_NONE &&
		 router->gpus[cached.gpu].outstanding < CACHED_LOAD_MAX)
		*decision = cached;
	else if (router->gpus[any.gpu].outstanding >= LOAD_MAX)
		return -EAGAIN;
	return 0;
}

const struct router_policy router_four_step = {
	.name = "four-step",
	.summary = "DistMind's rule: cached and idle, idle, cached, least loaded",
	.eviction = ROUTER_EVICT_OLDEST,
	.route = route,
};

const struct router_policy router_four_step_lfu = {
	.name = "lfu",
	.summary = "DistMind's rule with caches that keep what is used most often",
	.eviction = ROUTER_EVICT_RAREST,
	.route = route,
};
