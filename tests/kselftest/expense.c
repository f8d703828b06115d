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

static uint64_t least(uint64_t a, uint64_t b)
{
	return a && a < b ? a : b;
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
