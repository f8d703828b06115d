// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * distmind-sim group: the layers of a model as groups of a pipeline, optimal and
 * by other rules.
 */
#include "sim.h"

#include "../planner/layers.h"
#include "quantity.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <libsmartcols.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *layers;
	struct planner_rates rates;
	bool json;
};

static const char help[] =
	"usage: distmind-sim group --layers FILE --net RATE [--h2d RATE] --flops RATE\n"
	"                          [--transfer-cost TIME] [--launch-cost TIME] [-j]\n\n"
	"Cuts the layers of a model into the groups by which a cold request is answered\n"
	"earliest, and says when; beside that, what other rules would give.\n\n"
	"  -l, --layers FILE         layer, param_bytes, forward_flops, with tabs between\n"
	"  -n, --net RATE            of the network: 12.5GB/s, 100Gbit/s\n"
	"  -d, --h2d RATE            host to device; without it the network reaches the\n"
	"                            device directly\n"
	"  -f, --flops RATE          of the device: 14T\n"
	"  -t, --transfer-cost TIME  of each transfer of a group beside its bytes: 20us\n"
	"  -c, --launch-cost TIME    of each launch of a group beside its work: 10us\n"
	"  -j, --json                for programs\n";

static int parse_quantity(const char *option, enum sim_quantity quantity, const char *text,
			  double *value)
{
	if (!sim_quantity_parse(quantity, text, value))
		return SIM_OK;
	fprintf(stderr, "distmind-sim group: --%s %s: write a number and a unit, such as %s\n",
		option, text, sim_quantity_example(quantity));
	return SIM_USAGE;
}

/* SIM_OK with layers NULL: there is nothing left to do. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{ "layers", required_argument, NULL, 'l' },
		{ "net", required_argument, NULL, 'n' },
		{ "h2d", required_argument, NULL, 'd' },
		{ "flops", required_argument, NULL, 'f' },
		{ "transfer-cost", required_argument, NULL, 't' },
		{ "launch-cost", required_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct planner_rates *rates = &options->rates;
	int option, code = SIM_OK;

	/* 0: from the beginning, whatever was parsed before. */
	optind = 0;
	while (!code && (option = getopt_long(argc, argv, "l:n:d:f:t:c:jh", longs, NULL)) >= 0) {
		switch (option) {
		case 'l':
			options->layers = optarg;
			break;
		case 'n':
			code = parse_quantity("net", SIM_QUANTITY_BYTE_RATE, optarg,
					      &rates->network);
			break;
		case 'd':
			code = parse_quantity("h2d", SIM_QUANTITY_BYTE_RATE, optarg, &rates->copy);
			break;
		case 'f':
			code = parse_quantity("flops", SIM_QUANTITY_FLOP_RATE, optarg,
					      &rates->compute);
			break;
		case 't':
			code = parse_quantity("transfer-cost", SIM_QUANTITY_TIME, optarg,
					      &rates->transfer_cost);
			break;
		case 'c':
			code = parse_quantity("launch-cost", SIM_QUANTITY_TIME, optarg,
					      &rates->launch_cost);
			break;
		case 'j':
			options->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			options->layers = NULL;
			return SIM_OK;
		default:
			fputs("distmind-sim group --help describes the options\n", stderr);
			return SIM_USAGE;
		}
	}
	if (code)
		return code;
	if (optind < argc) {
		fprintf(stderr,
			"distmind-sim group: \"%s\" is no option: write --layers before a file\n",
			argv[optind]);
		return SIM_USAGE;
	}
	if (!options->layers || !rates->network || !rates->compute) {
		fprintf(stderr, "distmind-sim group: --%s is missing; --help describes it\n",
			!options->layers ? "layers" : !rates->network ? "net" : "flops");
		return SIM_USAGE;
	}
	return SIM_OK;
}

/* The groupings that are compared; the first is the planner's. */
enum { OPTIMAL, TWO_STAGE, GREEDY, WHOLE, RULES };

