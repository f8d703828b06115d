// SPDX-License-Identifier: GPL-2.0-or-later
#include "serve_options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/size.h"
#include "quantity.h"
#include "sim.h"

#define GPUS_MAX 100000
#define MODELS_MAX 100000
#define REQUESTS_MAX 1000000000

enum {
	OPTION_WORKLOAD = 256,
	OPTION_DATA,
	OPTION_MODELS,
	OPTION_ZIPF,
	OPTION_POLICY,
	OPTION_HOSTS,
	OPTION_GPUS,
	OPTION_GPU_CACHE,
	OPTION_HOST_CACHE,
	OPTION_NET,
	OPTION_H2D,
	OPTION_FLOPS,
	OPTION_TRANSFER_COST,
	OPTION_LAUNCH_COST,
	OPTION_TRAINING,
	OPTION_YIELD,
	OPTION_RESUME,
	OPTION_ITERATION,
	OPTION_LOAD,
	OPTION_CAPACITY,
	OPTION_OBJECTIVE,
	OPTION_REQUESTS,
	OPTION_SEED,
	OPTION_SVG,
};

static const struct option longs[] = {
	{ "workload", required_argument, NULL, OPTION_WORKLOAD },
	{ "data", required_argument, NULL, OPTION_DATA },
	{ "models", required_argument, NULL, OPTION_MODELS },
	{ "zipf", required_argument, NULL, OPTION_ZIPF },
	{ "policy", required_argument, NULL, OPTION_POLICY },
	{ "hosts", required_argument, NULL, OPTION_HOSTS },
	{ "gpus", required_argument, NULL, OPTION_GPUS },
	{ "gpu-cache", required_argument, NULL, OPTION_GPU_CACHE },
	{ "host-cache", required_argument, NULL, OPTION_HOST_CACHE },
	{ "net", required_argument, NULL, OPTION_NET },
	{ "h2d", required_argument, NULL, OPTION_H2D },
	{ "flops", required_argument, NULL, OPTION_FLOPS },
	{ "transfer-cost", required_argument, NULL, OPTION_TRANSFER_COST },
	{ "launch-cost", required_argument, NULL, OPTION_LAUNCH_COST },
	{ "training", required_argument, NULL, OPTION_TRAINING },
	{ "yield", required_argument, NULL, OPTION_YIELD },
	{ "resume", required_argument, NULL, OPTION_RESUME },
	{ "iteration", required_argument, NULL, OPTION_ITERATION },
	{ "load", required_argument, NULL, OPTION_LOAD },
	{ "capacity", required_argument, NULL, OPTION_CAPACITY },
	{ "objective", required_argument, NULL, OPTION_OBJECTIVE },
	{ "requests", required_argument, NULL, OPTION_REQUESTS },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "svg", required_argument, NULL, OPTION_SVG },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char help[] =
	"usage: distmind-sim serve [--workload NAME] [--policy NAME[,NAME]...] [OPTION]... [-j]\n\n"
	"Serves requests for models on a pool of gpus, in simulated time, and reports\n"
	"latencies, missed objectives and what became of the gpus' time. A refused\n"
	"request counts as missed, and as never answered in percentiles.\n\n"
	"Workload:\n"
	"  --workload NAME       distmind (default), azure, genai or dlrm\n"
	"  --data DIR            of the data sets; $DISTMIND_DATA, or ../shared/data\n"
	"  --models N            distmind: 128, azure: 16\n"
	"  --zipf X              exponent of the models' popularity: 0.9\n"
	"  --load X              computation, as a share of the gpus' time: 0.7\n"
	"  --capacity X          instead: the highest load with at most that share of misses\n"
	"  --objective X         x the time of a cold request alone: 2\n"
	"  --requests N          1000000; of a trace: as many as it has\n"
	"  --seed N              the same seed gives the same output: 1\n"
	"Pool:\n"
	"  --hosts N, --gpus N   4 hosts with 4 gpus each\n"
	"  --gpu-cache SIZE      of each gpu for weights, --host-cache SIZE of each host:\n"
	"                        distmind 4G and 32G, azure 32G and 128G, genai 16G and 64G,\n"
	"                        dlrm 32G and 256G\n"
	"  --net RATE            of each host: 12.5GB/s\n"
	"  --h2d RATE            of each gpu: 12GB/s; 0: the network reaches its memory\n"
	"  --flops RATE          of each gpu: 14T\n"
	"  --transfer-cost TIME, --launch-cost TIME\n"
	"                        of each group of layers: 20us, 10us\n"
	"Training, on what is left:\n"
	"  --training HOW        yields at the next block (default), after its iteration, none\n"
	"  --yield TIME, --resume TIME, --iteration TIME\n"
	"                        40us, 20us, 100ms\n"
	"Output:\n"
	"  --svg PREFIX          plots: PREFIX-latency.svg, PREFIX-utilisation.svg\n"
	"  -j, --json            for programs\n\n"
	"Policies (all: each of them):\n";

