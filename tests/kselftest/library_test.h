/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest tests that use the library share, beside distmind_test.h: a gpu whose
 * engine is threads of the test, and vgpus that an administrator made.
 */
#ifndef LIBRARY_TEST_H
#define LIBRARY_TEST_H

#include <pthread.h>

#include "distmind_test.h"

#define GPU_LANES 4 /* at most */

/* Runs next->job and puts what came of it into next: the status, the cookie. */
typedef void (*job_runner)(struct distmind_engine *engine, struct distmind_engine_exchange *next);

/* Its lanes point to it: it stays where it was started. */
struct gpu {
	struct distmind_engine *engine;
	job_runner run;
	uint32_t lane_count;
	struct lane {
		struct gpu *gpu;
		uint32_t number;
		pthread_t thread;
	} lanes[GPU_LANES];
};

static inline void *lane_thread(void *arg)
{
	struct lane *lane = arg;
	struct distmind_engine_exchange exchange = { .lane = lane->number, .timeout_ms = 50 };

	for (;;) {
		int err = distmind_engine_exchange(lane->gpu->engine, &exchange);

		if (err == -ENODEV)
			return NULL;
		exchange.done = exchange.cookie = exchange.status = 0;
		if (err)
			continue;
		lane->gpu->run(lane->gpu->engine, &exchange);
		exchange.done = exchange.job.id;
	}
}

static inline int gpu_start(struct gpu *gpu, const struct distmind_engine_params *params,
			    job_runner run)
{
	int err = distmind_engine_register(params, &gpu->engine);

	if (err)
		return err;
	gpu->run = run;
	gpu->lane_count = params->compute_lanes;
	for (uint32_t i = 0; i < gpu->lane_count; i++) {
		gpu->lanes[i] = (struct lane){ .gpu = gpu, .number = i };
		err = -pthread_create(&gpu->lanes[i].thread, NULL, lane_thread, &gpu->lanes[i]);
		if (err)
			return err;
	}
	return 0;
}

/* Removing it is what ends its threads. */
static inline int gpu_stop(struct distmind_pool *pool, struct gpu *gpu)
{
	int err = distmind_pool_gpu_remove(pool, distmind_engine_gpu(gpu->engine));

	for (uint32_t i = 0; i < gpu->lane_count; i++)
		pthread_join(gpu->lanes[i].thread, NULL);
	distmind_engine_close(gpu->engine);
	return err;
}

static inline int library_vgpu_open(uint32_t id, struct distmind_vgpu **vgpu)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/distmind/vgpu%u", id);
	return distmind_vgpu_open(path, vgpu);
}

/* A vgpu as the record says, which has its number then, opened. */
static inline int library_vgpu_create(struct distmind_pool *pool,
				      struct distmind_vgpu_record *record,
				      struct distmind_vgpu **vgpu)
{
	int err = distmind_pool_vgpu_create(pool, record);

	return err ? err : library_vgpu_open(record->id, vgpu);
}

/* Until the queue's first job waits for room in the heap, for at most 20 s; whether it does. */
static inline bool library_waits_for_room(struct distmind_queue *queue)
{
	struct distmind_queue_room room;

	for (int i = 0; i < 20000; i++) {
		if (!distmind_queue_room(queue, &room) && room.waited_ns)
			return true;
		usleep(1000);
	}
	return false;
}

/* Whether its first job waits for room no longer, within 20 s. */
static inline bool library_has_room(struct distmind_queue *queue)
{
	struct distmind_queue_room room;

	for (int i = 0; i < 20000; i++) {
		if (!distmind_queue_room(queue, &room) && !room.waited_ns)
			return true;
		usleep(1000);
	}
	return false;
}

#endif /* LIBRARY_TEST_H */
