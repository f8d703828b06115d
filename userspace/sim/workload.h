/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A workload: models, and requests for them in the order of their arrival,
 * drawn by a seed or read from a trace. Times are scaled so that the offered
 * load is a given share of a number of gpus.
 */
#ifndef DISTMIND_SIM_WORKLOAD_H
#define DISTMIND_SIM_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../planner/planner.h"
#include "../router/router.h"
#include "random.h"

#define SIM_WORKLOAD_ERROR_LEN 512 /* at least PLANNER_ERROR_LEN */

/* A kind of model, before anything is known about the path it is loaded on. */
struct sim_model {
	struct planner_layer *layers; /* owned */
	size_t count;
};

struct sim_request {
	uint64_t arrival_ns;
	uint64_t compute_ns;
	uint64_t extra_bytes; /* that no cache holds */
	uint32_t model;
};

struct sim_workload {
	struct sim_model *kinds; /* owned */
	uint32_t kind_count;
	uint32_t *models; /* of each model its kind; owned */
	uint32_t model_count;

	/* A trace: in order of arrival, from time 0; owned. NULL: drawn. */
	struct sim_request *trace;
	size_t trace_count;
	double trace_compute_ns; /* in sum */

	/* Drawn: popularity as an alias table (Walker, Vose); owned. */
	uint64_t *alias_keep;
	uint32_t *alias_other;
	uint64_t *usual_ns; /* compute time of each model; owned */
	double usual_mean_ns;

	/* Where the stream is. */
	struct sim_random random;
	double now_ns;
	double gap_ns;	 /* mean time between arrivals, drawn */
	double stretch;	 /* of times, traces */
	uint64_t next, last;
	uint64_t restart_ns; /* of the trace, when it is repeated */
};

/* What to make or read. */
struct sim_workload_source {
	const char *name; /* distmind, azure, genai, dlrm */
	const char *data; /* directory of the data sets */
	uint32_t models;  /* 0: as many as usual for it */
	double zipf;	  /* exponent of the popularity */
	double flops;
	double launch_cost;
	uint64_t seed;
};

/* Where the data sets are: $DISTMIND_DATA, or as seen from the root of the source. */
const char *sim_workload_data(void);

/* error says what is wrong, with file, line and field. 0 or a negative errno. */
int sim_workload_create(struct sim_workload *workload, const struct sim_workload_source *source,
			char error[SIM_WORKLOAD_ERROR_LEN]);
void sim_workload_destroy(struct sim_workload *workload);

/*
 * From the beginning: that many requests, 0 for a trace as long as it is, which
 * keep that many gpus busy, if nothing but computation took time.
 */
void sim_workload_start(struct sim_workload *workload, double gpus, uint64_t requests,
			uint64_t seed);
bool sim_workload_next(struct sim_workload *workload, struct sim_request *request);
/* When about the last request arrives. */
uint64_t sim_workload_length(const struct sim_workload *workload);

/* In workload_trace.c: fill in kinds, models and trace or popularity. */
int sim_workload_azure(struct sim_workload *workload, const struct sim_workload_source *source,
		       const char *path, char *error);
int sim_workload_genai(struct sim_workload *workload, const struct sim_workload_source *source,
		       const char *path, char *error);
int sim_workload_dlrm(struct sim_workload *workload, const struct sim_workload_source *source,
		      const char *path, char *error);

/* Popularity from a weight of each model, or falling with its number. 0 or -ENOMEM. */
int sim_workload_popularity(struct sim_workload *workload, const double *weights);
int sim_workload_zipf(struct sim_workload *workload, double exponent);
uint32_t sim_workload_draw(const struct sim_workload *workload, struct sim_random *random);
/* A model of equal layers, for those of which only the size is known. 0 or -ENOMEM. */
int sim_workload_uniform(struct sim_model *kind, uint64_t bytes, double flops);

#endif
