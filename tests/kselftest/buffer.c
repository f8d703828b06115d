// SPDX-License-Identifier: GPL-2.0-or-later
/* Buffers: memory that is zero, counted, mapped, shared and given back. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

FIXTURE(buffer)
{
	struct distmind_pool *pool;
	int engine, vgpu;
	uint32_t gpu, id;
};

FIXTURE_SETUP(buffer)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = engine_start("buffer", 32 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
	self->vgpu = vgpu_start(self->pool, self->gpu, 64 * MiB, &self->id);
	ASSERT_LE(0, self->vgpu);
}

FIXTURE_TEARDOWN(buffer)
{
	close(self->vgpu);
	close(self->engine);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

static uint64_t heap_used(struct distmind_pool *pool, uint32_t gpu)
{
	struct distmind_gpu_record record;

	return distmind_pool_gpu(pool, gpu, &record) ? UINT64_MAX : record.memory_used;
}

static sigjmp_buf escape;

static void on_sigbus(int sig)
{
	siglongjmp(escape, sig);
}

/* Whether touching the byte is SIGBUS. */
static bool is_sigbus(volatile char *byte)
{
	struct sigaction act = { .sa_handler = on_sigbus };

	sigaction(SIGBUS, &act, NULL);
	if (sigsetjmp(escape, 1))
		return true;
	(void)*byte;
	return false;
}

TEST_F(buffer, is_zero_whatever_another_tenant_left_behind)
{
	uint32_t handle, other_id;
	int other = vgpu_start(self->pool, self->gpu, 32 * MiB, &other_id);
	char *memory;

	ASSERT_LE(0, other);
	/* All of the heap, so that the second tenant gets the same range. */
	memory = buffer_new(self->vgpu, 32 * MiB, &handle);
	ASSERT_NE(MAP_FAILED, memory);
	EXPECT_TRUE(all_bytes(memory, 32 * MiB, 0));
	memset(memory, 0xA5, 32 * MiB);
	munmap(memory, 32 * MiB);
	ASSERT_EQ(0, buffer_destroy(self->vgpu, handle));
	memory = buffer_new(other, 32 * MiB, &handle);
	ASSERT_NE(MAP_FAILED, memory);
	EXPECT_TRUE(all_bytes(memory, 32 * MiB, 0));
	munmap(memory, 32 * MiB);
	close(other);
	distmind_pool_vgpu_delete(self->pool, other_id);
}

TEST_F(buffer, is_charged_to_the_quota_until_it_is_gone)
{
	struct distmind_vgpu_record limit = { .id = self->id, .memory = 4 * MiB };
	struct distmind_buffer_create a, b;
	struct distmind_vgpu_info info;
	void *memory;

	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &limit, DISTMIND_SET_MEMORY));
	ASSERT_EQ(0, buffer_create(self->vgpu, 3 * MiB, &a));
	EXPECT_EQ(-EDQUOT, buffer_create(self->vgpu, MiB + PAGE, &b));
	ASSERT_EQ(0, buffer_create(self->vgpu, MiB, &b));
	EXPECT_NE(a.handle, b.handle);
	memory = buffer_map(self->vgpu, a.map_offset, 3 * MiB);
	ASSERT_NE(MAP_FAILED, memory);
	ASSERT_EQ(0, buffer_destroy(self->vgpu, a.handle));
	/* The mapping keeps the memory, so it keeps the charge. */
	EXPECT_EQ(-EDQUOT, buffer_create(self->vgpu, PAGE, &a));
	munmap(memory, 3 * MiB);
	EXPECT_EQ(0, buffer_create(self->vgpu, 3 * MiB, &a));
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_VGPU_INFO, &info));
	EXPECT_EQ(4 * MiB, info.memory_used);
}

