/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Jobs on fractions of gpus of several kinds, all at once: the assignment with the
 * least cost of gpus in use plus that of jobs moved (Conspirator's problem, ATC '24).
 * A job needs another fraction on each kind. Few jobs are placed by a search that
 * finds the best, unless it takes too long; many by a heuristic.
 */
#ifndef DISTMIND_PLACEMENT_FRACTION_H
#define DISTMIND_PLACEMENT_FRACTION_H

#include <stdint.h>

#define PLACEMENT_FRACTION_KINDS 8

struct placement_fraction_kind {
	double cost; /* of a gpu in use */
	uint32_t gpus;
};

struct placement_fraction_job {
	/* Thousandths of a gpu of each kind; 0: it cannot be there. */
	uint32_t share[PLACEMENT_FRACTION_KINDS];
	/* Where it is, or PLACEMENT_NONE, and what it costs to have it elsewhere. */
	uint32_t gpu;
	double move_cost;
};

struct placement_fractions {
	const struct placement_fraction_kind *kinds;
	uint32_t kind_count;
	const struct placement_fraction_job *jobs;
	uint32_t job_count;
	/* Made by placement_fractions_solve(); gpus are numbered kind after kind. */
	uint32_t *gpus; /* of each job; PLACEMENT_NONE: no room */
	double cost;	/* of those that have room */
	uint32_t left_out;
};

/* 0 or -ENOMEM. */
int placement_fractions_solve(struct placement_fractions *fractions);

/* First fit over gpus in their order, as Conspirator has it; for comparison. */
int placement_fractions_first_fit(struct placement_fractions *fractions);

#endif
