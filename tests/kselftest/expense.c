// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who pays: work that a tenant causes is done at its own expense, and not by the engine
 * that hands a job back, by who signals, or by a neighbour who submits. What a call costs
 * is the processor time of the thread that makes it.
 *
 * time-limit: 300
 */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define CHAIN	100000 /* barriers, each of which ends the next */
#define BATCH	1000
#define PATIENCE 60000 /* ms */
#define NEIGHBOUR 65534 /* another user */
#define ROUNDS_MAX 1000 /* of exchanges, until somebody else has had the processor */
#define FEED	64 /* barriers that are fed at once, in two queues */
#define EXCHANGES 100

FIXTURE(expense)
{
	struct distmind_pool *pool;
	struct distmind_engine *engine;
	struct distmind_vgpu *vgpu;
	uint32_t id;
};

static int engine_register(struct distmind_engine **engine)
{
	struct distmind_engine_params params = {
		.name = "expense", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1, .capabilities = DISTMIND_ENGINE_YIELDS,
	};

	return distmind_engine_register(&params, engine);
}

/* It is opened by that user, whose account pays for what is done with it. */
static int new_vgpu(struct distmind_pool *pool, uint32_t gpu, uint32_t sched_class, uid_t uid,
		    struct distmind_vgpu **vgpu, uint32_t *id)
{
	struct distmind_vgpu_record record = {
		.gpu = gpu, .memory = MiB, .share = 500, .sched_class = sched_class, .uid = uid,
		.objective_ns = sched_class == DISTMIND_CLASS_LATENCY ? 1000000000 : 0,
	};
	int err = distmind_pool_vgpu_create(pool, &record);

	*id = record.id;
	if (err || seteuid(uid))
		return err ? err : -errno;
	err = library_vgpu_open(record.id, vgpu);
	return seteuid(0) ? -errno : err;
}

FIXTURE_SETUP(expense)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, engine_register(&self->engine));
	ASSERT_EQ(0, new_vgpu(self->pool, distmind_engine_gpu(self->engine),
			      DISTMIND_CLASS_STANDARD, 0, &self->vgpu, &self->id));
}

FIXTURE_TEARDOWN(expense)
{
	uint32_t gpu = distmind_engine_gpu(self->engine);

	distmind_vgpu_close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_engine_close(self->engine);
	distmind_pool_gpu_remove(self->pool, gpu);
	distmind_pool_close(self->pool);
}

static uint64_t spent_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a && a < b ? a : b;
}

/*
 * Two queues of barriers that feed one another, and a job whose end starts them: it
 * signals 1, the last barrier CHAIN + 1.
 */
struct chain {
	struct distmind_queue *queues[2], *first;
	struct distmind_timeline *timeline;
};

static int chain_submit(struct chain *chain, struct distmind_vgpu *vgpu)
{
	struct distmind_batch *batch;
	int err = distmind_timeline_create(vgpu, 0, &chain->timeline);

	err = err ? err : distmind_batch_create(&batch);
	for (int i = 0; !err && i < 2; i++)
		err = distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, DISTMIND_QUEUE_DEPTH_MAX,
					    &chain->queues[i]);
	for (uint64_t from = 0; !err && from < CHAIN; from += BATCH) {
		for (uint64_t q = 0; !err && q < 2; q++) {
			for (uint64_t i = from + q; i < from + BATCH; i += 2) {
				distmind_batch_barrier(batch);
				distmind_batch_wait(batch, chain->timeline, i + 1);
				distmind_batch_signal(batch, chain->timeline, i + 2);
			}
			err = distmind_queue_submit(chain->queues[q], batch, NULL);
			distmind_batch_clear(batch);
		}
	}
	err = err ? err : distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1, &chain->first);
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_signal(batch, chain->timeline, 1);
	err = err ? err : distmind_queue_submit(chain->first, batch, NULL);
	distmind_batch_destroy(batch);
	return err;
}

