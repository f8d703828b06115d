// SPDX-License-Identifier: GPL-2.0-or-later
#include "staging.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH_JOBS 256

struct group {
	uint64_t offset, length; /* in the image of the model */
	uint64_t position; /* in a ring that never ends: modulo its size it is the place */
	uint32_t after; /* groups that must have left before it comes */
};

struct staging {
	const struct model_manifest *model;
	const struct grouping *grouping;
	struct distmind_buffer *buffer;
	uint8_t *address;
	uint64_t size;
	struct distmind_timeline *arrival;
	struct distmind_queue *queue;
	struct group groups[];
};

uint64_t staging_group_max(const struct model_manifest *model)
{
	uint64_t max = STAGING_GROUP_LEAST;

	while (max * STAGING_GROUPS < model->size)
		max *= 2;
	return max;
}

uint64_t staging_size(const struct model_manifest *model)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t size = (model->size + page - 1) / page * page;
	uint64_t ring = 4 * staging_group_max(model);

	return size < ring ? size : ring;
}

static uint64_t align(uint64_t position)
{
	return (position + MODEL_ALIGNMENT - 1) / MODEL_ALIGNMENT * MODEL_ALIGNMENT;
}

static void lay_out(struct staging *staging)
{
	const struct model_chunk *chunks = staging->model->chunks;
	uint32_t first = 0, left = 0;
	uint64_t position = 0;

	for (uint32_t i = 0; i < staging->grouping->count; i++) {
		struct group *group = &staging->groups[i];
		uint32_t end = staging->grouping->groups[i].end_chunk;

		if (end > first) {
			group->offset = chunks[first].offset;
			group->length = chunks[end - 1].offset + chunks[end - 1].size - group->offset;
		}
		position = align(position);
		if (position % staging->size + group->length > staging->size)
			position += staging->size - position % staging->size;
		group->position = position;
		position += group->length;
		/* What begins before the ring's last round is written over. */
		while (staging->groups[left].position + staging->size < position)
			left++;
		group->after = left;
		first = end;
	}
}

static int submit_copies(struct staging *staging, struct distmind_buffer *weights,
			 struct distmind_timeline *timeline)
{
	uint32_t count = staging->grouping->count, jobs = 0;
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	if (err)
		return err;
	for (uint32_t i = 0; i < count && !err; i++) {
		const struct group *group = &staging->groups[i];

		if (group->length)
			distmind_batch_copy(batch, weights, group->offset, staging->buffer,
					    group->position % staging->size, group->length);
		else
			distmind_batch_barrier(batch);
		distmind_batch_wait(batch, staging->arrival, i + 1);
		distmind_batch_signal(batch, timeline, i + 1);
		if (++jobs < BATCH_JOBS && i + 1 < count)
			continue;
		err = distmind_queue_submit(staging->queue, batch, NULL);
		distmind_batch_clear(batch);
		jobs = 0;
	}
	distmind_batch_destroy(batch);
	return err;
}

int staging_create(struct staging **result, struct distmind_vgpu *vgpu,
		   const struct model_manifest *model, const struct grouping *grouping,
		   struct distmind_buffer *weights, struct distmind_timeline *timeline)
{
	struct staging *staging = calloc(1, sizeof(*staging) +
						    grouping->count * sizeof(*staging->groups));
	int err;

	if (!staging)
		return -ENOMEM;
	staging->model = model;
	staging->grouping = grouping;
	staging->size = staging_size(model);
	lay_out(staging);
	err = distmind_buffer_create(vgpu, staging->size, DISTMIND_BUFFER_DATA, &staging->buffer);
	if (!err)
		err = distmind_buffer_map(staging->buffer, (void **)&staging->address);
	if (!err)
		err = distmind_timeline_create(vgpu, 0, &staging->arrival);
	if (!err)
		err = distmind_queue_create(vgpu, DISTMIND_LANE_COPY, grouping->count,
					    &staging->queue);
	if (!err)
		err = submit_copies(staging, weights, timeline);
	if (err) {
		staging_destroy(staging);
		return err;
	}
	*result = staging;
	return 0;
}

void staging_destroy(struct staging *staging)
{
	if (!staging)
		return;
	distmind_queue_destroy(staging->queue);
	distmind_timeline_destroy(staging->arrival);
	distmind_buffer_destroy(staging->buffer);
	free(staging);
}

struct distmind_buffer *staging_buffer(const struct staging *staging)
{
	return staging->buffer;
}

uint8_t *staging_address(const struct staging *staging)
{
	return staging->address;
}

uint8_t *staging_place(const struct staging *staging, uint32_t chunk)
{
	const struct group *group = &staging->groups[grouping_find(staging->grouping, chunk)];

	return staging->address + group->position % staging->size +
	       (staging->model->chunks[chunk].offset - group->offset);
}

int staging_arrived(struct staging *staging, uint32_t groups)
{
	return distmind_timeline_signal(staging->arrival, groups);
}

/* The first group that has to wait for more than left to leave. */
static uint32_t first_waiting(const struct staging *staging, uint32_t left)
{
	uint32_t low = 0, high = staging->grouping->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (staging->groups[middle].after > left)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t staging_allowed(const struct staging *staging, uint32_t left)
{
	return first_waiting(staging, left);
}

uint32_t staging_next(const struct staging *staging, uint32_t left)
{
	uint32_t waiting = first_waiting(staging, left);

	return waiting < staging->grouping->count ? staging->groups[waiting].after :
						staging->grouping->count;
}
