/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tails: what a search for the optimal grouping knows of the layers that it has
 * not grouped yet. Inside the planner only.
 */
#ifndef DISTMIND_PLANNER_TAILS_H
#define DISTMIND_PLANNER_TAILS_H

#include "planner.h"

#include <stdbool.h>

/* Up to so many cuts that are worth it, none is left out. */
#define PLANNER_CUTS_EXACT 256

#define PLANNER_NEVER (INT64_MAX / 4)

/* When the stages are free again. */
struct planner_stages {
	int64_t network, copy, compute;
};

/* Groups of about the same transfer time, or growing or shrinking from one to the next. */
struct planner_rule {
	double first, ratio;
};

/*
 * Where a model is worth cutting, and for each such cut and each number of
 * groups to come after it: lower bounds on the time from a free network and
 * from a free copy stage to the end. Owned by the search while it runs.
 */
struct planner_tails {
	int64_t network_cost, copy_cost, launch_cost;
	uint32_t last;	/* the cut after all layers; 0 is the one before them */
	uint32_t *cuts; /* layers before each cut; the four are last + 1 long */
	int64_t *network, *copy, *compute; /* sums of the stages before each cut */
	int64_t limit;	    /* only groupings that finish earlier are of interest */
	struct planner_rule rule; /* that gave it */
	uint32_t counted;   /* numbers of groups; the last one means so many or more */
	uint32_t *from, *to;		   /* numbers, less 1, that a cut can have */
	int64_t *tail_network, *tail_copy; /* [cut * counted + number - 1] */
};

/*
 * limit is taken from simple rules. merge: if there are many cuts some are left out, such
 * that the optimum of the others is at most PLANNER_LOSS later. -ENOMEM.
 */
int planner_tails_create(struct planner_tails *tails, const struct planner_pipeline *pipeline,
			 bool merge);
/* What the rule gives that gave the limit. -ENOMEM. */
int planner_tails_fallback(const struct planner_tails *tails, struct planner_grouping *grouping);
void planner_tails_destroy(struct planner_tails *tails);

/* The stages after one more group. */
struct planner_stages planner_tails_step(const struct planner_tails *tails,
					 struct planner_stages stages, uint32_t from, uint32_t to);

/* No grouping of what is left after a cut before the last one finishes earlier. */
int64_t planner_tails_bound(const struct planner_tails *tails, struct planner_stages stages,
			    uint32_t cut);

#endif
