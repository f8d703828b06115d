// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who polls timelines: what wakes them is not paid for by the engine whose job signals. What
 * a call costs is the processor time of the thread that makes it.
 */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define FILES	32 /* of one timeline, each polled */
#define SETS	8 /* epoll instances that poll a file */
#define NESTED	50 /* that poll each of these in turn: with these a file has what it may have */
#define TENANT	65534

FIXTURE(poller)
{
	struct distmind_pool *pool;
	struct distmind_engine *engine;
	struct distmind_vgpu *vgpu;
	struct distmind_timeline *timeline;
	struct distmind_queue *queue;
	struct distmind_batch *batch;
	int files[FILES];
	uint64_t value;
	uint32_t id;
};

FIXTURE_SETUP(poller)
{
	struct distmind_engine_params params = {
		.name = "poller", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1,
	};
	struct distmind_vgpu_record record = {
		.memory = MiB, .share = 500, .uid = TENANT, .gid = TENANT,
		.sched_class = DISTMIND_CLASS_STANDARD,
	};
	struct rlimit files = { .rlim_cur = 65536, .rlim_max = 65536 };

	self->value = 0;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_engine_register(&params, &self->engine));
	record.gpu = distmind_engine_gpu(self->engine);
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &record));
	self->id = record.id;
	/* The account that pays is that of who opens it. */
	ASSERT_EQ(0, seteuid(TENANT));
	ASSERT_EQ(0, library_vgpu_open(record.id, &self->vgpu));
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &self->timeline));
	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 1, &self->queue));
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
	for (int i = 0; i < FILES; i++) {
		self->files[i] = distmind_timeline_export(self->timeline, DISTMIND_EXPORT_CLOEXEC);
		ASSERT_LE(0, self->files[i]);
	}
}

FIXTURE_TEARDOWN(poller)
{
	uint32_t gpu = distmind_engine_gpu(self->engine);

	for (int i = 0; i < FILES; i++)
		close(self->files[i]);
	distmind_batch_destroy(self->batch);
	distmind_queue_destroy(self->queue);
	distmind_timeline_destroy(self->timeline);
	distmind_vgpu_close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_engine_close(self->engine);
	distmind_pool_gpu_remove(self->pool, gpu);
	distmind_pool_close(self->pool);
}

/* A new epoll instance that waits for @fd; -1 if there cannot be one more. */
static int poll_by(int fd)
{
	struct epoll_event want = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC);

	return set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &want) ? -1 : set;
}

/* Whether that instance has something ready. */
static bool is_told(int set)
{
	struct epoll_event event;

	return epoll_wait(set, &event, 1, 10000) == 1;
}

static uint64_t spent_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* What it costs the engine to hand back a job that all wait for; 0: something went wrong. */
static uint64_t hand_back_cost(FIXTURE_DATA(poller) *self)
{
	struct distmind_timeline_signal next = { .value = ++self->value };
	struct distmind_engine_exchange exchange = { .timeout_ms = 10000 };
	uint64_t cost;

	for (int i = 0; i < FILES; i++) {
		if (call(self->files[i], DISTMIND_IOC_TIMELINE_POLL, &next))
			return 0;
	}
	distmind_batch_clear(self->batch);
	distmind_batch_launch(self->batch, 0, 1);
	distmind_batch_signal(self->batch, self->timeline, self->value);
	if (distmind_queue_submit(self->queue, self->batch, NULL) ||
	    distmind_engine_exchange(self->engine, &exchange))
		return 0;
	exchange.done = exchange.job.id;
	exchange.timeout_ms = 0;
	cost = spent_ns();
	if (distmind_engine_exchange(self->engine, &exchange) != -ETIMEDOUT)
		return 0;
	return spent_ns() - cost;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a && a < b ? a : b;
}

/* What it costs at least: a busy host takes time from an emulated processor. */
static uint64_t least_cost(FIXTURE_DATA(poller) *self, uint64_t enough)
{
	uint64_t cost = UINT64_MAX;

	for (int i = 0; i < 20 || (i < 200 && cost >= enough); i++)
		cost = least(hand_back_cost(self), cost);
	return cost;
}

TEST_F(poller, an_engine_hands_a_job_back_at_once_however_many_poll_for_its_end)
{
	uint64_t few, some, many;
	int last = -1;

	for (int i = 0; i < FILES; i++)
		ASSERT_LE(0, poll_by(self->files[i]));
	few = least_cost(self, UINT64_MAX);
	ASSERT_NE(UINT64_MAX, few);
	some = many = UINT64_MAX;
	for (int j = 1; j < SETS; j++) {
		for (int i = 0; i < FILES; i++) {
			int set = poll_by(self->files[i]);

			ASSERT_LE(0, set);
			for (int k = 0; k < NESTED; k++) {
				last = poll_by(set);
				ASSERT_LE(0, last);
			}
		}
		/* As many as are woken by who signals, and more. */
		if (j == 1)
			some = least_cost(self, 3 * few);
	}
	many = least_cost(self, 3 * few);
	EXPECT_GT(3 * few, some);
	EXPECT_GT(3 * few, many)
		TH_LOG("%llu ns with few, %llu ns with some, %llu ns with many", few + 0ULL,
		       some + 0ULL, many + 0ULL);
	/* They are told all the same. */
	EXPECT_TRUE(is_told(last));
}

TEST_F(poller, who_polls_is_told_when_the_file_is_asked_for_a_value_that_is_reached)
{
	struct distmind_timeline_signal late = { .value = 2 }, reached = { .value = 1 };
	struct epoll_event event;
	int set;

	ASSERT_EQ(0, call(self->files[0], DISTMIND_IOC_TIMELINE_POLL, &late));
	set = poll_by(self->files[0]);
	ASSERT_LE(0, set);
	ASSERT_EQ(0, distmind_timeline_signal(self->timeline, 1));
	ASSERT_EQ(0, epoll_wait(set, &event, 1, 0));
	ASSERT_EQ(0, call(self->files[0], DISTMIND_IOC_TIMELINE_POLL, &reached));
	EXPECT_TRUE(is_told(set));
	close(set);
}

TEST_HARNESS_MAIN
