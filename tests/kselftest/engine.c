// SPDX-License-Identifier: GPL-2.0-or-later
/* The engine of docs/engine.md, used through the library. */
#include "kselftest_harness.h"
#include "library_test.h"

#define OP_FILL 1
#define BLOCK	4096

FIXTURE(engine)
{
	struct distmind_pool *pool;
	pid_t process;
	uint32_t gpu, id;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *compute, *copy;
	struct distmind_timeline *timeline;
	struct distmind_batch *batch;
	struct distmind_buffer *a, *b;
	char *one, *two;
};

/* Starts the template engine; returns its process, its gpu's number in *gpu. */
static pid_t start(uint32_t *gpu)
{
	const char *build = getenv("DISTMIND_BUILD");
	char path[512], line[64] = "";
	int ends[2];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/engine/template", build ? build : "build");
	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		execl(path, "template", "template", NULL);
		_exit(127);
	}
	close(ends[1]);
	if (read(ends[0], line, sizeof(line) - 1) <= 0 || sscanf(line, "gpu %u", gpu) != 1)
		pid = -1;
	close(ends[0]);
	return pid;
}

FIXTURE_SETUP(engine)
{
	struct distmind_vgpu_record record = { .memory = 8 * MiB, .share = 1000 };
	void *address;

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->process = start(&self->gpu);
	ASSERT_LT(0, self->process);
	record.gpu = self->gpu;
	ASSERT_EQ(0, library_vgpu_create(self->pool, &record, &self->vgpu));
	self->id = record.id;
	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 16, &self->compute));
	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COPY, 16, &self->copy));
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &self->timeline));
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, 3 * MiB, DISTMIND_BUFFER_DATA, &self->a));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, 3 * MiB, DISTMIND_BUFFER_DATA, &self->b));
	ASSERT_EQ(0, distmind_buffer_map(self->a, &address));
	self->one = address;
	ASSERT_EQ(0, distmind_buffer_map(self->b, &address));
	self->two = address;
}

FIXTURE_TEARDOWN(engine)
{
	distmind_batch_destroy(self->batch);
	distmind_queue_destroy(self->compute);
	distmind_queue_destroy(self->copy);
	distmind_timeline_destroy(self->timeline);
	distmind_buffer_destroy(self->a);
	distmind_buffer_destroy(self->b);
	distmind_vgpu_close(self->vgpu);
	kill(self->process, SIGKILL);
	child_status(self->process);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

static void fill(FIXTURE_DATA(engine) *self, uint64_t length, uint64_t byte)
{
	distmind_batch_launch(self->batch, OP_FILL, (length + BLOCK - 1) / BLOCK);
	distmind_batch_range(self->batch, self->a, 100, length);
	distmind_batch_number(self->batch, byte);
}

TEST_F(engine, template_fills_and_copies)
{
	fill(self, 2 * MiB, 0x77);
	distmind_batch_signal(self->batch, self->timeline, 1);
	ASSERT_EQ(0, distmind_queue_submit(self->compute, self->batch, NULL));
	distmind_batch_clear(self->batch);
	distmind_batch_copy(self->batch, self->b, 0, self->a, 100, 2 * MiB);
	distmind_batch_wait(self->batch, self->timeline, 1);
	distmind_batch_signal(self->batch, self->timeline, 2);
	ASSERT_EQ(0, distmind_queue_submit(self->copy, self->batch, NULL));
	ASSERT_EQ(0, distmind_timeline_wait(self->timeline, 2, 20000));
	EXPECT_EQ(2, distmind_timeline_value(self->timeline));
	EXPECT_EQ(0, distmind_timeline_status(self->timeline, 2));
	EXPECT_EQ(-EAGAIN, distmind_timeline_status(self->timeline, 3));
	EXPECT_EQ(0, self->one[99]);
	EXPECT_TRUE(all_bytes(self->one + 100, 2 * MiB, 0x77));
	EXPECT_EQ(0, self->one[100 + 2 * MiB]);
	EXPECT_TRUE(all_bytes(self->two, 2 * MiB, 0x77));
}

TEST_F(engine, what_it_does_not_understand_fails_with_its_error)
{
	distmind_batch_launch(self->batch, 99, 1);
	distmind_batch_signal(self->batch, self->timeline, 1);
	ASSERT_EQ(0, distmind_queue_submit(self->compute, self->batch, NULL));
	EXPECT_EQ(-EOPNOTSUPP, distmind_timeline_wait(self->timeline, 1, 20000));
	EXPECT_EQ(-EOPNOTSUPP, distmind_timeline_status(self->timeline, 1));
}

TEST_F(engine, its_death_fails_what_it_has_not_done)
{
	for (int i = 1; i <= 16; i++) {
		fill(self, 2 * MiB, i);
		/* However fast it is, the last one is left. */
		if (i == 16)
			distmind_batch_wait(self->batch, self->timeline, 17);
		distmind_batch_signal(self->batch, self->timeline, i);
	}
	ASSERT_EQ(0, distmind_queue_submit(self->compute, self->batch, NULL));
	kill(self->process, SIGKILL);
	/* Each ended: done, or with an error that says why. */
	EXPECT_EQ(-EOWNERDEAD, distmind_timeline_wait(self->timeline, 16, 20000));
	EXPECT_EQ(16, distmind_timeline_value(self->timeline));
}

TEST_F(engine, a_batch_that_is_too_large_is_told)
{
	for (int i = 0; i <= DISTMIND_SUBMIT_MAX; i++)
		distmind_batch_barrier(self->batch);
	EXPECT_EQ(-E2BIG, distmind_queue_submit(self->compute, self->batch, NULL));
	distmind_batch_clear(self->batch);
	distmind_batch_number(self->batch, 1);
	EXPECT_EQ(-EINVAL, distmind_queue_submit(self->compute, self->batch, NULL));
}

TEST_HARNESS_MAIN
