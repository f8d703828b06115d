// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who acquires a vgpu anew for each job gets no more than its share of a gpu. The engine is
 * a thread of the test with one lane, which does not yield: a launch is blocks of a
 * millisecond. The test is the daemon as well, and grants whatever is claimed.
 *
 * time-limit: 180
 */
#include <poll.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SECOND 1000000000ULL
#define LONG 100 /* blocks of who comes back */
#define SHORT 2 /* of who stays */
#define FEW 4 /* jobs of who stays that wait at a time */
#define ROUNDS 20

static void run_blocks(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	usleep(1000 * next->job.blocks);
}

FIXTURE(debt)
{
	struct distmind_pool *pool, *daemon;
	struct gpu gpu;
	uint32_t gpu_id;
	struct distmind_vgpu_record record;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *done;
	int stop;
	pthread_t granting, staying;
};

FIXTURE_SETUP(debt)
{
	struct distmind_engine_params params = {
		.name = "debt", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1,
	};

	memset(self, 0, sizeof(*self));
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_pool_open(&self->daemon));
	ASSERT_EQ(0, distmind_pool_subscribe(self->daemon));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_blocks));
	self->gpu_id = distmind_engine_gpu(self->gpu.engine);
	self->record = (struct distmind_vgpu_record){
		.gpu = self->gpu_id, .memory = 64 * 1024, .share = 500,
		.sched_class = DISTMIND_CLASS_STANDARD,
	};
	ASSERT_EQ(0, library_vgpu_create(self->pool, &self->record, &self->vgpu));
	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 64, &self->queue));
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &self->done));
}

FIXTURE_TEARDOWN(debt)
{
	distmind_timeline_destroy(self->done);
	distmind_queue_destroy(self->queue);
	distmind_vgpu_close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->record.id);
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->daemon);
	distmind_pool_close(self->pool);
}

static bool is_over(FIXTURE_DATA(debt) *self)
{
	return __atomic_load_n(&self->stop, __ATOMIC_ACQUIRE);
}

static void grant(const struct distmind_event *event, void *arg)
{
	FIXTURE_DATA(debt) *self = arg;

	if (event->type == DISTMIND_EVENT_CLAIM_ADD)
		distmind_pool_claim_grant(self->daemon, event->claim.id, &self->gpu_id, 1);
}

static void *grant_all(void *arg)
{
	FIXTURE_DATA(debt) *self = arg;
	struct pollfd pfd = { .fd = distmind_pool_event_fd(self->daemon), .events = POLLIN };

	while (!is_over(self)) {
		if (poll(&pfd, 1, 50) == 1)
			distmind_pool_dispatch(self->daemon, grant, self);
	}
	return NULL;
}

/* There is always a job of it that waits. */
static void *stay(void *arg)
{
	FIXTURE_DATA(debt) *self = arg;
	struct distmind_batch *batch;
	uint64_t value = 0;

	if (distmind_batch_create(&batch))
		return NULL;
	while (!is_over(self)) {
		distmind_batch_launch(batch, 0, SHORT);
		distmind_batch_signal(batch, self->done, ++value);
		if (distmind_queue_submit(self->queue, batch, NULL))
			break;
		distmind_batch_clear(batch);
		if (value > FEW)
			distmind_timeline_wait(self->done, value - FEW, 20000);
	}
	distmind_batch_destroy(batch);
	return NULL;
}

static int submit_and_wait(struct distmind_vgpu *vgpu)
{
	struct distmind_timeline *done;
	struct distmind_queue *queue;
	struct distmind_batch *batch;
	int err;

	if (distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1, &queue) ||
	    distmind_timeline_create(vgpu, 0, &done) || distmind_batch_create(&batch))
		return -ENOMEM;
	distmind_batch_launch(batch, 0, LONG);
	distmind_batch_signal(batch, done, 1);
	err = distmind_queue_submit(queue, batch, NULL);
	if (!err)
		err = distmind_timeline_wait(done, 1, 20000);
	distmind_batch_destroy(batch);
	distmind_timeline_destroy(done);
	distmind_queue_destroy(queue);
	return err;
}

static int come_back(void)
{
	struct distmind_claim claim = {
		.memory = 64 * 1024, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD,
		.count = 1, .timeout_ms = 20000,
	};
	struct distmind_vgpu *vgpu;

	for (int i = 0; i < ROUNDS; i++) {
		if (distmind_acquire(&claim, &vgpu, NULL))
			return 1;
		if (submit_and_wait(vgpu))
			return 2;
		distmind_vgpu_close(vgpu);
	}
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

TEST_F_TIMEOUT(debt, who_comes_back_for_each_job_gets_no_more_than_its_share, 120)
{
	uint64_t all, busy;

	ASSERT_EQ(0, pthread_create(&self->granting, NULL, grant_all, self));
	ASSERT_EQ(0, pthread_create(&self->staying, NULL, stay, self));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, self->record.id, &self->record));
	busy = self->record.busy_ns;
	all = now_ns();
	EXPECT_EQ(0, AS_NOBODY(come_back()));
	all = now_ns() - all;
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, self->record.id, &self->record));
	busy = self->record.busy_ns - busy;
	/* Both want all of it, and have the same share; to fetch short jobs takes time as well. */
	EXPECT_GT(busy * 100, 30 * all)
		TH_LOG("who stays had %llu of %llu ms", busy / 1000000ULL, all / 1000000ULL);
	__atomic_store_n(&self->stop, 1, __ATOMIC_RELEASE);
	pthread_join(self->staying, NULL);
	pthread_join(self->granting, NULL);
}

TEST_HARNESS_MAIN
