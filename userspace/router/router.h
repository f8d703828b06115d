/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The router: which gpu serves a request for a model. It knows where models are
 * cached, how long each gpu and each link is promised, and predicts from that
 * when a request would be done; it refuses at once what cannot be done in time,
 * decides what a full cache gives up, and which models get another copy.
 *
 * Without I/O, threads and clocks: the owner tells the time (any monotonic count
 * of nanoseconds that never goes back) and what happened, so that the daemon and
 * a simulation run the same code and the same calls give the same answers.
 *
 * For every request: router_route(), and if that names a gpu router_load() when
 * its model begins to move, router_assign() in either order, and router_finish()
 * once. router_tick() at regular intervals.
 */
#ifndef DISTMIND_ROUTER_H
#define DISTMIND_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUTER_NEVER UINT64_MAX
#define ROUTER_NONE UINT32_MAX
#define ROUTER_REASON_LEN 256

/* Where the nearest copy of a model is. */
enum router_tier {
	ROUTER_TIER_GPU,
	ROUTER_TIER_HOST,
	ROUTER_TIER_POOL,
	ROUTER_TIER__COUNT,
};

/* Times are those of a load that nothing else disturbs. */
struct router_model {
	uint64_t bytes;
	uint64_t compute_ns; /* of a usual request */
	/*
	 * From the beginning of a load until a computation may start that never
	 * waits for a group of layers: what the pipeline takes in all, less the
	 * computation. 0 for a model in the gpu's memory.
	 */
	uint64_t lead_ns[ROUTER_TIER__COUNT];
	uint64_t link_ns; /* the host's network is busy with a load from the pool */
	uint64_t copy_ns; /* the gpu's copy lane is busy with a load */
};

struct router_request {
	uint32_t model;
	uint64_t compute_ns;
	uint64_t extra_ns;    /* of the host's network, for what no cache holds (adapters) */
	uint64_t deadline_ns; /* ROUTER_NEVER: none */
};

/* The gpu, and what was predicted for it; of a refusal: the best there would have been. */
struct router_decision {
	uint32_t gpu;
	enum router_tier tier;
	uint64_t free_ns;   /* its work of before is done */
	uint64_t ready_ns;  /* enough of the model is there */
	uint64_t finish_ns;
};

struct router;

/* What a full cache gives up first. */
enum router_eviction {
	ROUTER_EVICT_OLDEST,   /* used least recently */
	ROUTER_EVICT_RAREST,   /* used least often since it came */
	ROUTER_EVICT_CHEAPEST, /* demand for this copy x time to bring it back, per byte */
};

struct router_policy {
	const char *name;
	const char *summary; /* one line, for help texts */
	enum router_eviction eviction;
	bool deadline_order; /* gpus serve the earliest deadline first, not the first come */
	bool replicates;
	/*
	 * 0: decision->gpu. -EAGAIN: no gpu may take it now, ask again when a
	 * request has finished. -ETIME: refused, none can make the deadline.
	 */
	int (*route)(struct router *router, const struct router_request *request, uint64_t now,
		     struct router_decision *decision);
};

extern const struct router_policy router_aware;
extern const struct router_policy router_four_step;
extern const struct router_policy router_four_step_lfu;
extern const struct router_policy router_least_loaded;
extern const struct router_policy router_random;
extern const struct router_policy router_fixed;

/* The n-th policy, the default first; NULL: no more. */
const struct router_policy *router_policy_at(size_t index);
/* NULL: no such policy. */
const struct router_policy *router_policy_find(const char *name);

/* Copied by router_create(), but for the policy. */
struct router_config {
	const struct router_policy *policy;
	const struct router_model *models;
	const uint32_t *gpu_hosts; /* of each gpu the host it is in */
	uint32_t model_count;
	uint32_t gpu_count;
	uint32_t host_count;
	uint64_t gpu_cache; /* bytes of weights that each gpu keeps */
	uint64_t host_cache;
	uint64_t seed;	  /* of the policy that draws lots */
};

/* -EINVAL: the configuration contradicts itself; -ENOMEM. */
int router_create(const struct router_config *config, struct router **router);
void router_destroy(struct router *router);

/* Changes nothing but what the policy remembers. As struct router_policy's route(). */
int router_route(struct router *router, const struct router_request *request, uint64_t now,
		 struct router_decision *decision);

/* In words, for whoever was refused: what is missing, the best there is. */
void router_explain(const struct router *router, const struct router_request *request, uint64_t now,
		    const struct router_decision *decision, char *reason, size_t len);

/*
 * The request's model begins to move to the gpu, if it is not there: links are
 * promised, room is made. It stays there until router_finish(). Returns when
 * the computation may start.
 */
uint64_t router_load(struct router *router, uint32_t gpu, const struct router_request *request,
		     uint64_t now);

/* The gpu has one more to serve, which cannot start before ready_ns. */
void router_assign(struct router *router, uint32_t gpu, const struct router_request *request,
		   uint64_t ready_ns);
void router_finish(struct router *router, uint32_t gpu, uint32_t model, uint64_t now);

/* Time has passed: what was wanted long ago counts less. */
void router_tick(struct router *router, uint64_t now);

/*
 * A model that deserves one more copy, which router_replicate() has begun to
 * load, and on which gpu; false: none does.
 */
bool router_replicate(struct router *router, uint64_t now, uint32_t *model, uint32_t *gpu);

/* Requests that a gpu has and has not finished. */
uint32_t router_outstanding(const struct router *router, uint32_t gpu);
enum router_tier router_tier(const struct router *router, uint32_t gpu, uint32_t model);

#endif
