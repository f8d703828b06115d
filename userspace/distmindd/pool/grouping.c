// SPDX-License-Identifier: GPL-2.0-or-later
#include "grouping.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Until something was measured: 10 Gb/s, and what a group of READs costs beside. */
#define NETWORK 1.25e9
#define TRANSFER_COST 50e-6

/* Layers whose FLOPs nobody told are as costly as their parameters are many. */
static double layer_flops(const struct model_manifest_layer *layer)
{
	return layer->flops_known ? (double)layer->flops : (double)layer->bytes / 2;
}

static struct planner_layer *layers_of(const struct model_manifest *manifest, double *flops)
{
	struct planner_layer *layers = calloc(manifest->layer_count + 1, sizeof(*layers));

	*flops = 0;
	for (uint32_t i = 0; layers && i < manifest->layer_count; i++) {
		layers[i].bytes = manifest->layers[i].bytes;
		layers[i].flops = layer_flops(&manifest->layers[i]);
		*flops += layers[i].flops;
	}
	return layers;
}

static void choose_rates(struct planner_rates *chosen, const struct grouping_rates *rates,
			 double bytes, double flops)
{
	double seconds;

	chosen->network = rates->network > 0 ? rates->network : NETWORK;
	chosen->copy = rates->copy;
	chosen->transfer_cost = rates->transfer_cost > 0 ? rates->transfer_cost : TRANSFER_COST;
	/* Jobs are launched one by one, whatever the groups: it is part of the computing. */
	chosen->launch_cost = 0;
	seconds = rates->compute_ns ? (double)rates->compute_ns / 1e9 : bytes / chosen->network;
	chosen->compute = flops > 0 && seconds > 0 ? flops / seconds : 1e12;
}

static uint64_t bytes_of(const struct model_manifest *manifest, uint32_t first, uint32_t end)
{
	uint64_t bytes = 0;

	for (uint32_t i = first; i < end; i++)
		bytes += manifest->chunks[i].size;
	return bytes;
}

static int take_groups(struct grouping *grouping, const struct model_manifest *manifest,
		       const struct planner_grouping *found)
{
	uint32_t layer = 0, tensor = 0, chunk = 0;

	grouping->groups = calloc(found->count, sizeof(*grouping->groups));
	if (!grouping->groups)
		return -ENOMEM;
	grouping->count = (uint32_t)found->count;
	for (uint32_t i = 0; i < grouping->count; i++) {
		struct grouping_group *group = &grouping->groups[i];

		for (; layer < found->ends[i]; layer++)
			tensor += manifest->layers[layer].tensors;
		group->end_layer = layer;
		group->end_chunk = model_manifest_chunk_from(manifest, tensor);
		group->bytes = bytes_of(manifest, chunk, group->end_chunk);
		chunk = group->end_chunk;
	}
	return 0;
}

static uint64_t nanoseconds(int64_t time)
{
	return (uint64_t)time / (PLANNER_SECOND / 1000000000);
}

int grouping_make(struct grouping *grouping, const struct model_manifest *manifest,
		  const struct grouping_rates *rates)
{
	struct planner_grouping found = { 0 };
	struct planner_pipeline pipeline;
	struct planner_layer *layers;
	uint64_t begin_ns = (uint64_t)(rates->begin_cost * (double)manifest->size * 1e9);
	int64_t finish;
	double flops;
	int err;

	*grouping = (struct grouping){ 0 };
	layers = layers_of(manifest, &flops);
	if (!layers)
		return -ENOMEM;
	choose_rates(&grouping->rates, rates, (double)manifest->size, flops);
	err = planner_pipeline_create(&pipeline, layers, manifest->layer_count, &grouping->rates);
	if (err)
		goto out;
	err = planner_greedy(&pipeline, PLANNER_GREEDY_LIMIT, &found);
	if (!err) {
		grouping->greedy_ns = begin_ns + nanoseconds(planner_finish(&pipeline, &found));
		grouping->bound_ns = begin_ns + nanoseconds(planner_bound(&pipeline));
		planner_grouping_destroy(&found);
		err = planner_robust(layers, manifest->layer_count, &grouping->rates, rates->spread,
				     &found, &finish);
	}
	planner_pipeline_destroy(&pipeline);
	if (err)
		goto out;
	grouping->predicted_ns = begin_ns + nanoseconds(finish);
	err = take_groups(grouping, manifest, &found);
	planner_grouping_destroy(&found);
out:
	free(layers);
	return err;
}

