// SPDX-License-Identifier: GPL-2.0-or-later
#include "gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_FIRST 16

static int make_room(struct sim_gpu *gpu)
{
	uint32_t count = gpu->tail - gpu->head, size;
	struct sim_job *queue;

	if (gpu->tail < gpu->size)
		return 0;
	if (count <= gpu->size / 2 && gpu->size) {
		memmove(gpu->queue, gpu->queue + gpu->head, count * sizeof(*gpu->queue));
	} else {
		if (gpu->size > UINT32_MAX / 2)
			return -ENOMEM;
		size = gpu->size ? 2 * gpu->size : QUEUE_FIRST;
		queue = malloc(size * sizeof(*queue));
		if (!queue)
			return -ENOMEM;
		if (count)
			memcpy(queue, gpu->queue + gpu->head, count * sizeof(*queue));
		free(gpu->queue);
		gpu->queue = queue;
		gpu->size = size;
	}
	gpu->head = 0;
	gpu->tail = count;
	return 0;
}

int sim_gpu_enqueue(struct sim_gpu *gpu, const struct sim_job *job)
{
	uint32_t at;
	int err = make_room(gpu);

	if (err)
		return err;
	for (at = gpu->tail; at > gpu->head && gpu->queue[at - 1].order > job->order; at--)
		gpu->queue[at] = gpu->queue[at - 1];
	gpu->queue[at] = *job;
	gpu->tail++;
	return 0;
}

bool sim_gpu_pick(struct sim_gpu *gpu, uint64_t now, bool deadlines, struct sim_job *job)
{
	uint64_t ready = UINT64_MAX, latest = UINT64_MAX, start;
	uint32_t at;

	for (at = gpu->head; at < gpu->tail; at++) {
		const struct sim_job *next = &gpu->queue[at];

		if (next->ready_ns <= now && next->compute_ns <= latest - now)
			break;
		if (next->ready_ns <= now)
			continue;
		if (next->ready_ns < ready)
			ready = next->ready_ns;
		/* What cannot make it anyway holds up nobody. */
		start = next->deadline_ns - next->compute_ns;
		if (deadlines && next->ready_ns <= start && start < latest)
			latest = start;
	}
	if (at == gpu->tail) {
		gpu->next_ns = ready;
		return false;
	}
	*job = gpu->queue[at];
	for (; at > gpu->head; at--)
		gpu->queue[at] = gpu->queue[at - 1];
	gpu->head++;
	return true;
}

void sim_gpu_gap(const struct sim_gpu *gpu, const struct sim_training *training, uint64_t now,
		 const struct sim_job *job, struct sim_gap *gap)
{
	uint64_t idle = now - gpu->idle_ns, spare, rest;
	bool expected = job->ready_ns > job->arrival_ns;

	*gap = (struct sim_gap){ .start_ns = now };
	if (training->preemption == SIM_PREEMPT_NONE || idle <= training->resume_ns)
		return;
	spare = idle - training->resume_ns;
	gap->preempted = true;
	if (training->preemption == SIM_PREEMPT_ITERATION) {
		rest = spare % training->iteration_ns;
		if (rest)
			gap->start_ns += training->iteration_ns - rest;
		gap->trained_ns = gap->start_ns - gpu->idle_ns - training->resume_ns;
	} else if (expected) {
		gap->trained_ns = spare > training->yield_ns ? spare - training->yield_ns : 0;
		gap->preempted = gap->trained_ns;
	} else {
		gap->trained_ns = spare;
		gap->start_ns += training->yield_ns;
	}
}
