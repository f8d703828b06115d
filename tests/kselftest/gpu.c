// SPDX-License-Identifier: GPL-2.0-or-later
/* gpus come with their engine, are drained, lost, replaced and removed. */
#include <poll.h>
#include <sys/stat.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

FIXTURE(gpu)
{
	struct distmind_pool *pool;
};

FIXTURE_SETUP(gpu)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
}

FIXTURE_TEARDOWN(gpu)
{
	distmind_pool_close(self->pool);
}

static int register_with(const struct distmind_engine_register *reg)
{
	struct distmind_engine_register copy = *reg;
	int fd = open_node("engine");
	int err = call(fd, DISTMIND_IOC_ENGINE_REGISTER, &copy);

	close(fd);
	return err;
}

TEST_F(gpu, registration_checks_every_field)
{
	const struct distmind_engine_register good = {
		.heap_size = MiB, .numa_node = DISTMIND_NUMA_ANY, .name = "fields", .kind = "test",
	};
	struct distmind_engine_register bad;

	bad = good, bad.heap_size = 0;
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, bad.heap_size = MiB + 1;
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, bad.heap_size = 1ULL << 62;
	EXPECT_EQ(-ENOMEM, register_with(&bad));
	bad = good, bad.numa_node = 1 << 20;
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, bad.numa_node = -2;
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, bad.flags = 1;
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, bad.name[0] = 0;
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, strcpy(bad.name, "a/b");
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, strcpy(bad.name, "caf\xe9");
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, bad.name[20] = 'x';
	EXPECT_EQ(-EINVAL, register_with(&bad));
	bad = good, memset(bad.kind, 'k', sizeof(bad.kind));
	EXPECT_EQ(-EINVAL, register_with(&bad));
}

TEST_F(gpu, a_file_serves_one_gpu_and_a_name_is_unique)
{
	struct distmind_engine_register reg = { .heap_size = MiB, .name = "second", .kind = "k" };
	uint32_t gpu, other;
	int engine = engine_start("unique", MiB, &gpu);

	ASSERT_LE(0, engine);
	EXPECT_EQ(-EBUSY, call(engine, DISTMIND_IOC_ENGINE_REGISTER, &reg));
	EXPECT_EQ(-EEXIST, engine_start("unique", MiB, &other));
	close(engine);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

TEST_F(gpu, heap_comes_from_the_node_that_was_asked_for)
{
	struct distmind_engine_register reg = {
		.heap_size = MiB, .numa_node = 0, .name = "node0", .kind = "test", .box = 7,
	};
	struct distmind_gpu_record record;
	int engine = open_node("engine");

	ASSERT_LE(0, engine);
	ASSERT_EQ(0, call(engine, DISTMIND_IOC_ENGINE_REGISTER, &reg));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, reg.gpu, &record));
	EXPECT_EQ(0, record.numa_node);
	EXPECT_EQ(7, record.box);
	EXPECT_EQ(MiB, record.memory);
	EXPECT_EQ((uint32_t)getpid(), record.engine_pid);
	EXPECT_STREQ("node0", record.name);
	EXPECT_STREQ("test", record.kind);
	close(engine);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, reg.gpu));
}

TEST_F(gpu, an_engine_that_dies_makes_its_gpu_lost)
{
	struct distmind_gpu_record record;
	int ready[2];
	uint32_t gpu;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		if (engine_start("dies", MiB, &gpu) >= 0 && write(ready[1], &gpu, sizeof(gpu)) > 0)
			pause();
		_exit(1);
	}
	ASSERT_EQ(sizeof(gpu), read(ready[0], &gpu, sizeof(gpu)));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, gpu, &record));
	EXPECT_EQ(DISTMIND_GPU_STATE_READY, record.state);
	kill(pid, SIGKILL);
	EXPECT_EQ(128 + SIGKILL, child_status(pid));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, gpu, &record));
	EXPECT_EQ(DISTMIND_GPU_STATE_LOST, record.state);
	EXPECT_EQ(-EOWNERDEAD, distmind_pool_gpu_drain(self->pool, gpu, true));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	EXPECT_EQ(-ENOENT, distmind_pool_gpu(self->pool, gpu, &record));
}

TEST_F(gpu, an_engine_that_comes_back_replaces_its_lost_gpu)
{
	struct distmind_vgpu_record vgpu = { .memory = MiB, .share = 1000 };
	struct distmind_gpu_record record;
	uint32_t old, gpu;
	int engine;

	close(engine_start("phoenix", MiB, &old));
	engine = engine_start("phoenix", MiB, &gpu);
	ASSERT_LE(0, engine);
	EXPECT_NE(old, gpu);
	EXPECT_EQ(-ENOENT, distmind_pool_gpu(self->pool, old, &record));

	vgpu.gpu = gpu;
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &vgpu));
	close(engine);
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, vgpu.id, &vgpu));
	EXPECT_EQ(DISTMIND_VGPU_STATE_LOST, vgpu.state);
	engine = engine_start("phoenix", MiB, &gpu);
	ASSERT_LE(0, engine);
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, vgpu.id, &vgpu));
	EXPECT_EQ(DISTMIND_VGPU_STATE_PARKED, vgpu.state);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, vgpu.id));
	close(engine);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

TEST_F(gpu, a_draining_gpu_keeps_its_vgpus_and_takes_no_new_ones)
{
	struct distmind_vgpu_record first = { .memory = MiB, .share = 10 }, second;
	struct distmind_gpu_record record;
	uint32_t gpu;
	int engine = engine_start("drain", 4 * MiB, &gpu);

	ASSERT_LE(0, engine);
	first.gpu = gpu;
	second = first;
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &first));
	ASSERT_EQ(0, distmind_pool_gpu_drain(self->pool, gpu, true));
	EXPECT_EQ(-EBUSY, distmind_pool_vgpu_create(self->pool, &second));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "draining"));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, gpu, &record));
	EXPECT_EQ(DISTMIND_GPU_STATE_DRAINING, record.state);
	EXPECT_EQ(1, record.vgpus);
	EXPECT_EQ(-EBUSY, distmind_pool_gpu_remove(self->pool, gpu));
	ASSERT_EQ(0, distmind_pool_gpu_drain(self->pool, gpu, false));
	EXPECT_EQ(0, distmind_pool_vgpu_create(self->pool, &second));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, first.id));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, second.id));
	close(engine);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

TEST_F(gpu, removal_of_a_served_gpu_hangs_up_on_its_engine)
{
	struct pollfd pfd = { .events = POLLIN };
	uint32_t gpu;

	pfd.fd = engine_start("hangup", MiB, &gpu);
	ASSERT_LE(0, pfd.fd);
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	ASSERT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	ASSERT_EQ(1, poll(&pfd, 1, 5000));
	EXPECT_TRUE(pfd.revents & POLLHUP);
	close(pfd.fd);
}

TEST_F(gpu, the_engine_node_is_for_root_alone)
{
	int fd;

	/* Not even where somebody has opened the node's mode. */
	EXPECT_EQ(EACCES, AS_NOBODY(-open_node("engine")));
	ASSERT_EQ(0, chmod("/dev/distmind/engine", 0666));
	EXPECT_EQ(EPERM, AS_NOBODY(-open_node("engine")));
	ASSERT_EQ(0, chmod("/dev/distmind/engine", 0600));
	fd = open_node("engine");
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_HARNESS_MAIN
