/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of distmind-sim serve. */
#ifndef DISTMIND_SIM_SERVE_OPTIONS_H
#define DISTMIND_SIM_SERVE_OPTIONS_H

#include <stdbool.h>

#include "serve.h"

#define SIM_SERVE_SYSTEMS_MAX 16

struct sim_serve_options {
	struct sim_serve_config config; /* the system is of each run */
	struct sim_workload_source source;
	const struct sim_system *systems[SIM_SERVE_SYSTEMS_MAX];
	size_t system_count;
	double capacity; /* share of misses for which the load is searched; 0: it is given */
	const char *svg; /* prefix of the files, or NULL */
	bool json;
	bool help; /* it was asked for and printed */
};

/* SIM_OK, or SIM_USAGE with a complaint on stderr that names the option. */
int sim_serve_options_parse(struct sim_serve_options *options, int argc, char **argv);

#endif