/* Where a part that begins with this chunk has to end; it has at least that one. */
static uint32_t part_end(const struct model_manifest *manifest, uint32_t first, uint32_t end,
			 uint64_t max, uint32_t most)
{
	const struct model_chunk *chunks = manifest->chunks;
	uint32_t chunk = first;

	while (chunk < end && chunk - first < most &&
	       chunks[chunk].offset + chunks[chunk].size - chunks[first].offset <= max)
		chunk++;
	return chunk;
}

int grouping_cut(struct grouping *grouping, const struct model_manifest *manifest, uint64_t max,
		 uint32_t chunks)
{
	struct grouping_group *parts = calloc((size_t)grouping->count + manifest->chunk_count,
					  sizeof(*parts));
	uint32_t count = 0, first = 0, layer = 0;

	if (!parts)
		return -ENOMEM;
	for (uint32_t i = 0; i < grouping->count; i++) {
		const struct grouping_group *group = &grouping->groups[i];

		do {
			struct grouping_group *part = &parts[count++];

			part->end_chunk = part_end(manifest, first, group->end_chunk, max, chunks);
			part->end_layer = layer;
			part->bytes = bytes_of(manifest, first, part->end_chunk);
			first = part->end_chunk;
		} while (first < group->end_chunk);
		layer = parts[count - 1].end_layer = group->end_layer;
	}
	free(grouping->groups);
	grouping->groups = parts;
	grouping->count = count;
	return 0;
}

void grouping_clear(struct grouping *grouping)
{
	free(grouping->groups);
	*grouping = (struct grouping){ 0 };
}

static bool same_rates(const struct grouping_rates *a, const struct grouping_rates *b)
{
	return a->network == b->network && a->spread == b->spread && a->copy == b->copy &&
	       a->transfer_cost == b->transfer_cost && a->begin_cost == b->begin_cost &&
	       a->compute_ns == b->compute_ns;
}

const struct grouping *grouping_recent_get(struct grouping_recent *recent,
					   const struct model_manifest *manifest,
					   const struct grouping_rates *rates, int *err)
{
	struct grouping made;

	for (unsigned int i = 0; i < GROUPING_RECENT; i++)
		if (recent->entries[i].grouping.count &&
		    same_rates(&recent->entries[i].rates, rates))
			return &recent->entries[i].grouping;
	*err = grouping_make(&made, manifest, rates);
	if (*err) {
		grouping_clear(&made);
		return NULL;
	}
	recent->next = (recent->next + 1) % GROUPING_RECENT;
	grouping_clear(&recent->entries[recent->next].grouping);
	recent->entries[recent->next].grouping = made;
	recent->entries[recent->next].rates = *rates;
	return &recent->entries[recent->next].grouping;
}

/* Of all models: whoever needs the same grouping waits for it instead of making it too. */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

int grouping_take(struct grouping *grouping, struct grouping_recent *recent,
		  const struct model_manifest *manifest, const struct grouping_rates *rates)
{
	const struct grouping *found;
	int err;

	*grouping = (struct grouping){ 0 };
	pthread_mutex_lock(&taking);
	found = grouping_recent_get(recent, manifest, rates, &err);
	if (found) {
		*grouping = *found;
		grouping->groups = calloc(found->count, sizeof(*found->groups));
		err = grouping->groups ? 0 : -ENOMEM;
		if (!err)
			memcpy(grouping->groups, found->groups,
			       found->count * sizeof(*found->groups));
	}
	pthread_mutex_unlock(&taking);
	return err;
}

void grouping_recent_clear(struct grouping_recent *recent)
{
	for (unsigned int i = 0; i < GROUPING_RECENT; i++)
		grouping_clear(&recent->entries[i].grouping);
	*recent = (struct grouping_recent){ 0 };
}

uint32_t grouping_find(const struct grouping *grouping, uint32_t chunk)
{
	uint32_t low = 0, high = grouping->count - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (chunk < grouping->groups[middle].end_chunk)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}
