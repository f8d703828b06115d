// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Workloads from traces. What a trace does not say is assumed here, in one place:
 *
 * azure	arrivals and tokens of a service; which of the models a request is for is
 *		drawn by popularity. A model of 7 billion parameters in 16 bits.
 * genai	checkpoints, adapters and execution times as they are. A checkpoint of a
 *		text-to-image model takes 6.9 GB, an adapter 150 MB.
 * dlrm		services by the number of their gpu instances; arrivals are drawn. The
 *		dense part, which the gpu computes, is a twentieth of the memory that an
 *		instance asks for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "csv.h"
#include "workload.h"

#define AZURE_MODELS 16
#define AZURE_BYTES 13500000000ULL
#define AZURE_CONTEXT_NS 100000	  /* of each token that is read */
#define AZURE_GENERATED_NS 15000000 /* of each token that is written */
#define GENAI_BYTES 6900000000ULL
#define GENAI_ADAPTER_BYTES 150000000
#define GENAI_ADAPTERS_MAX 1000
#define DLRM_DENSE_SHARE (1.0 / 20)
#define DLRM_MEMORY_MIN 0.001
#define DLRM_MEMORY_MAX 100000.0
#define DLRM_GPUS_MAX 1000
#define DLRM_COMPUTE_NS 4000000.0

#define NAME_LEN 64
#define TOKENS_MAX 10000000
#define SECONDS_MAX 1000000
#define TRACE_NS_MAX 1e16 /* stretched a hundredfold it still fits 64 bits */

_Static_assert(SIM_WORKLOAD_ERROR_LEN >= CSV_ERROR_LEN, "room for the complaints about a file");

/* A file of which some columns are read: the time, if there is one, is the first. */
struct table {
	struct csv csv;
	int columns[4];
};

/* Models in the order in which they were first seen, and of services what they need. */
struct names {
	struct name {
		char text[NAME_LEN];
		double instances, gigabytes;
	} *list;
	uint32_t count, room;
};

/* Closed by csv_close() only after 0. */
static int table_open(struct table *table, const char *path, const char *const *names, size_t count,
		      char *error)
{
	int err = csv_open(&table->csv, path, error);

	for (size_t i = 0; !err && i < count; i++) {
		table->columns[i] = csv_column(&table->csv, names[i]);
		if (table->columns[i] < 0) {
			err = table->columns[i];
			csv_close(&table->csv);
		}
	}
	return err;
}

static int complain(struct table *table, const char *what)
{
	return csv_complain(&table->csv, -1, "%s", what);
}

static int number(struct table *table, int index, uint64_t max, uint64_t *value)
{
	return csv_number(&table->csv, table->columns[index], max, value);
}

