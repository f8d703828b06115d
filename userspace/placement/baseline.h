/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The policies for comparison: every box is looked at, in order, and its score kept
 * as long as neither its class nor the need is another.
 */
#ifndef DISTMIND_PLACEMENT_BASELINE_H
#define DISTMIND_PLACEMENT_BASELINE_H

#include "decision.h"

struct placement_memo;

void placement_memo_free(struct placement_memo *memo);

/* The box with the highest score and the holes to take; -ENOSPC: it fits none. */
int placement_compare(struct placement *placement, const struct placement_need *need,
		      uint32_t *box, uint32_t *holes);

/*
 * FGD's score of a box (Weng et al., ATC '23), with the typical claims in memo: the
 * most frequent that make 95 % of the demand.
 */
double placement_fgd_score(struct placement *placement, uint32_t box,
			   const struct placement_need *need, uint32_t *hole);

/* One of FGD's typical claims. */
struct placement_typical {
	uint64_t cpu, kinds;
	uint32_t count, share;
	double part;
};

/* What a policy has seen of each class, by need. */
struct placement_memo {
	struct placement_memo_row *rows;
	uint32_t count, room;
	struct placement_typical *typical;
	uint32_t typical_count;
	double *fragments; /* FGD's, of each class as of its generation */
	uint32_t *fragments_of;
	uint32_t fragments_room;
};

#endif
