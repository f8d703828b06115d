// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Weights: one copy in a gpu that several tenants read, and extents that say what
 * is on its way from the memory pool. The test is the daemon that owns the buffer
 * and loads it, the tenant, and the engine.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SIZE (4 * MiB)
#define EXTENTS_MAX 65536 /* of one buffer */

FIXTURE(weights)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	struct distmind_vgpu *owner, *tenant;
	uint32_t owner_id, tenant_id, buffer_id;
	struct distmind_buffer *weights, *imported, *own;
	struct distmind_timeline *load, *done;
	struct distmind_queue *queue;
};

static uint32_t seen_read_only; /* of the last job */

static void run_job(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	seen_read_only = next->job.read_only;
}

static int new_vgpu(struct distmind_pool *pool, uint32_t gpu, struct distmind_vgpu **vgpu,
		    uint32_t *id)
{
	struct distmind_vgpu_record record = { .gpu = gpu, .memory = 2 * SIZE, .share = 100 };
	int err = library_vgpu_create(pool, &record, vgpu);

	*id = record.id;
	return err;
}

FIXTURE_SETUP(weights)
{
	struct distmind_engine_params params = {
		.name = "weights", .kind = "test", .memory = 4 * SIZE,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
	};
	struct distmind_buffer_info info;
	uint32_t gpu;
	int fd;

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_job));
	gpu = distmind_engine_gpu(self->gpu.engine);
	ASSERT_EQ(0, new_vgpu(self->pool, gpu, &self->owner, &self->owner_id));
	ASSERT_EQ(0, new_vgpu(self->pool, gpu, &self->tenant, &self->tenant_id));
	ASSERT_EQ(0, distmind_buffer_create(self->owner, SIZE, DISTMIND_BUFFER_WEIGHTS,
					    &self->weights));
	ASSERT_EQ(0, distmind_buffer_info(self->weights, &info));
	self->buffer_id = info.id;
	ASSERT_EQ(0, distmind_timeline_create(self->owner, 0, &self->load));
	fd = distmind_buffer_export(self->weights, DISTMIND_EXPORT_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, distmind_buffer_import(self->tenant, fd, &self->imported));
	close(fd);
	ASSERT_EQ(0, distmind_buffer_create(self->tenant, MiB, DISTMIND_BUFFER_DATA, &self->own));
	ASSERT_EQ(0, distmind_timeline_create(self->tenant, 0, &self->done));
	ASSERT_EQ(0, distmind_queue_create(self->tenant, DISTMIND_LANE_COMPUTE, 16, &self->queue));
}

FIXTURE_TEARDOWN(weights)
{
	distmind_queue_destroy(self->queue);
	distmind_timeline_destroy(self->done);
	distmind_timeline_destroy(self->load);
	distmind_buffer_destroy(self->own);
	distmind_buffer_destroy(self->imported);
	distmind_buffer_destroy(self->weights);
	distmind_vgpu_close(self->tenant);
	distmind_vgpu_close(self->owner);
	distmind_pool_vgpu_delete(self->pool, self->owner_id);
	distmind_pool_vgpu_delete(self->pool, self->tenant_id);
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
}

/* A job of the tenant that reads a range of the weights. */
static int use(FIXTURE_DATA(weights) *self, uint64_t offset, uint64_t length, uint64_t value)
{
	struct distmind_batch *batch;
	int err;

	distmind_batch_create(&batch);
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_range(batch, self->own, 0, MiB);
	distmind_batch_range(batch, self->imported, offset, length);
	distmind_batch_signal(batch, self->done, value);
	err = distmind_queue_submit(self->queue, batch, NULL);
	distmind_batch_destroy(batch);
	return err;
}

