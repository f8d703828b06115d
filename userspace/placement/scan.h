/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scan of the whole pool, gpu by gpu: for claims of which it matters who asks,
 * and to explain. What the index finds for a plain claim, a scan finds too.
 */
#ifndef DISTMIND_PLACEMENT_SCAN_H
#define DISTMIND_PLACEMENT_SCAN_H

#include "score.h"

struct placement_candidate {
	uint32_t box;
	uint32_t gpus[PLACEMENT_GPUS_MAX];
	struct placement_score score;
};

/*
 * The best places in one box each for a claim, up to room of them, the best first;
 * without the gpus of the set except (bit per gpu; NULL: none). Returns how many.
 */
uint32_t placement_scan(const struct placement_scorer *scorer,
			const struct placement_claim *claim, const uint8_t *except,
			struct placement_candidate *best, uint32_t room);

/* May the claim be on a gpu together with what is there? */
bool placement_suits_gpu(const struct placement_pool *pool, uint32_t gpu,
			 const struct placement_claim *claim);

#endif