static void chain_end(struct chain *chain)
{
	distmind_queue_destroy(chain->queues[0]);
	distmind_queue_destroy(chain->queues[1]);
	distmind_queue_destroy(chain->first);
	distmind_timeline_destroy(chain->timeline);
}

TEST_F_TIMEOUT(expense, an_engine_hands_a_job_back_at_once_however_much_its_end_ends, 120)
{
	struct distmind_engine_exchange exchange = { .timeout_ms = PATIENCE };
	uint64_t handed, ended;
	struct chain chain;

	ASSERT_EQ(0, chain_submit(&chain, self->vgpu));
	ASSERT_EQ(0, distmind_engine_exchange(self->engine, &exchange));
	exchange.done = exchange.job.id;
	exchange.timeout_ms = 0;
	ended = spent_ns(CLOCK_MONOTONIC);
	handed = spent_ns(CLOCK_THREAD_CPUTIME_ID);
	ASSERT_EQ(-ETIMEDOUT, distmind_engine_exchange(self->engine, &exchange));
	handed = spent_ns(CLOCK_THREAD_CPUTIME_ID) - handed;
	ASSERT_EQ(0, distmind_timeline_wait(chain.timeline, CHAIN + 1, PATIENCE));
	ended = spent_ns(CLOCK_MONOTONIC) - ended;
	EXPECT_GT(ended, 20 * handed)
		TH_LOG("handed back in %llu us, all ended in %llu us", handed / 1000ULL,
		       ended / 1000ULL);
	chain_end(&chain);
}

/* Serves a gpu until it is killed; says when it is there. */
static void serve(int ready)
{
	struct distmind_engine_exchange exchange = { .timeout_ms = PATIENCE };
	struct distmind_engine *engine;
	uint32_t gpu;

	if (engine_register(&engine))
		_exit(1);
	gpu = distmind_engine_gpu(engine);
	if (write(ready, &gpu, sizeof(gpu)) != sizeof(gpu))
		_exit(1);
	for (;;) {
		int err = distmind_engine_exchange(engine, &exchange);

		exchange.done = err ? 0 : exchange.job.id;
	}
}

TEST_F_TIMEOUT(expense, an_engine_dies_at_once_however_much_its_job_ends, 120)
{
	uint32_t id, gpu, own = distmind_engine_gpu(self->engine);
	struct distmind_vgpu *vgpu;
	struct chain chain;
	int ready[2];
	pid_t pid;

	/* One name, one gpu. */
	distmind_vgpu_close(self->vgpu);
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, self->id));
	distmind_engine_close(self->engine);
	ASSERT_EQ(0, distmind_pool_gpu_remove(self->pool, own));
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid)
		serve(ready[1]);
	ASSERT_EQ(sizeof(gpu), read(ready[0], &gpu, sizeof(gpu)));
	ASSERT_EQ(0, new_vgpu(self->pool, gpu, DISTMIND_CLASS_STANDARD, 0, &vgpu, &id));
	ASSERT_EQ(0, chain_submit(&chain, vgpu));
	ASSERT_EQ(0, distmind_timeline_wait(chain.timeline, 100, PATIENCE));
	kill(pid, SIGKILL);
	ASSERT_EQ(128 + SIGKILL, child_status(pid));
	/* It did not work on to the end of the chain: that ended with its gpu. */
	EXPECT_EQ(-EOWNERDEAD, distmind_timeline_wait(chain.timeline, CHAIN + 1, PATIENCE));
	chain_end(&chain);
	distmind_vgpu_close(vgpu);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	close(ready[0]);
	close(ready[1]);
	ASSERT_EQ(0, engine_register(&self->engine));
	ASSERT_EQ(0, new_vgpu(self->pool, distmind_engine_gpu(self->engine),
			      DISTMIND_CLASS_STANDARD, 0, &self->vgpu, &self->id));
}

/*
 * A tenant that feeds two queues of barriers, each of which ends the next one in the other
 * queue, for as long as it may: there are always some that end.
 */
