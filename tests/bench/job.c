// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Jobs on a gpu that distmind-engine-cpu serves under the name cpu0:
 *
 *   job.round_trip   submit an empty job, wait until it is done, against an
 *                    eventfd ping-pong between two processes
 *   job.batch        the same per job in batches of 64
 *   preempt.start    an endless best-effort job of 1 ms blocks runs: how long a latency
 *                    job that is submitted then waits for the lane, against 1.25 times
 *                    what it waits while best-effort jobs of one such block each run,
 *                    which leave the lane by themselves. Both wait for the rest of a
 *                    block and for the engine's thread to come back; the first also for
 *                    the job to see that it is asked, to yield and to go back to its
 *                    queue, and that is what the ratio is about. The 90th percentiles of
 *                    as many of each, in turns: whatever else the machine does lengthens
 *                    both.
 *   preempt.fifo     the median of that against the same under fifo
 *   preempt.cost     work of the best-effort job with a preemption every 20 ms,
 *                    against undisturbed, for the same net time
 *   fair.error       shares 1:2:4 over 10 s: 3 % against the largest deviation
 */
#include <distmind_ops.h>
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define BATCH	   64
#define PREEMPT_ROUNDS 10
#define PREEMPT_EACH   30 /* in a round, of each kind */
#define PREEMPT_MANY   (PREEMPT_ROUNDS * PREEMPT_EACH)
#define PREEMPT_ALLOWANCE 1.25
#define ROUND	   50
#define BLOCK_US   1000

struct world {
	struct distmind_pool *pool;
	uint32_t gpu;
	int ping, pong;
	struct client client;
};

static int is_cpu0(const struct distmind_gpu_record *gpu, void *arg)
{
	if (strcmp(gpu->name, "cpu0"))
		return 0;
	*(uint32_t *)arg = gpu->id;
	return 1;
}

static struct client tenant(struct world *world, uint32_t share, uint32_t sched_class)
{
	return client_open(world->pool, world->gpu, share, sched_class,
			   sched_class == DISTMIND_CLASS_LATENCY ? 1000000 : 0);
}

/* Adds a job to the client's batch: blocks of so many microseconds, or nothing. */
static void add(struct client *client, uint32_t blocks, uint32_t us)
{
	client_add(client, us ? DISTMIND_OP_SPIN : DISTMIND_OP_NOP, blocks);
	distmind_batch_number(client->batch, blocks);
	if (us)
		distmind_batch_number(client->batch, us);
}

static void finish(struct client *client)
{
	client_wait(client, client->value);
}

static double round_trips(void *arg)
{
	struct client *client = &((struct world *)arg)->client;
	double begin = bench_now();

	for (int i = 0; i < ROUND; i++) {
		add(client, 1, 0);
		client_submit(client);
		finish(client);
	}
	return (bench_now() - begin) / ROUND;
}

static double batches(void *arg)
{
	struct client *client = &((struct world *)arg)->client;
	double begin = bench_now();

	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < BATCH; j++)
			add(client, 1, 0);
		client_submit(client);
		finish(client);
	}
	return (bench_now() - begin) / (4 * BATCH);
}

static double ping_pong(void *arg)
{
	struct world *world = arg;
	uint64_t value = 1;
	double begin = bench_now();

	for (int i = 0; i < ROUND; i++) {
		if (write(world->ping, &value, 8) != 8 || read(world->pong, &value, 8) != 8)
			bench_die("eventfd");
	}
	return (bench_now() - begin) / ROUND;
}

static pid_t answerer(struct world *world)
{
	pid_t pid = fork();
	uint64_t value;

	while (!pid) {
		if (read(world->ping, &value, 8) != 8 || write(world->pong, &value, 8) != 8)
			_exit(1);
	}
	return pid;
}

static void nap(double seconds)
{
	struct timespec ts = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };

	nanosleep(&ts, NULL);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double waited(struct world *world, const struct client *client)
{
	struct distmind_vgpu_record record;

	must(distmind_pool_vgpu(world->pool, client->id, &record), "vgpu");
	return record.wait_ns * 1e-9;
}

/*
 * One empty latency job while another job runs: from its submission until the
 * engine has it, by the kernel's account of the time that it waited.
 */
static double urgent(struct world *world, struct client *client)
{
	double before = waited(world, client);

	add(client, 1, 0);
	client_submit(client);
	finish(client);
	return waited(world, client) - before;
}

static void spin(double seconds)
{
	double end = bench_now() + seconds;

	while (bench_now() < end)
		;
}

/* At any time of a block of training, which is one job without end or many of a block. */
static void wait_for_training(struct world *world, struct client *serve, bool endless,
			      double *took)
{
	struct client train = tenant(world, 500, DISTMIND_CLASS_BEST_EFFORT);

	if (endless)
		add(&train, 100000, BLOCK_US);
	/* More than there is time for, in calls of as many as one takes. */
	for (int i = 1; !endless && i <= 6 * CLIENT_JOBS; i++) {
		add(&train, 1, BLOCK_US);
		if (i % CLIENT_JOBS == 0 && i < 6 * CLIENT_JOBS)
			client_submit(&train);
	}
	client_submit(&train);
	nap(0.02);
	for (int i = 0; i < PREEMPT_EACH; i++) {
		nap(0.005);
		spin(i % 10 * 0.1 * BLOCK_US * 1e-6);
		took[i] = urgent(world, serve);
	}
	client_close(world->pool, &train);
	nap(0.02);
}


