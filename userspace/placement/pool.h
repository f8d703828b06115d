/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pool: hosts with cpu and memory; boxes, each in a host or on its own behind
 * a path; gpus in the slots of boxes; grants, each of which holds shares of gpus
 * and cpu and memory of a host. A host table like DxPU's (bus, box, slot) is the
 * list of a host's grants with their gpus, its box table (slot, valid, used) the
 * list of a box's gpus.
 *
 * Everything is numbered from 0 in the order in which it was added; numbers of
 * grants are reused, the others never. The pool owns all of it. Invariants: what
 * is used of a gpu or host is the sum over its grants; a box is always in the
 * class (class.h) of its state. Every change goes through the functions here.
 *
 * Who gives what: distmindd has gpus in boxes without a host, kinds of speed 1, and spares
 * (records.h). distmind-sim adds hosts with cpu and memory, so that there can be a shortage of
 * these. Paths of boxes, speeds, interference and cached models, and the work of a need, are for
 * owners who know them; at their defaults, as there, they weigh nothing.
 */
#ifndef DISTMIND_PLACEMENT_POOL_H
#define DISTMIND_PLACEMENT_POOL_H

#include "claim.h"

#include <stddef.h>

#define PLACEMENT_KINDS_MAX 64
#define PLACEMENT_SHAPES_MAX 8
#define PLACEMENT_PROFILES_MAX 64

enum placement_state {
	PLACEMENT_READY,
	PLACEMENT_SPARE,    /* kept for what a failure leaves without a gpu */
	PLACEMENT_DRAINING, /* what is there stays, nothing is added */
	PLACEMENT_FAILED,
};

struct placement_kind {
	char name[DISTMIND_NAME_LEN];
	double speed; /* 1 is what work_ns of needs counts by */
	double cost;  /* of a gpu, in any unit */
	/* Fractions it can be cut into, growing; none: any share. */
	uint32_t shapes[PLACEMENT_SHAPES_MAX];
	uint32_t shape_count;
	uint64_t milli; /* of its ready gpus, in all */
};

struct placement_host {
	uint64_t cpu, cpu_used;
	uint64_t memory, memory_used;
	uint32_t first_box;
	bool failed;
};

struct placement_gpu {
	uint32_t id; /* what others call it; for texts */
	uint32_t box, slot;
	uint32_t next_in_box;
	uint32_t first_hold;
	uint32_t kind;
	uint32_t share, share_used; /* share: all that may be promised */
	uint64_t memory, memory_used;
	uint64_t memory_one; /* the most that one grant may hold */
	enum placement_state state;
	uint32_t isolated;  /* grants on it that share with their own tenant only */
	uint64_t models[4]; /* cached, the latest first */
};

struct placement_box {
	uint32_t id; /* what others call it; its number unless changed */
	uint32_t host; /* or PLACEMENT_NONE */
	uint32_t next_of_host;
	uint32_t first_gpu, last_gpu, gpu_count;
	uint32_t first_grant;
	uint32_t class;
	uint32_t class_prev, class_next; /* boxes of the class */
	/* Beyond what a local gpu has. */
	uint32_t rtt_ns;
	uint32_t ns_per_mib;
};

/* Part of a grant, on one gpu. */
struct placement_hold {
	uint32_t grant, gpu;
	uint32_t share; /* as a shape of the gpu, not less than the need's */
	uint32_t next_of_grant;
	uint32_t prev_on_gpu, next_on_gpu;
};

struct placement_grant {
	struct placement_claim claim;
	uint32_t box;	     /* PLACEMENT_NONE: unused; of its first gpu if in several */
	uint32_t first_hold; /* or the next unused grant */
	uint32_t prev_in_box, next_in_box;
};

/* An array that grows. */
#define PLACEMENT_ARRAY(type)         \
	struct {                      \
		type *rows;           \
		uint32_t count, room; \
	}

struct placement_classes;