/* What one of these models, and a pool for them, looks like. */
static const struct {
	const char *name;
	uint64_t gpu_cache, host_cache, requests;
} usual[] = {
	{ "distmind", 4ULL << 30, 32ULL << 30, 1000000 },
	{ "azure", 32ULL << 30, 128ULL << 30, 0 },
	{ "genai", 16ULL << 30, 64ULL << 30, 0 },
	{ "dlrm", 32ULL << 30, 256ULL << 30, 1000000 },
};

__attribute__((format(printf, 1, 2))) static int complain(const char *format, ...)
{
	va_list args;

	fputs("distmind-sim serve: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return SIM_USAGE;
}

static void print_help(void)
{
	const struct sim_system *system;

	fputs(help, stdout);
	for (size_t i = 0; (system = sim_system_at(i)); i++)
		printf("  %-22s%s\n", system->name,
		       system->summary ? system->summary : system->policy->summary);
}

static int parse_whole(const char *name, const char *text, uint64_t least, uint64_t most,
		       uint64_t *value)
{
	char *end;

	errno = 0;
	*value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
	if (!isdigit((unsigned char)*text) || *end || errno || *value < least || *value > most)
		return complain("--%s %s: write a whole number from %" PRIu64 " to %" PRIu64, name,
				text, least, most);
	return SIM_OK;
}

static int parse_real(const char *name, const char *text, double least, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !(*value >= least && *value <= most))
		return complain("--%s %s: write a number from %g to %g", name, text, least, most);
	return SIM_OK;
}

static int parse_size(const char *name, const char *text, uint64_t *value)
{
	if (size_parse(text, value))
		return complain("--%s %s: write a size as 512M or 32G", name, text);
	return SIM_OK;
}

static int parse_quantity(const char *name, const char *text, enum sim_quantity quantity,
			  bool zero, double *value)
{
	if (sim_quantity_parse(quantity, text, value) || (!zero && !*value))
		return complain("--%s %s: write it as %s", name, text,
				sim_quantity_example(quantity));
	return SIM_OK;
}

/* As nanoseconds, up to a day. */
static int parse_time(const char *name, const char *text, uint64_t least, uint64_t *value)
{
	double seconds;
	int code = parse_quantity(name, text, SIM_QUANTITY_TIME, true, &seconds);

	if (code)
		return code;
	*value = seconds <= 86400 ? (uint64_t)(seconds * 1e9) : 0;
	if (seconds > 86400 || *value < least)
		return complain("--%s %s: write a time from %" PRIu64 "ns to 86400s", name, text,
				least);
	return SIM_OK;
}

static int parse_systems(struct sim_serve_options *options, const char *text)
{
	const struct sim_system *system;
	const char *end;
	char name[32];

	options->system_count = 0;
	if (!strcmp(text, "all")) {
		while ((system = sim_system_at(options->system_count)))
			options->systems[options->system_count++] = system;
		return SIM_OK;
	}
	for (; text; text = *end ? end + 1 : NULL) {
		end = strchrnul(text, ',');
		snprintf(name, sizeof(name), "%.*s", (int)(end - text), text);
		system = sim_system_find(name);
		if (!system)
			return complain("there is no policy \"%s\": see distmind-sim serve --help",
					name);
		if (options->system_count == SIM_SERVE_SYSTEMS_MAX)
			return complain("--policy: more than %d policies", SIM_SERVE_SYSTEMS_MAX);
		options->systems[options->system_count++] = system;
	}
	return SIM_OK;
}

static int parse_training(struct sim_training *training, const char *text)
{
	static const char *const names[] = { "block", "iteration", "none" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(names[i], text)) {
			training->preemption = (enum sim_preemption)i;
			return SIM_OK;
		}
	return complain("--training %s: write block, iteration or none", text);
}

