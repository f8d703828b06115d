/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Placement: which gpus for which request. Without I/O and without state: the
 * same input gives the same answer, in the daemon and in a simulation.
 */
#ifndef DISTMIND_PLACEMENT_H
#define DISTMIND_PLACEMENT_H

#include <linux/distmind.h>
#include <linux/distmind_netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct placement_gpu {
	uint32_t id;
	uint32_t state; /* enum distmind_gpu_state */
	uint32_t box;
	uint32_t share_promised; /* thousandths */
	uint64_t memory;
	uint64_t memory_promised;
	char kind[DISTMIND_NAME_LEN];
};

/* The gpus in any order, and how much of each may be promised. */
struct placement_pool {
	const struct placement_gpu *gpus;
	size_t count;
	uint32_t share_percent;
	uint32_t memory_percent;
};

struct placement_request {
	uint64_t memory; /* of each vgpu */
	uint64_t objective_ns;
	uint32_t share; /* of each vgpu */
	uint32_t class;
	uint32_t count; /* each on a gpu of its own */
	bool same_box;
	char kind[DISTMIND_NAME_LEN]; /* empty: any */
};

struct placement_answer {
	uint32_t gpus[DISTMIND_ACQUIRE_MAX]; /* ids, one for each vgpu */
	char reason[DISTMIND_REASON_LEN];    /* of a refusal */
};

/*
 * A policy only chooses among gpus that placement_fits(). pick() returns 0, or
 * a negative errno with the reason filled in: -ENOSPC when nothing fits.
 */
struct placement_policy {
	const char *name;
	int (*pick)(const struct placement_pool *pool, const struct placement_request *request,
		    struct placement_answer *answer);
};

extern const struct placement_policy placement_best_fit;

/* NULL: no such policy. */
const struct placement_policy *placement_policy_find(const char *name);

/* What may still be promised of a gpu. */
uint64_t placement_memory_left(const struct placement_pool *pool, const struct placement_gpu *gpu);
uint32_t placement_share_left(const struct placement_pool *pool, const struct placement_gpu *gpu);

/* Could one vgpu of the request be on this gpu? */
bool placement_fits(const struct placement_pool *pool, const struct placement_gpu *gpu,
		    const struct placement_request *request);

/*
 * Why a request cannot be placed, in words that name what is missing, the best
 * there is and what to do: for every policy, when it found nothing. -ENOSPC.
 */
int placement_refuse(const struct placement_pool *pool, const struct placement_request *request,
		     struct placement_answer *answer);

#endif
