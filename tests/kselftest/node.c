// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Nodes of vgpus come and go as slowly as devtmpfs does, and nobody waits for that but who
 * wants the vgpu. The test makes devtmpfs wait: somebody reads /dev/distmind, and has its
 * lock for as long as the page that it reads into is not there.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

#define HANGS 200000	/* us after which what has not ended waits */
#define PATIENCE 5000	/* ms for what does not wait */

/* A call that may wait, in a thread of its own. */
struct caller {
	int (*call)(struct distmind_pool *pool, uint32_t number);
	struct distmind_pool *pool;
	uint32_t number;
	int result;
	int done;
	pthread_t thread;
};

FIXTURE(node)
{
	struct distmind_pool *pool;
	int engine, directory, faults;
	uint32_t gpu;
	void *page;
	pthread_t reader;
	struct caller slow, other;
};

FIXTURE_SETUP(node)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	memset(self, 0, sizeof(*self));
	self->faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (self->faults < 0)
		SKIP(return, "there is no userfaultfd here");
	ASSERT_EQ(0, ioctl(self->faults, UFFDIO_API, &api));
	self->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	range.range.start = (uintptr_t)self->page;
	range.range.len = PAGE;
	ASSERT_EQ(0, ioctl(self->faults, UFFDIO_REGISTER, &range));
	self->directory = open("/dev/distmind", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, self->directory);
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_pool_open(&self->slow.pool));
	ASSERT_EQ(0, distmind_pool_open(&self->other.pool));
	self->engine = engine_start("node", 16 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
}

FIXTURE_TEARDOWN(node)
{
	if (self->faults < 0)
		return;
	close(self->engine);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->other.pool);
	distmind_pool_close(self->slow.pool);
	distmind_pool_close(self->pool);
	close(self->directory);
	close(self->faults);
}

static void *read_directory(void *arg)
{
	FIXTURE_DATA(node) *self = arg;

	syscall(SYS_getdents64, self->directory, self->page, PAGE);
	return NULL;
}

/* From here on devtmpfs waits. */
static int stop_devtmpfs(FIXTURE_DATA(node) *self)
{
	struct uffd_msg fault;

	if (pthread_create(&self->reader, NULL, read_directory, self))
		return -1;
	return read(self->faults, &fault, sizeof(fault)) == sizeof(fault) ? 0 : -1;
}

static int continue_devtmpfs(FIXTURE_DATA(node) *self)
{
	struct uffdio_zeropage zero = {
		.range = { .start = (uintptr_t)self->page, .len = PAGE },
	};

	if (ioctl(self->faults, UFFDIO_ZEROPAGE, &zero))
		return -1;
	return -pthread_join(self->reader, NULL);
}

static void *run_call(void *arg)
{
	struct caller *caller = arg;

	caller->result = caller->call(caller->pool, caller->number);
	__atomic_store_n(&caller->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void start(struct caller *caller, int (*call)(struct distmind_pool *pool, uint32_t number),
		  uint32_t number)
{
	caller->call = call;
	caller->number = number;
	caller->done = 0;
	pthread_create(&caller->thread, NULL, run_call, caller);
}

static bool is_done(struct caller *caller)
{
	return __atomic_load_n(&caller->done, __ATOMIC_ACQUIRE);
}

static bool ends(struct caller *caller)
{
	for (int i = 0; i < PATIENCE && !is_done(caller); i++)
		usleep(1000);
	return is_done(caller);
}

/* The number of the vgpu. */
static int create_vgpu(struct distmind_pool *pool, uint32_t gpu)
{
	struct distmind_vgpu_record record = { .gpu = gpu, .memory = MiB, .share = 500 };
	int err = distmind_pool_vgpu_create(pool, &record);

	return err ? err : (int)record.id;
}

static int delete_vgpu(struct distmind_pool *pool, uint32_t id)
{
	return distmind_pool_vgpu_delete(pool, id);
}

static int look_at_gpu(struct distmind_pool *pool, uint32_t gpu)
{
	struct distmind_gpu_record record;

	return distmind_pool_gpu(pool, gpu, &record);
}

/* Until it is gone, or for as long as anybody waits for it. */
static int miss_vgpu(struct distmind_pool *pool, uint32_t id)
{
	struct distmind_vgpu_record record;
	int err = 0;

	for (int i = 0; i < PATIENCE && !err; i++) {
		err = distmind_pool_vgpu(pool, id, &record);
		usleep(1000);
	}
	return err;
}

TEST_F(node, that_comes_slowly_holds_up_nobody_else)
{
	bool goes_on;
	int fd;

	ASSERT_EQ(0, stop_devtmpfs(self));
	start(&self->slow, create_vgpu, self->gpu);
	usleep(HANGS);
	start(&self->other, look_at_gpu, self->gpu);
	goes_on = ends(&self->other);
	EXPECT_FALSE(is_done(&self->slow));
	ASSERT_EQ(0, continue_devtmpfs(self));
	pthread_join(self->other.thread, NULL);
	pthread_join(self->slow.thread, NULL);
	EXPECT_TRUE(goes_on);
	EXPECT_EQ(0, self->other.result);
	ASSERT_LE(0, self->slow.result);
	fd = open_vgpu(self->slow.result);
	EXPECT_LE(0, fd);
	close(fd);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, self->slow.result));
}

