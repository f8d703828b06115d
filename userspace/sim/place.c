// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * distmind-sim place: the requests of a trace on a cluster, one by one, by one policy
 * or several: how much of the gpus gets used.
 */
#include "sim.h"

#include "csv.h"
#include "place_plan.h"
#include "place_run.h"
#include "svg.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLICIES_MAX 16
#define SEEDS_MAX 1000
#define TIMES_MAX 1000

static const char help[] =
	"usage: distmind-sim place --nodes FILE --pods FILE [OPTION]...\n\n"
	"Puts the pods of a trace on the nodes of a cluster, in the order of a seed, and says\n"
	"how much of the gpus is allocated in the end. A pod that fits nowhere is refused.\n\n"
	"  -n, --nodes FILE     nodes: cpu_milli, memory_mib, gpu, model\n"
	"  -p, --pods FILE      pods: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec\n"
	"  -P, --policy NAME    one of those below, or several with commas between, or all\n"
	"  -s, --seeds A-B      a run for each of them (42-51)\n"
	"  -a, --arrive X       pods are repeated or left out until they ask for X times the\n"
	"                       gpus (1.3)\n"
	"  -t, --times N        a cluster of N times the nodes (1)\n"
	"      --svg FILE       a plot of what is allocated against what has arrived\n"
	"  -j, --json           for programs\n\n"
	"Of the cluster as the first seed leaves it, by the default policy, and without doing it:\n"
	"      --explain N      where pod N of the file (from 1) would go, and why\n"
	"      --plan WHAT      what becomes of the pods there if gpu:N, box:N or host:N fails;\n"
	"                       or repack:N, up to N moves that free gpus\n\n"
	"policies:\n";

enum { OPTION_SVG = 256, OPTION_EXPLAIN, OPTION_PLAN };

#define EXPLAINED_PLACES 10

struct options {
	const char *nodes, *pods, *svg, *plan;
	uint32_t explain; /* 0: none */
	const struct placement_policy *policies[POLICIES_MAX];
	size_t policy_count;
	uint64_t first_seed, last_seed;
	double arrive;
	uint32_t times;
	bool json;
};

/* What one policy did, for all seeds. */
struct summary {
	const struct placement_policy *policy;
	struct place_result *results; /* owned */
	size_t count;
	double allocated, allocated_100, refused, rate, p99_seconds;
	double x[PLACE_POINTS_MAX], y[PLACE_POINTS_MAX];
	size_t point_count;
};

static void print_help(void)
{
	fputs(help, stdout);
	for (size_t i = 0; i < placement_policy_count; i++)
		printf("  %-13s%s\n", placement_policies[i].name, placement_policies[i].summary);
}

static int complain(const char *option, const char *text, const char *fix)
{
	fprintf(stderr, "distmind-sim place: --%s %s: %s\n", option, text, fix);
	return SIM_USAGE;
}

static int parse_policies(struct options *options, const char *text)
{
	char name[64];
	size_t len;

	options->policy_count = 0;
	if (!strcmp(text, "all")) {
		for (size_t i = 0; i < placement_policy_count; i++)
			options->policies[options->policy_count++] = &placement_policies[i];
		return SIM_OK;
	}
	for (;; text += len + 1) {
		len = strcspn(text, ",");
		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		if (options->policy_count == POLICIES_MAX)
			return complain("policy", text, "too many of them");
		options->policies[options->policy_count] = placement_policy_by_name(name);
		if (!options->policies[options->policy_count++])
			return complain("policy", name,
					"there is no such policy: see distmind-sim place --help");
		if (!text[len])
			return SIM_OK;
	}
}

static int parse_seeds(struct options *options, const char *text)
{
	const char *fix = "write a number or two, such as 42-51, up to 1000 of them";
	char *end;

	errno = 0;
	options->first_seed = strtoull(text, &end, 10);
	if (errno || end == text || *text == '-')
		return complain("seeds", text, fix);
	options->last_seed = options->first_seed;
	if (*end == '-') {
		const char *second = end + 1;

		options->last_seed = strtoull(second, &end, 10);
		if (end == second || *second == '-')
			return complain("seeds", text, fix);
	}
	if (errno || *end || options->last_seed < options->first_seed ||
	    options->last_seed - options->first_seed >= SEEDS_MAX)
		return complain("seeds", text, fix);
	return SIM_OK;
}