TEST_F(weights, one_copy_is_read_by_others_and_written_by_nobody_else)
{
	struct distmind_vgpu_info info;
	char *mine, *theirs;

	ASSERT_EQ(0, distmind_buffer_map(self->weights, (void **)&mine));
	ASSERT_EQ(0, distmind_buffer_map(self->imported, (void **)&theirs));
	memset(mine, 7, SIZE);
	EXPECT_TRUE(all_bytes(theirs, SIZE, 7));
	EXPECT_EQ(-1, mprotect(theirs, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-EACCES, distmind_buffer_export(self->imported,
						  DISTMIND_EXPORT_RDWR | DISTMIND_EXPORT_CLOEXEC));
	/* The tenant pays for its own only. */
	ASSERT_EQ(0, distmind_vgpu_info(self->tenant, &info));
	EXPECT_EQ(MiB, info.memory_used);
	ASSERT_EQ(0, use(self, 0, SIZE, 1));
	ASSERT_EQ(0, distmind_timeline_wait(self->done, 1, 10000));
	EXPECT_EQ(2, seen_read_only);
}

TEST_F(weights, a_timeline_exported_to_watch_is_waited_for_and_not_signalled)
{
	struct distmind_timeline *watched, *shared;
	struct distmind_batch *batch;
	uint32_t failed;
	int fd;

	EXPECT_EQ(-EINVAL, distmind_timeline_export(self->load, 1U << 31));
	fd = distmind_timeline_export(self->load, DISTMIND_EXPORT_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	ASSERT_EQ(0, distmind_timeline_import(self->tenant, fd, &watched));
	close(fd);
	EXPECT_EQ(-EBADF, distmind_timeline_signal(watched, 1));
	EXPECT_EQ(-EBADF, distmind_timeline_fail(watched, 1, -EIO));
	distmind_batch_create(&batch);
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_signal(batch, watched, 1);
	EXPECT_EQ(-EACCES, distmind_queue_submit(self->queue, batch, &failed));
	distmind_batch_destroy(batch);
	/* Nor does it get more rights on its way. */
	EXPECT_EQ(-EACCES, distmind_timeline_export(watched, DISTMIND_EXPORT_RDWR));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(watched, 1, 1));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 1));
	EXPECT_EQ(0, distmind_timeline_wait(watched, 1, 10000));
	fd = distmind_timeline_export(self->load, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, distmind_timeline_import(self->tenant, fd, &shared));
	close(fd);
	EXPECT_EQ(0, distmind_timeline_signal(shared, 2));
	EXPECT_EQ(0, distmind_timeline_wait(watched, 2, 10000));
	distmind_timeline_destroy(shared);
	distmind_timeline_destroy(watched);
}

TEST_F(weights, who_may_only_watch_does_not_keep_others_from_watching)
{
	struct distmind_timeline *watched;
	int fd, event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), err, count = 0;
	struct pollfd told = { .fd = event, .events = POLLIN };
	eventfd_t value;

	ASSERT_LE(0, event);
	fd = distmind_timeline_export(self->load, DISTMIND_EXPORT_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, distmind_timeline_import(self->tenant, fd, &watched));
	close(fd);
	/* For what will never be. */
	do {
		err = distmind_timeline_watch(watched, UINT64_MAX, event);
	} while (!err && ++count < 1000);
	EXPECT_EQ(-ENOSPC, err);
	EXPECT_EQ(0, distmind_timeline_watch(self->load, 1, event));
	EXPECT_EQ(0, distmind_timeline_watch(self->load, 3, event));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 2));
	ASSERT_EQ(1, poll(&told, 1, 10000));
	EXPECT_EQ(0, eventfd_read(event, &value));
	EXPECT_EQ(1, value);
	/* And what he watched goes with him. */
	distmind_timeline_destroy(watched);
	ASSERT_EQ(0, distmind_timeline_fail(self->load, 3, -EIO));
	ASSERT_EQ(1, poll(&told, 1, 10000));
	EXPECT_EQ(0, eventfd_read(event, &value));
	EXPECT_EQ(1, value);
	close(event);
}

