/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A run of placement, as in the experiment of FGD's artefact: the pods in the order of
 * a seed, then random ones of them again until so much of the cluster has been asked
 * for (or random ones left out); one by one, none leaves, and what fits nowhere is
 * refused.
 */
#ifndef DISTMIND_SIM_PLACE_RUN_H
#define DISTMIND_SIM_PLACE_RUN_H

#include "../placement/decision.h"
#include "openb.h"

#define PLACE_POINTS_MAX 1024

struct place_options {
	const struct placement_policy *policy;
	uint64_t seed;
	double arrive;	/* part of the gpus to ask for */
	uint32_t times; /* how often the cluster is there */
};

struct place_result {
	uint64_t seed;
	uint32_t pods, refused;
	double allocated;     /* part of the gpus, at the end */
	double allocated_100; /* when all of the gpus had been asked for; < 0: they were not */
	double seconds;	      /* of all decisions */
	double p99_seconds;   /* of one */
	/* Allocated after each hundredth of arrivals, from 0. */
	double points[PLACE_POINTS_MAX];
	uint32_t point_count;
};

/* 0 or -ENOMEM. With pool: the pool of the end, to be freed by the caller. */
int place_run(const struct openb *openb, const struct place_options *options,
	      struct place_result *result, struct placement_pool **pool);

#endif