struct feeder {
	struct distmind_queue *queues[2];
	struct distmind_timeline *timeline;
	uint64_t fed;
	int stop;
	int error;
	pthread_t thread;
};

/* Those of one queue; again while there is no room for them. */
static int feed_some(struct feeder *feeder, uint64_t first, int q, struct distmind_batch *batch)
{
	int err;

	for (uint64_t i = first + q; i < first + FEED; i += 2) {
		distmind_batch_barrier(batch);
		distmind_batch_wait(batch, feeder->timeline, i + 1);
		distmind_batch_signal(batch, feeder->timeline, i + 2);
	}
	do {
		err = distmind_queue_submit(feeder->queues[q], batch, NULL);
	} while (err == -EAGAIN && !__atomic_load_n(&feeder->stop, __ATOMIC_ACQUIRE));
	distmind_batch_clear(batch);
	return err;
}

static void *feed(void *arg)
{
	struct feeder *feeder = arg;
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	while (!err && !__atomic_load_n(&feeder->stop, __ATOMIC_ACQUIRE)) {
		err = feed_some(feeder, feeder->fed, 0, batch);
		if (!err)
			err = feed_some(feeder, feeder->fed, 1, batch);
		if (!err)
			__atomic_store_n(&feeder->fed, feeder->fed + FEED, __ATOMIC_RELEASE);
	}
	feeder->error = err;
	distmind_batch_destroy(batch);
	return NULL;
}

/* Returns when it is well under way. */
static int feeder_start(struct feeder *feeder, struct distmind_vgpu *vgpu)
{
	memset(feeder, 0, sizeof(*feeder));
	for (int q = 0; q < 2; q++) {
		if (distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 16 * FEED,
					  &feeder->queues[q]))
			return -1;
	}
	if (distmind_timeline_create(vgpu, 1, &feeder->timeline) ||
	    pthread_create(&feeder->thread, NULL, feed, feeder))
		return -1;
	return distmind_timeline_wait(feeder->timeline, 10 * FEED, PATIENCE);
}

/* Now, or when it can no more. */
static void feeder_end(struct feeder *feeder, bool now)
{
	__atomic_store_n(&feeder->stop, now, __ATOMIC_RELEASE);
	pthread_join(feeder->thread, NULL);
	distmind_queue_destroy(feeder->queues[0]);
	distmind_queue_destroy(feeder->queues[1]);
	distmind_timeline_destroy(feeder->timeline);
}

