/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plots of lines as SVG, for people: axes with round numbers, a legend, light or dark
 * by what the viewer prefers.
 */
#ifndef DISTMIND_SIM_SVG_H
#define DISTMIND_SIM_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct svg_series {
	const char *name;
	const double *x, *y;
	size_t count;
};

struct svg_plot {
	const char *title;
	const char *x_label, *y_label;
	bool log_x; /* x is above 0 then */
	/* The range shown; without (min == max) that of the data. */
	double x_min, x_max;
	double y_min, y_max;
	const struct svg_series *series;
	size_t count;
};

/* Writes the plot; whether the stream took it is for the caller to ask. */
void svg_write(FILE *stream, const struct svg_plot *plot);

/* To a file: 0 or a negative errno. */
int svg_save(const char *path, const struct svg_plot *plot);

#endif
