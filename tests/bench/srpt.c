// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Short requests, and one in eleven that is ten times as long, each kind from a
 * tenant of its own, together 80 % of what the lane can do:
 *
 *   srpt.mean  mean latency of all, against that under fifo
 *   srpt.long  mean latency of the long ones, against that under fifo: below 1,
 *              but not starved
 *   srpt.worst the longest latency of any, against that under fifo
 */
#include "traffic.h"

#define ROUNDS	    3
#define DURATION_NS 8000000000
#define BLOCK_NS    1000000
#define SHORT	    2 /* blocks */
#define LONG	    (10 * SHORT)
#define LOAD	    0.4 /* of each kind: ten short ones are as much as a long one */

struct world {
	struct distmind_pool *pool;
	uint32_t gpu;
};

/* What became of the requests under one policy. */
struct outcome {
	const char *policy;
	double sum, sum_long, worst;
	uint32_t count, count_long;
};

static void collect(struct outcome *outcome, const struct traffic *traffic)
{
	for (uint32_t i = 0; i < traffic->count; i++) {
		double latency = traffic->latency[i];

		outcome->sum += latency;
		outcome->count++;
		outcome->worst = latency > outcome->worst ? latency : outcome->worst;
		if (traffic->blocks == LONG) {
			outcome->sum_long += latency;
			outcome->count_long++;
		}
	}
}

static void play(struct world *world, uint64_t seed, struct outcome *outcome)
{
	struct traffic traffic[2] = {
		{ .blocks = SHORT, .block_ns = BLOCK_NS },
		{ .blocks = LONG, .block_ns = BLOCK_NS },
	};
	struct client clients[2];

	must(distmind_pool_gpu_policy(world->pool, world->gpu, outcome->policy), outcome->policy);
	for (int i = 0; i < 2; i++) {
		clients[i] = client_open(world->pool, world->gpu, 500, DISTMIND_CLASS_STANDARD, 0);
		traffic[i].client = &clients[i];
		traffic_open(&traffic[i], LOAD, DURATION_NS, 2 * seed + i);
		traffic[i].begin_ns = i ? traffic[0].begin_ns : now_ns() + 100000000;
	}
	for (int i = 0; i < 2; i++)
		traffic_start(&traffic[i]);
	for (int i = 0; i < 2; i++) {
		traffic_finish(&traffic[i]);
		collect(outcome, &traffic[i]);
		traffic_close(&traffic[i]);
		client_close(world->pool, &clients[i]);
	}
}

static void compare(const char *name, double srpt, double fifo)
{
	bench_report(name, srpt * 1e3, "ms", "fifo", fifo * 1e3, fifo / srpt);
}

int main(void)
{
	struct outcome fifo = { .policy = "fifo" }, srpt = { .policy = "srpt" };
	struct world world;

	must(distmind_pool_open(&world.pool), "pool");
	world.gpu = lane_open();
	for (uint64_t i = 0; i < ROUNDS; i++) {
		play(&world, i, &fifo);
		play(&world, i, &srpt);
	}
	compare("srpt.mean", srpt.sum / srpt.count, fifo.sum / fifo.count);
	compare("srpt.long", srpt.sum_long / srpt.count_long, fifo.sum_long / fifo.count_long);
	compare("srpt.worst", srpt.worst, fifo.worst);
	distmind_pool_close(world.pool);
	return 0;
}
