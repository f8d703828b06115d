/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Jobs on fractions of gpus, solved exactly: an integer program for GLPK. And random
 * instances of it: four kinds of gpus of different speed and cost, jobs of which each
 * needs the less of a gpu the faster it is, half of the instances with Conspirator's
 * fractions, half with jobs that are somewhere already.
 */
#ifndef TESTS_UNIT_PLACEMENT_EXACT_H
#define TESTS_UNIT_PLACEMENT_EXACT_H

#include "../../userspace/placement/fraction.h"
#include "../../userspace/placement/claim.h"
#include "../../userspace/sim/random.h"

#include <glpk.h>
#include <math.h>
#include <stdbool.h>

#define EXACT_JOBS_MAX 12
#define EXACT_KINDS 4

struct exact_instance {
	struct placement_fraction_kind kinds[EXACT_KINDS];
	struct placement_fraction_job jobs[EXACT_JOBS_MAX];
	uint32_t gpus[EXACT_JOBS_MAX];
	struct placement_fractions fractions;
};

static inline uint32_t exact_below(struct sim_random *random, uint32_t limit)
{
	return (uint32_t)(sim_random_next(random) % limit);
}

static inline uint32_t exact_shape(uint32_t share)
{
	static const uint32_t shapes[] = { 142, 285, 428, 571, 1000 };

	for (int i = 0; i < 5; i++)
		if (share <= shapes[i])
			return shapes[i];
	return 0;
}

/* One that first fit has room for, so that there is an answer. */
static inline void exact_make(struct exact_instance *instance, struct sim_random *random,
			      uint32_t jobs)
{
	static const double speeds[EXACT_KINDS] = { 0.5, 1, 1.7, 3 };
	struct placement_fractions *fractions = &instance->fractions;
	bool shapes, settled;
	uint32_t gpus;

	do {
		shapes = exact_below(random, 2);
		settled = exact_below(random, 2);
		gpus = 0;
		for (int k = 0; k < EXACT_KINDS; k++) {
			instance->kinds[k].gpus = 1 + exact_below(random, 3);
			gpus += instance->kinds[k].gpus;
			instance->kinds[k].cost =
				speeds[k] * (0.7 + 0.6 * sim_random_unit(random));
		}
		for (uint32_t j = 0; j < jobs; j++) {
			struct placement_fraction_job *job = &instance->jobs[j];
			uint32_t work = 50 + exact_below(random, 900);

			for (int k = 0; k < EXACT_KINDS; k++) {
				uint32_t share = (uint32_t)ceil(work / speeds[k]);

				job->share[k] = share > PLACEMENT_WHOLE ? 0 :
						shapes			? exact_shape(share) :
									  share;
			}
			job->gpu = settled && exact_below(random, 2) ? exact_below(random, gpus) :
								       PLACEMENT_NONE;
			job->move_cost = 0.3 * sim_random_unit(random);
		}
		*fractions = (struct placement_fractions){
			.kinds = instance->kinds,
			.kind_count = EXACT_KINDS,
			.jobs = instance->jobs,
			.job_count = jobs,
			.gpus = instance->gpus,
		};
		placement_fractions_first_fit(fractions);
	} while (fractions->left_out);
}

static inline uint32_t exact_kind(const struct placement_fractions *fractions, uint32_t gpu)
{
	uint32_t kind = 0;

	while (gpu >= fractions->kinds[kind].gpus)
		gpu -= fractions->kinds[kind++].gpus;
	return kind;
}

/* The least cost there is, or NAN if GLPK does not find it in time. */
static inline double exact_cost(const struct placement_fractions *fractions)
{
	uint32_t jobs = fractions->job_count, gpus = 0, row = 0;
	glp_prob *problem = glp_create_prob();
	double cost = NAN, value[64];
	glp_iocp options;
	int index[64];

	for (uint32_t k = 0; k < fractions->kind_count; k++)
		gpus += fractions->kinds[k].gpus;
	glp_term_out(GLP_OFF);
	/* Columns: each gpu in use, then each job on each gpu. */
	glp_add_cols(problem, (int)(gpus + jobs * gpus));
	glp_add_rows(problem, (int)(jobs + gpus + jobs * gpus));
	for (uint32_t g = 0; g < gpus; g++) {
		glp_set_col_kind(problem, (int)(1 + g), GLP_BV);
		glp_set_obj_coef(problem, (int)(1 + g),
				 fractions->kinds[exact_kind(fractions, g)].cost);
	}
	for (uint32_t j = 0; j < jobs; j++) {
		const struct placement_fraction_job *job = &fractions->jobs[j];

		for (uint32_t g = 0; g < gpus; g++) {
			int column = (int)(1 + gpus + j * gpus + g);

			glp_set_col_kind(problem, column, GLP_BV);
			if (!job->share[exact_kind(fractions, g)])
				glp_set_col_bnds(problem, column, GLP_FX, 0, 0);
			glp_set_obj_coef(problem, column,
					 job->gpu != PLACEMENT_NONE && job->gpu != g ?
						 job->move_cost :
						 0);
			index[1 + g] = column;
			value[1 + g] = 1;
		}
		glp_set_row_bnds(problem, (int)++row, GLP_FX, 1, 1);
		glp_set_mat_row(problem, (int)row, (int)gpus, index, value);
	}
	for (uint32_t g = 0; g < gpus; g++) {
		for (uint32_t j = 0; j < jobs; j++) {
			index[1 + j] = (int)(1 + gpus + j * gpus + g);
			value[1 + j] = fractions->jobs[j].share[exact_kind(fractions, g)];
		}
		index[1 + jobs] = (int)(1 + g);
		value[1 + jobs] = -PLACEMENT_WHOLE;
		glp_set_row_bnds(problem, (int)++row, GLP_UP, 0, 0);
		glp_set_mat_row(problem, (int)row, (int)(jobs + 1), index, value);
		for (uint32_t j = 0; j < jobs; j++) {
			index[1] = (int)(1 + gpus + j * gpus + g);
			value[1] = 1;
			index[2] = (int)(1 + g);
			value[2] = -1;
			glp_set_row_bnds(problem, (int)++row, GLP_UP, 0, 0);
			glp_set_mat_row(problem, (int)row, 2, index, value);
		}
	}
	glp_init_iocp(&options);
	options.presolve = GLP_ON;
	options.tm_lim = 20000;
	if (!glp_intopt(problem, &options) && glp_mip_status(problem) == GLP_OPT)
		cost = glp_mip_obj_val(problem);
	glp_delete_prob(problem);
	return cost;
}

#endif