static const struct {
	const char *key, *title;
} rules[RULES] = {
	[OPTIMAL] = { "optimal", "optimal" },
	[TWO_STAGE] = { "two_stage", "two-stage optimum" },
	[GREEDY] = { "greedy", "greedy, 32.768 MB" },
	[WHOLE] = { "whole", "one group" },
};

struct result {
	const struct planner_layers *layers;
	struct planner_pipeline pipeline;
	struct planner_grouping groupings[RULES];
	int64_t finish[RULES];
	int64_t bound;
	int64_t *network, *copy, *compute; /* of the groups of OPTIMAL */
};

static double seconds(int64_t time)
{
	return (double)time / PLANNER_SECOND;
}

static int make_plans(struct result *result)
{
	struct planner_pipeline *pipeline = &result->pipeline;
	size_t count;
	int err = planner_optimal(pipeline, &result->groupings[OPTIMAL]);

	if (!err)
		err = planner_two_stage(pipeline, &result->groupings[TWO_STAGE]);
	if (!err)
		err = planner_greedy(pipeline, PLANNER_GREEDY_LIMIT, &result->groupings[GREEDY]);
	if (!err)
		err = planner_whole(pipeline, &result->groupings[WHOLE]);
	if (err)
		return err;
	for (size_t i = 0; i < RULES; i++)
		result->finish[i] = planner_finish(pipeline, &result->groupings[i]);
	result->bound = planner_bound(pipeline);
	count = result->groupings[OPTIMAL].count;
	result->network = calloc(count, sizeof(*result->network));
	result->copy = calloc(count, sizeof(*result->copy));
	result->compute = calloc(count, sizeof(*result->compute));
	if (!result->network || !result->copy || !result->compute)
		return -ENOMEM;
	planner_schedule(pipeline, &result->groupings[OPTIMAL], result->network, result->copy,
			 result->compute);
	return 0;
}

static void forget(struct result *result)
{
	for (size_t i = 0; i < RULES; i++)
		planner_grouping_destroy(&result->groupings[i]);
	planner_pipeline_destroy(&result->pipeline);
	free(result->network);
	free(result->copy);
	free(result->compute);
}

static int print_json(const struct result *result)
{
	const struct planner_grouping *optimal = &result->groupings[OPTIMAL];
	const struct planner_pipeline *pipeline = &result->pipeline;
	json_t *root = json_object(), *groups = json_array();
	int err;

	for (size_t g = 0; g < optimal->count; g++) {
		uint32_t from = g ? optimal->ends[g - 1] : 0, to = optimal->ends[g];
		uint64_t bytes = pipeline->bytes[to] - pipeline->bytes[from];

		json_array_append_new(
			groups, json_pack("{s:s, s:s, s:i, s:i, s:I, s:f, s:f, s:f}", "first",
					  result->layers->names[from], "last",
					  result->layers->names[to - 1], "from", from, "layers",
					  to - from, "bytes", (json_int_t)bytes, "read",
					  seconds(result->network[g]), "copied",
					  seconds(result->copy[g]), "computed",
					  seconds(result->compute[g])));
	}
	json_object_set_new(root, "layers", json_integer((json_int_t)pipeline->layers));
	json_object_set_new(root, "bytes",
			    json_integer((json_int_t)pipeline->bytes[pipeline->layers]));
	json_object_set_new(root, "predicted", json_real(seconds(result->finish[OPTIMAL])));
	json_object_set_new(root, "bound", json_real(seconds(result->bound)));
	json_object_set_new(root, "plan", groups);
	for (size_t i = 1; i < RULES; i++) {
		json_t *ends = json_array();

		for (size_t g = 0; g < result->groupings[i].count; g++)
			json_array_append_new(ends, json_integer(result->groupings[i].ends[g]));
		json_object_set_new(root, rules[i].key,
				    json_pack("{s:f, s:i, s:o}", "predicted",
					      seconds(result->finish[i]), "groups",
					      (int)result->groupings[i].count, "ends", ends));
	}
	err = json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
	putchar('\n');
	json_decref(root);
	return err;
}

static struct libscols_table *new_table(const char *const *headings, size_t count)
{
	struct libscols_table *table = scols_new_table();

