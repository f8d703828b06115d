/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the router believes. Belongs to router.c and shelf.c; policies read it.
 *
 * A shelf is a cache: one for each gpu, and after them one for each host. A copy
 * is a model on a shelf; copies are stored by model, so that to compare all gpus
 * for one model is to walk through neighbouring memory.
 *
 * Invariants: a copy has ready_ns < ROUTER_NEVER exactly if its model is in the
 * shelf's list; the bytes of the list are the shelf's used ones; copies[] counts
 * the gpus' lists and the hosts' lists. A pinned copy is never given up, and for
 * its sake a shelf may hold more than it should until it is unpinned.
 */
#ifndef DISTMIND_ROUTER_STATE_H
#define DISTMIND_ROUTER_STATE_H

#include "router.h"

struct copy {
	uint64_t ready_ns;
	uint64_t used_ns;
	uint32_t uses;
	uint32_t pins;
};

struct shelf {
	uint64_t capacity;
	uint64_t used;
	uint32_t *models;
	uint32_t count;
};

/* A request that a gpu was given, and when it is to run. */
struct turn {
	uint64_t start_ns;
	uint64_t compute_ns;
	uint64_t ready_ns; /* it cannot start before */
	uint32_t model;
};

/*
 * The turns of a gpu are in order and do not overlap; between them, while a
 * model is on its way, there may be room for others. What is given to a gpu with
 * TURNS_MAX turns comes after all of them, without a turn of its own.
 */
#define TURNS_MAX 8

struct timetable {
	struct turn turns[TURNS_MAX];
};

struct gpu {
	uint64_t free_ns; /* when all that it was given is done */
	uint64_t copy_free_ns;
	uint32_t host;
	uint32_t outstanding;
	uint32_t turn_count; /* in its timetable */
};

struct router {
	const struct router_policy *policy;
	struct router_model *models;
	uint32_t model_count;
	uint32_t gpu_count;
	uint32_t host_count;
	uint64_t seed;

	struct gpu *gpus;
	struct timetable *timetables; /* of each gpu; apart, because few of them are looked at */
	uint64_t *link_free_ns; /* of each host */
	struct shelf *shelves;
	struct copy *copies;
	uint32_t *listed; /* the memory of all shelves' lists */

	/*
	 * How often each model was wanted in observed_ns. Both are halved when there
	 * have been enough requests to say something new about every model.
	 */
	uint64_t *demand;
	uint64_t demand_sum;
	uint64_t observed_ns;
	uint64_t ticked_ns;
	double busy; /* share of the gpus' time that was wanted, at most 1 */
	uint32_t *gpu_copies;
	uint32_t *host_copies;
};

static inline uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline struct copy *copies_of(const struct router *router, uint32_t model)
{
	return &router->copies[(size_t)model * (router->gpu_count + router->host_count)];
}

/* How many gpus the requests for a model keep busy. */
static inline double router_demand_gpus(const struct router *router, uint32_t model)
{
	return router->observed_ns ? (double)router->demand[model] *
					     (double)router->models[model].compute_ns /
					     (double)router->observed_ns : 0;
}

/* Where in the timetable a computation comes that is ready then, and when it starts. */
static inline uint32_t router_turn_find(const struct router *router, uint32_t index,
					uint64_t ready_ns, uint64_t compute_ns, uint64_t *start_ns)
{
	const struct gpu *gpu = &router->gpus[index];
	uint32_t at;

	*start_ns = ready_ns;
	if (gpu->outstanding > gpu->turn_count) {
		*start_ns = later(ready_ns, gpu->free_ns);
		return gpu->turn_count;
	}
	for (at = 0; at < gpu->turn_count; at++) {
		const struct turn *turn = &router->timetables[index].turns[at];

		if (*start_ns + compute_ns <= turn->start_ns)
			break;
		*start_ns = later(*start_ns, turn->start_ns + turn->compute_ns);
	}
	return at;
}

/* What this gpu could promise. */
static inline void router_predict(const struct router *router, const struct router_request *request,
				  uint32_t index, uint64_t now, struct router_decision *decision)
{
	const struct router_model *model = &router->models[request->model];
	const struct copy *copies = copies_of(router, request->model);
	const struct gpu *gpu = &router->gpus[index];
	uint64_t near = copies[router->gpu_count + gpu->host].ready_ns;
	uint64_t link = later(now, router->link_free_ns[gpu->host]);
	uint64_t ready;

	if (copies[index].ready_ns != ROUTER_NEVER) {
		decision->tier = ROUTER_TIER_GPU;
		ready = later(now, copies[index].ready_ns);
	} else if (near != ROUTER_NEVER) {
		decision->tier = ROUTER_TIER_HOST;
		ready = later(now, gpu->copy_free_ns) + model->lead_ns[ROUTER_TIER_HOST];
		/* Still on its way to the host: not before it has arrived. */
		ready = later(ready, near);
	} else {
		decision->tier = ROUTER_TIER_POOL;
		link = later(link, gpu->copy_free_ns);
		ready = link + model->lead_ns[ROUTER_TIER_POOL];
		link += model->link_ns;
	}
	if (request->extra_ns)
		ready = later(ready, link + request->extra_ns);
	decision->gpu = index;
	decision->ready_ns = ready;
	decision->free_ns = later(now, gpu->free_ns);
	router_turn_find(router, index, ready, request->compute_ns, &decision->finish_ns);
	decision->finish_ns += request->compute_ns;
}

/* Promise the links for a load that was predicted, and keep the model where it passes. */
void router_move(struct router *router, const struct router_decision *load, uint32_t model,
		 uint64_t extra_ns, uint64_t now);

/* Put the model on the shelf, or note its use; it may be given up when no pin is left. */
void router_shelf_use(struct router *router, uint32_t shelf, uint32_t model, uint64_t ready_ns,
		      uint64_t now);
/* What the first that would have to go for that many bytes is worth; 0: none has to. */
double router_shelf_price(const struct router *router, uint32_t shelf, uint64_t bytes);
void router_shelf_trim(struct router *router, uint32_t shelf);

#endif
