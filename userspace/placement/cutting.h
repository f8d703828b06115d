/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cutting-stock problem: gpus are cut into shares so that a demand is met with
 * as few gpus as possible. Of interest here is not the cutting but its dual: what a
 * share of each size is worth in gpus, and from that what a hole of each size is
 * worth, by the best that can be made of it.
 */
#ifndef DISTMIND_PLACEMENT_CUTTING_H
#define DISTMIND_PLACEMENT_CUTTING_H

#include <stdint.h>

#define PLACEMENT_CUTTING_SIZES 64

struct placement_cutting {
	uint32_t count;
	uint32_t size[PLACEMENT_CUTTING_SIZES]; /* 1 to PLACEMENT_WHOLE, each once */
	double demand[PLACEMENT_CUTTING_SIZES]; /* above 0 */
	/* Made by placement_cutting_solve(). */
	double price[PLACEMENT_CUTTING_SIZES]; /* in gpus */
	double gpus;			       /* that the demand takes */
	uint32_t pivots;
};

/* values[r] for holes of r = 0 to PLACEMENT_WHOLE thousandths, in gpus. */
void placement_cutting_solve(struct placement_cutting *cutting, double *values);

#endif