/* Whether it has fed several times since then. */
static bool feeds_on(struct feeder *feeder, uint64_t then)
{
	return __atomic_load_n(&feeder->fed, __ATOMIC_ACQUIRE) >= then + 4 * FEED;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* What it costs to hand so many jobs back, and how long it takes, in the middle. */
static int hand_many_back(FIXTURE_DATA(expense) *self, struct distmind_queue *queue, uint64_t *cpu,
			  uint64_t *wall)
{
	uint64_t times[EXCHANGES];
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	*cpu = 0;
	distmind_batch_launch(batch, 0, 1);
	for (int i = 0; !err && i < EXCHANGES; i++) {
		struct distmind_engine_exchange exchange = { .timeout_ms = PATIENCE };
		uint64_t spent;

		err = distmind_queue_submit(queue, batch, NULL);
		if (!err)
			err = distmind_engine_exchange(self->engine, &exchange);
		if (err)
			break;
		exchange.done = exchange.job.id;
		exchange.timeout_ms = 0;
		times[i] = spent_ns(CLOCK_MONOTONIC);
		spent = spent_ns(CLOCK_THREAD_CPUTIME_ID);
		if (distmind_engine_exchange(self->engine, &exchange) != -ETIMEDOUT)
			err = -EPROTO;
		*cpu += spent_ns(CLOCK_THREAD_CPUTIME_ID) - spent;
		times[i] = spent_ns(CLOCK_MONOTONIC) - times[i];
	}
	distmind_batch_destroy(batch);
	qsort(times, EXCHANGES, sizeof(*times), compare_times);
	*wall = times[EXCHANGES / 2];
	return err;
}

TEST_F_TIMEOUT(expense, an_engine_pays_nothing_for_who_feeds_barriers_meanwhile, 120)
{
	uint64_t cpu, wall, alone_cpu = UINT64_MAX, alone_wall = UINT64_MAX;
	uint64_t fed_cpu = UINT64_MAX, fed_wall = UINT64_MAX, begun;
	struct distmind_vgpu *neighbour;
	struct distmind_queue *queue;
	struct feeder feeder;
	uint32_t id;

	ASSERT_EQ(0, new_vgpu(self->pool, distmind_engine_gpu(self->engine),
			      DISTMIND_CLASS_STANDARD, NEIGHBOUR, &neighbour, &id));
	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 1, &queue));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, hand_many_back(self, queue, &cpu, &wall));
		alone_cpu = least(cpu, alone_cpu);
		alone_wall = least(wall, alone_wall);
	}
	ASSERT_EQ(0, feeder_start(&feeder, neighbour));
	/* What it costs at least: the processor may be emulated, and a busy host's. */
	begun = __atomic_load_n(&feeder.fed, __ATOMIC_ACQUIRE);
	for (int i = 0; i < 3 || (i < 10 && fed_cpu >= 5 * alone_cpu) ||
	     (i < ROUNDS_MAX && !feeds_on(&feeder, begun)); i++) {
		ASSERT_EQ(0, hand_many_back(self, queue, &cpu, &wall));
		fed_cpu = least(cpu, fed_cpu);
		fed_wall = least(wall, fed_wall);
	}
	EXPECT_TRUE(feeds_on(&feeder, begun));
	feeder_end(&feeder, true);
	EXPECT_LT(fed_cpu, 5 * alone_cpu);
	/* The processor may have others to run first: a few turns of these, and no more. */
	EXPECT_LT(fed_wall, 20 * alone_wall + 20000000);
	TH_LOG("%d exchanges cost %llu us alone, %llu us meanwhile; in the middle %llu and %llu us",
	       EXCHANGES, alone_cpu / 1000ULL, fed_cpu / 1000ULL, alone_wall / 1000ULL,
	       fed_wall / 1000ULL);
	distmind_queue_destroy(queue);
	distmind_vgpu_close(neighbour);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
}