TEST_F(weights, a_copy_into_them_is_refused)
{
	struct distmind_engine_params params = {
		.name = "copies", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.copy_lanes = 1,
	};
	struct distmind_buffer *from, *to;
	struct distmind_engine *engine;
	struct distmind_queue *queue;
	struct distmind_batch *batch;
	struct distmind_vgpu *vgpu;
	uint32_t failed, gpu, id;
	int fd;

	ASSERT_EQ(0, distmind_engine_register(&params, &engine));
	gpu = distmind_engine_gpu(engine);
	ASSERT_EQ(0, new_vgpu(self->pool, gpu, &vgpu, &id));
	ASSERT_EQ(0, distmind_buffer_create(vgpu, PAGE, DISTMIND_BUFFER_DATA, &from));
	fd = distmind_buffer_export(from, DISTMIND_EXPORT_CLOEXEC);
	ASSERT_EQ(0, distmind_buffer_import(vgpu, fd, &to));
	ASSERT_EQ(0, distmind_queue_create(vgpu, DISTMIND_LANE_COPY, 1, &queue));
	distmind_batch_create(&batch);
	distmind_batch_copy(batch, to, 0, from, 0, PAGE);
	EXPECT_EQ(-EACCES, distmind_queue_submit(queue, batch, &failed));
	distmind_batch_clear(batch);
	distmind_batch_copy(batch, from, 0, to, 0, PAGE);
	EXPECT_EQ(0, distmind_queue_submit(queue, batch, &failed));
	distmind_batch_destroy(batch);
	distmind_queue_destroy(queue);
	distmind_buffer_destroy(to);
	distmind_buffer_destroy(from);
	close(fd);
	distmind_vgpu_close(vgpu);
	distmind_pool_vgpu_delete(self->pool, id);
	distmind_engine_close(engine);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

TEST_F(weights, one_that_has_followed_its_owner_elsewhere_fails_the_job)
{
	struct distmind_engine_params params = {
		.name = "elsewhere", .kind = "test", .memory = 2 * SIZE,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
	};
	struct distmind_vgpu_record owner = { .id = self->owner_id };
	struct distmind_timeline *go, *there;
	struct distmind_queue *queue;
	struct distmind_batch *batch;
	struct gpu elsewhere;

	ASSERT_EQ(0, gpu_start(&elsewhere, &params, run_job));
	/* Submitted while it is here, to run when it is not. */
	ASSERT_EQ(0, distmind_timeline_create(self->tenant, 0, &go));
	distmind_batch_create(&batch);
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_range(batch, self->imported, 0, SIZE);
	distmind_batch_wait(batch, go, 1);
	distmind_batch_signal(batch, self->done, 1);
	ASSERT_EQ(0, distmind_queue_submit(self->queue, batch, NULL));
	owner.gpu = distmind_engine_gpu(elsewhere.engine);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &owner, DISTMIND_SET_GPU));
	ASSERT_EQ(0, distmind_queue_create(self->owner, DISTMIND_LANE_COMPUTE, 1, &queue));
	ASSERT_EQ(0, distmind_timeline_create(self->owner, 0, &there));
	distmind_batch_clear(batch);
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_range(batch, self->weights, 0, SIZE);
	distmind_batch_signal(batch, there, 1);
	ASSERT_EQ(0, distmind_queue_submit(queue, batch, NULL));
	ASSERT_EQ(0, distmind_timeline_wait(there, 1, 10000));
	ASSERT_EQ(0, distmind_timeline_signal(go, 1));
	EXPECT_EQ(-EXDEV, distmind_timeline_wait(self->done, 1, 10000));
	EXPECT_EQ(-EXDEV, use(self, 0, SIZE, 2));
	distmind_batch_destroy(batch);
	distmind_timeline_destroy(there);
	distmind_timeline_destroy(go);
	distmind_queue_destroy(queue);
	owner.gpu = DISTMIND_GPU_NONE;
	EXPECT_EQ(0, distmind_pool_vgpu_set(self->pool, &owner, DISTMIND_SET_GPU));
	EXPECT_EQ(0, gpu_stop(self->pool, &elsewhere));
}

/*
 * Extents of equal size, of so many that would fill the buffer; so many of them are a group.
 * They come in the order of their offsets, or the last one first.
 */
static int install_some(FIXTURE_DATA(weights) *self, uint64_t count, uint64_t all, uint64_t group,
			bool backwards)
{
	struct distmind_extent_record *extents = calloc(count, sizeof(*extents));
	int err;

	for (uint64_t i = 0; i < count; i++) {
		extents[i] = (struct distmind_extent_record){
			.offset = i * (SIZE / all), .size = SIZE / all,
			.value = 1 + (backwards ? count - 1 - i : i) / group,
		};
	}
	err = distmind_pool_extents_add(self->pool, self->buffer_id,
					distmind_timeline_fd(self->load), extents, count);
	free(extents);
	return err;
}

static int install(FIXTURE_DATA(weights) *self, uint64_t count, uint64_t group, bool backwards)
{
	return install_some(self, count, count, group, backwards);
}

TEST_F(weights, jobs_wait_for_what_they_use_and_for_nothing_else)
{
	ASSERT_EQ(0, install(self, 16, 4, false));
	ASSERT_EQ(0, use(self, 0, SIZE / 4, 1));	     /* the first group */
	ASSERT_EQ(0, use(self, SIZE / 4 - 1, 2, 2));	     /* two groups */
	ASSERT_EQ(0, use(self, SIZE - 1, 1, 3));	     /* the last */
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->done, 1, 50));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 1));
	EXPECT_EQ(0, distmind_timeline_wait(self->done, 1, 10000));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->done, 2, 50));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 2));
	EXPECT_EQ(0, distmind_timeline_wait(self->done, 2, 10000));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->done, 3, 50));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 4));
	EXPECT_EQ(0, distmind_timeline_wait(self->done, 3, 10000));
}

