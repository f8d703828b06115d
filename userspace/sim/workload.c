// SPDX-License-Identifier: GPL-2.0-or-later
#include "workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../planner/layers.h"

#define DISTMIND_MODELS 128
#define UNIFORM_LAYERS 32

/* In the order of popularity, so neighbours differ in size and time. */
static const char *const distmind_kinds[] = {
	"resnet152", "inception_v3", "densenet201", "bert_base", "gpt2",
};
#define DISTMIND_KINDS (sizeof(distmind_kinds) / sizeof(distmind_kinds[0]))

int sim_workload_uniform(struct sim_model *kind, uint64_t bytes, double flops)
{
	kind->layers = calloc(UNIFORM_LAYERS, sizeof(*kind->layers));
	if (!kind->layers)
		return -ENOMEM;
	kind->count = UNIFORM_LAYERS;
	for (size_t i = 0; i < UNIFORM_LAYERS; i++)
		kind->layers[i] = (struct planner_layer){
			.bytes = bytes / UNIFORM_LAYERS, .flops = flops / UNIFORM_LAYERS,
		};
	return 0;
}

/*
 * Vose's construction: each of n columns holds at most two models, so that to
 * draw one takes one random column and one comparison.
 */
int sim_workload_popularity(struct sim_workload *workload, const double *weights)
{
	uint32_t n = workload->model_count, small = 0, large = n, *stack;
	double sum = 0, *scaled;

	workload->alias_keep = calloc(n, sizeof(*workload->alias_keep));
	workload->alias_other = calloc(n, sizeof(*workload->alias_other));
	scaled = calloc(n, sizeof(*scaled));
	stack = calloc(n, sizeof(*stack));
	if (!workload->alias_keep || !workload->alias_other || !scaled || !stack) {
		free(scaled);
		free(stack);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		sum += weights[i];
	/* The stack's bottom has those below the mean, its top the others. */
	for (uint32_t i = 0; i < n; i++) {
		scaled[i] = weights[i] / sum * n;
		stack[scaled[i] < 1 ? small++ : --large] = i;
	}
	while (small && large < n) {
		uint32_t below = stack[--small], above = stack[large++];

		workload->alias_keep[below] = (uint64_t)(scaled[below] * 0x1p32);
		workload->alias_other[below] = above;
		scaled[above] -= 1 - scaled[below];
		stack[scaled[above] < 1 ? small++ : --large] = above;
	}
	/* What is left is full but for rounding. */
	while (small)
		workload->alias_keep[stack[--small]] = 1ULL << 32;
	while (large < n)
		workload->alias_keep[stack[large++]] = 1ULL << 32;
	workload->usual_mean_ns = 0;
	for (uint32_t i = 0; workload->usual_ns && i < n; i++)
		workload->usual_mean_ns += weights[i] / sum * (double)workload->usual_ns[i];
	free(scaled);
	free(stack);
	return 0;
}

int sim_workload_zipf(struct sim_workload *workload, double exponent)
{
	double *weights = calloc(workload->model_count, sizeof(*weights));
	int err;

	if (!weights)
		return -ENOMEM;
	for (uint32_t i = 0; i < workload->model_count; i++)
		weights[i] = pow(i + 1, -exponent);
	err = sim_workload_popularity(workload, weights);
	free(weights);
	return err;
}

static uint64_t compute_ns(const struct sim_model *kind, const struct sim_workload_source *source)
{
	double flops = 0;

	for (size_t i = 0; i < kind->count; i++)
		flops += kind->layers[i].flops;
	return (uint64_t)((flops / source->flops + source->launch_cost) * 1e9);
}

static int copy_layers(struct sim_model *kind, const struct planner_layers *layers)
{
	kind->layers = calloc(layers->count, sizeof(*kind->layers));
	if (!kind->layers)
		return -ENOMEM;
	memcpy(kind->layers, layers->layers, layers->count * sizeof(*kind->layers));
	kind->count = layers->count;
	return 0;
}

static int distmind(struct sim_workload *workload, const struct sim_workload_source *source,
		    const char *directory, char *error)
{
	struct planner_layers layers;
	char path[4096];
	int err;

	workload->kinds = calloc(DISTMIND_KINDS, sizeof(*workload->kinds));
	if (!workload->kinds)
		return -ENOMEM;
	for (; workload->kind_count < DISTMIND_KINDS; workload->kind_count++) {
		struct sim_model *kind = &workload->kinds[workload->kind_count];

		snprintf(path, sizeof(path), "%s/%s.tsv", directory,
			 distmind_kinds[workload->kind_count]);
		err = planner_layers_read(path, &layers, error);
		if (!err) {
			err = copy_layers(kind, &layers);
			planner_layers_destroy(&layers);
		}
		if (err)
			return err;
	}
	workload->model_count = source->models ? source->models : DISTMIND_MODELS;
	workload->models = calloc(workload->model_count, sizeof(*workload->models));
	workload->usual_ns = calloc(workload->model_count, sizeof(*workload->usual_ns));
	if (!workload->models || !workload->usual_ns)
		return -ENOMEM;
	for (uint32_t i = 0; i < workload->model_count; i++) {
		workload->models[i] = i % workload->kind_count;
		workload->usual_ns[i] = compute_ns(&workload->kinds[workload->models[i]], source);
	}
	return sim_workload_zipf(workload, source->zipf);
}

static const struct {
	const char *name, *path;
	int (*create)(struct sim_workload *workload, const struct sim_workload_source *source,
		      const char *path, char *error);
} sources[] = {
	{ "distmind", "models", distmind },
	{ "azure", "azure/AzureLLMInferenceTrace_conv.csv", sim_workload_azure },
	{ "genai", "alibaba-genai/lora_request_trace.csv", sim_workload_genai },
	{ "dlrm", "alibaba-dlrm/disaggregated_DLRM_trace.csv", sim_workload_dlrm },
};

const char *sim_workload_data(void)
{
	const char *data = getenv("DISTMIND_DATA");

	return data && *data ? data : "../shared/data";
}

int sim_workload_create(struct sim_workload *workload, const struct sim_workload_source *source,
			char error[SIM_WORKLOAD_ERROR_LEN])
{
	char path[4096];
	int err = -EINVAL;

	memset(workload, 0, sizeof(*workload));
	snprintf(error, SIM_WORKLOAD_ERROR_LEN,
		 "there is no workload \"%s\": write distmind, azure, genai or dlrm", source->name);
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		if (strcmp(sources[i].name, source->name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", source->data, sources[i].path);
		*error = '\0';
		err = sources[i].create(workload, source, path, error);
	}
	if (err) {
		if (!*error)
			snprintf(error, SIM_WORKLOAD_ERROR_LEN, "%s", strerror(-err));
		sim_workload_destroy(workload);
	}
	return err;
}

void sim_workload_destroy(struct sim_workload *workload)
{
	for (uint32_t i = 0; workload->kinds && i < workload->kind_count; i++)
		free(workload->kinds[i].layers);
	free(workload->kinds);
	free(workload->models);
	free(workload->trace);
	free(workload->alias_keep);
	free(workload->alias_other);
	free(workload->usual_ns);
	memset(workload, 0, sizeof(*workload));
}

void sim_workload_start(struct sim_workload *workload, double gpus, uint64_t requests,
			uint64_t seed)
{
	double length;

	sim_random_seed(&workload->random, seed);
	workload->now_ns = 0;
	workload->next = 0;
	workload->last = requests ? requests : workload->trace_count;
	workload->restart_ns = 0;
	if (!workload->trace) {
		workload->gap_ns = workload->usual_mean_ns / gpus;
		return;
	}
	length = (double)workload->trace[workload->trace_count - 1].arrival_ns;
	workload->stretch = workload->trace_compute_ns / gpus / length;
}

uint32_t sim_workload_draw(const struct sim_workload *workload, struct sim_random *random)
{
	uint64_t lot = sim_random_next(random);
	uint32_t column = (uint32_t)((lot >> 32) * workload->model_count >> 32);

	return (lot & UINT32_MAX) < workload->alias_keep[column] ? column :
								   workload->alias_other[column];
}

static void draw(struct sim_workload *workload, struct sim_request *request)
{
	request->model = sim_workload_draw(workload, &workload->random);
	workload->now_ns += sim_random_exponential(&workload->random, workload->gap_ns);
	request->arrival_ns = (uint64_t)workload->now_ns;
	request->compute_ns = workload->usual_ns[request->model];
	request->extra_bytes = 0;
}

bool sim_workload_next(struct sim_workload *workload, struct sim_request *request)
{
	size_t position;

	if (workload->next == workload->last)
		return false;
	if (!workload->trace) {
		draw(workload, request);
	} else {
		position = workload->next % workload->trace_count;
		if (!position && workload->next)
			workload->restart_ns = (uint64_t)workload->now_ns;
		*request = workload->trace[position];
		request->arrival_ns = workload->restart_ns +
			(uint64_t)((double)request->arrival_ns * workload->stretch);
		workload->now_ns = (double)request->arrival_ns;
	}
	workload->next++;
	return true;
}

uint64_t sim_workload_length(const struct sim_workload *workload)
{
	if (!workload->trace)
		return (uint64_t)(workload->gap_ns * (double)workload->last);
	return (uint64_t)((double)workload->trace[workload->trace_count - 1].arrival_ns *
			  workload->stretch * (double)workload->last /
			  (double)workload->trace_count);
}
