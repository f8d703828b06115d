/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The score of a place for a claim: a sum of terms, each in thousandths of a gpu
 * that the place costs beyond others. Less is better.
 *
 * A box is worth what can still be made of it: its holes by their prices, as far as
 * there is cpu and memory to go with them, less what FGD (ATC '23) calls
 * fragmentation, for claims of whole gpus. A place costs what its box loses.
 */
#ifndef DISTMIND_PLACEMENT_SCORE_H
#define DISTMIND_PLACEMENT_SCORE_H

#include "class.h"
#include "price.h"

enum placement_term {
	PLACEMENT_TERM_HOLE,	     /* value that the holes lose */
	PLACEMENT_TERM_SHORTAGE,     /* value that goes for want of cpu and memory */
	PLACEMENT_TERM_FRAGMENT,     /* whole gpus that claims no longer find */
	PLACEMENT_TERM_SCARCITY,     /* of a kind that others insist on */
	PLACEMENT_TERM_PACKING,	     /* what stays free in the box: among equals, the fullest */
	PLACEMENT_TERM_DISTANCE,     /* time that the path costs, after DxPU's model */
	PLACEMENT_TERM_SPEED,	     /* a gpu too slow for the objective, or faster than it needs */
	PLACEMENT_TERM_CACHE,	     /* the model is there */
	PLACEMENT_TERM_INTERFERENCE, /* with what is there */
	PLACEMENT_TERM_MIGRATION,    /* of what has to be moved */
	PLACEMENT_TERMS,
};

extern const char *const placement_term_names[PLACEMENT_TERMS];

struct placement_score {
	double total;
	double terms[PLACEMENT_TERMS];
};

/* A place in a box of a class: holes by their number in the class. */
struct placement_place {
	uint32_t holes[PLACEMENT_GPUS_MAX];
	double total;
};

struct placement_scorer {
	const struct placement_pool *pool;
	const struct placement_prices *prices;
};

/* Could one gpu of the need be in that hole, and the need in such a box at all? */
bool placement_fits_hole(const struct placement_pool *pool, const struct placement_hole *hole,
			 const struct placement_need *need);
bool placement_fits_class(const struct placement_pool *pool, uint32_t class,
			  const struct placement_need *need);

/* The best place for a need in a box of a class; false: it does not fit. */
bool placement_score_class(const struct placement_scorer *scorer, uint32_t class,
			   const struct placement_need *need, struct placement_place *place);

/* All terms that depend on the box's state, for given holes. */
void placement_score_holes(const struct placement_scorer *scorer, uint32_t class,
			   const struct placement_need *need, const uint32_t *holes,
			   uint32_t count, struct placement_score *score);

/* Adds the terms that depend on what else is on a gpu. */
void placement_score_gpu(const struct placement_pool *pool, uint32_t gpu,
			 const struct placement_claim *claim, struct placement_score *score);

#endif
