/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The planner: into which groups of consecutive layers a model is cut, so that
 * a cold request is answered as early as possible while the model still
 * arrives. A group is read from the network as one transfer, copied to the
 * device as one transfer and launched as one batch:
 *
 *	network  |--0--|--1--|--2--|
 *	copy           |-0-|   |-1-| |-2-|
 *	compute            |--0--|  |--1--|---2---|
 *
 * A stage takes the groups in order, one at a time; a group enters a stage when
 * the stage before has finished all of it. Small groups start early, large ones
 * save the costs that each transfer and each launch has. Where the network
 * reaches the device directly the middle stage is absent.
 *
 * Without I/O and without state. Times are picoseconds in 64 bits: sums are
 * exact, so "optimal" means no grouping is better, not even by rounding.
 */
#ifndef DISTMIND_PLANNER_H
#define DISTMIND_PLANNER_H

#include <stddef.h>
#include <stdint.h>

#define PLANNER_SECOND 1000000000000 /* in the planner's unit of time */

/* Largest group of the original DistMind's rule, in bytes. */
#define PLANNER_GREEDY_LIMIT 32768000

struct planner_layer {
	uint64_t bytes; /* of parameters; 0 is fine */
	double flops;
};

/* Measured, not configured: a changed rate is a new grouping for the next load. */
struct planner_rates {
	double network;	      /* bytes/s */
	double copy;	      /* host to device, bytes/s; 0: the network reaches the device */
	double compute;	      /* FLOP/s */
	double transfer_cost; /* seconds that each transfer of a group takes beside its bytes */
	double launch_cost;   /* seconds that each launch of a group takes beside its FLOPs */
};

/* A model on a path: what the layers before each cut take in each stage. */
struct planner_pipeline {
	size_t layers;
	int64_t network_cost, copy_cost, launch_cost; /* per group */
	int64_t *network, *copy, *compute;	      /* layers + 1 sums each; owned */
	uint64_t *bytes;			      /* the same; owned */
};

/* Group g is the layers from ends[g - 1], the first from 0, to before ends[g]. */
struct planner_grouping {
	size_t count;
	uint32_t *ends; /* owned */
};

/*
 * -EINVAL: no layers, or a rate or cost that is not a positive (cost: not
 * negative), finite number; -ERANGE: the model would take days.
 */
int planner_pipeline_create(struct planner_pipeline *pipeline, const struct planner_layer *layers,
			    size_t count, const struct planner_rates *rates);
void planner_pipeline_destroy(struct planner_pipeline *pipeline);

/* When the last group has been computed. */
int64_t planner_finish(const struct planner_pipeline *pipeline,
		       const struct planner_grouping *grouping);

/* The same of each stage of each group; each array has room for a number per group. */
void planner_schedule(const struct planner_pipeline *pipeline,
		      const struct planner_grouping *grouping, int64_t *network, int64_t *copy,
		      int64_t *compute);

/*
 * No grouping can be earlier: what the busiest stage takes for all layers, plus
 * what must come before and after it.
 */
int64_t planner_bound(const struct planner_pipeline *pipeline);

/* The optimum, for comparison: the time it takes has no useful bound. -ENOMEM. */
int planner_optimal(const struct planner_pipeline *pipeline, struct planner_grouping *grouping);

/* By which part of the optimum planner_bounded() may finish later. */
#define PLANNER_LOSS 0.01

/*
 * In bounded time, however many layers there are: up to some hundreds the optimum, of more
 * one that is at most PLANNER_LOSS later. Where a search for either would take too long, the
 * best that it has seen. -ENOMEM.
 */
int planner_bounded(const struct planner_pipeline *pipeline, struct planner_grouping *grouping);

/*
 * For a network of which the rate may as well be higher or lower by spread, a share
 * below 1: earliest on average over the three, of what planner_bounded() finds for each and of
 * the cuts of all of them; finish is that average. Without spread it is what that finds.
 * -EINVAL, -ERANGE: as planner_pipeline_create; -ENOMEM.
 */
int planner_robust(const struct planner_layer *layers, size_t count,
		   const struct planner_rates *rates, double spread,
		   struct planner_grouping *grouping, int64_t *finish);

/* The original DistMind's: layers are appended until the next would pass the limit. */
int planner_greedy(const struct planner_pipeline *pipeline, uint64_t limit,
		   struct planner_grouping *grouping);

/*
 * PipeSwitch's: the optimum for one transfer stage, the slower of the two here,
 * and compute.
 */
int planner_two_stage(const struct planner_pipeline *pipeline, struct planner_grouping *grouping);

/* One group: nothing overlaps. */
int planner_whole(const struct planner_pipeline *pipeline, struct planner_grouping *grouping);

void planner_grouping_destroy(struct planner_grouping *grouping);

#endif