TEST_F(buffer, takes_a_contiguous_range_of_the_heap)
{
	struct distmind_buffer_create all[32], create;
	struct distmind_buffer_info info;

	for (int i = 0; i < 32; i++)
		ASSERT_EQ(0, buffer_create(self->vgpu, MiB, &all[i]));
	EXPECT_EQ(32 * MiB, heap_used(self->pool, self->gpu));
	/* Every other one free: 16 MiB, but no 2 MiB in one piece: it stays outside. */
	for (int i = 0; i < 32; i += 2)
		ASSERT_EQ(0, buffer_destroy(self->vgpu, all[i].handle));
	EXPECT_EQ(0, buffer_create(self->vgpu, 2 * MiB, &create));
	info = (struct distmind_buffer_info){ .handle = create.handle };
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_BUFFER_INFO, &info));
	EXPECT_EQ(DISTMIND_OFFSET_NONE, info.heap_offset);
	EXPECT_EQ(16 * MiB, heap_used(self->pool, self->gpu));
	EXPECT_EQ(0, buffer_create(self->vgpu, MiB, &create));
	info = (struct distmind_buffer_info){ .handle = create.handle };
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_BUFFER_INFO, &info));
	EXPECT_EQ(MiB, info.size);
	EXPECT_EQ(create.map_offset, info.map_offset);
	EXPECT_EQ(self->gpu, info.gpu);
	EXPECT_EQ(0, info.heap_offset % MiB);
	EXPECT_EQ(-ENOSPC, buffer_create(self->vgpu, 33 * MiB, &create));
}

TEST_F(buffer, maps_whole_or_in_part_but_never_beyond_its_end)
{
	struct distmind_buffer_create create;
	char *whole, *part;

	ASSERT_EQ(0, buffer_create(self->vgpu, 4 * MiB, &create));
	whole = buffer_map(self->vgpu, create.map_offset, 4 * MiB);
	ASSERT_NE(MAP_FAILED, whole);
	part = buffer_map(self->vgpu, create.map_offset + 3 * MiB, MiB);
	ASSERT_NE(MAP_FAILED, part);
	whole[3 * MiB + 5] = 42;
	EXPECT_EQ(42, part[5]);
	EXPECT_EQ(MAP_FAILED, buffer_map(self->vgpu, create.map_offset, 4 * MiB + PAGE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, buffer_map(self->vgpu, create.map_offset + 3 * MiB, 2 * MiB));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, buffer_map(self->vgpu, create.map_offset + 4 * MiB, PAGE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, buffer_map(self->vgpu, 1ULL << 62, PAGE));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(MAP_FAILED, buffer_map(self->vgpu, 0, PAGE));
	EXPECT_EQ(ENOENT, errno);
	/* A mapping cannot be grown over the end either. */
	EXPECT_EQ(MAP_FAILED, mremap(part, MiB, 2 * MiB, MREMAP_MAYMOVE));
}

TEST_F(buffer, is_written_with_a_fault_for_each_page_table_and_not_for_each_page)
{
	struct rusage before, after;
	uint32_t handle;
	char *memory;

	memory = buffer_new(self->vgpu, 8 * MiB, &handle);
	ASSERT_NE(MAP_FAILED, memory);
	ASSERT_EQ(0, getrusage(RUSAGE_SELF, &before));
	memset(memory, 1, 8 * MiB);
	ASSERT_EQ(0, getrusage(RUSAGE_SELF, &after));
	/* A page table holds 2 MiB; a few faults are others'. */
	EXPECT_GE(16, after.ru_minflt - before.ru_minflt);
	munmap(memory, 8 * MiB);
}

TEST_F(buffer, private_mappings_are_refused)
{
	struct distmind_buffer_create create;

	ASSERT_EQ(0, buffer_create(self->vgpu, MiB, &create));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MiB, PROT_READ, MAP_PRIVATE, self->vgpu, create.map_offset));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(buffer, pages_come_back_after_being_dropped_from_the_mapping)
{
	uint32_t handle;
	char *memory = buffer_new(self->vgpu, 4 * MiB, &handle);

	ASSERT_NE(MAP_FAILED, memory);
	memset(memory, 7, 4 * MiB);
	ASSERT_EQ(0, madvise(memory + MiB, MiB, MADV_DONTNEED));
	EXPECT_TRUE(all_bytes(memory, 4 * MiB, 7));
	ASSERT_EQ(0, munmap(memory + 2 * MiB, PAGE));
	EXPECT_EQ(7, memory[2 * MiB + PAGE]);
}

