// SPDX-License-Identifier: GPL-2.0-or-later
/* What holds for every call: versions, sizes, unknown bits, bad pointers. */
#include "distmind_test.h"
#include "kselftest_harness.h"

FIXTURE(abi)
{
	struct distmind_pool *pool;
	int control, engine, vgpu;
	uint32_t gpu, id;
};

FIXTURE_SETUP(abi)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->control = open_node("control");
	ASSERT_LE(0, self->control);
	self->engine = engine_start("abi", 16 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
	self->vgpu = vgpu_start(self->pool, self->gpu, 8 * MiB, &self->id);
	ASSERT_LE(0, self->vgpu);
}

FIXTURE_TEARDOWN(abi)
{
	close(self->vgpu);
	close(self->engine);
	close(self->control);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

TEST_F(abi, every_node_answers_the_feature_query)
{
	int fds[] = { self->control, self->engine, self->vgpu };

	for (unsigned int i = 0; i < 3; i++) {
		struct distmind_query query = { 0 };

		ASSERT_EQ(0, call(fds[i], DISTMIND_IOC_QUERY, &query));
		EXPECT_EQ(DISTMIND_ABI_VERSION, query.version);
		EXPECT_EQ(PAGE, query.page_size);
		EXPECT_TRUE(query.features & DISTMIND_FEATURE_DMABUF);
		EXPECT_EQ(1ULL << 40, query.buffer_max);
	}
}

TEST_F(abi, structures_have_no_holes_and_no_pointers)
{
	EXPECT_EQ(24, sizeof(struct distmind_query));
	EXPECT_EQ(272, sizeof(struct distmind_acquire));
	EXPECT_EQ(104, sizeof(struct distmind_engine_register));
	EXPECT_EQ(80, sizeof(struct distmind_vgpu_info));
	EXPECT_EQ(32, sizeof(struct distmind_buffer_create));
	EXPECT_EQ(8, sizeof(struct distmind_handle_destroy));
	EXPECT_EQ(48, sizeof(struct distmind_buffer_info));
	EXPECT_EQ(16, sizeof(struct distmind_buffer_export));
	EXPECT_EQ(464, sizeof(struct distmind_engine_exchange));
	EXPECT_EQ(16, sizeof(struct distmind_timeline_create));
	EXPECT_EQ(16, sizeof(struct distmind_timeline_export));
	EXPECT_EQ(8, sizeof(struct distmind_timeline_import));
	EXPECT_EQ(16, sizeof(struct distmind_timeline_wait));
	EXPECT_EQ(8, sizeof(struct distmind_timeline_signal));
	EXPECT_EQ(16, sizeof(struct distmind_timeline_watch));
	EXPECT_EQ(16, sizeof(struct distmind_queue_create));
	EXPECT_EQ(32, sizeof(struct distmind_buffer_import));
	EXPECT_EQ(16, sizeof(struct distmind_queue_watch));
	EXPECT_EQ(72, sizeof(struct distmind_queue_room));
	EXPECT_EQ(32, sizeof(struct distmind_queue_page));
	EXPECT_EQ(16, sizeof(struct distmind_grant_end));
	EXPECT_EQ(16, sizeof(struct distmind_timeline_fail));
	EXPECT_EQ(72, sizeof(struct distmind_submit));
	EXPECT_EQ(16, sizeof(struct distmind_request_end));
	EXPECT_EQ(48, sizeof(struct distmind_job_desc));
	EXPECT_EQ(24, sizeof(struct distmind_arg));
	EXPECT_EQ(16, sizeof(struct distmind_wait));
	EXPECT_EQ(24, sizeof(struct distmind_timeline_page));
	EXPECT_EQ(16, sizeof(struct distmind_lane_page));
}

TEST_F(abi, a_call_of_another_node_is_not_known)
{
	struct distmind_acquire acquire = { 0 };
	struct distmind_engine_register reg = { 0 };
	struct distmind_buffer_create create = { .size = PAGE };

	EXPECT_EQ(-ENOTTY, call(self->vgpu, DISTMIND_IOC_ACQUIRE, &acquire));
	EXPECT_EQ(-ENOTTY, call(self->control, DISTMIND_IOC_ENGINE_REGISTER, &reg));
	EXPECT_EQ(-ENOTTY, call(self->engine, DISTMIND_IOC_BUFFER_CREATE, &create));
	EXPECT_EQ(-ENOTTY, call(self->vgpu, _IOWR('D', 0x41, struct distmind_buffer_create), &create));
	EXPECT_EQ(-ENOTTY, call(self->vgpu, _IO(DISTMIND_IOC_MAGIC, 0x41), &create));
}

TEST_F(abi, a_newer_callers_longer_structure_works_if_its_tail_is_zero)
{
	struct {
		struct distmind_buffer_create v1;
		uint64_t tail;
	} longer = { .v1.size = PAGE };
	unsigned long cmd = _IOC(_IOC_READ | _IOC_WRITE, DISTMIND_IOC_MAGIC, 0x41, sizeof(longer));

	EXPECT_EQ(0, call(self->vgpu, cmd, &longer));
	EXPECT_NE(0, longer.v1.handle);
	longer.tail = 1;
	EXPECT_EQ(-E2BIG, call(self->vgpu, cmd, &longer));
}

TEST_F(abi, an_engine_of_the_first_version_still_registers)
{
	struct distmind_engine_register reg = {
		.heap_size = MiB, .numa_node = DISTMIND_NUMA_ANY, .name = "old", .kind = "test",
		.capabilities = 0x55, /* behind the end of the first version: not looked at */
	};
	unsigned long cmd = _IOC(_IOC_READ | _IOC_WRITE, DISTMIND_IOC_MAGIC, 0x20, 96);
	int fd = open_node("engine");

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, call(fd, cmd, &reg));
	EXPECT_EQ(0x55, reg.capabilities);
	close(fd);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, reg.gpu));
}

