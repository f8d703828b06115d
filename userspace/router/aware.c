// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The default: the gpu where the request is predicted to be done first, where a
 * load counts twice, because it takes bandwidth and cache from others too. What
 * no gpu can finish in time is refused at once, so that it does not make others
 * late.
 */
#include <errno.h>

#include "state.h"

static uint64_t score(const struct router *router, const struct router_request *request,
		      const struct router_decision *decision)
{
	return decision->finish_ns + router->models[request->model].lead_ns[decision->tier];
}

/* A load should throw out what is worth least: of all gpus that are as good, that one. */
static void move_to_cheapest(struct router *router, const struct router_request *request,
			     uint64_t now, struct router_decision *decision)
{
	uint64_t bytes = router->models[request->model].bytes;
	uint64_t wanted = score(router, request, decision);
	double least = router_shelf_price(router, decision->gpu, bytes), price;
	struct router_decision this;

	for (uint32_t i = 0; i < router->gpu_count; i++) {
		router_predict(router, request, i, now, &this);
		if (i == decision->gpu || this.tier != decision->tier ||
		    score(router, request, &this) != wanted)
			continue;
		price = router_shelf_price(router, i, bytes);
		if (price < least) {
			least = price;
			*decision = this;
		}
	}
}

static int route(struct router *router, const struct router_request *request, uint64_t now,
		 struct router_decision *decision)
{
	const uint64_t *lead = router->models[request->model].lead_ns;
	const struct copy *copies = copies_of(router, request->model);
	struct router_decision this, first = { .finish_ns = ROUTER_NEVER };
	uint64_t least = ROUTER_NEVER, value, soonest;

	/* No load is better than this. */
	soonest = lead[ROUTER_TIER_HOST] < lead[ROUTER_TIER_POOL] ? lead[ROUTER_TIER_HOST] :
								    lead[ROUTER_TIER_POOL];
	soonest = now + 2 * soonest + request->compute_ns;
	for (uint32_t i = 0; i < router->gpu_count; i++) {
		if (soonest > least && copies[i].ready_ns == ROUTER_NEVER)
			continue;
		router_predict(router, request, i, now, &this);
		if (this.finish_ns < first.finish_ns)
			first = this;
		if (this.finish_ns > request->deadline_ns)
			continue;
		value = score(router, request, &this);
		/* Among equals the one that has been free for longest. */
		if (value < least || (value == least && router->gpus[i].free_ns <
							router->gpus[decision->gpu].free_ns)) {
			least = value;
			*decision = this;
		}
	}
	if (least == ROUTER_NEVER) {
		*decision = first;
		return -ETIME;
	}
	if (decision->tier != ROUTER_TIER_GPU)
		move_to_cheapest(router, request, now, decision);
	return 0;
}

const struct router_policy router_aware = {
	.name = "aware",
	.summary = "predicted finish with the cost of loads, refuses what would be late",
	.eviction = ROUTER_EVICT_CHEAPEST,
	.deadline_order = true,
	.replicates = true,
	.route = route,
};