TEST_F(buffer, handles_mean_nothing_in_another_open_file)
{
	struct distmind_buffer_create create;
	int other = open_vgpu(self->id);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, buffer_create(self->vgpu, MiB, &create));
	EXPECT_EQ(-ENOENT, buffer_destroy(other, create.handle));
	EXPECT_EQ(MAP_FAILED, buffer_map(other, create.map_offset, MiB));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(0, buffer_destroy(self->vgpu, create.handle));
	EXPECT_EQ(-ENOENT, buffer_destroy(self->vgpu, create.handle));
	EXPECT_EQ(-ENOENT, buffer_destroy(self->vgpu, 0));
	close(other);
}

TEST_F(buffer, a_mapping_outlives_handle_file_and_vgpu)
{
	struct distmind_gpu_record gpu;
	uint32_t id, handle;
	char *memory;
	int fd = vgpu_start(self->pool, self->gpu, 4 * MiB, &id);

	ASSERT_LE(0, fd);
	memory = buffer_new(fd, 4 * MiB, &handle);
	ASSERT_NE(MAP_FAILED, memory);
	memset(memory, 9, 2 * MiB);
	ASSERT_EQ(0, buffer_destroy(fd, handle));
	close(fd);
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
	memset(memory + 2 * MiB, 9, 2 * MiB);
	EXPECT_TRUE(all_bytes(memory, 4 * MiB, 9));
	EXPECT_EQ(4 * MiB, heap_used(self->pool, self->gpu));
	munmap(memory, 4 * MiB);
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(0, gpu.memory_used);
}

TEST_F(buffer, a_forked_child_shares_it)
{
	uint32_t handle;
	char *memory = buffer_new(self->vgpu, 2 * MiB, &handle);
	pid_t pid;

	ASSERT_NE(MAP_FAILED, memory);
	memory[0] = 1;
	pid = fork();
	if (!pid) {
		bool saw = memory[0] == 1;

		memory[MiB] = 2;
		/* The descriptor is shared as well: the handle is good here. */
		_exit(!saw || buffer_destroy(self->vgpu, handle));
	}
	ASSERT_EQ(0, child_status(pid));
	EXPECT_EQ(2, memory[MiB]);
	EXPECT_EQ(-ENOENT, buffer_destroy(self->vgpu, handle));
	memory[0] = 3;
	EXPECT_EQ(3, memory[0]);
}

TEST_F(buffer, a_passed_descriptor_carries_the_handles)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	struct distmind_buffer_create create;
	int pair[2], received;
	char *memory;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	ASSERT_EQ(0, buffer_create(self->vgpu, MiB, &create));
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &self->vgpu, sizeof(int));
	ASSERT_EQ(1, sendmsg(pair[0], &msg, 0));
	close(self->vgpu);
	ASSERT_EQ(1, recvmsg(pair[1], &msg, 0));
	memcpy(&received, CMSG_DATA(&control.header), sizeof(int));
	memory = buffer_map(received, create.map_offset, MiB);
	ASSERT_NE(MAP_FAILED, memory);
	EXPECT_TRUE(all_bytes(memory, MiB, 0));
	self->vgpu = received;
}

TEST_F(buffer, the_engine_sees_the_same_bytes)
{
	struct distmind_buffer_create create;
	struct distmind_buffer_info info;
	char *heap, *memory;

	heap = mmap(NULL, 32 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED, self->engine, 0);
	ASSERT_NE(MAP_FAILED, heap);
	EXPECT_TRUE(is_sigbus(heap));
	ASSERT_EQ(0, buffer_create(self->vgpu, 2 * MiB, &create));
	info = (struct distmind_buffer_info){ .handle = create.handle };
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_BUFFER_INFO, &info));
	memory = buffer_map(self->vgpu, create.map_offset, 2 * MiB);
	ASSERT_NE(MAP_FAILED, memory);
	memory[MiB] = 11;
	EXPECT_EQ(11, heap[info.heap_offset + MiB]);
	heap[info.heap_offset] = 12;
	EXPECT_EQ(12, memory[0]);

	/* When the buffer goes, the engine's view of it goes; what comes next is new. */
	munmap(memory, 2 * MiB);
	ASSERT_EQ(0, buffer_destroy(self->vgpu, create.handle));
	EXPECT_TRUE(is_sigbus(heap + info.heap_offset));
	ASSERT_EQ(0, buffer_create(self->vgpu, 2 * MiB, &create));
	info.handle = create.handle;
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_BUFFER_INFO, &info));
	EXPECT_TRUE(all_bytes(heap + info.heap_offset, 2 * MiB, 0));
	munmap(heap, 32 * MiB);
}

