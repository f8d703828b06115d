// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many objects, and clients that are killed at any moment.
 * time-limit: 300
 */
#include <time.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

#define VGPUS	1000
#define BUFFERS	10000
#define KILLS	500

FIXTURE(scale)
{
	struct distmind_pool *pool;
	int engine;
	uint32_t gpu;
};

FIXTURE_SETUP(scale)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = engine_start("scale", 256 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
}

FIXTURE_TEARDOWN(scale)
{
	close(self->engine);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

static int count_vgpus(const struct distmind_vgpu_record *vgpu, void *arg)
{
	++*(int *)arg;
	return 0;
}

struct tally {
	int count;
	uint64_t bytes;
};

static int tally_buffers(const struct distmind_buffer_record *buffer, void *arg)
{
	struct tally *tally = arg;

	tally->count++;
	tally->bytes += buffer->size;
	return 0;
}

TEST_F_TIMEOUT(scale, a_thousand_vgpus_and_ten_thousand_buffers, 280)
{
	struct distmind_vgpu_record record = { .gpu = self->gpu, .memory = 64 * MiB, .share = 1 };
	struct distmind_buffer_create create;
	struct tally tally = { 0 };
	struct distmind_gpu_record gpu;
	uint32_t *ids = calloc(VGPUS, sizeof(*ids));
	int vgpus = 0, fd;

	for (int i = 0; i < VGPUS; i++) {
		ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &record));
		ids[i] = record.id;
	}
	ASSERT_EQ(0, distmind_pool_vgpus(self->pool, count_vgpus, &vgpus));
	EXPECT_EQ(VGPUS, vgpus);
	fd = open_vgpu(ids[VGPUS / 2]);
	ASSERT_LE(0, fd);
	for (int i = 0; i < BUFFERS; i++)
		ASSERT_EQ(0, buffer_create(fd, PAGE, &create));
	ASSERT_EQ(0, distmind_pool_buffers(self->pool, tally_buffers, &tally));
	EXPECT_EQ(BUFFERS, tally.count);
	EXPECT_EQ(BUFFERS * PAGE, tally.bytes);
	/* Half by their owner, half by the deletion of their vgpu. */
	for (uint32_t handle = 1; handle <= BUFFERS / 2; handle++)
		ASSERT_EQ(0, buffer_destroy(fd, handle));
	for (int i = 0; i < VGPUS; i++)
		ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, ids[i]));
	EXPECT_EQ(0, memory_left(self->pool, self->gpu));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(0, gpu.vgpus);
	close(fd);
	free(ids);
}

/* What a busy client does, until somebody ends it. */
static void client(uint32_t id, unsigned int seed)
{
	for (;;) {
		int fd = open_vgpu(id);
		uint32_t handle;

		if (fd < 0)
			_exit(1);
		for (int i = 0; i < 8; i++) {
			uint64_t size = (1 + rand_r(&seed) % 64) * PAGE;
			char *memory = buffer_new(fd, size, &handle);

			if (memory == MAP_FAILED)
				continue;
			memory[size - 1] = 1;
			if (rand_r(&seed) % 2)
				buffer_destroy(fd, handle);
			if (rand_r(&seed) % 2)
				munmap(memory, size);
		}
		close(fd);
	}
}

TEST_F_TIMEOUT(scale, five_hundred_clients_killed_at_random_moments, 280)
{
	struct distmind_vgpu_record record;
	struct distmind_gpu_record gpu;
	unsigned int seed = 4711;
	pid_t pids[4];
	uint32_t id;

	close(vgpu_start(self->pool, self->gpu, 64 * MiB, &id));
	for (int i = 0; i < KILLS; i += 4) {
		struct timespec nap = { .tv_nsec = rand_r(&seed) % 5000000 };

		for (int j = 0; j < 4; j++) {
			pids[j] = fork();
			if (!pids[j])
				client(id, seed + i + j);
		}
		/* Not to wait for anything: the moment of death is what is random. */
		nanosleep(&nap, NULL);
		for (int j = 0; j < 4; j++)
			kill(pids[j], SIGKILL);
		for (int j = 0; j < 4; j++)
			ASSERT_EQ(128 + SIGKILL, child_status(pids[j]));
	}
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, id, &record));
	EXPECT_EQ(0, record.clients);
	EXPECT_EQ(0, record.buffers);
	EXPECT_EQ(0, record.memory_used);
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(0, gpu.memory_used);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
}

TEST_HARNESS_MAIN
