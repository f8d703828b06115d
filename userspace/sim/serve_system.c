// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "serve.h"

/*
 * PipeSwitch measured 205 to 307 ms for a switch between processes under MPS. A
 * Ray-like pool keeps its workers: a model comes from the object store as a
 * whole, then goes to the gpu as a whole, then it runs; for a task it asks one
 * scheduler, in about a millisecond.
 */
#define MPS_SWITCH_NS 200000000
#define RAY_SWITCH_NS 1000000

static const struct sim_system systems[] = {
	{ "aware", NULL, &router_aware, .ahead = true, .pipelined = true },
	{ "four-step", NULL, &router_four_step, .ahead = true, .pipelined = true },
	{ "lfu", NULL, &router_four_step_lfu, .ahead = true, .pipelined = true },
	{ "least-loaded", NULL, &router_least_loaded, .ahead = true, .pipelined = true },
	{ "random", NULL, &router_random, .ahead = true, .pipelined = true },
	{
		.name = "distmind",
		.summary = "the four steps, and a gpu that loads only what it runs, as published",
		.policy = &router_four_step, .pipelined = true,
	},
	{
		.name = "mps",
		.summary = "MPS-like: each model has its gpu, switching processes takes 200 ms",
		.policy = &router_fixed, .local = true, .switch_ns = MPS_SWITCH_NS,
	},
	{
		.name = "ray",
		.summary = "Ray-like: least loaded, models are fetched as a whole",
		.policy = &router_least_loaded, .switch_ns = RAY_SWITCH_NS,
	},
};

const struct sim_serve_config sim_serve_defaults = {
	.system = &systems[0],
	.hosts = 4,
	.gpus = 4,
	.gpu_cache = 4ULL << 30,
	.host_cache = 32ULL << 30,
	.rates = {
		.network = 12.5e9, .copy = 12e9, .compute = 14e12, .transfer_cost = 20e-6,
		.launch_cost = 10e-6,
	},
	.training = {
		.preemption = SIM_PREEMPT_BLOCK, .yield_ns = 40000, .resume_ns = 20000,
		.iteration_ns = 100000000,
	},
	.load = 0.7,
	.objective = 2,
	.requests = 1000000,
	.warm_up = 100000,
	.seed = 1,
};

const struct sim_system *sim_system_at(size_t index)
{
	return index < sizeof(systems) / sizeof(systems[0]) ? &systems[index] : NULL;
}

const struct sim_system *sim_system_find(const char *name)
{
	const struct sim_system *system;

	for (size_t i = 0; (system = sim_system_at(i)); i++)
		if (!strcmp(system->name, name))
			return system;
	return NULL;
}