/* The gpu is served by a process of its own instead. */
static pid_t serve_apart(FIXTURE_DATA(expense) *self, uint32_t *gpu)
{
	uint32_t own = distmind_engine_gpu(self->engine);
	int ready[2];
	pid_t pid;

	/* One name, one gpu. */
	distmind_vgpu_close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_engine_close(self->engine);
	if (distmind_pool_gpu_remove(self->pool, own) || pipe(ready))
		return -1;
	pid = fork();
	if (!pid)
		serve(ready[1]);
	if (read(ready[0], gpu, sizeof(*gpu)) != sizeof(*gpu))
		pid = -1;
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* As the fixture has it, for its end. */
static int serve_again(FIXTURE_DATA(expense) *self, uint32_t gpu)
{
	int err = distmind_pool_gpu_remove(self->pool, gpu);

	err = err ? err : engine_register(&self->engine);
	return err ? err : new_vgpu(self->pool, distmind_engine_gpu(self->engine),
				    DISTMIND_CLASS_STANDARD, 0, &self->vgpu, &self->id);
}

TEST_F_TIMEOUT(expense, an_engine_dies_at_once_while_somebody_feeds_barriers, 120)
{
	struct distmind_vgpu *neighbour;
	struct feeder feeder;
	uint32_t id, gpu;
	uint64_t since;
	pid_t pid = serve_apart(self, &gpu);

	ASSERT_LT(0, pid);
	ASSERT_EQ(0, new_vgpu(self->pool, gpu, DISTMIND_CLASS_STANDARD, NEIGHBOUR, &neighbour,
			      &id));
	ASSERT_EQ(0, feeder_start(&feeder, neighbour));
	since = spent_ns(CLOCK_MONOTONIC);
	kill(pid, SIGKILL);
	ASSERT_EQ(128 + SIGKILL, child_status(pid));
	EXPECT_GT(PATIENCE / 20 * 1000000ULL, spent_ns(CLOCK_MONOTONIC) - since);
	/* Until nothing more is taken. */
	feeder_end(&feeder, false);
	EXPECT_EQ(-EOWNERDEAD, feeder.error);
	distmind_vgpu_close(neighbour);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
	ASSERT_EQ(0, serve_again(self, gpu));
}

/* What a signal costs that reaches so many watches, of as many files as that takes. */
static uint64_t signal_cost(struct distmind_vgpu *vgpu, int watches)
{
	struct distmind_timeline *timeline;
	int count = watches / 64, event = eventfd(0, EFD_CLOEXEC);
	int *fds = calloc(count, sizeof(*fds));
	uint64_t cost = 0, told = 0;
	eventfd_t value;

	if (distmind_timeline_create(vgpu, 0, &timeline))
		return 0;
	for (int i = 0; i < count; i++) {
		struct distmind_timeline_watch watch = { .value = 1, .eventfd = event };

		fds[i] = distmind_timeline_export(timeline, DISTMIND_EXPORT_CLOEXEC);
		for (int j = 0; j < 64; j++) {
			if (call(fds[i], DISTMIND_IOC_TIMELINE_WATCH, &watch))
				return 0;
		}
	}
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID);
	if (distmind_timeline_signal(timeline, 1))
		return 0;
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
	/* Each of them is told, by and by. */
	while (told < (uint64_t)watches && !eventfd_read(event, &value))
		told += value;
	for (int i = 0; i < count; i++)
		close(fds[i]);
	distmind_timeline_destroy(timeline);
	close(event);
	free(fds);
	return cost;
}

TEST_F_TIMEOUT(expense, a_signal_costs_the_same_however_many_watch, 120)
{
	struct rlimit files = { .rlim_cur = 4096, .rlim_max = 4096 };
	uint64_t few = UINT64_MAX, many = UINT64_MAX;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	/* What it costs at least: a busy host takes time from an emulated processor. */
	for (int i = 0; i < 3 || (i < 15 && 40 * few <= many); i++) {
		few = least(signal_cost(self->vgpu, 64), few);
		many = least(signal_cost(self->vgpu, 64 * 400), many);
	}
	ASSERT_NE(UINT64_MAX, few);
	ASSERT_NE(UINT64_MAX, many);
	EXPECT_GT(40 * few, many)
		TH_LOG("%llu ns with few, %llu ns with many", few + 0ULL, many + 0ULL);
}

/* A job of the watched queue is on the lane; what it costs a neighbour to have it asked. */
static uint64_t ask_cost(FIXTURE_DATA(expense) *self, struct distmind_queue *watched,
			 struct distmind_queue *urgent, struct distmind_timeline *done,
			 uint64_t value)
{
	struct distmind_engine_exchange exchange = { .timeout_ms = PATIENCE };
	struct distmind_batch *batch;
	uint64_t cost, first;

	distmind_batch_create(&batch);
	distmind_batch_launch(batch, 0, 2);
	if (distmind_queue_submit(watched, batch, NULL) ||
	    distmind_engine_exchange(self->engine, &exchange))
		return 0;
	first = exchange.job.id;
	distmind_batch_clear(batch);
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_signal(batch, done, value);
	/* This one asks the job on the lane to yield. */
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID);
	if (distmind_queue_submit(urgent, batch, NULL))
		return 0;
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
	distmind_batch_destroy(batch);
	if (!distmind_engine_lane(self->engine, 0)->yield)
		return 0;
	/* The urgent one, then the rest of the first. */
	exchange.status = DISTMIND_DONE_YIELDED;
	exchange.cookie = 1;
	exchange.done = first;
	for (int i = 0; i < 2; i++) {
		if (distmind_engine_exchange(self->engine, &exchange))
			return 0;
		exchange.status = 0;
		exchange.cookie = 0;
		exchange.done = exchange.job.id;
	}
	exchange.timeout_ms = 0;
	distmind_engine_exchange(self->engine, &exchange);
	return cost;
}

