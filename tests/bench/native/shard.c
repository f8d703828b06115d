// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How evenly the chunks of a group are spread over donors, and what a donor that
 * joins costs: the five models of DistMind's evaluation in the planner's groups,
 * and a language model of seven billion parameters by layers. Groups in which a
 * donor's part is ten chunks or more are held against the 10 %; in smaller ones,
 * which no choice of donors makes even, it is enough that no donor has more than
 * a chunk above its part.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../../userspace/model/chunk.h"
#include "../../userspace/planner/layers.h"
#include "../../userspace/sharding/sharding.h"
#include "bench.h"

#define DONORS 10
#define EVEN 0.10
#define MOVED (0.10 + 0.02)

static const char *const models[] = {
	"resnet152", "densenet201", "inception_v3", "bert_base", "gpt2",
};

static const struct planner_rates rates = {
	.network = 12.5e9, .copy = 12e9, .compute = 14e12,
	.transfer_cost = 20e-6, .launch_cost = 10e-6,
};

/* The largest deviation from even; of groups with few chunks, in chunks. */
struct balance {
	double large, small;
};

/* The worst of all models. */
static struct {
	struct balance placed, joined;
	double moved; /* part of the chunks */
	double time;  /* microseconds per chunk */
} worst;

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		bench_die("out of memory");
	return memory;
}

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static void measure_balance(const struct sharding_chunk *chunks, uint32_t count, uint32_t donors,
			    struct balance *balance)
{
	for (uint32_t from = 0, to; from < count; from = to) {
		double load[DONORS] = { 0 }, part = 0, largest = 0;

		for (to = from; to < count && chunks[to].group == chunks[from].group; to++) {
			load[chunks[to].donors[0]] += chunks[to].size;
			part += (double)chunks[to].size / donors;
			largest = fmax(largest, chunks[to].size);
		}
		for (uint32_t d = 0; d < donors; d++) {
			double above = load[d] - part;

			if (part >= 10 * largest)
				balance->large = fmax(balance->large, fabs(above) / part);
			else
				balance->small = fmax(balance->small, above / largest);
		}
	}
}

static void place(struct sharding_chunk *chunks, uint32_t count, uint32_t donor_count,
		  struct sharding_change *change)
{
	struct sharding_donor donors[DONORS];

	for (uint32_t d = 0; d < DONORS; d++)
		donors[d] = (struct sharding_donor){
			.id = d, .bandwidth = 12.5e9, .room = UINT64_MAX,
		};
	if (sharding_place(donors, donor_count, chunks, count, 1, change))
		bench_die("the model is not placed");
}

/* Chunks with their groups: on any number of donors, then one more than there were. */
static void measure(struct sharding_chunk *chunks, uint32_t count)
{
	struct sharding_change change;
	double start;

	for (uint32_t donors = 2; donors <= DONORS; donors++) {
		for (uint32_t i = 0; i < count; i++)
			chunks[i].copies = 0;
		place(chunks, count, donors, &change);
		measure_balance(chunks, count, donors, &worst.placed);
	}
	for (uint32_t i = 0; i < count; i++)
		chunks[i].copies = 0;
	start = cpu_now();
	place(chunks, count, DONORS - 1, &change);
	worst.time = fmax(worst.time, (cpu_now() - start) / count * 1e6);
	place(chunks, count, DONORS, &change);
	worst.moved = fmax(worst.moved, (double)change.moves / count);
	measure_balance(chunks, count, DONORS, &worst.joined);
}

/* ends: the layers of each group, of layers with these sizes. */
static void measure_model(const uint64_t *sizes, uint32_t layers, const uint32_t *ends,
			  uint32_t groups)
{
	uint64_t *offsets = allocate(layers, sizeof(*offsets));
	struct sharding_chunk *chunks;
	struct model_chunk *cut;
	uint32_t count, group = 0;

	if (model_chunk_cut(sizes, layers, offsets, &cut, &count))
		bench_die("out of memory");
	chunks = allocate(count, sizeof(*chunks));
	for (uint32_t i = 0; i < count; i++) {
		while (group + 1 < groups && cut[i].offset >= offsets[ends[group]])
			group++;
		chunks[i].key = i * 0x9e3779b97f4a7c15ULL;
		chunks[i].size = cut[i].size;
		chunks[i].group = group;
	}
	measure(chunks, count);
	free(chunks);
	free(cut);
	free(offsets);
}

static void measure_file(const char *model)
{
	const char *data = getenv("DISTMIND_DATA");
	char path[4096], error[PLANNER_ERROR_LEN];
	struct planner_grouping grouping;
	struct planner_pipeline pipeline;
	struct planner_layers layers;
	uint64_t *sizes;

	snprintf(path, sizeof(path), "%s/models/%s.tsv", data ? data : "../shared/data", model);
	if (access(path, R_OK)) {
		fprintf(stderr, "bench: shard: without %s, there is none: set DISTMIND_DATA\n",
			path);
		return;
	}
	if (planner_layers_read(path, &layers, error))
		bench_die("%s", error);
	if (planner_pipeline_create(&pipeline, layers.layers, layers.count, &rates) ||
	    planner_optimal(&pipeline, &grouping))
		bench_die("%s: no plan", path);
	sizes = allocate(layers.count, sizeof(*sizes));
	for (size_t i = 0; i < layers.count; i++)
		sizes[i] = layers.layers[i].bytes;
	measure_model(sizes, (uint32_t)layers.count, grouping.ends, (uint32_t)grouping.count);
	free(sizes);
	planner_grouping_destroy(&grouping);
	planner_pipeline_destroy(&pipeline);
	planner_layers_destroy(&layers);
}

/* 4096 wide, 11008 inside, 32 layers, half precision; a group is a layer. */
static void measure_language_model(void)
{
	enum { LAYERS = 32, EACH = 9 };
	const uint64_t square = 4096ULL * 4096 * 2, wide = 4096ULL * 11008 * 2, norm = 4096 * 2;
	const uint64_t layer[EACH] = { norm, square, square, square, square,
				       norm, wide,   wide,   wide };
	uint64_t sizes[LAYERS * EACH];
	uint32_t ends[LAYERS];

	for (uint32_t i = 0; i < LAYERS * EACH; i++)
		sizes[i] = layer[i % EACH];
	for (uint32_t i = 0; i < LAYERS; i++)
		ends[i] = (i + 1) * EACH;
	measure_model(sizes, LAYERS * EACH, ends, LAYERS);
}

static void report(const char *name, double value, const char *unit, const char *baseline,
		   double limit)
{
	bench_report(name, value, unit, baseline, limit, limit / value);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		measure_file(models[i]);
	measure_language_model();
	report("shard.balance", worst.placed.large * 100, "%", "allowed from even", EVEN * 100);
	report("shard.balance.small", worst.placed.small, "chunks", "allowed above even", 1);
	report("shard.balance.time", worst.time, "us", "reading a chunk at 100 Gbit/s",
	       MODEL_CHUNK_LEAST / 12.5e9 * 1e6);
	report("shard.join", worst.moved * 100, "%", "allowed to move", MOVED * 100);
	report("shard.join.balance", worst.joined.large * 100, "%", "allowed from even",
	       EVEN * 100);
	report("shard.join.small", worst.joined.small, "chunks", "allowed above even", 1);
	return 0;
}