TEST_F(weights, a_load_that_fails_fails_what_waits_for_it_and_nothing_else)
{
	ASSERT_EQ(0, install(self, 16, 4, false));
	ASSERT_EQ(0, use(self, 0, SIZE / 4, 1));
	ASSERT_EQ(0, use(self, SIZE - 1, 1, 2));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 1));
	EXPECT_EQ(0, distmind_timeline_wait(self->done, 1, 10000));
	EXPECT_EQ(-EINVAL, distmind_timeline_fail(self->load, 1, -EIO));
	EXPECT_EQ(-EINVAL, distmind_timeline_fail(self->load, 2, 5));
	/* Not an error: the kernel's own order to restart a call, with what it remembers of it. */
	EXPECT_EQ(-EINVAL, distmind_timeline_fail(self->load, 2, -516));
	ASSERT_EQ(0, distmind_timeline_fail(self->load, 2, -EIO));
	EXPECT_EQ(-EIO, distmind_timeline_wait(self->done, 2, 10000));
	EXPECT_EQ(0, distmind_timeline_status(self->load, 1));
	EXPECT_EQ(-EIO, distmind_timeline_status(self->load, 4));
}

TEST_F(weights, the_death_of_the_loader_fails_what_waits_for_it_and_nothing_else)
{
	ASSERT_EQ(0, install(self, 16, 4, false));
	ASSERT_EQ(0, use(self, 0, SIZE / 4, 1));
	ASSERT_EQ(0, use(self, SIZE - 1, 1, 2));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 1));
	EXPECT_EQ(0, distmind_timeline_wait(self->done, 1, 10000));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->done, 2, 50));
	/* Whatever it had open is closed. */
	distmind_timeline_destroy(self->load);
	self->load = NULL;
	EXPECT_EQ(-EOWNERDEAD, distmind_timeline_wait(self->done, 2, 10000));
	/* What had arrived is there. */
	distmind_timeline_destroy(self->done);
	ASSERT_EQ(0, distmind_timeline_create(self->tenant, 0, &self->done));
	ASSERT_EQ(0, use(self, 0, SIZE / 4, 1));
	EXPECT_EQ(0, distmind_timeline_wait(self->done, 1, 10000));
}

/*
 * How long it takes to submit as much as one call can: jobs that share their arguments,
 * each of them all of the buffer. 0: that failed.
 */
static uint64_t submit_ns(struct distmind_vgpu *vgpu, struct distmind_buffer *buffer)
{
	struct distmind_queue_create queue = {
		.kind = DISTMIND_LANE_COMPUTE, .depth = DISTMIND_SUBMIT_MAX,
	};
	struct distmind_job_desc jobs[DISTMIND_SUBMIT_MAX];
	struct distmind_arg args[DISTMIND_ARGS_MAX];
	struct distmind_submit submit = {
		.jobs = (uintptr_t)jobs, .job_count = DISTMIND_SUBMIT_MAX,
		.args = (uintptr_t)args, .arg_count = DISTMIND_ARGS_MAX,
	};
	struct distmind_handle_destroy destroy = { 0 };
	int fd = distmind_vgpu_fd(vgpu), err;
	struct timespec from, to;

	for (int i = 0; i < DISTMIND_SUBMIT_MAX; i++)
		jobs[i] = (struct distmind_job_desc){
			.type = DISTMIND_JOB_LAUNCH, .blocks = 1, .args = DISTMIND_ARGS_MAX,
		};
	for (int i = 0; i < DISTMIND_ARGS_MAX; i++)
		args[i] = (struct distmind_arg){
			.buffer = distmind_buffer_handle(buffer), .length = SIZE,
		};
	if (call(fd, DISTMIND_IOC_QUEUE_CREATE, &queue))
		return 0;
	submit.queue = destroy.handle = queue.handle;
	clock_gettime(CLOCK_MONOTONIC, &from);
	err = call(fd, DISTMIND_IOC_SUBMIT, &submit);
	clock_gettime(CLOCK_MONOTONIC, &to);
	if (err || call(fd, DISTMIND_IOC_QUEUE_DESTROY, &destroy))
		return 0;
	return (to.tv_sec - from.tv_sec) * 1000000000ULL + to.tv_nsec - from.tv_nsec;
}

