// SPDX-License-Identifier: GPL-2.0-or-later
/* Rules that do not know where models are: for comparison. */
#include "state.h"

static int least_loaded(struct router *router, const struct router_request *request, uint64_t now,
			struct router_decision *decision)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < router->gpu_count; i++) {
		const struct gpu *this = &router->gpus[i], *that = &router->gpus[best];

		if (this->outstanding != that->outstanding ? this->outstanding < that->outstanding :
							     this->free_ns < that->free_ns)
			best = i;
	}
	router_predict(router, request, best, now, decision);
	return 0;
}

/* Marsaglia's xorshift64*; a seed of 0 would stay 0. */
static int draw(struct router *router, const struct router_request *request, uint64_t now,
		struct router_decision *decision)
{
	uint64_t x = router->seed ? router->seed : 1;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	router->seed = x;
	x = (x * 0x2545f4914f6cdd1dULL) >> 32;
	router_predict(router, request, (uint32_t)(x * router->gpu_count >> 32), now, decision);
	return 0;
}

static int fixed(struct router *router, const struct router_request *request, uint64_t now,
		 struct router_decision *decision)
{
	router_predict(router, request, request->model % router->gpu_count, now, decision);
	return 0;
}

const struct router_policy router_least_loaded = {
	.name = "least-loaded",
	.summary = "the gpu with the fewest requests",
	.eviction = ROUTER_EVICT_OLDEST,
	.route = least_loaded,
};

const struct router_policy router_random = {
	.name = "random",
	.summary = "any gpu",
	.eviction = ROUTER_EVICT_OLDEST,
	.route = draw,
};

const struct router_policy router_fixed = {
	.name = "fixed",
	.summary = "each model has its gpu",
	.eviction = ROUTER_EVICT_OLDEST,
	.route = fixed,
};