/* 2023-11-16 18:15:46.6805900, as nanoseconds since some time. */
static int moment(struct table *table, uint64_t *ns)
{
	const char *text = table->csv.fields[table->columns[0]];
	struct tm tm = { 0 };
	double seconds;
	int end = 0;

	if (sscanf(text, "%4d-%2d-%2d %2d:%2d:%lf%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &seconds, &end) != 6 ||
	    text[end] || !(seconds >= 0 && seconds < 61) || tm.tm_year < 1970 || tm.tm_mon < 1 ||
	    tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 ||
	    tm.tm_hour > 23 || tm.tm_min < 0 || tm.tm_min > 59)
		return csv_complain(&table->csv, table->columns[0],
				    "\"%.40s\" is not a time: write it as 2023-11-16 18:15:46.5",
				    text);
	tm.tm_year -= 1900;
	tm.tm_mon--;
	*ns = (uint64_t)timegm(&tm) * 1000000000 + (uint64_t)(seconds * 1e9);
	return 0;
}

/* One more request, not before the last one. */
static int append(struct sim_workload *workload, struct table *table, size_t *room,
		  uint64_t *first_ns, const struct sim_request *request)
{
	uint64_t ns = request->arrival_ns;
	struct sim_request *more;

	if (!workload->trace_count)
		*first_ns = ns;
	if (ns < *first_ns || (workload->trace_count && ns - *first_ns <
				workload->trace[workload->trace_count - 1].arrival_ns))
		return csv_complain(&table->csv, table->columns[0],
				    "earlier than the line before: sort the lines by time");
	if (workload->trace_count == *room) {
		*room = *room ? 2 * *room : 1024;
		more = reallocarray(workload->trace, *room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		workload->trace = more;
	}
	workload->trace[workload->trace_count] = *request;
	workload->trace[workload->trace_count++].arrival_ns = ns - *first_ns;
	return 0;
}

static int names_find(struct names *names, struct table *table, int index, uint32_t *found)
{
	const char *name = table->csv.fields[table->columns[index]];
	struct name *more;

	if (strlen(name) >= NAME_LEN)
		return csv_complain(&table->csv, table->columns[index],
				    "longer than %d characters: shorten it", NAME_LEN - 1);
	for (*found = 0; *found < names->count; ++*found)
		if (!strcmp(names->list[*found].text, name))
			return 0;
	if (names->count == names->room) {
		names->room = names->room ? 2 * names->room : 64;
		more = reallocarray(names->list, names->room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		names->list = more;
	}
	names->list[names->count] = (struct name){ 0 };
	strcpy(names->list[names->count++].text, name);
	return 0;
}

/* One kind for all models: its computation takes as long as the trace's requests on average. */
static int one_kind(struct sim_workload *workload, const struct sim_workload_source *source,
		    struct table *table, uint64_t bytes, uint32_t models)
{
	if (workload->trace_count < 2 || !workload->trace[workload->trace_count - 1].arrival_ns)
		return complain(table, "no two requests at different times: add some");
	for (size_t i = 0; i < workload->trace_count; i++)
		workload->trace_compute_ns += (double)workload->trace[i].compute_ns;
	if (!(workload->trace_compute_ns > 0))
		return complain(table, "no request takes any time: add some that do");
	if (workload->trace_compute_ns > TRACE_NS_MAX)
		return complain(table, "more than 115 days of computation: split the file");
	workload->kinds = calloc(1, sizeof(*workload->kinds));
	workload->models = calloc(models, sizeof(*workload->models));
	if (!workload->kinds || !workload->models)
		return -ENOMEM;
	workload->kind_count = 1;
	workload->model_count = models;
	return sim_workload_uniform(workload->kinds, bytes,
				    workload->trace_compute_ns / 1e9 /
					    (double)workload->trace_count * source->flops);
}

static int azure_read(struct sim_workload *workload, struct table *table)
{
	struct sim_request request = { 0 };
	uint64_t first = 0, context, generated;
	size_t room = 0;
	int err;

	while ((err = csv_next(&table->csv)) > 0) {
		err = moment(table, &request.arrival_ns);
		if (!err)
			err = number(table, 1, TOKENS_MAX, &context);
		if (!err)
			err = number(table, 2, TOKENS_MAX, &generated);
		if (err)
			return err;
		request.compute_ns = context * AZURE_CONTEXT_NS + generated * AZURE_GENERATED_NS;
		err = append(workload, table, &room, &first, &request);
		if (err)
			return err;
	}
	return err;
}

int sim_workload_azure(struct sim_workload *workload, const struct sim_workload_source *source,
		       const char *path, char *error)
{
	static const char *const names[] = { "TIMESTAMP", "ContextTokens", "GeneratedTokens" };
	uint32_t models = source->models ? source->models : AZURE_MODELS;
	struct sim_random random;
	struct table table;
	int err = table_open(&table, path, names, 3, error);

	if (err)
		return err;
	err = azure_read(workload, &table);
	if (!err)
		err = one_kind(workload, source, &table, AZURE_BYTES, models);
	if (!err)
		err = sim_workload_zipf(workload, source->zipf);
	sim_random_seed(&random, source->seed);
	for (size_t i = 0; !err && i < workload->trace_count; i++)
		workload->trace[i].model = sim_workload_draw(workload, &random);
	csv_close(&table.csv);
	return err;
}

static int genai_read(struct sim_workload *workload, struct table *table, struct names *checkpoints)
{
	struct sim_request request = { 0 };
	uint64_t first = 0, seconds, adapters;
	size_t room = 0;
	int err;

	while ((err = csv_next(&table->csv)) > 0) {
		err = moment(table, &request.arrival_ns);
		if (!err)
			err = number(table, 1, SECONDS_MAX, &seconds);
		if (!err)
			err = number(table, 3, GENAI_ADAPTERS_MAX, &adapters);
		if (!err)
			err = names_find(checkpoints, table, 2, &request.model);
		if (err)
			return err;
		request.compute_ns = seconds * 1000000000;
		request.extra_bytes = adapters * GENAI_ADAPTER_BYTES;
		err = append(workload, table, &room, &first, &request);
		if (err)
			return err;
	}
	return err;
}

int sim_workload_genai(struct sim_workload *workload, const struct sim_workload_source *source,
		       const char *path, char *error)
{
	static const char *const names[] = {
		"gmt_create", "exec_time_seconds", "checkpoint_model_version_id", "num_lora",
	};
	struct names checkpoints = { 0 };
	struct table table;
	int err = table_open(&table, path, names, 4, error);

	if (err)
		return err;
	err = genai_read(workload, &table, &checkpoints);
	if (!err)
		err = one_kind(workload, source, &table, GENAI_BYTES, checkpoints.count);
	free(checkpoints.list);
	csv_close(&table.csv);
	return err;
}

/* As csv_number(), with a fraction; not less than DLRM_MEMORY_MIN. */
static int gigabytes(struct table *table, int index, double *value)
{
	const char *text = table->csv.fields[table->columns[index]];
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !(*value >= DLRM_MEMORY_MIN && *value <= DLRM_MEMORY_MAX))
		return csv_complain(&table->csv, table->columns[index],
				    "\"%.40s\" is not a size: write %g to %g", text,
				    DLRM_MEMORY_MIN, DLRM_MEMORY_MAX);
	return 0;
}

static int dlrm_read(struct table *table, struct names *services)
{
	uint64_t gpus;
	double memory;
	uint32_t found;
	int err;

	while ((err = csv_next(&table->csv)) > 0) {
		err = number(table, 1, DLRM_GPUS_MAX, &gpus);
		if (!err)
			err = gigabytes(table, 2, &memory);
		if (!err && gpus) {
			err = names_find(services, table, 0, &found);
			if (!err) {
				services->list[found].instances += (double)gpus;
				services->list[found].gigabytes = memory;
			}
		}
		if (err)
			return err;
	}
	if (!err && !services->count)
		err = complain(table, "no instance has a gpu: add some");
	return err;
}

static int dlrm_models(struct sim_workload *workload, const struct sim_workload_source *source,
		       const struct names *services)
{
	double *weights = calloc(services->count, sizeof(*weights));
	int err = 0;

	workload->kinds = calloc(services->count, sizeof(*workload->kinds));
	workload->models = calloc(services->count, sizeof(*workload->models));
	workload->usual_ns = calloc(services->count, sizeof(*workload->usual_ns));
	workload->model_count = services->count;
	if (!weights || !workload->kinds || !workload->models || !workload->usual_ns)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < services->count; i++) {
		weights[i] = services->list[i].instances;
		workload->models[i] = i;
		workload->usual_ns[i] = (uint64_t)DLRM_COMPUTE_NS;
		err = sim_workload_uniform(&workload->kinds[workload->kind_count++],
					   (uint64_t)(services->list[i].gigabytes * 1e9 *
						      DLRM_DENSE_SHARE),
					   DLRM_COMPUTE_NS / 1e9 * source->flops);
	}
	if (!err)
		err = sim_workload_popularity(workload, weights);
	free(weights);
	return err;
}

int sim_workload_dlrm(struct sim_workload *workload, const struct sim_workload_source *source,
		      const char *path, char *error)
{
	static const char *const names[] = { "app_name", "gpu_request", "memory_request" };
	struct names services = { 0 };
	struct table table;
	int err = table_open(&table, path, names, 3, error);

	if (err)
		return err;
	err = dlrm_read(&table, &services);
	if (!err)
		err = dlrm_models(workload, source, &services);
	free(services.list);
	csv_close(&table.csv);
	return err;
}
