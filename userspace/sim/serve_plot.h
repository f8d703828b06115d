/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Results of serving as plots. */
#ifndef DISTMIND_SIM_SERVE_PLOT_H
#define DISTMIND_SIM_SERVE_PLOT_H

#include "serve_options.h"

/*
 * options->svg with "-latency.svg" and "-utilisation.svg" appended: one result
 * for each of the options' systems. SIM_OK, or SIM_FAILED with a complaint on
 * stderr.
 */
int sim_serve_plot(const struct sim_serve_options *options,
		   const struct sim_serve_result *results);

#endif
