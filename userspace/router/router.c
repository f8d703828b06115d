// SPDX-License-Identifier: GPL-2.0-or-later
#include "router.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* So many requests for each model, on average, before the older ones count half. */
#define DEMAND_PER_MODEL 16

static bool plausible(const struct router_config *config)
{
	uint64_t bytes = 0;

	if (!config->policy || !config->model_count || !config->gpu_count || !config->host_count)
		return false;
	/* Copies are counted in 32 bits, and ROUTER_NONE is no gpu. */
	if (config->gpu_count > UINT32_MAX / 4 || config->host_count > UINT32_MAX / 4)
		return false;
	for (uint32_t i = 0; i < config->gpu_count; i++)
		if (config->gpu_hosts[i] >= config->host_count)
			return false;
	for (uint32_t i = 0; i < config->model_count; i++)
		if (!config->models[i].bytes ||
		    __builtin_add_overflow(bytes, config->models[i].bytes, &bytes))
			return false;
	return true;
}

static int allocate(struct router *router)
{
	size_t shelves = (size_t)router->gpu_count + router->host_count, copies;

	if (__builtin_mul_overflow(shelves, router->model_count, &copies))
		return -ENOMEM;
	router->models = calloc(router->model_count, sizeof(*router->models));
	router->gpus = calloc(router->gpu_count, sizeof(*router->gpus));
	router->timetables = calloc(router->gpu_count, sizeof(*router->timetables));
	router->link_free_ns = calloc(router->host_count, sizeof(*router->link_free_ns));
	router->shelves = calloc(shelves, sizeof(*router->shelves));
	router->copies = calloc(copies, sizeof(*router->copies));
	router->listed = calloc(copies, sizeof(*router->listed));
	router->demand = calloc(router->model_count, sizeof(*router->demand));
	router->gpu_copies = calloc(router->model_count, sizeof(*router->gpu_copies));
	router->host_copies = calloc(router->model_count, sizeof(*router->host_copies));
	if (!router->models || !router->gpus || !router->timetables || !router->link_free_ns ||
	    !router->shelves || !router->copies || !router->listed || !router->demand ||
	    !router->gpu_copies || !router->host_copies)
		return -ENOMEM;
	for (size_t i = 0; i < copies; i++)
		router->copies[i].ready_ns = ROUTER_NEVER;
	for (size_t i = 0; i < shelves; i++)
		router->shelves[i].models = &router->listed[i * router->model_count];
	return 0;
}

int router_create(const struct router_config *config, struct router **created)
{
	struct router *router;

	if (!plausible(config))
		return -EINVAL;
	router = calloc(1, sizeof(*router));
	if (!router)
		return -ENOMEM;
	router->policy = config->policy;
	router->model_count = config->model_count;
	router->gpu_count = config->gpu_count;
	router->host_count = config->host_count;
	router->seed = config->seed;
	if (allocate(router)) {
		router_destroy(router);
		return -ENOMEM;
	}
	memcpy(router->models, config->models, config->model_count * sizeof(*router->models));
	for (uint32_t i = 0; i < config->gpu_count; i++) {
		router->gpus[i].host = config->gpu_hosts[i];
		router->shelves[i].capacity = config->gpu_cache;
	}
	for (uint32_t i = 0; i < config->host_count; i++)
		router->shelves[config->gpu_count + i].capacity = config->host_cache;
	*created = router;
	return 0;
}

void router_destroy(struct router *router)
{
	if (!router)
		return;
	free(router->models);
	free(router->gpus);
	free(router->timetables);
	free(router->link_free_ns);
	free(router->shelves);
	free(router->copies);
	free(router->listed);
	free(router->demand);
	free(router->gpu_copies);
	free(router->host_copies);
	free(router);
}

int router_route(struct router *router, const struct router_request *request, uint64_t now,
		 struct router_decision *decision)
{
	return router->policy->route(router, request, now, decision);
}

