// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a neighbour can do to others through the module:
 *
 *   isolation.latency   a latency request of a millisecond, from its submission to its end
 *   isolation.acquire   from acquire to descriptor, through the kernel, the daemon and back
 *
 * The 99th percentile without a neighbour against the same with one that is as hostile as
 * it can be, in turns: hostile.h has five of them, a line each, and the figure is the
 * smallest of the five. In a guest with one processor whose clock counts instructions: it
 * says the same however busy the machine is, and nobody is faster because somebody else
 * keeps another processor awake. The gpu's engine, the daemon and who asks have precedence
 * for that processor (SCHED_FIFO), so what they lose is what they wait for locks, for
 * stretches of the kernel that cannot be preempted, for the gpu, or do for others.
 *
 * The gpu has two lanes, which are threads of this process. They sleep while a device would
 * compute, so that jobs of neighbours cost no processor time.
 */
#include <fcntl.h>
#include <pthread.h>

#include "hostile.h"
#include "lane.h"

#define GRACE_NS  5000000
#define HANG_NS	  20000000
#define ROUNDS	  4
#define EACH	  100 /* requests in a round, of each kind */
#define BLOCKS	  1
#define BLOCK_NS  1000000
#define KINDS	  (sizeof(hostile_kinds) / sizeof(*hostile_kinds))

struct lane {
	struct distmind_engine *engine;
	uint32_t number;
};

struct world {
	struct distmind_pool *pool;
	uint32_t gpu;
	struct client client;
	struct distmind_buffer *buffer;
};

static void work_lane(struct distmind_engine_exchange *exchange,
		      const struct distmind_lane_page *page)
{
	const struct distmind_engine_job *job = &exchange->job;

	exchange->cookie = job->cookie;
	if (job->operation == OP_DEAF) {
		sleep_until(now_ns() + job->arg[0].value);
		return;
	}
	while (exchange->cookie < job->blocks) {
		sleep_until(now_ns() + job->arg[0].value);
		exchange->cookie++;
		if (exchange->cookie < job->blocks &&
		    __atomic_load_n(&page->yield, __ATOMIC_RELAXED)) {
			exchange->status = DISTMIND_DONE_YIELDED;
			return;
		}
	}
}