	for (size_t i = 0; table && i < count; i++)
		if (!scols_table_new_column(table, headings[i], 0, i ? SCOLS_FL_RIGHT : 0)) {
			scols_unref_table(table);
			return NULL;
		}
	return table;
}

__attribute__((format(printf, 3, 4))) static void put(struct libscols_line *line, size_t column,
						       const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	/* The table owns it. */
	if (line && text)
		scols_line_refer_data(line, column, text);
	else
		free(text);
}

static int print_rules(const struct result *result)
{
	static const char *const headings[] = { "RULE", "GROUPS", "MS", "OVER BOUND" };
	struct libscols_table *table = new_table(headings, 4);
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < RULES; i++) {
		struct libscols_line *line = scols_table_new_line(table, NULL);
		double over = (double)(result->finish[i] - result->bound) / (double)result->bound;

		put(line, 0, "%s", rules[i].title);
		put(line, 1, "%zu", result->groupings[i].count);
		put(line, 2, "%.3f", seconds(result->finish[i]) * 1e3);
		put(line, 3, "%.1f %%", over * 100);
	}
	err = scols_print_table(table);
	scols_unref_table(table);
	return err;
}

static int print_groups(const struct result *result)
{
	static const char *const headings[] = { "UP TO LAYER", "LAYERS", "MB",
						"READ", "COPIED", "COMPUTED" };
	const struct planner_grouping *optimal = &result->groupings[OPTIMAL];
	const struct planner_pipeline *pipeline = &result->pipeline;
	struct libscols_table *table = new_table(headings, 6);
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t g = 0; g < optimal->count; g++) {
		uint32_t from = g ? optimal->ends[g - 1] : 0, to = optimal->ends[g];
		struct libscols_line *line = scols_table_new_line(table, NULL);

		put(line, 0, "%s", result->layers->names[to - 1]);
		put(line, 1, "%u", to - from);
		put(line, 2, "%.3f", (double)(pipeline->bytes[to] - pipeline->bytes[from]) / 1e6);
		put(line, 3, "%.3f", seconds(result->network[g]) * 1e3);
		put(line, 4, "%.3f", seconds(result->copy[g]) * 1e3);
		put(line, 5, "%.3f", seconds(result->compute[g]) * 1e3);
	}
	err = scols_print_table(table);
	scols_unref_table(table);
	return err;
}

static int print_text(const struct result *result)
{
	const struct planner_pipeline *pipeline = &result->pipeline;
	int err;

	printf("%zu layers, %.1f MB; no grouping can be faster than %.3f ms\n\n", pipeline->layers,
	       (double)pipeline->bytes[pipeline->layers] / 1e6, seconds(result->bound) * 1e3);
	fflush(stdout);
	err = print_rules(result);
	if (err)
		return err;
	puts("\nThe optimal grouping, times in ms:\n");
	fflush(stdout);
	return print_groups(result);
}

int sim_group(int argc, char **argv)
{
	struct options options = { 0 };
	struct result result = { 0 };
	struct planner_layers layers;
	char error[PLANNER_ERROR_LEN];
	int err, code = parse_options(argc, argv, &options);

	if (code || !options.layers)
		return code;
	if (planner_layers_read(options.layers, &layers, error)) {
		fprintf(stderr, "distmind-sim group: %s\n", error);
		return SIM_FAILED;
	}
	result.layers = &layers;
	err = planner_pipeline_create(&result.pipeline, layers.layers, layers.count,
				      &options.rates);
	if (!err)
		err = make_plans(&result);
	if (!err)
		err = options.json ? print_json(&result) : print_text(&result);
	if (err == -ERANGE)
		fprintf(stderr,
			"distmind-sim group: %s: days at these rates: check --net and --flops\n",
			options.layers);
	else if (err)
		fprintf(stderr, "distmind-sim group: %s\n", strerror(err < 0 ? -err : EIO));
	forget(&result);
	planner_layers_destroy(&layers);
	return err ? SIM_FAILED : SIM_OK;
}
