// SPDX-License-Identifier: GPL-2.0-or-later
#include "serve_print.h"

#include <errno.h>
#include <jansson.h>
#include <libsmartcols.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* A figure of a result: how it is called in JSON and in a table, and its unit there. */
struct figure {
	const char *key;
	const char *heading; /* NULL: only in JSON */
	const char *format; /* for the table; NULL: a duration */
	double scale;	    /* for the table */
	double (*value)(const struct sim_serve_result *result);
};

static double mean(const struct sim_serve_result *result)
{
	return result->latency.count ?
		       result->latency.sum_ns / (double)result->latency.count / 1e9 : INFINITY;
}

static double p50(const struct sim_serve_result *result)
{
	return sim_histogram_quantile(&result->latency, 0.5);
}

static double p90(const struct sim_serve_result *result)
{
	return sim_histogram_quantile(&result->latency, 0.9);
}

static double p99(const struct sim_serve_result *result)
{
	return sim_histogram_quantile(&result->latency, 0.99);
}

static double p999(const struct sim_serve_result *result)
{
	return sim_histogram_quantile(&result->latency, 0.999);
}

static double most(const struct sim_serve_result *result)
{
	return (double)result->latency.most_ns / 1e9;
}

static double refused(const struct sim_serve_result *result)
{
	return (double)result->refused / (double)result->requests;
}

static double from(const struct sim_serve_result *result, enum router_tier tier)
{
	return result->latency.count ?
		       (double)result->from[tier] / (double)result->latency.count : 0;
}

static double from_gpu(const struct sim_serve_result *result)
{
	return from(result, ROUTER_TIER_GPU);
}

static double from_host(const struct sim_serve_result *result)
{
	return from(result, ROUTER_TIER_HOST);
}

static double from_pool(const struct sim_serve_result *result)
{
	return from(result, ROUTER_TIER_POOL);
}

static double rate(const struct sim_serve_result *result)
{
	return result->rate;
}

static double inference(const struct sim_serve_result *result)
{
	return result->inference / result->gpu_seconds;
}

static double training(const struct sim_serve_result *result)
{
	return result->training / result->gpu_seconds;
}

static double preemptions(const struct sim_serve_result *result)
{
	return (double)result->preemptions / result->seconds;
}

static const struct figure figures[] = {
	{ "rate", "REQUESTS/S", "%.1f", 1, rate },
	{ "mean", "MEAN", NULL, 1, mean },
	{ "p50", "P50", NULL, 1, p50 },
	{ "p90", NULL, NULL, 0, p90 },
	{ "p99", "P99", NULL, 1, p99 },
	{ "p999", "P99.9", NULL, 1, p999 },
	{ "max", NULL, NULL, 0, most },
	{ "misses", "MISSES", "%.3f %%", 100, sim_serve_misses },
	{ "refused", "REFUSED", "%.3f %%", 100, refused },
	{ "from_gpu", "GPU HIT", "%.1f %%", 100, from_gpu },
	{ "from_host", "HOST HIT", "%.1f %%", 100, from_host },
	{ "from_pool", "POOL", "%.1f %%", 100, from_pool },
	{ "inference", "INFERENCE", "%.1f %%", 100, inference },
	{ "training", "TRAINING", "%.1f %%", 100, training },
	{ "harvest", NULL, NULL, 0, sim_serve_harvest },
	{ "utilisation", "USED", "%.1f %%", 100, sim_serve_utilisation },
	{ "preemptions", NULL, NULL, 0, preemptions },
};
#define FIGURES (sizeof(figures) / sizeof(figures[0]))