static int parse_number(const char *option, const char *text, double min, double max,
			const char *fix, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !(*value >= min && *value <= max))
		return complain(option, text, fix);
	return SIM_OK;
}

/* SIM_OK, an exit code, or -1: help was asked for. */
static int parse(struct options *options, int argc, char **argv)
{
	static const struct option known[] = {
		{ "nodes", required_argument, NULL, 'n' },
		{ "pods", required_argument, NULL, 'p' },
		{ "policy", required_argument, NULL, 'P' },
		{ "seeds", required_argument, NULL, 's' },
		{ "arrive", required_argument, NULL, 'a' },
		{ "times", required_argument, NULL, 't' },
		{ "svg", required_argument, NULL, OPTION_SVG },
		{ "explain", required_argument, NULL, OPTION_EXPLAIN },
		{ "plan", required_argument, NULL, OPTION_PLAN },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int option, ret = SIM_OK;
	double number;

	*options = (struct options){
		.policies = { &placement_policies[0] },
		.policy_count = 1,
		.first_seed = 42,
		.last_seed = 51,
		.arrive = 1.3,
		.times = 1,
	};
	optind = 0;
	while (!ret && (option = getopt_long(argc, argv, "n:p:P:s:a:t:jh", known, NULL)) != -1) {
		switch (option) {
		case 'n':
			options->nodes = optarg;
			break;
		case 'p':
			options->pods = optarg;
			break;
		case 'P':
			ret = parse_policies(options, optarg);
			break;
		case 's':
			ret = parse_seeds(options, optarg);
			break;
		case 'a':
			ret = parse_number("arrive", optarg, 0.01, 10,
					   "write 0.01 to 10, such as 1.3", &options->arrive);
			break;
		case 't':
			ret = parse_number("times", optarg, 1, TIMES_MAX, "write 1 to 1000",
					   &number);
			if (!ret)
				options->times = (uint32_t)number;
			break;
		case OPTION_EXPLAIN:
			ret = parse_number("explain", optarg, 1, UINT32_MAX,
					   "write the number of a pod, from 1", &number);
			if (!ret)
				options->explain = (uint32_t)number;
			break;
		case OPTION_PLAN:
			options->plan = optarg;
			break;
		case OPTION_SVG:
			options->svg = optarg;
			break;
		case 'j':
			options->json = true;
			break;
		case 'h':
			return -1;
		default:
			return SIM_USAGE;
		}
	}
	if (ret)
		return ret;
	if (optind < argc)
		return complain("nodes", argv[optind], "every file is given with an option");
	if (!options->nodes || !options->pods) {
		fputs("distmind-sim place: give --nodes and --pods; --help describes them\n",
		      stderr);
		return SIM_USAGE;
	}
	return SIM_OK;
}

static int run_policy(const struct openb *openb, const struct options *options,
		      const struct placement_policy *policy, struct summary *summary)
{
	struct place_options run = {
		.policy = policy,
		.arrive = options->arrive,
		.times = options->times,
	};
	double decisions = 0, seconds = 0;
	int err;

	summary->policy = policy;
	summary->count = (size_t)(options->last_seed - options->first_seed + 1);
	summary->results = calloc(summary->count, sizeof(*summary->results));
	if (!summary->results)
		return -ENOMEM;
	summary->point_count = PLACE_POINTS_MAX;
	for (size_t i = 0; i < summary->count; i++) {
		struct place_result *result = &summary->results[i];

		run.seed = options->first_seed + i;
		err = place_run(openb, &run, result, NULL);
		if (err)
			return err;
		summary->allocated += result->allocated / (double)summary->count;
		summary->allocated_100 += result->allocated_100 / (double)summary->count;
		summary->refused += result->refused / (double)summary->count;
		if (result->p99_seconds > summary->p99_seconds)
			summary->p99_seconds = result->p99_seconds;
		decisions += result->pods;
		seconds += result->seconds;
		if (result->point_count < summary->point_count)
			summary->point_count = result->point_count;
		for (size_t k = 0; k < result->point_count; k++)
			summary->y[k] += 100 * result->points[k] / (double)summary->count;
	}
	for (size_t k = 0; k < summary->point_count; k++)
		summary->x[k] = (double)k;
	summary->rate = seconds > 0 ? decisions / seconds : 0;
	return 0;
}

static json_t *percent_or_null(double part)
{
	return part < 0 ? json_null() : json_real(100 * part);
}

static json_t *describe(const struct summary *summary, const struct options *options)
{
	json_t *seeds = json_array();

	for (size_t i = 0; i < summary->count; i++) {
		const struct place_result *result = &summary->results[i];

		json_array_append_new(
			seeds, json_pack("{s:I, s:f, s:o, s:i, s:i, s:f, s:f}", "seed",
					 (json_int_t)result->seed, "allocated",
					 100 * result->allocated, "allocated_at_100",
					 percent_or_null(result->allocated_100), "pods",
					 (int)result->pods, "refused", (int)result->refused,
					 "decisions_per_s", result->pods / result->seconds,
					 "p99_us", result->p99_seconds * 1e6));
	}
	return json_pack("{s:s, s:f, s:i, s:{s:f, s:o, s:f, s:f, s:f}, s:o}", "policy",
			 summary->policy->name, "arrive", options->arrive, "times",
			 (int)options->times, "mean", "allocated", 100 * summary->allocated,
			 "allocated_at_100", percent_or_null(summary->allocated_100), "refused",
			 summary->refused, "decisions_per_s", summary->rate, "p99_us",
			 summary->p99_seconds * 1e6, "seeds", seeds);
}

static int print_json(const struct summary *summaries, const struct options *options)
{
	json_t *root;
	int err;

	if (options->policy_count == 1) {
		root = describe(&summaries[0], options);
	} else {
		json_t *policies = json_array();

		for (size_t i = 0; i < options->policy_count; i++)
			json_array_append_new(policies, describe(&summaries[i], options));
		root = json_pack("{s:o}", "policies", policies);
	}
	err = !root || json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(8));
	putchar('\n');
	json_decref(root);
	return err ? -ENOMEM : 0;
}