TEST_F(abi, a_shorter_structure_than_the_first_version_is_refused)
{
	struct distmind_buffer_create create = { .size = PAGE };
	unsigned long cmd = _IOC(_IOC_READ | _IOC_WRITE, DISTMIND_IOC_MAGIC, 0x41,
				 sizeof(create) - 8);

	EXPECT_EQ(-EINVAL, call(self->vgpu, cmd, &create));
}

TEST_F(abi, pointers_that_point_nowhere_are_faults)
{
	void *readonly = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct distmind_vgpu_info before, after;

	ASSERT_NE(MAP_FAILED, readonly);
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_VGPU_INFO, &before));
	EXPECT_EQ(-EFAULT, call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, NULL));
	EXPECT_EQ(-EFAULT, call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, (void *)-8L));
	EXPECT_EQ(-EFAULT, call(self->vgpu, DISTMIND_IOC_VGPU_INFO, readonly));
	EXPECT_EQ(-EFAULT, call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, readonly));
	/* Nothing was made that nobody knows the handle of. */
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_VGPU_INFO, &after));
	EXPECT_EQ(before.memory_used, after.memory_used);
}

TEST_F(abi, a_call_that_fails_leaves_its_structure_alone)
{
	struct distmind_buffer_create create, before;
	struct distmind_engine_exchange exchange;

	/* Fails at the border, and after the call has begun. */
	memset(&create, 0x5A, sizeof(create));
	before = create;
	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, &create));
	EXPECT_EQ(0, memcmp(&before, &create, sizeof(create)));
	memset(&exchange, 0x5A, sizeof(exchange));
	exchange.pad = 0;
	exchange.done = exchange.status = 0;
	exchange.timeout_ms = 1;
	exchange.lane = UINT32_MAX;
	EXPECT_EQ(-EINVAL, call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &exchange));
	EXPECT_EQ(UINT32_MAX, exchange.lane);
	EXPECT_EQ(0x5A5A5A5A5A5A5A5A, exchange.job.id);
}

TEST_F(abi, unknown_flags_and_padding_are_refused)
{
	struct distmind_buffer_create create = { .size = PAGE, .flags = 1 };
	struct distmind_handle_destroy destroy = { .handle = 1, .pad = 1 };
	struct distmind_buffer_info info = { .handle = 1, .pad = 1 };
	struct distmind_buffer_export export = { .handle = 1, .flags = 1U << 3 };

	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, &create));
	create = (struct distmind_buffer_create){ .size = PAGE, .pad = 1 };
	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, &create));
	create = (struct distmind_buffer_create){ .size = PAGE, .kind = DISTMIND_BUFFER__COUNT };
	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, &create));
	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_DESTROY, &destroy));
	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_INFO, &info));
	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export));
	export = (struct distmind_buffer_export){ .handle = 1, .payer = 1 };
	EXPECT_EQ(-EINVAL, call(self->vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export));
}

TEST_F(abi, sizes_that_are_zero_odd_or_too_large_are_refused)
{
	static const uint64_t bad[] = { 0, 1, 4095, 4097, (1ULL << 40) + 4096, 1ULL << 63,
					UINT64_MAX, UINT64_MAX - 4095 };
	struct distmind_buffer_create create;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		EXPECT_EQ(-EINVAL, buffer_create(self->vgpu, bad[i], &create));
	/* Possible sizes meet the quota, not an overflow. */
	EXPECT_EQ(-EDQUOT, buffer_create(self->vgpu, 1ULL << 40, &create));
	EXPECT_EQ(-EDQUOT, buffer_create(self->vgpu, 8 * MiB + PAGE, &create));
}

TEST_F(abi, reading_and_writing_a_node_is_refused)
{
	char byte = 0;

	EXPECT_EQ(-1, read(self->vgpu, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(self->control, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
}

TEST_HARNESS_MAIN
