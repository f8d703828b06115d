/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Serving, simulated: a workload, a router's policy, and gpus with caches, links
 * and training. One event after the other, all times whole nanoseconds: the same
 * configuration and seed give the same result to the last bit.
 *
 * What a load takes is the planner's prediction for the best grouping. Each host
 * has one network link and each gpu one copy lane; loads take turns on them. The
 * donors of the memory pool are taken to be faster than the hosts' links.
 */
#ifndef DISTMIND_SIM_SERVE_H
#define DISTMIND_SIM_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "../planner/planner.h"
#include "../router/router.h"
#include "gpu.h"
#include "histogram.h"
#include "workload.h"

/* A policy and the way gpus serve with it. */
struct sim_system {
	const char *name;
	const char *summary; /* NULL: the policy's */
	const struct router_policy *policy;
	/*
	 * A load begins when a gpu is chosen, and the computation as late as it can
	 * without being later done: the gpu is free meanwhile. If not set, a gpu
	 * begins to load what it serves next when it serves nothing else.
	 */
	bool ahead;
	bool pipelined;
	bool local;	    /* each host has all models in its own memory: there is no pool */
	uint64_t switch_ns; /* of a load, beside its transfers */
};

/* The n-th system, the default first; NULL: no more. */
const struct sim_system *sim_system_at(size_t index);
/* NULL: no such system. */
const struct sim_system *sim_system_find(const char *name);

struct sim_serve_config {
	const struct sim_system *system;
	uint32_t hosts;
	uint32_t gpus; /* of each host */
	uint64_t gpu_cache;
	uint64_t host_cache;
	struct planner_rates rates;
	struct sim_training training;
	double load;	   /* offered, as a share of the gpus' time */
	double objective;  /* x what a request for a model that no one has takes alone */
	uint64_t requests; /* 0: as many as the trace has */
	uint64_t warm_up;  /* requests at the beginning that are not counted */
	uint64_t seed;
};

/*
 * DistMind's testbed as far as it is published: 4 hosts with 4 V100 each and
 * 100 Gbit/s; 4 GiB of each gpu and 32 GiB of each host for weights; training
 * that yields within 40 us, as GPreempt measured; 70 % load; twice the time that
 * a cold request takes alone.
 */
extern const struct sim_serve_config sim_serve_defaults;

/* Utilisation over time: the share of all gpus' time in each of equal intervals. */
#define SIM_SERVE_INTERVALS 100

struct sim_serve_result {
	struct sim_histogram latency;
	uint64_t requests;
	uint64_t refused;
	uint64_t late;
	uint64_t from[ROUTER_TIER__COUNT]; /* served requests by where the model was */
	uint64_t preemptions;
	uint64_t replicas;
	double seconds;	     /* from the first request that counts to the last end */
	double gpu_seconds;  /* of all gpus in that time */
	double inference;    /* of these */
	double training;
	double rate; /* of requests, per second */
	double interval_seconds;
	double inference_over_time[SIM_SERVE_INTERVALS];
	double training_over_time[SIM_SERVE_INTERVALS];
	char refusal[ROUTER_REASON_LEN]; /* the first one's reason */
};

/* Requests that were refused or answered after their deadline, as a share. */
double sim_serve_misses(const struct sim_serve_result *result);
/* Of the time that inference leaves, what training gets. */
double sim_serve_harvest(const struct sim_serve_result *result);
double sim_serve_utilisation(const struct sim_serve_result *result);

/* The router's view of a workload's models; to be freed. 0 or a negative errno. */
int sim_profile(const struct sim_workload *workload, const struct sim_serve_config *config,
		struct router_model **models);

/* 0; -EINVAL: the configuration cannot be; -ENOMEM. */
int sim_serve_run(const struct sim_serve_config *config, struct sim_workload *workload,
		  struct sim_serve_result *result);

/*
 * The highest load, to 0.003, at which not more than that share of requests miss
 * their objective; the result is that of this load. A load of 0: there is none.
 */
int sim_serve_capacity(const struct sim_serve_config *config, struct sim_workload *workload,
		       double misses, struct sim_serve_result *result, double *load);

#endif