/* At least, of several: a busy host takes time from an emulated processor. */
static uint64_t least_submit_ns(struct distmind_vgpu *vgpu, struct distmind_buffer *buffer)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 10; i++) {
		uint64_t took = submit_ns(vgpu, buffer);

		if (!took)
			return 0;
		least = took < least ? took : least;
	}
	return least;
}

TEST_F(weights, a_map_of_many_extents_hardly_slows_submission)
{
	uint64_t without = least_submit_ns(self->owner, self->weights), with;

	ASSERT_NE(0, without);
	ASSERT_EQ(0, install(self, EXTENTS_MAX, 1, false));
	with = least_submit_ns(self->owner, self->weights);
	ASSERT_NE(0, with);
	EXPECT_GT(5 * without, with)
		TH_LOG("%llu us without, %llu us with", without / 1000ULL, with / 1000ULL);
}

TEST_F(weights, jobs_wait_for_the_last_that_comes_wherever_it_lies)
{
	const uint64_t size = SIZE / 1024, group[] = { 1, 192, 193, 256 };

	ASSERT_EQ(0, install(self, 1024, 4, true));
	ASSERT_EQ(0, use(self, 1023 * size, size, 1));
	ASSERT_EQ(0, use(self, 256 * size, SIZE - 256 * size, 2));
	ASSERT_EQ(0, use(self, 255 * size, 600 * size, 3));
	ASSERT_EQ(0, use(self, 0, SIZE, 4));
	for (int i = 0; i < 4; i++) {
		if (group[i] - 1 > distmind_timeline_value(self->load))
			ASSERT_EQ(0, distmind_timeline_signal(self->load, group[i] - 1));
		EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->done, i + 1, 50));
		ASSERT_EQ(0, distmind_timeline_signal(self->load, group[i]));
		EXPECT_EQ(0, distmind_timeline_wait(self->done, i + 1, 10000));
	}
}

#define SCATTERED 1000 /* extents, each with a value of its own */
#define RANGES	  32

/* The values of extents: each from 1 to SCATTERED once, as if at random. */
static uint64_t scattered(uint64_t i)
{
	return (i * 617 + 290) % SCATTERED + 1;
}

struct range {
	uint64_t first, count, latest;
};

static int by_latest(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->latest > y->latest) - (x->latest < y->latest);
}

/* Ranges of any place and length, against a look at each of their extents. */
TEST_F(weights, jobs_wait_for_the_last_of_any_range)
{
	struct distmind_extent_record extents[SCATTERED];
	struct range ranges[RANGES] = { 0 };
	const uint64_t size = 4096;
	uint64_t random = 1;

	for (uint64_t i = 0; i < SCATTERED; i++)
		extents[i] = (struct distmind_extent_record){
			.offset = i * size, .size = size, .value = scattered(i),
		};
	ASSERT_EQ(0, distmind_pool_extents_add(self->pool, self->buffer_id,
					       distmind_timeline_fd(self->load), extents,
					       SCATTERED));
	for (int r = 0; r < RANGES; r++) {
		struct range *range = &ranges[r];

		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		range->first = (random >> 33) % SCATTERED;
		range->count = 1 + (random >> 45) % (SCATTERED - range->first);
		for (uint64_t i = range->first; i < range->first + range->count; i++)
			range->latest = range->latest > scattered(i) ? range->latest : scattered(i);
	}
	qsort(ranges, RANGES, sizeof(ranges[0]), by_latest);
	for (int r = 0; r < RANGES; r++) {
		struct range *range = &ranges[r];

		/* It wants the very last of them, not one before it. */
		if (range->latest - 1 > distmind_timeline_value(self->load))
			ASSERT_EQ(0, distmind_timeline_signal(self->load, range->latest - 1));
		ASSERT_EQ(0, use(self, range->first * size, range->count * size, r + 1));
		if (range->latest > distmind_timeline_value(self->load)) {
			EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->done, r + 1, 20));
			ASSERT_EQ(0, distmind_timeline_signal(self->load, range->latest));
		}
		EXPECT_EQ(0, distmind_timeline_wait(self->done, r + 1, 10000));
	}
}

struct census {
	unsigned int count, present, loading;
	bool in_order;
	uint64_t end;
};