struct placement_pool {
	struct placement_kind kinds[PLACEMENT_KINDS_MAX];
	uint32_t kind_count;
	PLACEMENT_ARRAY(struct placement_host) hosts;
	PLACEMENT_ARRAY(struct placement_box) boxes;
	PLACEMENT_ARRAY(struct placement_gpu) gpus;
	PLACEMENT_ARRAY(struct placement_grant) grants;
	PLACEMENT_ARRAY(struct placement_hold) holds;
	uint32_t free_grant, free_hold; /* first unused, or PLACEMENT_NONE */
	uint32_t free_holds;		/* how many */
	struct placement_classes *classes;
	/* Slowdown of a profile by another on the same gpu: 0.1 is ten percent. */
	float interference[PLACEMENT_PROFILES_MAX][PLACEMENT_PROFILES_MAX];
	uint32_t spares;
	uint64_t milli; /* of all ready gpus */
	uint64_t milli_used; /* as needed, without what shapes add */
};

struct placement_pool *placement_pool_new(void);
void placement_pool_free(struct placement_pool *pool);

/*
 * These return the number of what was added, or -ENOMEM; kinds are known by their
 * names, and there is room for PLACEMENT_KINDS_MAX (-ENOSPC).
 */
int placement_pool_add_kind(struct placement_pool *pool, const char *name);
int placement_pool_find_kind(const struct placement_pool *pool, const char *name);
int placement_pool_add_host(struct placement_pool *pool, uint64_t cpu, uint64_t memory);
int placement_pool_add_box(struct placement_pool *pool, uint32_t host, uint32_t rtt_ns,
			   uint32_t ns_per_mib);

/* What a gpu is; the rest is kept by the pool. */
struct placement_gpu_offer {
	uint32_t id;
	uint32_t box;
	uint32_t kind;
	uint32_t share;	     /* that may be promised: above PLACEMENT_WHOLE is overcommitted */
	uint64_t memory;     /* that may be promised */
	uint64_t memory_one; /* that one grant may hold */
};
int placement_pool_add_gpu(struct placement_pool *pool, const struct placement_gpu_offer *offer);

void placement_pool_set_state(struct placement_pool *pool, uint32_t gpu,
			      enum placement_state state);
void placement_pool_set_path(struct placement_pool *pool, uint32_t box, uint32_t rtt_ns,
			     uint32_t ns_per_mib);
void placement_pool_set_host(struct placement_pool *pool, uint32_t host, bool failed);
void placement_pool_cache_model(struct placement_pool *pool, uint32_t gpu, uint64_t model);

/*
 * Put a claim on gpus (need.count of them) in a box, whether it fits or not:
 * the truth may be more than was planned. Without gpus, on the box's host.
 * Returns the grant's number or -ENOMEM.
 */
int placement_pool_grant(struct placement_pool *pool, const struct placement_claim *claim,
			 uint32_t box, const uint32_t *gpus);
void placement_pool_release(struct placement_pool *pool, uint32_t grant);

/* What may still be promised. */
static inline uint32_t placement_gpu_share_left(const struct placement_gpu *gpu)
{
	return gpu->share_used < gpu->share ? gpu->share - gpu->share_used : 0;
}

static inline uint64_t placement_gpu_memory_left(const struct placement_gpu *gpu)
{
	return gpu->memory_used < gpu->memory ? gpu->memory - gpu->memory_used : 0;
}

/* The share of a gpu of that kind that a need takes: its smallest shape that is enough. */
static inline uint32_t placement_kind_share(const struct placement_kind *kind, uint32_t share)
{
	for (uint32_t i = 0; i < kind->shape_count; i++)
		if (kind->shapes[i] >= share)
			return kind->shapes[i];
	return share;
}

#define placement_each_gpu(pool, box, i)                                      \
	for (uint32_t i = (pool)->boxes.rows[box].first_gpu; i != PLACEMENT_NONE; \
	     i = (pool)->gpus.rows[i].next_in_box)

#endif
