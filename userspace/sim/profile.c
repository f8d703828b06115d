// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the router knows about a model, from its layers and the path to the gpu.
 *
 * The last group is done at T = max over g of (g has arrived + computation of g
 * and all after it). So a computation that starts at T less all of it finds each
 * group there when it comes to it, and is done at T as well: until then the gpu
 * is free for others. That more than one group is launched, some 10 us each, is
 * counted in T, not in the computation.
 */
#include <errno.h>
#include <stdlib.h>

#include "serve.h"

#define PLANNER_NS (PLANNER_SECOND / 1000000000)

/* When the last layer is done, in ns; copy 0: the layers come over one link. */
static int finish(const struct sim_model *kind, struct planner_rates rates, bool pipelined,
		  uint64_t *ns)
{
	struct planner_pipeline pipeline;
	struct planner_grouping grouping;
	int err = planner_pipeline_create(&pipeline, kind->layers, kind->count, &rates);

	if (err)
		return err;
	err = pipelined ? planner_optimal(&pipeline, &grouping) :
			  planner_whole(&pipeline, &grouping);
	if (!err) {
		*ns = (uint64_t)planner_finish(&pipeline, &grouping) / PLANNER_NS;
		planner_grouping_destroy(&grouping);
	}
	planner_pipeline_destroy(&pipeline);
	return err;
}

static int kind_profile(const struct sim_model *kind, const struct sim_serve_config *config,
			struct router_model *model)
{
	struct planner_rates near = config->rates;
	uint64_t host, pool;
	double flops = 0;
	int err;

	for (size_t i = 0; i < kind->count; i++) {
		flops += kind->layers[i].flops;
		model->bytes += kind->layers[i].bytes;
	}
	near.network = config->rates.copy ? config->rates.copy : config->rates.network;
	near.copy = 0;
	err = finish(kind, near, config->system->pipelined, &host);
	if (!err)
		err = finish(kind, config->rates, config->system->pipelined, &pool);
	if (err)
		return err;
	model->compute_ns =
		(uint64_t)((flops / config->rates.compute + config->rates.launch_cost) * 1e9);
	model->copy_ns = (uint64_t)((double)model->bytes / near.network * 1e9);
	model->link_ns = (uint64_t)((double)model->bytes / config->rates.network * 1e9);
	model->lead_ns[ROUTER_TIER_HOST] =
		(host > model->compute_ns ? host - model->compute_ns : 0) +
		config->system->switch_ns;
	model->lead_ns[ROUTER_TIER_POOL] =
		(pool > model->compute_ns ? pool - model->compute_ns : 0) +
		config->system->switch_ns;
	if (config->system->local) {
		model->lead_ns[ROUTER_TIER_POOL] = model->lead_ns[ROUTER_TIER_HOST];
		model->link_ns = 0;
	}
	return 0;
}

int sim_profile(const struct sim_workload *workload, const struct sim_serve_config *config,
		struct router_model **models)
{
	struct router_model *kinds = calloc(workload->kind_count, sizeof(*kinds));
	int err = 0;

	*models = calloc(workload->model_count, sizeof(**models));
	if (!kinds || !*models)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < workload->kind_count; i++)
		err = kind_profile(&workload->kinds[i], config, &kinds[i]);
	for (uint32_t i = 0; !err && i < workload->model_count; i++)
		(*models)[i] = kinds[workload->models[i]];
	if (err) {
		free(*models);
		*models = NULL;
	}
	free(kinds);
	return err;
}
