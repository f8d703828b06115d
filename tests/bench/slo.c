// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests with an objective on a gpu that training fills, under slo. The
 * requests keep it busy for half of the time; training has always more to do.
 *
 *   slo.p99          99th percentile of the requests' latency, against 1.2 times
 *                    that of the same requests without training
 *   slo.harvest      training's work, against the time that requests leave
 *   slo.utilisation  all work, against the time
 *
 * Work is what was done, in blocks of the device, not what the lane was held for.
 */
#include "traffic.h"

#define ROUNDS	      3
#define DURATION_NS   10000000000
#define BLOCK_NS      1000000
#define REQUEST	      10 /* blocks */
#define STEP	      50 /* blocks of a job of training */
#define LOAD	      0.5
#define OBJECTIVE_NS  100000000
#define ALLOWANCE     1.2

struct world {
	struct distmind_pool *pool;
	uint32_t gpu;
};

/* Latencies of all rounds. */
struct latencies {
	double *seconds;
	uint32_t count;
};

static void collect(struct latencies *all, const struct traffic *traffic)
{
	all->seconds = reallocarray(all->seconds, all->count + traffic->count,
				    sizeof(*all->seconds));
	if (!all->seconds)
		bench_die("out of memory");
	memcpy(all->seconds + all->count, traffic->latency,
	       traffic->count * sizeof(*all->seconds));
	all->count += traffic->count;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(struct latencies *all, double percent)
{
	qsort(all->seconds, all->count, sizeof(*all->seconds), compare);
	return all->seconds[(uint32_t)(all->count * percent / 100)];
}

/* Seconds of the lane that a round gave to each. */
struct work {
	double serve, train;
};

static struct work play(struct world *world, uint64_t seed, bool training, struct latencies *all)
{
	struct client serve = client_open(world->pool, world->gpu, 900, DISTMIND_CLASS_LATENCY,
					  OBJECTIVE_NS);
	struct client train = client_open(world->pool, world->gpu, 100,
					  DISTMIND_CLASS_BEST_EFFORT, 0);
	struct traffic traffic = { .blocks = REQUEST, .block_ns = BLOCK_NS, .client = &serve };
	uint64_t before, after;
	struct work work;

	traffic_open(&traffic, LOAD, DURATION_NS, seed);
	if (training) {
		/* More than it can do in the time. */
		for (uint64_t i = 0; i < DURATION_NS / BLOCK_NS / STEP; i++) {
			lane_add(&train, STEP, BLOCK_NS);
			if (i % CLIENT_JOBS == CLIENT_JOBS - 1)
				client_submit(&train);
		}
		client_submit(&train);
	}
	traffic.begin_ns = now_ns() + 100000000;
	traffic_start(&traffic);
	sleep_until(traffic.begin_ns);
	before = distmind_timeline_value(train.timeline);
	sleep_until(traffic.begin_ns + DURATION_NS);
	after = distmind_timeline_value(train.timeline);
	traffic_finish(&traffic);
	collect(all, &traffic);
	work.serve = (double)traffic_done(&traffic, DURATION_NS) * REQUEST * BLOCK_NS * 1e-9;
	work.train = (double)(after - before) * STEP * BLOCK_NS * 1e-9;
	traffic_close(&traffic);
	client_close(world->pool, &train);
	client_close(world->pool, &serve);
	return work;
}

int main(void)
{
	struct latencies alone = { 0 }, shared = { 0 };
	double time = ROUNDS * DURATION_NS * 1e-9, budget, p99;
	struct work work, total = { 0 };
	struct world world;

	must(distmind_pool_open(&world.pool), "pool");
	world.gpu = lane_open();
	must(distmind_pool_gpu_policy(world.pool, world.gpu, "slo"), "slo");
	for (uint64_t i = 0; i < ROUNDS; i++) {
		play(&world, i, false, &alone);
		work = play(&world, i, true, &shared);
		total.serve += work.serve;
		total.train += work.train;
	}
	budget = ALLOWANCE * percentile(&alone, 99);
	p99 = percentile(&shared, 99);
	bench_report("slo.p99", p99 * 1e3, "ms", "1.2 x without training", budget * 1e3, budget / p99);
	bench_report("slo.harvest", total.train, "s", "what requests leave", time - total.serve,
		     total.train / (time - total.serve));
	bench_report("slo.utilisation", total.train + total.serve, "s", "the time", time,
		     (total.train + total.serve) / time);
	free(alone.seconds);
	free(shared.seconds);
	distmind_pool_close(world.pool);
	return 0;
}