static int count_of_vgpu(const struct distmind_buffer_record *buffer, void *arg)
{
	uint32_t *of = arg;

	of[1] += buffer->vgpu == of[0];
	return 0;
}

/* What it costs to delete a neighbour's vgpu that has so many buffers; they go by and by. */
static uint64_t delete_cost(FIXTURE_DATA(expense) *self, int buffers)
{
	struct distmind_vgpu_record record = {
		.gpu = distmind_engine_gpu(self->engine), .memory = buffers * PAGE, .share = 100,
		.uid = NEIGHBOUR,
	};
	struct distmind_buffer_create create;
	uint32_t left[2] = { 0 };
	uint64_t cost;
	int fd;

	if (distmind_pool_vgpu_create(self->pool, &record) || seteuid(NEIGHBOUR))
		return 0;
	fd = open_vgpu(record.id);
	if (seteuid(0) || fd < 0)
		return 0;
	for (int i = 0; i < buffers; i++) {
		if (buffer_create(fd, PAGE, &create))
			return 0;
	}
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID);
	if (distmind_pool_vgpu_delete(self->pool, record.id))
		return 0;
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
	/* Nothing of it can be used any more, be it there or not. */
	if (buffer_destroy(fd, create.handle) != -ENODEV)
		return 0;
	left[0] = record.id;
	for (int i = 0; i < PATIENCE; i++) {
		left[1] = 0;
		if (distmind_pool_buffers(self->pool, count_of_vgpu, left))
			return 0;
		if (!left[1])
			break;
		usleep(1000);
	}
	close(fd);
	return left[1] ? 0 : cost;
}

/* A queue whose only job waits for what never comes, and signals @done. */
static struct distmind_queue *idle_queue(struct distmind_vgpu *vgpu, struct distmind_batch *batch,
					 struct distmind_timeline *never,
					 struct distmind_timeline *done, uint64_t value)
{
	struct distmind_queue *queue;

	if (distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1, &queue))
		return NULL;
	distmind_batch_clear(batch);
	distmind_batch_barrier(batch);
	distmind_batch_wait(batch, never, 1);
	distmind_batch_signal(batch, done, value);
	return distmind_queue_submit(queue, batch, NULL) ? NULL : queue;
}

/* The same if it has so many queues. They end with it, by and by. */
static uint64_t delete_queues_cost(FIXTURE_DATA(expense) *self, int count)
{
	struct distmind_queue *queues[2000], *last = NULL;
	struct distmind_timeline *never, *done;
	struct distmind_batch *batch;
	struct distmind_vgpu *vgpu;
	uint64_t cost;
	uint32_t id;
	int err;

	if (new_vgpu(self->pool, distmind_engine_gpu(self->engine), DISTMIND_CLASS_STANDARD,
		     NEIGHBOUR, &vgpu, &id) || distmind_timeline_create(vgpu, 0, &never) ||
	    distmind_timeline_create(vgpu, 0, &done) || distmind_batch_create(&batch))
		return 0;
	for (int i = 0; i < count; i++) {
		last = queues[i] = idle_queue(vgpu, batch, never, done, i + 1);
		if (!last)
			return 0;
	}
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID);
	if (distmind_pool_vgpu_delete(self->pool, id))
		return 0;
	cost = spent_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
	/* It takes nothing any more, whether it has ended or not; and what it had fails. */
	distmind_batch_clear(batch);
	distmind_batch_barrier(batch);
	if (distmind_queue_submit(last, batch, NULL) != -ENODEV)
		return 0;
	err = distmind_timeline_wait(done, count, PATIENCE);
	for (int i = 0; i < count; i++)
		distmind_queue_destroy(queues[i]);
	distmind_batch_destroy(batch);
	distmind_timeline_destroy(never);
	distmind_timeline_destroy(done);
	distmind_vgpu_close(vgpu);
	return err == -ENODEV ? cost : 0;
}