/* A vgpu whose node is still there is gone for all who look, and its number is not free. */
TEST_F(node, that_goes_slowly_holds_up_nobody_else)
{
	int id = create_vgpu(self->pool, self->gpu);
	bool goes_on;

	ASSERT_LE(0, id);
	ASSERT_EQ(0, stop_devtmpfs(self));
	start(&self->slow, delete_vgpu, id);
	start(&self->other, miss_vgpu, id);
	goes_on = ends(&self->other);
	EXPECT_FALSE(is_done(&self->slow));
	ASSERT_EQ(0, continue_devtmpfs(self));
	pthread_join(self->other.thread, NULL);
	pthread_join(self->slow.thread, NULL);
	EXPECT_TRUE(goes_on);
	EXPECT_EQ(-ENOENT, self->other.result);
	EXPECT_EQ(0, self->slow.result);
	EXPECT_EQ(-ENOENT, open_vgpu(id));
}

static int note_claim(const struct distmind_claim_record *claim, void *arg)
{
	*(uint32_t *)arg = claim->id;
	return 0;
}

/* The one that there is, or will be soon. */
static int grant_claim(struct distmind_pool *pool, uint32_t gpu)
{
	uint32_t id = UINT32_MAX;
	int err = 0;

	for (int i = 0; i < PATIENCE && !err && id == UINT32_MAX; i++) {
		err = distmind_pool_claims(pool, note_claim, &id);
		usleep(1000);
	}
	return err ? err : distmind_pool_claim_grant(pool, id, &gpu, 1);
}

/* Who gives up does so in time, and what was made for it goes. */
TEST_F(node, that_comes_too_slowly_for_a_claim_is_nobodys)
{
	int32_t fd = -1;
	struct distmind_acquire acquire = {
		.memory = MiB, .share = 100, .sched_class = DISTMIND_CLASS_STANDARD, .count = 1,
		.timeout_ms = 3000, .fds = (uintptr_t)&fd,
	};
	struct distmind_gpu_record gpu;
	int control = open_node("control");
	int status = 0;
	pid_t pid, ended = 0;

	ASSERT_LE(0, control);
	ASSERT_EQ(0, stop_devtmpfs(self));
	pid = fork();
	if (!pid)
		_exit(-call(control, DISTMIND_IOC_ACQUIRE, &acquire));
	start(&self->slow, grant_claim, self->gpu);
	for (int i = 0; i < PATIENCE && !ended; i++) {
		ended = waitpid(pid, &status, WNOHANG);
		usleep(1000);
	}
	EXPECT_EQ(pid, ended);
	EXPECT_EQ(ETIMEDOUT, WEXITSTATUS(status));
	EXPECT_FALSE(is_done(&self->slow));
	ASSERT_EQ(0, continue_devtmpfs(self));
	pthread_join(self->slow.thread, NULL);
	EXPECT_EQ(-ENOENT, self->slow.result);
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(0, gpu.vgpus);
	close(control);
}

TEST_HARNESS_MAIN
