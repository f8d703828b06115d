// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A tenant that has as many objects as it likes: it ends in order, and the others wait
 * for it no longer than for anybody else.
 *
 * time-limit: 300
 */
#include <sys/resource.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define QUEUES 400
#define HANDLES 50000
#define FILES 4000

static void run_job(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
}

FIXTURE(many)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	struct distmind_vgpu *vgpu;
	uint32_t id;
};

FIXTURE_SETUP(many)
{
	struct distmind_engine_params params = {
		.name = "many", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1,
	};
	struct distmind_vgpu_record record = { .memory = MiB, .share = 500 };

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_job));
	record.gpu = distmind_engine_gpu(self->gpu.engine);
	ASSERT_EQ(0, library_vgpu_create(self->pool, &record, &self->vgpu));
	self->id = record.id;
}

FIXTURE_TEARDOWN(many)
{
	distmind_vgpu_close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->id);
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
}

/* Queues with a job each that waits for what never comes; its end is on a timeline. */
struct crowd {
	struct distmind_timeline *never;
	struct distmind_queue *queues[QUEUES];
	struct distmind_timeline *done[QUEUES];
};

static int crowd_start(struct crowd *crowd, struct distmind_vgpu *vgpu)
{
	struct distmind_batch *batch;
	int err = distmind_timeline_create(vgpu, 0, &crowd->never);

	if (!err)
		err = distmind_batch_create(&batch);
	for (int i = 0; !err && i < QUEUES; i++) {
		err = distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1, &crowd->queues[i]);
		if (!err)
			err = distmind_timeline_create(vgpu, 0, &crowd->done[i]);
		if (err)
			break;
		distmind_batch_barrier(batch);
		distmind_batch_wait(batch, crowd->never, 1);
		distmind_batch_signal(batch, crowd->done[i], 1);
		err = distmind_queue_submit(crowd->queues[i], batch, NULL);
		distmind_batch_clear(batch);
	}
	distmind_batch_destroy(batch);
	return err;
}

/* Every other one is destroyed by its owner. */
static void *crowd_thin(void *arg)
{
	struct crowd *crowd = arg;

	for (int i = 0; i < QUEUES; i += 2)
		distmind_queue_destroy(crowd->queues[i]);
	return NULL;
}

/* How many jobs have ended with that error, or with that of a queue that is destroyed. */
static int crowd_end(struct crowd *crowd, int error)
{
	int count = 0;

	for (int i = 0; i < QUEUES; i++) {
		int err = distmind_timeline_wait(crowd->done[i], 1, 10000);

		count += err == error || (i % 2 == 0 && err == -ECANCELED);
		distmind_timeline_destroy(crowd->done[i]);
		if (i % 2)
			distmind_queue_destroy(crowd->queues[i]);
	}
	distmind_timeline_destroy(crowd->never);
	return count;
}

TEST_F(many, queues_end_when_their_vgpu_is_parked)
{
	struct distmind_vgpu_record record = { .id = self->id, .gpu = DISTMIND_GPU_NONE };
	struct crowd *crowd = malloc(sizeof(*crowd));
	pthread_t thread;

	ASSERT_EQ(0, crowd_start(crowd, self->vgpu));
	ASSERT_EQ(0, pthread_create(&thread, NULL, crowd_thin, crowd));
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &record, DISTMIND_SET_GPU));
	pthread_join(thread, NULL);
	EXPECT_EQ(QUEUES, crowd_end(crowd, -ESTALE));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, self->id, &record));
	EXPECT_EQ(0, record.queued);
	free(crowd);
}

TEST_F(many, queues_of_several_end_with_their_gpu)
{
	struct distmind_vgpu_record records[2] = {
		{ .memory = MiB, .share = 100 }, { .memory = MiB, .share = 100 },
	};
	struct crowd *crowds = calloc(2, sizeof(*crowds));
	struct distmind_vgpu *vgpus[2];
	pthread_t threads[2];
	uint32_t gpu;
	int engine;

	engine = engine_start("lost", MiB, &gpu);
	ASSERT_LE(0, engine);
	for (int i = 0; i < 2; i++) {
		records[i].gpu = gpu;
		ASSERT_EQ(0, library_vgpu_create(self->pool, &records[i], &vgpus[i]));
		ASSERT_EQ(0, crowd_start(&crowds[i], vgpus[i]));
	}
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, crowd_thin, &crowds[i]));
	close(engine);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(QUEUES, crowd_end(&crowds[i], -EOWNERDEAD));
		ASSERT_EQ(0, distmind_pool_vgpu(self->pool, records[i].id, &records[i]));
		EXPECT_EQ(0, records[i].queued);
		distmind_vgpu_close(vgpus[i]);
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, records[i].id));
	}
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	free(crowds);
}

/* A vgpu with so many open files, the last of which has all the handles: how long it dies. */
static uint64_t delete_ns(struct distmind_pool *pool, uint32_t gpu, int files)
{
	struct distmind_vgpu_record record = { .gpu = gpu, .memory = MiB, .share = 1 };
	struct distmind_buffer_export export = { 0 };
	struct distmind_buffer_import import = { 0 };
	struct distmind_buffer_create create;
	struct timespec from, to;
	int *fds = calloc(files, sizeof(*fds)), err, last;

	err = distmind_pool_vgpu_create(pool, &record);
	for (int i = 0; !err && i < files; i++) {
		fds[i] = last = open_vgpu(record.id);
		err = last < 0;
	}
	if (!err)
		err = buffer_create(last, PAGE, &create);
	export.handle = create.handle;
	if (!err)
		err = call(last, DISTMIND_IOC_BUFFER_EXPORT, &export);
	import.fd = export.fd;
	for (int i = 0; !err && i < HANDLES; i++)
		err = call(last, DISTMIND_IOC_BUFFER_IMPORT, &import);
	clock_gettime(CLOCK_MONOTONIC, &from);
	if (!err)
		err = distmind_pool_vgpu_delete(pool, record.id);
	clock_gettime(CLOCK_MONOTONIC, &to);
	close(export.fd);
	for (int i = 0; i < files; i++)
		close(fds[i]);
	free(fds);
	return err ? 0 : (to.tv_sec - from.tv_sec) * 1000000000ULL + to.tv_nsec - from.tv_nsec;
}

TEST_F_TIMEOUT(many, handles_go_in_the_same_time_however_many_files_have_none, 200)
{
	uint32_t gpu = distmind_engine_gpu(self->gpu.engine);
	struct rlimit limit = { .rlim_cur = FILES + 100, .rlim_max = FILES + 100 };
	uint64_t one, many;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	one = delete_ns(self->pool, gpu, 1);
	ASSERT_NE(0, one);
	many = delete_ns(self->pool, gpu, FILES);
	ASSERT_NE(0, many);
	EXPECT_GT(20 * one, many);
}

TEST_HARNESS_MAIN
