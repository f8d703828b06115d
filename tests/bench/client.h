/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tenant with one queue and one timeline, for benchmarks that keep an engine
 * busy. Jobs signal the timeline in their order, so its value is how many are
 * done.
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <distmind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

#define CLIENT_FOREVER_MS 60000
#define CLIENT_JOBS	  500 /* that one call submits */

struct client {
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *timeline;
	struct distmind_batch *batch;
	uint32_t id;
	uint64_t value; /* that the timeline will have after all that was submitted */
};

static inline void must(int err, const char *what)
{
	if (err < 0)
		bench_die("%s: %s", what, strerror(-err));
}

static inline struct client client_open(struct distmind_pool *pool, uint32_t gpu, uint32_t share,
					uint32_t sched_class, uint64_t objective_ns)
{
	struct distmind_vgpu_record record = {
		.gpu = gpu, .memory = 1 << 20, .share = share, .sched_class = sched_class,
		.objective_ns = objective_ns,
	};
	struct client client = { 0 };
	char path[64];

	must(distmind_pool_vgpu_create(pool, &record), "create a vgpu");
	snprintf(path, sizeof(path), "/dev/distmind/vgpu%u", record.id);
	client.id = record.id;
	must(distmind_vgpu_open(path, &client.vgpu), "open a vgpu");
	must(distmind_queue_create(client.vgpu, DISTMIND_LANE_COMPUTE, 4096, &client.queue),
	     "create a queue");
	must(distmind_timeline_create(client.vgpu, 0, &client.timeline), "create a timeline");
	must(distmind_batch_create(&client.batch), "create a batch");
	return client;
}

/* What it has submitted and is not done is cancelled. */
static inline void client_close(struct distmind_pool *pool, struct client *client)
{
	distmind_batch_destroy(client->batch);
	distmind_queue_destroy(client->queue);
	distmind_timeline_destroy(client->timeline);
	distmind_vgpu_close(client->vgpu);
	distmind_pool_vgpu_delete(pool, client->id);
}

/* Adds a job to the batch; arguments follow with distmind_batch_number(). */
static inline void client_add(struct client *client, uint32_t operation, uint32_t blocks)
{
	distmind_batch_launch(client->batch, operation, blocks);
	distmind_batch_signal(client->batch, client->timeline, ++client->value);
}

static inline void client_submit(struct client *client)
{
	must(distmind_queue_submit(client->queue, client->batch, NULL), "submit");
	distmind_batch_clear(client->batch);
}

static inline void client_wait(struct client *client, uint64_t value)
{
	must(distmind_timeline_wait(client->timeline, value, CLIENT_FOREVER_MS), "wait");
}

#endif /* BENCH_CLIENT_H */