/* JSON has no infinity. */
static json_t *real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_of(const struct sim_system *system, const struct sim_serve_result *result,
		       double load)
{
	json_t *object = json_pack("{s:s, s:f, s:I, s:I, s:I, s:I, s:f}", "policy", system->name,
				   "load", load, "requests", (json_int_t)result->requests, "served",
				   (json_int_t)result->latency.count, "late",
				   (json_int_t)result->late, "replicas",
				   (json_int_t)result->replicas, "seconds", result->seconds);

	for (size_t i = 0; i < FIGURES; i++)
		json_object_set_new(object, figures[i].key, real(figures[i].value(result)));
	if (*result->refusal)
		json_object_set_new(object, "refusal", json_string(result->refusal));
	return object;
}

static int print_json(const struct sim_serve_options *options,
		      const struct sim_serve_result *results, const double *loads)
{
	json_t *list = json_array();
	json_t *root;
	int err;

	for (size_t i = 0; i < options->system_count; i++)
		json_array_append_new(list, json_of(options->systems[i], &results[i], loads[i]));
	root = json_pack("{s:s, s:I, s:I, s:f, s:I, s:o}", "workload", options->source.name,
			 "hosts", (json_int_t)options->config.hosts, "gpus",
			 (json_int_t)options->config.hosts * options->config.gpus, "objective",
			 options->config.objective, "seed", (json_int_t)options->config.seed,
			 "results", list);
	err = !root || json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(root);
	return err ? -ENOMEM : 0;
}

static int set_cell(struct libscols_line *line, size_t column, const char *format, double value)
{
	char text[64];

	if (!isfinite(value))
		snprintf(text, sizeof(text), "%s", isnan(value) ? "-" : "never");
	else if (format)
		snprintf(text, sizeof(text), format, value);
	else if (value < 1)
		snprintf(text, sizeof(text), "%.1f ms", value * 1e3);
	else
		snprintf(text, sizeof(text), "%.1f s", value);
	return scols_line_set_data(line, column, text);
}

static int fill(struct libscols_table *table, const struct sim_serve_options *options,
		const struct sim_serve_result *results, const double *loads)
{
	struct libscols_line *line;
	size_t column;
	int err = !scols_table_new_column(table, "POLICY", 0, 0) ||
		  !scols_table_new_column(table, "LOAD", 0, SCOLS_FL_RIGHT);

	for (size_t i = 0; !err && i < FIGURES; i++)
		if (figures[i].heading)
			err = !scols_table_new_column(table, figures[i].heading, 0, SCOLS_FL_RIGHT);
	for (size_t i = 0; !err && i < options->system_count; i++) {
		line = scols_table_new_line(table, NULL);
		if (!line)
			return -ENOMEM;
		err = scols_line_set_data(line, 0, options->systems[i]->name) ||
		      set_cell(line, 1, "%.3f", loads[i]);
		column = 2;
		for (size_t j = 0; !err && j < FIGURES; j++)
			if (figures[j].heading)
				err = set_cell(line, column++, figures[j].format,
					       figures[j].value(&results[i]) * figures[j].scale);
	}
	return err ? -ENOMEM : 0;
}

static int print_table(const struct sim_serve_options *options,
		       const struct sim_serve_result *results, const double *loads)
{
	struct libscols_table *table = scols_new_table();
	int err;

	if (!table)
		return -ENOMEM;
	err = fill(table, options, results, loads);
	if (!err)
		err = scols_print_table(table) ? -EIO : 0;
	scols_unref_table(table);
	for (size_t i = 0; !err && i < options->system_count; i++)
		if (*results[i].refusal)
			printf("%s refused first: %s\n", options->systems[i]->name,
			       results[i].refusal);
	return err;
}

int sim_serve_print(const struct sim_serve_options *options,
		    const struct sim_serve_result *results, const double *loads)
{
	int err = options->json ? print_json(options, results, loads) :
				  print_table(options, results, loads);

	if (!err && fflush(stdout))
		err = -errno;
	if (err)
		fprintf(stderr, "distmind-sim serve: cannot print the results: %s\n",
			strerror(-err));
	return err ? SIM_FAILED : SIM_OK;
}