static int count_extent(const struct distmind_extent_record *extent, void *arg)
{
	struct census *census = arg;

	census->in_order &= extent->offset == census->end && extent->value == census->count + 1;
	census->end = extent->offset + extent->size;
	census->count++;
	census->present += extent->state == DISTMIND_EXTENT_STATE_PRESENT;
	census->loading += extent->state == DISTMIND_EXTENT_STATE_LOADING;
	return 0;
}

TEST_F(weights, the_map_shows_how_far_the_load_is)
{
	struct census census = { .in_order = true };

	ASSERT_EQ(0, distmind_pool_extents(self->pool, self->buffer_id, count_extent, &census));
	EXPECT_EQ(0, census.count);
	ASSERT_EQ(0, install(self, 1024, 1, false));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, 400));
	ASSERT_EQ(0, distmind_pool_extents(self->pool, self->buffer_id, count_extent, &census));
	EXPECT_TRUE(census.in_order);
	EXPECT_EQ(1024, census.count);
	EXPECT_EQ(400, census.present);
	EXPECT_EQ(624, census.loading);
	EXPECT_EQ(SIZE, census.end);
}

TEST_F(weights, neighbours_that_come_together_are_one_extent)
{
	const uint64_t group = 4, parts = (uint64_t)EXTENTS_MAX * group, size = SIZE / parts;
	struct census census = { .in_order = true };
	struct distmind_extent_record more = {
		.offset = SIZE - size, .size = size, .value = EXTENTS_MAX,
	};
	int load = distmind_timeline_fd(self->load);

	/* All but the last. */
	ASSERT_EQ(0, install_some(self, parts - 1, parts, group, false));
	ASSERT_EQ(0, distmind_pool_extents(self->pool, self->buffer_id, count_extent, &census));
	EXPECT_TRUE(census.in_order);
	EXPECT_EQ(EXTENTS_MAX, census.count);
	EXPECT_EQ(SIZE - size, census.end);
	/* One that comes later is one more, and there is no room for that. */
	more.value++;
	EXPECT_EQ(-E2BIG, distmind_pool_extents_add(self->pool, self->buffer_id, load, &more, 1));
	more.value--;
	EXPECT_EQ(0, distmind_pool_extents_add(self->pool, self->buffer_id, load, &more, 1));
	ASSERT_EQ(0, use(self, SIZE - 1, 1, 1));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, EXTENTS_MAX - 1));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->done, 1, 50));
	ASSERT_EQ(0, distmind_timeline_signal(self->load, EXTENTS_MAX));
	EXPECT_EQ(0, distmind_timeline_wait(self->done, 1, 10000));
}

TEST_F(weights, a_map_that_cannot_be_is_refused_with_the_reason)
{
	struct distmind_extent_record extent = { .size = SIZE / 2, .value = 1 };
	int load = distmind_timeline_fd(self->load);
	struct distmind_buffer_info info;

	EXPECT_EQ(-EINVAL, distmind_pool_extents_add(self->pool, self->buffer_id, -1, &extent, 1));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "timeline"));
	EXPECT_EQ(-EBADF, distmind_pool_extents_add(self->pool, self->buffer_id, 0, &extent, 1));
	extent.offset = SIZE / 2 + PAGE;
	EXPECT_EQ(-ERANGE, distmind_pool_extents_add(self->pool, self->buffer_id, load, &extent, 1));
	extent.offset = ~0ULL;
	EXPECT_EQ(-ERANGE, distmind_pool_extents_add(self->pool, self->buffer_id, load, &extent, 1));
	extent.offset = SIZE / 4;
	EXPECT_EQ(0, distmind_pool_extents_add(self->pool, self->buffer_id, load, &extent, 1));
	EXPECT_EQ(-EINVAL, distmind_pool_extents_add(self->pool, self->buffer_id, load, &extent, 1));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "overlap"));
	ASSERT_EQ(0, distmind_buffer_info(self->own, &info));
	EXPECT_EQ(-EINVAL, distmind_pool_extents_add(self->pool, info.id, load, &extent, 1));
	EXPECT_EQ(-ENOENT, distmind_pool_extents_add(self->pool, ~1U, load, &extent, 1));
	EXPECT_EQ(77, AS_NOBODY(({
		struct distmind_pool *pool;

		distmind_pool_open(&pool);
		distmind_pool_extents_add(pool, self->buffer_id, load, &extent, 1) == -EPERM &&
		distmind_pool_extents(pool, self->buffer_id, count_extent, NULL) == -ENOENT ?
			77 : 1;
	})));
}

TEST_HARNESS_MAIN
