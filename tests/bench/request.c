// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of several jobs, each of the same length, short requests and long ones, each
 * kind 40 % of what the lane can do. The kernel is told what belongs together, or it is
 * not, and the very same requests come once more.
 *
 *   request.miss  under slo: requests that ended after their deadline, ten times what
 *                 they take alone. Without requests the objective of the vgpu, which is
 *                 the deadline of the long ones, counts from each job anew; with them it
 *                 is the deadline of each. How many times as many are missed without.
 *   request.srpt  under srpt: mean latency of all. Without requests all jobs are equally
 *                 short; with them what is left of the request counts, which nobody says:
 *                 it is learned. How many times as long it is without.
 */
#include "traffic.h"

#define ROUNDS	    3
#define DURATION_NS 8000000000
#define BLOCK_NS    2000000
#define LOAD	    0.4 /* of each kind */
#define SLACK	    10
#define KINDS	    2

static const uint32_t jobs_of[KINDS] = { 4, 20 };

struct world {
	struct distmind_pool *pool;
	uint32_t gpu;
};

struct outcome {
	bool marked;
	double sum;
	uint32_t count, missed;
};

static uint64_t deadline_of(int kind)
{
	return SLACK * jobs_of[kind] * (uint64_t)BLOCK_NS;
}

static void collect(struct outcome *outcome, const struct traffic *traffic, int kind)
{
	for (uint32_t i = 0; i < traffic->count; i++) {
		outcome->sum += traffic->latency[i];
		outcome->missed += traffic->latency[i] > deadline_of(kind) * 1e-9;
		outcome->count++;
	}
}

/* All of one tenant, so that no share comes in between; in queues of their own. */
static void play(struct world *world, const char *policy, uint64_t seed, struct outcome *outcome)
{
	bool slo = !strcmp(policy, "slo");
	struct traffic traffic[KINDS] = { 0 };
	struct client client, other;
	int i;

	must(distmind_pool_gpu_policy(world->pool, world->gpu, policy), policy);
	client = client_open(world->pool, world->gpu, 1000,
			     slo ? DISTMIND_CLASS_LATENCY : DISTMIND_CLASS_STANDARD,
			     slo ? deadline_of(KINDS - 1) : 0);
	/* A batch and a vgpu of its own for each thread; under slo the vgpu is the same. */
	other = slo ? client :
		client_open(world->pool, world->gpu, 1000, DISTMIND_CLASS_STANDARD, 0);
	if (slo)
		must(distmind_batch_create(&other.batch), "create a batch");
	for (i = 0; i < KINDS; i++) {
		traffic[i].blocks = 1;
		traffic[i].block_ns = BLOCK_NS;
		traffic[i].jobs = jobs_of[i];
		traffic[i].marked = outcome->marked;
		traffic[i].deadline_ns = slo ? deadline_of(i) : 0;
		traffic[i].first_id = (uint64_t)i << 32;
		traffic[i].client = i ? &other : &client;
		traffic_open(&traffic[i], LOAD, DURATION_NS, KINDS * seed + i);
		traffic[i].begin_ns = i ? traffic[0].begin_ns : now_ns() + 200000000;
	}
	for (i = 0; i < KINDS; i++)
		traffic_start(&traffic[i]);
	for (i = 0; i < KINDS; i++) {
		traffic_finish(&traffic[i]);
		collect(outcome, &traffic[i], i);
		traffic_close(&traffic[i]);
	}
	if (slo)
		distmind_batch_destroy(other.batch);
	else
		client_close(world->pool, &other);
	client_close(world->pool, &client);
}

int main(void)
{
	struct outcome jobs = { 0 }, requests = { .marked = true };
	struct world world;
	double without, with;

	must(distmind_pool_open(&world.pool), "pool");
	world.gpu = lane_open();
	for (uint64_t i = 0; i < ROUNDS; i++) {
		play(&world, "slo", i, &jobs);
		play(&world, "slo", i, &requests);
	}
	/* One that is missed is as good as none of this many. */
	with = requests.missed ? requests.missed : 1;
	bench_report("request.miss", 100.0 * requests.missed / requests.count, "%",
		     "deadlines of jobs", 100.0 * jobs.missed / jobs.count, jobs.missed / with);
	jobs = (struct outcome){ 0 };
	requests = (struct outcome){ .marked = true };
	for (uint64_t i = 0; i < ROUNDS; i++) {
		play(&world, "srpt", i, &jobs);
		play(&world, "srpt", i, &requests);
	}
	without = jobs.sum / jobs.count;
	with = requests.sum / requests.count;
	bench_report("request.srpt", with * 1e3, "ms", "srpt of jobs", without * 1e3,
		     without / with);
	distmind_pool_close(world.pool);
	return 0;
}
