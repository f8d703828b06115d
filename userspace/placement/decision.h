/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A decision: which gpus for a claim. The brain is a pool, the demand seen so far,
 * the prices that follow from both, and a policy. Without I/O, clocks or threads:
 * the same calls give the same answers, in the daemon and in a simulation.
 *
 *   placement_observe()   a claim came: count it
 *   placement_decide()    where to put it, or why not; nothing is changed
 *   placement_pool_grant() put it there
 */
#ifndef DISTMIND_PLACEMENT_DECISION_H
#define DISTMIND_PLACEMENT_DECISION_H

#include "index.h"

struct placement;

/*
 * A way to choose among the boxes that a claim fits into, for comparison: each box
 * gets a score, the highest wins, the first among equals. Without score: the
 * default, which is this library's own.
 */
struct placement_policy {
	const char *name;
	const char *summary;
	bool knows_demand; /* wants all claims observed before the first decision */
	bool by_box;	   /* the score depends on more than the class of the box */
	bool fractions;	   /* gpus are cut into Conspirator's shapes */
	/* The score, and for a need of one gpu the hole to take. */
	double (*score)(struct placement *placement, uint32_t box,
			const struct placement_need *need, uint32_t *hole);
};

extern const struct placement_policy placement_policies[];
extern const size_t placement_policy_count;

/* NULL: no such policy. */
const struct placement_policy *placement_policy_by_name(const char *name);

struct placement {
	struct placement_pool *pool; /* not owned */
	struct placement_demand demand;
	struct placement_prices prices;
	bool repriced; /* since the pool's gpus became others */
	const struct placement_policy *policy;
	struct placement_index *index;
	struct placement_memo *memo; /* of the policies for comparison */
	uint64_t random;
	/* Refusals without reasons, for which all gpus have to be looked at. */
	bool terse;
};

struct placement_answer {
	uint32_t box; /* of the first gpu; of the host for a claim without gpus */
	uint32_t count;
	uint32_t gpus[PLACEMENT_GPUS_MAX];
	struct placement_score score;	  /* of the default policy */
	char reason[DISTMIND_REASON_LEN]; /* of a refusal, unless terse */
};

int placement_init(struct placement *placement, struct placement_pool *pool,
		   const struct placement_policy *policy, uint64_t seed);
void placement_free(struct placement *placement);

/* Another pool, with kinds of the same numbers: the demand stays. The old one is still there. */
int placement_set_pool(struct placement *placement, struct placement_pool *pool);

void placement_observe(struct placement *placement, const struct placement_need *need);

/*
 * 0, or a negative errno with the reason filled in: -ENOSPC when it fits nowhere,
 * -EINVAL when it asks for what cannot be.
 */
int placement_decide(struct placement *placement, const struct placement_claim *claim,
		     struct placement_answer *answer);

/*
 * The best places in one box each, up to room of them, the best first, with every term
 * of their scores. Returns how many or a negative errno.
 */
struct placement_candidate;
int placement_explain(struct placement *placement, const struct placement_claim *claim,
		      struct placement_candidate *best, uint32_t room);

/* The prices of now; made anew if the demand has changed. */
int placement_price(struct placement *placement);

#endif