TEST_F_TIMEOUT(expense, to_delete_a_vgpu_costs_the_same_however_many_queues_it_has, 120)
{
	uint64_t few = UINT64_MAX, many = UINT64_MAX;

	for (int i = 0; i < 3 || (i < 15 && 5 * few <= many); i++) {
		few = least(delete_queues_cost(self, 1), few);
		many = least(delete_queues_cost(self, 2000), many);
	}
	ASSERT_NE(UINT64_MAX, few);
	ASSERT_NE(UINT64_MAX, many);
	EXPECT_GT(5 * few, many)
		TH_LOG("%llu ns with few, %llu ns with many", few + 0ULL, many + 0ULL);
}

TEST_F_TIMEOUT(expense, to_delete_a_vgpu_costs_the_same_however_much_it_has, 120)
{
	uint64_t few = UINT64_MAX, many = UINT64_MAX;

	/* What it costs at least, as above. */
	for (int i = 0; i < 3 || (i < 15 && 5 * few <= many); i++) {
		few = least(delete_cost(self, 1), few);
		many = least(delete_cost(self, 2000), many);
	}
	ASSERT_NE(UINT64_MAX, few);
	ASSERT_NE(UINT64_MAX, many);
	EXPECT_GT(5 * few, many)
		TH_LOG("%llu ns with few, %llu ns with many", few + 0ULL, many + 0ULL);
}

#define ENTRIES 20000

TEST_F_TIMEOUT(expense, a_submission_costs_the_same_however_many_poll_the_eventfd_it_tells, 120)
{
	struct rlimit files = { .rlim_cur = ENTRIES + 1000, .rlim_max = ENTRIES + 1000 };
	struct epoll_event want = { .events = EPOLLIN | EPOLLET };
	int event = eventfd(0, EFD_CLOEXEC), set = epoll_create1(EPOLL_CLOEXEC);
	uint64_t few = UINT64_MAX, many = UINT64_MAX, value = 0;
	struct distmind_queue *watched, *urgent;
	struct distmind_timeline *done;
	struct distmind_vgpu *neighbour;
	uint32_t id;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, new_vgpu(self->pool, distmind_engine_gpu(self->engine),
			      DISTMIND_CLASS_LATENCY, NEIGHBOUR, &neighbour, &id));
	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 1, &watched));
	ASSERT_EQ(0, distmind_queue_create(neighbour, DISTMIND_LANE_COMPUTE, 1, &urgent));
	ASSERT_EQ(0, distmind_timeline_create(neighbour, 0, &done));
	ASSERT_EQ(0, distmind_queue_watch(watched, event));
	for (int i = 0; i < 10; i++)
		few = least(ask_cost(self, watched, urgent, done, ++value), few);
	for (int i = 0; i < ENTRIES; i++)
		ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_ADD, dup(event), &want));
	/* What it costs at least, as above. */
	for (int i = 0; i < 10 || (i < 200 && 5 * few <= many); i++)
		many = least(ask_cost(self, watched, urgent, done, ++value), many);
	ASSERT_NE(UINT64_MAX, few);
	ASSERT_NE(UINT64_MAX, many);
	EXPECT_GT(5 * few, many)
		TH_LOG("%llu ns before, %llu ns with many", few + 0ULL, many + 0ULL);
	distmind_queue_destroy(watched);
	distmind_queue_destroy(urgent);
	distmind_timeline_destroy(done);
	distmind_vgpu_close(neighbour);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
}

TEST_HARNESS_MAIN