static int parse_option(struct sim_serve_options *options, int option, const char *name,
			const char *text)
{
	struct sim_serve_config *config = &options->config;
	struct planner_rates *rates = &config->rates;
	uint64_t whole = 0;
	int code;

	if ((option == OPTION_MODELS || option == OPTION_ZIPF) &&
	    strcmp(options->source.name, "distmind") && strcmp(options->source.name, "azure"))
		return complain("--%s: the models of %s are those of its file", name,
				options->source.name);
	switch (option) {
	case OPTION_DATA:
		options->source.data = text;
		return SIM_OK;
	case OPTION_MODELS:
		code = parse_whole(name, text, 1, MODELS_MAX, &whole);
		options->source.models = (uint32_t)whole;
		return code;
	case OPTION_ZIPF:
		return parse_real(name, text, 0, 10, &options->source.zipf);
	case OPTION_POLICY:
		return parse_systems(options, text);
	case OPTION_HOSTS:
		code = parse_whole(name, text, 1, GPUS_MAX, &whole);
		config->hosts = (uint32_t)whole;
		return code;
	case OPTION_GPUS:
		code = parse_whole(name, text, 1, GPUS_MAX, &whole);
		config->gpus = (uint32_t)whole;
		return code;
	case OPTION_GPU_CACHE:
		return parse_size(name, text, &config->gpu_cache);
	case OPTION_HOST_CACHE:
		return parse_size(name, text, &config->host_cache);
	case OPTION_NET:
		return parse_quantity(name, text, SIM_QUANTITY_BYTE_RATE, false, &rates->network);
	case OPTION_H2D:
		return parse_quantity(name, text, SIM_QUANTITY_BYTE_RATE, true, &rates->copy);
	case OPTION_FLOPS:
		return parse_quantity(name, text, SIM_QUANTITY_FLOP_RATE, false, &rates->compute);
	case OPTION_TRANSFER_COST:
		return parse_quantity(name, text, SIM_QUANTITY_TIME, true, &rates->transfer_cost);
	case OPTION_LAUNCH_COST:
		return parse_quantity(name, text, SIM_QUANTITY_TIME, true, &rates->launch_cost);
	case OPTION_TRAINING:
		return parse_training(&config->training, text);
	case OPTION_YIELD:
		return parse_time(name, text, 0, &config->training.yield_ns);
	case OPTION_RESUME:
		return parse_time(name, text, 0, &config->training.resume_ns);
	case OPTION_ITERATION:
		return parse_time(name, text, 1, &config->training.iteration_ns);
	case OPTION_LOAD:
		return parse_real(name, text, 0.01, 100, &config->load);
	case OPTION_CAPACITY:
		return parse_real(name, text, 0.000001, 1, &options->capacity);
	case OPTION_OBJECTIVE:
		return parse_real(name, text, 0.01, 1000, &config->objective);
	case OPTION_REQUESTS:
		return parse_whole(name, text, 10, REQUESTS_MAX, &config->requests);
	case OPTION_SEED:
		return parse_whole(name, text, 0, UINT64_MAX, &config->seed);
	case OPTION_SVG:
		options->svg = text;
		return SIM_OK;
	}
	return SIM_USAGE;
}

/* The workload decides what is usual, so it is looked for first. */
static int set_usual(struct sim_serve_options *options, int argc, char **argv)
{
	int option;

	opterr = 1;
	optind = 1;
	while ((option = getopt_long(argc, argv, "jh", longs, NULL)) >= 0) {
		if (option == '?')
			return SIM_USAGE;
		if (option == OPTION_WORKLOAD)
			options->source.name = optarg;
		options->json |= option == 'j';
		options->help |= option == 'h';
	}
	if (optind < argc)
		return complain("\"%s\" is no option: see distmind-sim serve --help", argv[optind]);
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (!strcmp(usual[i].name, options->source.name)) {
			options->config.gpu_cache = usual[i].gpu_cache;
			options->config.host_cache = usual[i].host_cache;
			options->config.requests = usual[i].requests;
			return SIM_OK;
		}
	return complain("there is no workload \"%s\": write distmind, azure, genai or dlrm",
			options->source.name);
}

int sim_serve_options_parse(struct sim_serve_options *options, int argc, char **argv)
{
	int option, index = 0, code;

	*options = (struct sim_serve_options){
		.config = sim_serve_defaults,
		.source = { .name = "distmind", .data = sim_workload_data(), .zipf = 0.9 },
		.systems = { sim_system_at(0) },
		.system_count = 1,
	};
	code = set_usual(options, argc, argv);
	if (!code && options->help) {
		print_help();
		return SIM_OK;
	}
	optind = 1;
	while (!code && (option = getopt_long(argc, argv, "jh", longs, &index)) >= 0)
		if (option != OPTION_WORKLOAD && option != 'j')
			code = parse_option(options, option, longs[index].name, optarg);
	if (!code && (uint64_t)options->config.hosts * options->config.gpus > GPUS_MAX)
		code = complain("--hosts and --gpus: more than %d gpus in all", GPUS_MAX);
	options->source.flops = options->config.rates.compute;
	options->source.launch_cost = options->config.rates.launch_cost;
	options->source.seed = options->config.seed;
	return code;
}