static int print_cell(struct libscols_line *line, size_t column, const char *format, double value)
{
	char text[64];

	snprintf(text, sizeof(text), format, value);
	return scols_line_set_data(line, column, text);
}

static int print_row(struct libscols_table *table, const struct summary *summary)
{
	struct libscols_line *line = scols_table_new_line(table, NULL);
	int err;

	if (!line)
		return -ENOMEM;
	err = scols_line_set_data(line, 0, summary->policy->name);
	if (!err)
		err = print_cell(line, 1, "%.2f %%", 100 * summary->allocated);
	if (!err && summary->allocated_100 >= 0)
		err = print_cell(line, 2, "%.2f %%", 100 * summary->allocated_100);
	if (!err)
		err = print_cell(line, 3, "%.1f", summary->refused);
	if (!err)
		err = print_cell(line, 4, "%.0f", summary->rate);
	if (!err)
		err = print_cell(line, 5, "%.1f us", 1e6 * summary->p99_seconds);
	return err;
}

static int print_table(const struct summary *summaries, const struct options *options)
{
	static const char *const headings[] = {
		"POLICY", "ALLOCATED", "AT 100 %", "REFUSED", "DECISIONS/S", "P99",
	};
	struct libscols_table *table = scols_new_table();
	int err = table ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < sizeof(headings) / sizeof(*headings); i++)
		if (!scols_table_new_column(table, headings[i], 0, i ? SCOLS_FL_RIGHT : 0))
			err = -ENOMEM;
	for (size_t i = 0; !err && i < options->policy_count; i++)
		err = print_row(table, &summaries[i]);
	if (!err)
		err = scols_print_table(table);
	scols_unref_table(table);
	return err;
}

