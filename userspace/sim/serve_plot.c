// SPDX-License-Identifier: GPL-2.0-or-later
#include "serve_plot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "svg.h"

/* Bins of a histogram that make one point of a curve. */
#define BINS_PER_POINT 8
#define POINTS (SIM_HISTOGRAM_BINS / BINS_PER_POINT)
#define SERIES_MAX (2 * SIM_SERVE_SYSTEMS_MAX)
#define NAME_LEN 64

struct curves {
	struct svg_series series[SERIES_MAX];
	char names[SERIES_MAX][NAME_LEN];
	double points[SERIES_MAX][2][POINTS];
	size_t count;
};

static void add_point(struct curves *curves, double x, double y)
{
	size_t at = curves->series[curves->count].count++;

	curves->points[curves->count][0][at] = x;
	curves->points[curves->count][1][at] = y;
}

static void close_curve(struct curves *curves, const char *name, const char *suffix)
{
	size_t at = curves->count++;

	snprintf(curves->names[at], NAME_LEN, "%s%s", name, suffix);
	curves->series[at].name = curves->names[at];
	curves->series[at].x = curves->points[at][0];
	curves->series[at].y = curves->points[at][1];
}

/* From the first bin that has something to the last: refused ones leave it below 100. */
static void add_latency(struct curves *curves, const struct sim_system *system,
			const struct sim_serve_result *result)
{
	const struct sim_histogram *latency = &result->latency;
	double all = (double)(latency->count + latency->never);
	uint64_t seen = 0, before;

	for (uint32_t bin = 0; bin < SIM_HISTOGRAM_BINS; bin += BINS_PER_POINT) {
		before = seen;
		for (uint32_t i = bin; i < bin + BINS_PER_POINT; i++)
			seen += latency->bins[i];
		if (seen && (seen != before || seen != latency->count))
			add_point(curves, (double)sim_histogram_floor(bin + BINS_PER_POINT) / 1e6,
				  100 * (double)seen / all);
	}
	close_curve(curves, system->name, "");
}

static void add_utilisation(struct curves *curves, const struct sim_system *system,
			    const struct sim_serve_result *result)
{
	for (int both = 0; both < 2; both++) {
		for (int i = 0; i < SIM_SERVE_INTERVALS; i++)
			add_point(curves, (i + 0.5) * result->interval_seconds,
				  100 * (result->inference_over_time[i] +
					 both * result->training_over_time[i]));
		close_curve(curves, system->name, both ? ": with training" : ": inference");
	}
}

static int save(const struct sim_serve_options *options, const char *suffix,
		const struct svg_plot *plot)
{
	char *path;
	int err = asprintf(&path, "%s%s", options->svg, suffix) < 0 ? -ENOMEM : 0;

	if (err) {
		fprintf(stderr, "distmind-sim serve: %s\n", strerror(-err));
		return SIM_FAILED;
	}
	err = svg_save(path, plot);
	if (err)
		fprintf(stderr, "distmind-sim serve: %s: %s\n", path, strerror(-err));
	free(path);
	return err ? SIM_FAILED : SIM_OK;
}

int sim_serve_plot(const struct sim_serve_options *options,
		   const struct sim_serve_result *results)
{
	struct curves *curves = calloc(1, sizeof(*curves));
	struct svg_plot plot = {
		.title = "Requests answered in time x", .x_label = "latency (ms)",
		.y_label = "requests (%)", .log_x = true, .y_max = 100,
	};
	int code;

	if (!curves) {
		fprintf(stderr, "distmind-sim serve: %s\n", strerror(ENOMEM));
		return SIM_FAILED;
	}
	for (size_t i = 0; i < options->system_count; i++)
		add_latency(curves, options->systems[i], &results[i]);
	plot.series = curves->series;
	plot.count = curves->count;
	code = save(options, "-latency.svg", &plot);

	memset(curves, 0, sizeof(*curves));
	for (size_t i = 0; i < options->system_count; i++)
		add_utilisation(curves, options->systems[i], &results[i]);
	plot = (struct svg_plot){
		.title = "Utilisation", .x_label = "time (s)", .y_label = "gpu time (%)",
		.y_max = 100, .series = curves->series, .count = curves->count,
	};
	if (!code)
		code = save(options, "-utilisation.svg", &plot);
	free(curves);
	return code;
}