static void *serve_lane(void *arg)
{
	struct lane *lane = arg;
	const struct distmind_lane_page *page = distmind_engine_lane(lane->engine, lane->number);
	struct distmind_engine_exchange exchange = {
		.lane = lane->number, .timeout_ms = DISTMIND_TIMEOUT_MAX_MS,
	};

	/* By default a thread's timers may be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	for (;;) {
		int err = distmind_engine_exchange(lane->engine, &exchange);

		exchange.done = 0;
		exchange.status = 0;
		if (err == -EINTR || err == -ETIMEDOUT)
			continue;
		must(err, "lane");
		work_lane(&exchange, page);
		exchange.done = exchange.job.id;
	}
	return NULL;
}

static uint32_t open_gpu(void)
{
	struct distmind_engine_params params = {
		.name = "isolation", .kind = "bench", .memory = HOSTILE_HEAP,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 2,
		.capabilities = DISTMIND_ENGINE_YIELDS,
	};
	static struct lane lanes[2];
	struct distmind_engine *engine;
	pthread_t thread;

	must(distmind_engine_register(&params, &engine), "register a gpu");
	for (uint32_t i = 0; i < 2; i++) {
		lanes[i] = (struct lane){ engine, i };
		must(-pthread_create(&thread, NULL, serve_lane, &lanes[i]), "start a lane");
		pthread_detach(thread);
	}
	return distmind_engine_gpu(engine);
}

/* A latency request: one job that needs a part of the heap. */
static double ask(struct world *world)
{
	struct client *client = &world->client;
	double begin;

	sleep_until(now_ns() + 1000000);
	begin = bench_now();
	client_add(client, OP_WORK, BLOCKS);
	distmind_batch_number(client->batch, BLOCK_NS);
	distmind_batch_range(client->batch, world->buffer, 0, distmind_buffer_size(world->buffer));
	client_submit(client);
	client_wait(client, client->value);
	return bench_now() - begin;
}

static double acquire(struct world *world)
{
	struct distmind_claim claim = { .memory = 1 << 20, .share = 10, .name = "bench" };
	struct distmind_vgpu *vgpu;
	char reason[DISTMIND_REASON_LEN];
	double begin, took;

	(void)world;
	sleep_until(now_ns() + 1000000);
	begin = bench_now();
	if (distmind_acquire(&claim, &vgpu, reason))
		bench_die("acquire: %s", reason);
	took = bench_now() - begin;
	distmind_vgpu_close(vgpu);
	return took;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(double *values, double part)
{
	qsort(values, ROUNDS * EACH, sizeof(*values), compare);
	return values[(int)(ROUNDS * EACH * part)];
}

static void measure(struct world *world, double (*once)(struct world *world), double *took)
{
	for (int i = 0; i < EACH; i++)
		took[i] = once(world);
}

static uint32_t open_neighbour(struct world *world)
{
	struct distmind_vgpu_record record = {
		.gpu = world->gpu, .memory = 4 * HOSTILE_HEAP, .share = 300, .uid = HOSTILE_USER,
		.gid = HOSTILE_USER, .sched_class = DISTMIND_CLASS_BEST_EFFORT,
	};

	must(distmind_pool_vgpu_create(world->pool, &record), "create a neighbour's vgpu");
	return record.id;
}

/* Returns the ratio. */
static double compare_with(struct world *world, const struct hostile_kind *kind, const char *what,
			   double (*once)(struct world *world))
{
	double without[ROUNDS * EACH], with[ROUNDS * EACH], a, b;
	char name[64];

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t vgpu;
		pid_t pid;

		measure(world, once, without + i * EACH);
		vgpu = open_neighbour(world);
		pid = hostile_start(kind, vgpu);
		measure(world, once, with + i * EACH);
		hostile_stop(pid);
		must(distmind_pool_vgpu_delete(world->pool, vgpu), "delete a neighbour's vgpu");
		/* What it has left behind is no neighbour any more. */
		sleep_until(now_ns() + 500000000);
	}
	a = percentile(without, 0.99);
	b = percentile(with, 0.99);
	snprintf(name, sizeof(name), "%s.%s", what, kind->name);
	bench_report(name, b * 1e6, "us", "p99 without", a * 1e6, a / b);
	return a / b;
}

static void compare_all(struct world *world, const char *what,
			double (*once)(struct world *world))
{
	double worst = 1000, ratio;

	for (size_t i = 0; i < KINDS; i++) {
		ratio = compare_with(world, &hostile_kinds[i], what, once);
		if (ratio < worst)
			worst = ratio;
	}
	bench_report(what, worst, "x", "without a neighbour", 1, worst);
}

int main(void)
{
	struct sched_param priority = { .sched_priority = 1 };
	struct world world;

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		bench_die("SCHED_FIFO: %s", strerror(errno));
	must(distmind_pool_open(&world.pool), "pool");
	world.gpu = open_gpu();
	must(distmind_pool_gpu_grace(world.pool, world.gpu, GRACE_NS), "grace");
	must(distmind_pool_gpu_hang(world.pool, world.gpu, HANG_NS), "hang limit");
	world.client = client_open(world.pool, world.gpu, 300, DISTMIND_CLASS_LATENCY, 5000000);
	must(distmind_buffer_create(world.client.vgpu, 1 << 20, DISTMIND_BUFFER_DATA,
				    &world.buffer), "create a buffer");
	compare_all(&world, "isolation.latency", ask);
	distmind_buffer_destroy(world.buffer);
	client_close(world.pool, &world.client);
	compare_all(&world, "isolation.acquire", acquire);
	distmind_pool_close(world.pool);
	return 0;
}