static int plot(const struct summary *summaries, const struct options *options)
{
	struct svg_series series[POLICIES_MAX];
	struct svg_plot svg = {
		.title = "Allocated against arrived load",
		.x_label = "requested, % of the gpus",
		.y_label = "allocated, % of the gpus",
		.series = series,
		.count = options->policy_count,
	};
	int err;

	for (size_t i = 0; i < options->policy_count; i++)
		series[i] = (struct svg_series){ summaries[i].policy->name, summaries[i].x,
						 summaries[i].y, summaries[i].point_count };
	/* Up to there all policies are the same. */
	svg.x_min = options->arrive > 0.8 ? 70 : 0;
	svg.x_max = 100 * options->arrive;
	svg.y_min = svg.x_min;
	svg.y_max = 100;
	err = svg_save(options->svg, &svg);
	if (err)
		fprintf(stderr, "distmind-sim place: %s: %s\n", options->svg, strerror(-err));
	return err;
}

/* What is asked of a cluster, answered as text or JSON. */
static int answer_questions(struct placement *placement, const struct openb *openb,
			    const struct options *options)
{
	json_t *places = NULL, *moves = NULL, *root;
	int err = 0;

	if (options->explain)
		err = place_plan_explain(placement, &openb->pods[options->explain - 1],
					 EXPLAINED_PLACES, &places);
	if (!err && options->plan)
		err = place_plan_make(placement, options->plan, &moves);
	if (!err && options->json) {
		root = json_object();
		if (places)
			json_object_set(root, "explain", places);
		if (moves)
			json_object_set(root, "plan", moves);
		err = json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) ?
			      -ENOMEM :
			      0;
		putchar('\n');
		json_decref(root);
	} else if (!err) {
		if (places)
			place_plan_print_places(stdout, places);
		if (moves)
			place_plan_print_moves(stdout, moves);
	}
	json_decref(places);
	json_decref(moves);
	return err;
}

/* Instead of figures: the cluster of the first seed, looked at. */
static int look(const struct openb *openb, const struct options *options)
{
	struct place_options run = {
		.policy = &placement_policies[0],
		.seed = options->first_seed,
		.arrive = options->arrive,
		.times = options->times,
	};
	struct place_result result;
	struct placement placement;
	struct placement_pool *pool;
	int err;

	if (options->explain > openb->pod_count) {
		fprintf(stderr, "distmind-sim place: --explain %u: the file has %u pods\n",
			options->explain, openb->pod_count);
		return SIM_FAILED;
	}
	err = place_run(openb, &run, &result, &pool);
	if (!err) {
		err = placement_init(&placement, pool, run.policy, run.seed);
		for (uint32_t i = 0; !err && i < openb->pod_count; i++)
			placement_observe(&placement, &openb->pods[i]);
		if (!err)
			err = answer_questions(&placement, openb, options);
		placement_free(&placement);
		placement_pool_free(pool);
	}
	if (err == -EINVAL)
		return complain("plan", options->plan,
				"write gpu:N, box:N or host:N with a number that is there, or "
				"repack:N");
	if (err)
		fprintf(stderr, "distmind-sim place: %s\n", strerror(-err));
	return err ? SIM_FAILED : SIM_OK;
}

int sim_place(int argc, char **argv)
{
	struct summary *summaries = NULL;
	char error[CSV_ERROR_LEN];
	struct options options;
	struct openb openb;
	int ret, err;

	ret = parse(&options, argc, argv);
	if (ret < 0) {
		print_help();
		return SIM_OK;
	}
	if (ret)
		return ret;
	err = openb_read(&openb, options.nodes, options.pods, error);
	if (err) {
		fprintf(stderr, "distmind-sim place: %s\n", error);
		return SIM_FAILED;
	}
	if (options.explain || options.plan) {
		ret = look(&openb, &options);
		openb_free(&openb);
		return ret;
	}
	summaries = calloc(options.policy_count, sizeof(*summaries));
	err = summaries ? 0 : -ENOMEM;
	for (size_t i = 0; !err && i < options.policy_count; i++)
		err = run_policy(&openb, &options, options.policies[i], &summaries[i]);
	if (!err)
		err = options.json ? print_json(summaries, &options) :
				     print_table(summaries, &options);
	if (err)
		fprintf(stderr, "distmind-sim place: %s\n", strerror(-err));
	else if (options.svg)
		err = plot(summaries, &options);
	for (size_t i = 0; summaries && i < options.policy_count; i++)
		free(summaries[i].results);
	free(summaries);
	openb_free(&openb);
	return err ? SIM_FAILED : SIM_OK;
}
