/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Results of serving, for people and for programs. */
#ifndef DISTMIND_SIM_SERVE_PRINT_H
#define DISTMIND_SIM_SERVE_PRINT_H

#include "serve_options.h"

/* One result for each of the options' systems, and the load each was run with. */
int sim_serve_print(const struct sim_serve_options *options,
		    const struct sim_serve_result *results, const double *loads);

#endif