/* Makes and destroys small buffers until it is told to stop. */
struct churn {
	int vgpu;
	bool stop;
	uint64_t worst_ns; /* that one took, since somebody has set this to 0 */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void *churn_thread(void *arg)
{
	struct churn *churn = arg;
	struct distmind_buffer_create create;
	uint64_t begun, took;

	while (!__atomic_load_n(&churn->stop, __ATOMIC_RELAXED)) {
		begun = now_ns();
		if (buffer_create(churn->vgpu, PAGE, &create) ||
		    buffer_destroy(churn->vgpu, create.handle))
			return (void *)-1L;
		took = now_ns() - begun;
		if (took > __atomic_load_n(&churn->worst_ns, __ATOMIC_RELAXED))
			__atomic_store_n(&churn->worst_ns, took, __ATOMIC_RELAXED);
	}
	return NULL;
}

#define LARGE	(64 * MiB)
#define ROUNDS	9

/*
 * For how much of the time that it takes to free a buffer, of which the engine has every
 * page mapped, somebody else waited for the heap; in thousandths, 0 if that did not work.
 */
static uint32_t wait_of_free(int vgpu, char *heap, struct churn *churn)
{
	struct distmind_buffer_create create;
	struct distmind_buffer_info info = { 0 };
	uint64_t took;

	if (buffer_create(vgpu, LARGE, &create))
		return 0;
	info.handle = create.handle;
	if (call(vgpu, DISTMIND_IOC_BUFFER_INFO, &info) || info.heap_offset > LARGE)
		return 0;
	memset(heap + info.heap_offset, 1, LARGE);
	__atomic_store_n(&churn->worst_ns, 0, __ATOMIC_RELAXED);
	took = now_ns();
	if (buffer_destroy(vgpu, create.handle))
		return 0;
	took = now_ns() - took;
	/* One that waits now is told soon. */
	while (!__atomic_load_n(&churn->worst_ns, __ATOMIC_RELAXED))
		usleep(1000);
	return 1000 * churn->worst_ns / took;
}

static int compare(const void *a, const void *b)
{
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

TEST_F_TIMEOUT(buffer, a_large_one_that_goes_keeps_nobody_from_the_heap, 100)
{
	struct churn churn = { 0 };
	uint32_t gpu, ids[2], waits[ROUNDS];
	pthread_t thread;
	int engine, vgpu;
	char *heap;
	void *err;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "on one processor who frees it is in the way in any case");
	engine = engine_start("large", 2 * LARGE, &gpu);
	ASSERT_LE(0, engine);
	vgpu = vgpu_start(self->pool, gpu, LARGE, &ids[0]);
	ASSERT_LE(0, vgpu);
	churn.vgpu = vgpu_start(self->pool, gpu, MiB, &ids[1]);
	ASSERT_LE(0, churn.vgpu);
	heap = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, engine, 0);
	ASSERT_NE(MAP_FAILED, heap);
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn_thread, &churn));
	for (int i = 0; i < ROUNDS; i++) {
		waits[i] = wait_of_free(vgpu, heap, &churn);
		EXPECT_LT(0, waits[i]);
	}
	__atomic_store_n(&churn.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, &err));
	EXPECT_EQ(NULL, err);
	/* In a third of them: others on the host may be in the way too. */
	qsort(waits, ROUNDS, sizeof(*waits), compare);
	EXPECT_GT(200, waits[ROUNDS / 3 - 1])
		TH_LOG("%u, %u, %u thousandths", waits[0], waits[ROUNDS / 3 - 1],
		       waits[ROUNDS - 1]);
	munmap(heap, 2 * LARGE);
	close(vgpu);
	close(churn.vgpu);
	close(engine);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, ids[0]));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, ids[1]));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