static void preempt_start(struct world *world)
{
	struct client serve = tenant(world, 500, DISTMIND_CLASS_LATENCY);
	double took[PREEMPT_MANY], blocks[PREEMPT_MANY], budget, fifo;
	int count = PREEMPT_MANY;
	struct client train;

	for (int i = 0; i < count; i += PREEMPT_EACH) {
		wait_for_training(world, &serve, true, took + i);
		wait_for_training(world, &serve, false, blocks + i);
	}
	qsort(took, count, sizeof(*took), compare);
	qsort(blocks, count, sizeof(*blocks), compare);
	budget = PREEMPT_ALLOWANCE * blocks[count * 9 / 10];
	bench_report("preempt.start", took[count * 9 / 10] * 1e6, "us",
		     "1.25 x behind jobs of a block", budget * 1e6,
		     budget / took[count * 9 / 10]);

	/* Under fifo it waits for all that is left of the long job. */
	must(distmind_pool_gpu_policy(world->pool, world->gpu, "fifo"), "fifo");
	train = tenant(world, 500, DISTMIND_CLASS_BEST_EFFORT);
	add(&train, 3000, BLOCK_US);
	client_submit(&train);
	nap(0.01);
	fifo = urgent(world, &serve);
	must(distmind_pool_gpu_policy(world->pool, world->gpu, "slo"), "slo");
	bench_report("preempt.fifo", took[count / 2] * 1e6, "us", "fifo, a job of 3 s", fifo * 1e6,
		     fifo / took[count / 2]);
	client_close(world->pool, &train);
	client_close(world->pool, &serve);
}

/* Work of the best-effort client in its net time, in seconds per second. */
static double work_rate(struct client *train, struct client *serve, bool disturb)
{
	uint64_t first, last;
	double begin, taken = 0, end;

	/* Short jobs of 5 blocks, many of them: what has ended is what was done. */
	for (int i = 0; i < CLIENT_JOBS; i++)
		add(train, 5, BLOCK_US);
	client_submit(train);
	nap(0.05);
	first = distmind_timeline_value(train->timeline);
	begin = bench_now();
	for (int i = 0; i < 50; i++) {
		double before = bench_now();

		if (disturb) {
			add(serve, 1, BLOCK_US);
			client_submit(serve);
			finish(serve);
			taken += BLOCK_US * 1e-6;
		}
		nap(0.02 - (bench_now() - before) > 0 ? 0.02 - (bench_now() - before) : 0);
	}
	last = distmind_timeline_value(train->timeline);
	end = bench_now();
	distmind_queue_destroy(train->queue);
	must(distmind_queue_create(train->vgpu, DISTMIND_LANE_COMPUTE, 4096, &train->queue),
	     "create a queue");
	/* The rest was cancelled, which fails the timeline: begin another. */
	distmind_timeline_destroy(train->timeline);
	must(distmind_timeline_create(train->vgpu, 0, &train->timeline), "create a timeline");
	train->value = 0;
	return (last - first) * 5 * BLOCK_US * 1e-6 / (end - begin - taken);
}

static void preempt_cost(struct world *world)
{
	struct client train = tenant(world, 500, DISTMIND_CLASS_BEST_EFFORT);
	struct client serve = tenant(world, 500, DISTMIND_CLASS_LATENCY);
	double with = 0, without = 0;

	for (int i = 0; i < 3; i++) {
		without += work_rate(&train, &serve, false) / 3;
		with += work_rate(&train, &serve, true) / 3;
	}
	bench_report("preempt.cost", with, "s/s", "undisturbed", without, with / without);
	client_close(world->pool, &train);
	client_close(world->pool, &serve);
}

static void fair_error(struct world *world)
{
	static const uint32_t shares[] = { 100, 200, 400 };
	struct client clients[3];
	uint64_t begin[3];
	double total = 0, worst = 0, done[3];

	for (int i = 0; i < 3; i++) {
		clients[i] = tenant(world, shares[i], DISTMIND_CLASS_STANDARD);
		/* More than any of them can do in the time. */
		for (int k = 0; k < 6; k++) {
			for (int j = 0; j < CLIENT_JOBS; j++)
				add(&clients[i], 4, BLOCK_US);
			client_submit(&clients[i]);
		}
	}
	nap(0.2);
	for (int i = 0; i < 3; i++)
		begin[i] = distmind_timeline_value(clients[i].timeline);
	nap(10);
	for (int i = 0; i < 3; i++) {
		done[i] = distmind_timeline_value(clients[i].timeline) - begin[i];
		total += done[i];
	}
	for (int i = 0; i < 3; i++) {
		double want = shares[i] / 700.0, error = done[i] / total / want - 1;

		if (error < 0)
			error = -error;
		if (error > worst)
			worst = error;
		client_close(world->pool, &clients[i]);
	}
	bench_report("fair.error", worst * 100, "%", "3 %", 3, worst > 0 ? 0.03 / worst : 1000);
}

int main(void)
{
	struct world world = { .ping = eventfd(0, 0), .pong = eventfd(0, 0) };
	pid_t pid;

	must(distmind_pool_open(&world.pool), "pool");
	if (distmind_pool_gpus(world.pool, is_cpu0, &world.gpu) != 1)
		bench_die("there is no gpu cpu0");
	pid = answerer(&world);
	world.client = tenant(&world, 1000, DISTMIND_CLASS_STANDARD);
	bench_run(&(struct bench){
		.name = "job.round_trip", .unit = "us", .baseline = "eventfd ping-pong", .work = 1,
		.rounds = 21, .scale = 1e6, .ours = round_trips, .theirs = ping_pong, .arg = &world,
	});
	bench_run(&(struct bench){
		.name = "job.batch", .unit = "us", .baseline = "eventfd ping-pong", .work = 1,
		.rounds = 21, .scale = 1e6, .ours = batches, .theirs = ping_pong, .arg = &world,
	});
	client_close(world.pool, &world.client);
	preempt_start(&world);
	preempt_cost(&world);
	fair_error(&world);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	distmind_pool_close(world.pool);
	return 0;
}
