/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A claim: what is needed, and who needs it. Claims with the same need are
 * interchangeable but for who asks: scores are cached by need.
 */
#ifndef DISTMIND_PLACEMENT_CLAIM_H
#define DISTMIND_PLACEMENT_CLAIM_H

#include <linux/distmind.h>
#include <stdbool.h>
#include <stdint.h>

#define PLACEMENT_WHOLE DISTMIND_SHARE_WHOLE
#define PLACEMENT_GPUS_MAX DISTMIND_ACQUIRE_MAX /* of one claim */
#define PLACEMENT_NONE UINT32_MAX

struct placement_need {
	uint32_t count;	     /* gpus, each a different one; 0: only cpu and memory */
	uint32_t share;	     /* of each gpu, thousandths */
	uint64_t gpu_memory; /* of each gpu, bytes */
	uint64_t cpu;	     /* of the host that the box is in, thousandths */
	uint64_t memory;     /* of the same host, bytes */
	uint64_t kinds;	     /* bit per kind of the pool; 0: any */
	bool same_box;	     /* what needs cpu or memory is in one box anyway */
	/* For predictions; work 0: nothing is known. */
	uint64_t objective_ns;
	uint64_t work_ns; /* on a whole local gpu of speed 1 */
	uint64_t launches;
	uint64_t bytes; /* between host and gpu */
};

/* Zero means that nothing is asked for, but for from. */
struct placement_claim {
	struct placement_need need;
	uint64_t tenant;
	bool isolate;	  /* no gpu together with another tenant */
	bool moves;	  /* from the gpu of that number: costs more the farther */
	uint32_t from;
	uint32_t group;	  /* anti-affinity: no gpu together with another of the group */
	uint32_t profile; /* row and column of the table of interference */
	uint64_t model;	  /* better where it is cached */
};

bool placement_need_equal(const struct placement_need *a, const struct placement_need *b);
uint64_t placement_need_hash(const struct placement_need *need);

/* Would every claim with the same need get the same answer? */
bool placement_claim_plain(const struct placement_claim *claim);

/* 0, or -EINVAL with what is wrong with it in reason (DISTMIND_REASON_LEN). */
int placement_claim_check(const struct placement_claim *claim, char *reason);

/* Thousandths of a gpu in all. */
static inline uint64_t placement_need_milli(const struct placement_need *need)
{
	return (uint64_t)need->count * need->share;
}

static inline bool placement_need_one_box(const struct placement_need *need)
{
	return need->count <= 1 || need->same_box || need->cpu || need->memory;
}

#endif