TEST_F(buffer, the_engine_maps_no_more_than_its_heap)
{
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 33 * MiB, PROT_READ, MAP_SHARED, self->engine, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * MiB, PROT_READ, MAP_SHARED, self->engine, 31 * MiB));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MiB, PROT_READ, MAP_PRIVATE, self->engine, 0));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(buffer, memory_of_a_lost_gpu_stays_usable)
{
	struct distmind_buffer_create create;
	char *memory, *late;

	ASSERT_EQ(0, buffer_create(self->vgpu, 4 * MiB, &create));
	memory = buffer_map(self->vgpu, create.map_offset, 4 * MiB);
	ASSERT_NE(MAP_FAILED, memory);
	memset(memory, 5, MiB);
	close(self->engine);
	/* What was touched, what was not, and a mapping made afterwards. */
	EXPECT_TRUE(all_bytes(memory, MiB, 5));
	memset(memory + 2 * MiB, 6, 2 * MiB);
	late = buffer_map(self->vgpu, create.map_offset, 4 * MiB);
	ASSERT_NE(MAP_FAILED, late);
	EXPECT_TRUE(all_bytes(late + 2 * MiB, 2 * MiB, 6));
	ASSERT_EQ(0, distmind_pool_gpu_remove(self->pool, self->gpu));
	EXPECT_EQ(5, late[MiB - 1]);
	EXPECT_EQ(0, buffer_destroy(self->vgpu, create.handle));
	self->engine = open("/dev/null", O_RDONLY);
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int err = fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

static long read_number(const char *path)
{
	FILE *file = fopen(path, "r");
	long value = -1;

	if (file) {
		if (fscanf(file, "%ld", &value) != 1)
			value = -1;
		fclose(file);
	}
	return value;
}

#define GROUP "/sys/fs/cgroup/distmind-test"

TEST_F(buffer, is_charged_to_the_creators_memory_cgroup)
{
	struct distmind_buffer_create create;
	struct distmind_query query;
	char pid[32];
	int control = open_node("control");

	ASSERT_EQ(0, call(control, DISTMIND_IOC_QUERY, &query));
	close(control);
	if (!(query.features & DISTMIND_FEATURE_MEMCG))
		SKIP(return, "the kernel has no memory cgroups");
	mkdir(GROUP, 0755);
	if (access(GROUP "/memory.max", W_OK))
		SKIP(return, "the memory controller of cgroup v2 is not there");
	ASSERT_EQ(0, write_file(GROUP "/memory.max", "24M"));
	snprintf(pid, sizeof(pid), "%d", getpid());
	ASSERT_EQ(0, write_file(GROUP "/cgroup.procs", pid));
	ASSERT_EQ(0, buffer_create(self->vgpu, 16 * MiB, &create));
	EXPECT_LE(16 * (long)MiB, read_number(GROUP "/memory.current"));
	/* The group is full: the caller is told, and nobody is killed for it. */
	struct distmind_buffer_create more;
	EXPECT_EQ(-ENOMEM, buffer_create(self->vgpu, 16 * MiB, &more));
	ASSERT_EQ(0, buffer_destroy(self->vgpu, create.handle));
	EXPECT_EQ(0, buffer_create(self->vgpu, 16 * MiB, &create));
	ASSERT_EQ(0, buffer_destroy(self->vgpu, create.handle));
	ASSERT_EQ(0, write_file("/sys/fs/cgroup/cgroup.procs", pid));
}

TEST_F(buffer, the_heap_survives_random_use)
{
	struct {
		uint32_t handle;
		char *memory;
		uint64_t size;
		unsigned char value;
	} live[64] = { 0 };
	unsigned int seed = 12345;

	for (int round = 0; round < 2000; round++) {
		int i = rand_r(&seed) % 64;

		if (live[i].memory) {
			EXPECT_TRUE(all_bytes(live[i].memory, live[i].size, live[i].value));
			munmap(live[i].memory, live[i].size);
			ASSERT_EQ(0, buffer_destroy(self->vgpu, live[i].handle));
			live[i].memory = NULL;
			continue;
		}
		live[i].size = (1 + rand_r(&seed) % 100) * PAGE;
		live[i].memory = buffer_new(self->vgpu, live[i].size, &live[i].handle);
		ASSERT_NE(MAP_FAILED, live[i].memory);
		EXPECT_TRUE(all_bytes(live[i].memory, live[i].size, 0));
		live[i].value = 1 + rand_r(&seed) % 255;
		memset(live[i].memory, live[i].value, live[i].size);
	}
}

TEST_HARNESS_MAIN
