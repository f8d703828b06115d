// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The preemption ladder and an engine that is late: what it has not been given yet is
 * not its fault.
 *
 * processors: 1
 */
#include <sched.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SECOND 1000000000ULL
#define HANG (SECOND / 5)

/* One block, unless it is asked to yield. */
static void run_job(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);

	if (page->yield)
		next->status = DISTMIND_DONE_YIELDED;
}

FIXTURE(ladder)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	struct tenant {
		struct distmind_vgpu_record record;
		struct distmind_vgpu *vgpu;
		struct distmind_queue *queue;
		struct distmind_timeline *done;
	} tenants[2];
	struct distmind_batch *batch;
};

FIXTURE_SETUP(ladder)
{
	struct distmind_engine_params params = {
		.name = "late", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1, .capabilities = DISTMIND_ENGINE_YIELDS,
	};
	uint32_t gpu;

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_job));
	gpu = distmind_engine_gpu(self->gpu.engine);
	ASSERT_EQ(0, distmind_pool_gpu_grace(self->pool, gpu, SECOND / 100));
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, gpu, HANG));
	for (int i = 0; i < 2; i++) {
		struct tenant *tenant = &self->tenants[i];

		tenant->record = (struct distmind_vgpu_record){
			.gpu = gpu, .memory = MiB, .share = 500,
			.sched_class = i ? DISTMIND_CLASS_LATENCY : DISTMIND_CLASS_BEST_EFFORT,
			.objective_ns = i ? SECOND : 0,
		};
		ASSERT_EQ(0, library_vgpu_create(self->pool, &tenant->record, &tenant->vgpu));
		ASSERT_EQ(0, distmind_queue_create(tenant->vgpu, DISTMIND_LANE_COMPUTE, 1,
						   &tenant->queue));
		ASSERT_EQ(0, distmind_timeline_create(tenant->vgpu, 0, &tenant->done));
	}
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
}

FIXTURE_TEARDOWN(ladder)
{
	distmind_batch_destroy(self->batch);
	for (int i = 0; i < 2; i++) {
		distmind_timeline_destroy(self->tenants[i].done);
		distmind_queue_destroy(self->tenants[i].queue);
		distmind_vgpu_close(self->tenants[i].vgpu);
		distmind_pool_vgpu_delete(self->pool, self->tenants[i].record.id);
	}
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
}

static int submit(struct distmind_batch *batch, struct tenant *tenant, uint64_t value)
{
	int err;

	distmind_batch_launch(batch, 0, 1);
	distmind_batch_signal(batch, tenant->done, value);
	err = distmind_queue_submit(tenant->queue, batch, NULL);
	distmind_batch_clear(batch);
	return err;
}

static void keep_the_processor(uint64_t ns)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - from.tv_sec) * SECOND + now.tv_nsec - from.tv_nsec < ns);
}

/*
 * The engine's thread is told that there is a job and has no processor to take it, until
 * long after the job was asked to yield.
 */
TEST_F(ladder, a_job_that_its_engine_has_not_taken_yet_does_not_hang)
{
	struct sched_param idle = { 0 }, first = { .sched_priority = 1 };
	struct distmind_gpu_record gpu;

	ASSERT_EQ(0, pthread_setschedparam(self->gpu.lanes[0].thread, SCHED_IDLE, &idle));
	ASSERT_EQ(0, submit(self->batch, &self->tenants[0], 1));
	ASSERT_EQ(0, distmind_timeline_wait(self->tenants[0].done, 1, 10000));
	/* It goes back to waiting for jobs. */
	usleep(10000);
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &first));
	ASSERT_EQ(0, submit(self->batch, &self->tenants[0], 2));
	ASSERT_EQ(0, submit(self->batch, &self->tenants[1], 1));
	keep_the_processor(2 * HANG);
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_OTHER, &idle));
	EXPECT_EQ(0, distmind_timeline_wait(self->tenants[1].done, 1, 10000));
	EXPECT_EQ(0, distmind_timeline_wait(self->tenants[0].done, 2, 10000));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->tenants[0].record.gpu, &gpu));
	EXPECT_EQ(0, gpu.hangs);
	EXPECT_EQ(1, gpu.preemptions);
	EXPECT_EQ(DISTMIND_GPU_STATE_READY, gpu.state);
}

TEST_HARNESS_MAIN