void router_move(struct router *router, const struct router_decision *load, uint32_t index,
		 uint64_t extra_ns, uint64_t now)
{
	const struct router_model *model = &router->models[index];
	struct gpu *gpu = &router->gpus[load->gpu];
	uint64_t *link = &router->link_free_ns[gpu->host];
	uint64_t begin;

	if (load->tier == ROUTER_TIER_POOL) {
		begin = later(later(now, *link), gpu->copy_free_ns);
		*link = begin + model->link_ns;
		gpu->copy_free_ns = later(*link, begin + model->copy_ns);
		router_shelf_use(router, router->gpu_count + gpu->host, index, *link, now);
	} else if (load->tier == ROUTER_TIER_HOST) {
		gpu->copy_free_ns = later(now, gpu->copy_free_ns) + model->copy_ns;
		router_shelf_use(router, router->gpu_count + gpu->host, index, now, now);
	}
	if (extra_ns)
		*link = later(now, *link) + extra_ns;
	router_shelf_use(router, load->gpu, index, load->ready_ns, now);
}

uint64_t router_load(struct router *router, uint32_t gpu, const struct router_request *request,
		     uint64_t now)
{
	struct router_decision load;

	router_predict(router, request, gpu, now, &load);
	/* Before anything is given up for it. */
	copies_of(router, request->model)[gpu].pins++;
	router->demand[request->model]++;
	router->demand_sum++;
	router_move(router, &load, request->model, request->extra_ns, now);
	return load.ready_ns;
}

void router_assign(struct router *router, uint32_t gpu, const struct router_request *request,
		   uint64_t ready_ns)
{
	struct turn *turns = router->timetables[gpu].turns;
	struct gpu *this = &router->gpus[gpu];
	uint64_t start;
	uint32_t at = router_turn_find(router, gpu, ready_ns, request->compute_ns, &start);

	if (this->turn_count == this->outstanding && this->turn_count < TURNS_MAX) {
		memmove(&turns[at + 1], &turns[at], (this->turn_count - at) * sizeof(*turns));
		turns[at] = (struct turn){
			.start_ns = start, .compute_ns = request->compute_ns, .ready_ns = ready_ns,
			.model = request->model,
		};
		this->turn_count++;
	} else {
		start = later(start, this->free_ns);
	}
	this->outstanding++;
	this->free_ns = later(this->free_ns, start + request->compute_ns);
}

/*
 * The first turn of that model is over, perhaps at another time than it was to be: the
 * others keep their order, and each comes as soon as it can.
 */
static void turn_over(struct gpu *gpu, struct turn *turns, uint32_t model, uint64_t now)
{
	uint64_t end = now;
	uint32_t from, to = 0;

	for (from = 0; from < gpu->turn_count && turns[from].model != model;)
		from++;
	for (uint32_t i = 0; i < gpu->turn_count; i++) {
		struct turn turn = turns[i];

		if (i == from)
			continue;
		turn.start_ns = later(turn.ready_ns, end);
		end = turn.start_ns + turn.compute_ns;
		turns[to++] = turn;
	}
	gpu->turn_count = to;
	if (gpu->outstanding == gpu->turn_count)
		gpu->free_ns = end;
}

void router_finish(struct router *router, uint32_t gpu, uint32_t model, uint64_t now)
{
	copies_of(router, model)[gpu].pins--;
	router_shelf_trim(router, gpu);
	router->gpus[gpu].outstanding--;
	turn_over(&router->gpus[gpu], router->timetables[gpu].turns, model, now);
}

void router_tick(struct router *router, uint64_t now)
{
	bool forget = router->demand_sum / DEMAND_PER_MODEL >= router->model_count;
	double gpus = 0;

	router->observed_ns += now - router->ticked_ns;
	router->ticked_ns = now;
	for (uint32_t i = 0; i < router->model_count; i++)
		gpus += router_demand_gpus(router, i);
	router->busy = fmin(gpus / router->gpu_count, 1);
	if (!forget)
		return;
	router->observed_ns /= 2;
	router->demand_sum = 0;
	for (uint32_t i = 0; i < router->model_count; i++) {
		router->demand[i] /= 2;
		router->demand_sum += router->demand[i];
	}
}

uint32_t router_outstanding(const struct router *router, uint32_t gpu)
{
	return router->gpus[gpu].outstanding;
}

enum router_tier router_tier(const struct router *router, uint32_t gpu, uint32_t model)
{
	const struct router_request request = { .model = model };
	struct router_decision decision;

	router_predict(router, &request, gpu, 0, &decision);
	return decision.tier;
}
