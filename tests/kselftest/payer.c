// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who pays for weights: the vgpu for which they were exported, as long as anybody has anything
 * of that, and its user beyond the end of the vgpu. The test is the daemon, which owns the
 * weights and answers claims, and the users who try to get more than they were promised: a
 * thread that is somebody else for a moment.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SIZE	(4 * MiB)
#define MALLORY	1234
#define ALICE	4321

FIXTURE(payer)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	struct distmind_vgpu *owner, *friend;
	uint32_t owner_id, friend_id;
	struct distmind_buffer *weights[3];
	pthread_t daemon;
};

static void run_job(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
}

/* Grants whatever is asked for. */
static int grant(const struct distmind_claim_record *claim, void *arg)
{
	return claim->id + 1;
}

static void *daemon_thread(void *arg)
{
	struct distmind_pool *pool;
	uint32_t gpu = *(uint32_t *)arg;

	if (distmind_pool_open(&pool))
		return NULL;
	for (;;) {
		int found = distmind_pool_claims(pool, grant, NULL);
		uint32_t gpus[1] = { gpu };

		if (found > 0)
			distmind_pool_claim_grant(pool, found - 1, gpus, 1);
		usleep(1000);
	}
}

static int new_vgpu(struct distmind_pool *pool, uint32_t gpu, struct distmind_vgpu **vgpu,
		    uint32_t *id)
{
	struct distmind_vgpu_record record = { .gpu = gpu, .memory = 4 * SIZE, .share = 100 };
	int err = library_vgpu_create(pool, &record, vgpu);

	*id = record.id;
	return err;
}

static uint32_t the_gpu;

FIXTURE_SETUP(payer)
{
	struct distmind_engine_params params = {
		.name = "payer", .kind = "test", .memory = 16 * SIZE,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
	};

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_job));
	the_gpu = distmind_engine_gpu(self->gpu.engine);
	ASSERT_EQ(0, new_vgpu(self->pool, the_gpu, &self->owner, &self->owner_id));
	ASSERT_EQ(0, new_vgpu(self->pool, the_gpu, &self->friend, &self->friend_id));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, distmind_buffer_create(self->owner, SIZE, DISTMIND_BUFFER_WEIGHTS,
						    &self->weights[i]));
	ASSERT_EQ(0, pthread_create(&self->daemon, NULL, daemon_thread, &the_gpu));
}

FIXTURE_TEARDOWN(payer)
{
	pthread_cancel(self->daemon);
	pthread_join(self->daemon, NULL);
	for (int i = 0; i < 3; i++)
		distmind_buffer_destroy(self->weights[i]);
	distmind_vgpu_close(self->friend);
	distmind_vgpu_close(self->owner);
	distmind_pool_vgpu_delete(self->pool, self->friend_id);
	distmind_pool_vgpu_delete(self->pool, self->owner_id);
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
}

/* This thread only. */
static void become(uid_t uid)
{
	syscall(SYS_setresuid, -1, uid, -1);
}

/* A vgpu of that user: its lease, or a negative errno. */
static int acquire(uid_t uid, uint64_t memory, uint32_t *id)
{
	int32_t fd = -1;
	struct distmind_acquire acquire = {
		.memory = memory, .fds = (uintptr_t)&fd, .share = 100, .count = 1,
		.sched_class = DISTMIND_CLASS_STANDARD, .timeout_ms = 20000, .name = "tenant",
	};
	struct distmind_vgpu_info info = { 0 };
	int control, err;

	become(uid);
	control = open_node("control");
	err = control < 0 ? control : call(control, DISTMIND_IOC_ACQUIRE, &acquire);
	if (control >= 0)
		close(control);
	become(0);
	if (err)
		return err;
	err = call(fd, DISTMIND_IOC_VGPU_INFO, &info);
	*id = info.id;
	return err ? err : fd;
}

static int lend(struct distmind_buffer *weights, uint32_t payer)
{
	return distmind_buffer_export_paid(weights, DISTMIND_EXPORT_CLOEXEC, payer);
}

/* What is charged to a vgpu. */
static uint64_t used(struct distmind_pool *pool, uint32_t id)
{
	struct distmind_vgpu_record record = { 0 };

	return distmind_pool_vgpu(pool, id, &record) ? UINT64_MAX : record.memory_used;
}

/* What is charged to all vgpus of a user, also those that have ended. */
static uint64_t held(uid_t uid)
{
	unsigned long long kib = 0;
	char path[64], line[128];
	FILE *file;
	int fd;

	become(uid);
	fd = open_node("control");
	become(0);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "distmind-memory: %llu KiB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	close(fd);
	return kib << 10;
}

/* Jobs and killed processes let go in their own time. */
#define EXPECT_SOON(condition) do {                             \
	int __tries = 10000;                                    \
	while (!(condition) && --__tries)                       \
		usleep(1000);                                   \
	EXPECT_TRUE(condition);                                 \
} while (0)

TEST_F(payer, naming_one_needs_privilege_and_a_vgpu)
{
	struct distmind_buffer_export export = { .flags = DISTMIND_EXPORT_PAID };
	int vgpu, owner = distmind_vgpu_fd(self->owner);
	struct distmind_buffer_create create;
	uint32_t id;

	ASSERT_EQ(0, buffer_create(owner, PAGE, &create));
	export.handle = create.handle;
	vgpu = acquire(MALLORY, SIZE, &id);
	ASSERT_LE(0, vgpu);
	export.payer = id;
	become(MALLORY);
	EXPECT_EQ(-EPERM, call(owner, DISTMIND_IOC_BUFFER_EXPORT, &export));
	become(0);
	EXPECT_EQ(0, call(owner, DISTMIND_IOC_BUFFER_EXPORT, &export));
	EXPECT_EQ(PAGE, used(self->pool, id));
	close(export.fd);
	export.payer = 1 << 30;
	EXPECT_EQ(-ENXIO, call(owner, DISTMIND_IOC_BUFFER_EXPORT, &export));
	export.flags = 0;
	EXPECT_EQ(-EINVAL, call(owner, DISTMIND_IOC_BUFFER_EXPORT, &export));
	export.payer = 0;
	EXPECT_EQ(0, call(owner, DISTMIND_IOC_BUFFER_EXPORT, &export));
	EXPECT_EQ(0, used(self->pool, id));
	close(export.fd);
	close(vgpu);
	EXPECT_EQ(0, buffer_destroy(owner, create.handle));
}

TEST_F(payer, each_pays_all_and_once)
{
	uint32_t mallory, alice;
	int vgpu[2], a, again, b, other;

	vgpu[0] = acquire(MALLORY, 2 * SIZE, &mallory);
	vgpu[1] = acquire(ALICE, SIZE, &alice);
	ASSERT_LE(0, vgpu[0]);
	ASSERT_LE(0, vgpu[1]);
	a = lend(self->weights[0], mallory);
	again = lend(self->weights[0], mallory);
	ASSERT_LE(0, a);
	ASSERT_LE(0, again);
	EXPECT_EQ(SIZE, used(self->pool, mallory));
	b = lend(self->weights[1], mallory);
	ASSERT_LE(0, b);
	EXPECT_EQ(2 * SIZE, used(self->pool, mallory));
	EXPECT_EQ(-EDQUOT, lend(self->weights[2], mallory));
	/* The same copy. */
	other = lend(self->weights[0], alice);
	ASSERT_LE(0, other);
	EXPECT_EQ(SIZE, used(self->pool, alice));
	close(a);
	EXPECT_EQ(2 * SIZE, used(self->pool, mallory));
	close(again);
	EXPECT_EQ(SIZE, used(self->pool, mallory));
	EXPECT_EQ(SIZE, used(self->pool, alice));
	close(b);
	close(other);
	EXPECT_EQ(0, used(self->pool, mallory));
	EXPECT_EQ(0, used(self->pool, alice));
	/* Whose buffers they are pays for them all the time. */
	EXPECT_EQ(3 * SIZE, used(self->pool, self->owner_id));
	close(vgpu[0]);
	close(vgpu[1]);
}

/* Ways to keep something of a dma-buf; each is told to begin, and then to end. */

struct keeping {
	struct distmind_vgpu *friend;
	struct distmind_buffer *imported;
	struct distmind_timeline *timeline;
	struct distmind_queue *queue;
	void *map;
	int fd, sockets[2];
	pid_t child;
};

static int keep_copy(struct keeping *keeping, int fd, bool begin)
{
	if (!begin)
		return close(keeping->fd);
	keeping->fd = dup(fd);
	return keeping->fd < 0;
}

static int keep_mapping(struct keeping *keeping, int fd, bool begin)
{
	if (!begin)
		return munmap(keeping->map, SIZE);
	keeping->map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	return keeping->map == MAP_FAILED;
}

/* By somebody else than who pays. */
static int keep_handle(struct keeping *keeping, int fd, bool begin)
{
	if (begin)
		return distmind_buffer_import(keeping->friend, fd, &keeping->imported);
	distmind_buffer_destroy(keeping->imported);
	return 0;
}

/* A half of it, of a handle that is gone. */
static int keep_mapping_of_handle(struct keeping *keeping, int fd, bool begin)
{
	struct distmind_buffer_import import = { .fd = fd };
	int vgpu = distmind_vgpu_fd(keeping->friend);

	if (!begin)
		return munmap(keeping->map + SIZE / 2, SIZE / 2);
	if (call(vgpu, DISTMIND_IOC_BUFFER_IMPORT, &import))
		return 1;
	keeping->map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, vgpu, import.map_offset);
	return keeping->map == MAP_FAILED || munmap(keeping->map, SIZE / 2) ||
	       buffer_destroy(vgpu, import.handle);
}

static int keep_export_of_handle(struct keeping *keeping, int fd, bool begin)
{
	struct distmind_buffer *imported;

	if (!begin)
		return close(keeping->fd);
	if (distmind_buffer_import(keeping->friend, fd, &imported))
		return 1;
	keeping->fd = distmind_buffer_export(imported, DISTMIND_EXPORT_CLOEXEC);
	distmind_buffer_destroy(imported);
	return keeping->fd < 0;
}

/* It waits for what comes when it is told to end. */
static int keep_job(struct keeping *keeping, int fd, bool begin)
{
	struct distmind_buffer *imported;
	struct distmind_batch *batch;
	int err;

	if (!begin) {
		err = distmind_timeline_signal(keeping->timeline, 1) ||
		      distmind_timeline_wait(keeping->timeline, 2, 10000);
		distmind_queue_destroy(keeping->queue);
		distmind_timeline_destroy(keeping->timeline);
		return err;
	}
	if (distmind_buffer_import(keeping->friend, fd, &imported) ||
	    distmind_timeline_create(keeping->friend, 0, &keeping->timeline) ||
	    distmind_queue_create(keeping->friend, DISTMIND_LANE_COMPUTE, 4, &keeping->queue))
		return 1;
	distmind_batch_create(&batch);
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_range(batch, imported, 0, SIZE);
	distmind_batch_wait(batch, keeping->timeline, 1);
	distmind_batch_signal(batch, keeping->timeline, 2);
	err = distmind_queue_submit(keeping->queue, batch, NULL);
	distmind_batch_destroy(batch);
	distmind_buffer_destroy(imported);
	return err;
}

/* On its way between two processes. */
static int keep_message(struct keeping *keeping, int fd, bool begin)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 }, byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	if (!begin)
		return close(keeping->sockets[0]) || close(keeping->sockets[1]);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, keeping->sockets) ||
	       sendmsg(keeping->sockets[0], &message, 0) != 1;
}

/* In a process of somebody else, which is killed in the end. */
static int keep_child(struct keeping *keeping, int fd, bool begin)
{
	if (!begin) {
		kill(keeping->child, SIGKILL);
		return child_status(keeping->child) != 128 + SIGKILL;
	}
	keeping->child = fork();
	if (!keeping->child) {
		for (int other = 3; other < 256; other++)
			if (other != fd)
				close(other);
		if (!become_nobody())
			pause();
		_exit(1);
	}
	return keeping->child < 0;
}

TEST_F(payer, it_pays_until_nothing_is_left)
{
	static int (*const keep[])(struct keeping *keeping, int fd, bool begin) = {
		keep_copy, keep_mapping, keep_handle, keep_mapping_of_handle,
		keep_export_of_handle, keep_job, keep_message, keep_child,
	};
	struct keeping keeping = { .friend = self->friend };
	uint32_t id;
	int vgpu, fd;

	vgpu = acquire(MALLORY, SIZE, &id);
	ASSERT_LE(0, vgpu);
	for (int i = 0; i < sizeof(keep) / sizeof(keep[0]); i++) {
		fd = lend(self->weights[0], id);
		ASSERT_LE(0, fd) TH_LOG("at %d", i);
		ASSERT_EQ(0, keep[i](&keeping, fd, true)) TH_LOG("at %d", i);
		close(fd);
		EXPECT_EQ(SIZE, used(self->pool, id)) TH_LOG("at %d", i);
		EXPECT_EQ(-EDQUOT, lend(self->weights[1], id)) TH_LOG("at %d", i);
		EXPECT_EQ(SIZE, held(MALLORY)) TH_LOG("at %d", i);
		ASSERT_EQ(0, keep[i](&keeping, -1, false)) TH_LOG("at %d", i);
		EXPECT_SOON(!used(self->pool, id));
	}
	EXPECT_EQ(0, held(MALLORY));
	close(vgpu);
}

/* Whatever is left of vgpus that have ended: no more than was promised at one time. */
TEST_F(payer, a_user_has_never_more_than_its_vgpus_were_promised)
{
	int first, second, left, kept[8], count = 0;
	struct distmind_buffer_create create;
	uint32_t a, b;

	first = acquire(MALLORY, SIZE, &a);
	second = acquire(MALLORY, SIZE, &b);
	ASSERT_LE(0, first);
	ASSERT_LE(0, second);
	for (int i = 0; i < 8; i++) {
		int fd = lend(self->weights[i % 3], i % 2 ? b : a);

		/* The vgpu ends, another comes, and something is left of each. */
		if (fd >= 0)
			kept[count++] = fd;
		close(i % 2 ? second : first);
		*(i % 2 ? &second : &first) = acquire(MALLORY, SIZE, i % 2 ? &b : &a);
		ASSERT_LE(0, i % 2 ? second : first);
		EXPECT_GE(2 * SIZE, held(MALLORY));
	}
	EXPECT_EQ(2, count);
	EXPECT_EQ(2 * SIZE, held(MALLORY));
	/* Its own buffers are no way around it either. */
	EXPECT_EQ(-EDQUOT, buffer_create(first, PAGE, &create));
	/* Others do not notice. */
	left = acquire(ALICE, SIZE, &b);
	ASSERT_LE(0, left);
	EXPECT_EQ(0, buffer_create(left, SIZE, &create));
	close(left);
	close(kept[0]);
	EXPECT_EQ(0, buffer_create(first, SIZE, &create));
	close(kept[1]);
	close(first);
	close(second);
	EXPECT_SOON(!held(MALLORY));
	EXPECT_EQ(0, held(ALICE));
}

TEST_F(payer, buffers_of_ended_vgpus_count_for_their_user)
{
	struct distmind_buffer_create create;
	struct distmind_buffer_export export = { 0 };
	uint32_t id;
	void *map;
	int vgpu;

	vgpu = acquire(MALLORY, SIZE, &id);
	ASSERT_LE(0, vgpu);
	ASSERT_EQ(0, buffer_create(vgpu, SIZE, &create));
	export.handle = create.handle;
	ASSERT_EQ(0, call(vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export));
	/* A mapping of the lease would keep the vgpu. */
	map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, export.fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	close(vgpu);
	vgpu = acquire(MALLORY, SIZE, &id);
	ASSERT_LE(0, vgpu);
	EXPECT_EQ(-EDQUOT, buffer_create(vgpu, PAGE, &create));
	EXPECT_EQ(-EDQUOT, lend(self->weights[0], id));
	close(export.fd);
	EXPECT_EQ(-EDQUOT, buffer_create(vgpu, PAGE, &create));
	munmap(map, SIZE);
	EXPECT_EQ(0, buffer_create(vgpu, SIZE, &create));
	close(vgpu);
	EXPECT_EQ(0, held(MALLORY));
}

/* In the time that it takes to free one, another could be refused. */
TEST_F(payer, what_a_lease_had_is_given_back_when_it_is_closed)
{
	struct distmind_buffer_create create;
	uint32_t id;
	int vgpu;

	for (int round = 0; round < 20; round++) {
		vgpu = acquire(MALLORY, SIZE, &id);
		ASSERT_LE(0, vgpu);
		for (int i = 0; i < 4; i++)
			ASSERT_EQ(0, buffer_create(vgpu, SIZE / 4, &create));
		close(vgpu);
		ASSERT_EQ(0, held(MALLORY));
	}
}

TEST_F(payer, a_larger_quota_counts_at_once_and_a_smaller_one_takes_nothing_away)
{
	struct distmind_vgpu_record record = { .memory = 2 * SIZE };
	uint32_t id;
	int vgpu, a, b;

	vgpu = acquire(MALLORY, SIZE, &id);
	ASSERT_LE(0, vgpu);
	record.id = id;
	a = lend(self->weights[0], id);
	ASSERT_LE(0, a);
	EXPECT_EQ(-EDQUOT, lend(self->weights[1], id));
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &record, DISTMIND_SET_MEMORY));
	b = lend(self->weights[1], id);
	ASSERT_LE(0, b);
	record.memory = SIZE;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &record, DISTMIND_SET_MEMORY));
	EXPECT_EQ(2 * SIZE, used(self->pool, id));
	close(a);
	EXPECT_EQ(-EDQUOT, lend(self->weights[2], id));
	close(b);
	a = lend(self->weights[2], id);
	EXPECT_LE(0, a);
	close(a);
	close(vgpu);
}

/* A daemon of its own, which is killed with what it has lent. */
TEST_F(payer, who_has_lent_may_die)
{
	uint32_t id, gpu = the_gpu;
	int vgpu, fds[2], fd;
	pid_t child;

	vgpu = acquire(MALLORY, SIZE, &id);
	ASSERT_LE(0, vgpu);
	ASSERT_EQ(0, pipe(fds));
	child = fork();
	if (!child) {
		struct distmind_buffer *weights;
		struct distmind_vgpu *owner;
		struct distmind_pool *pool;
		uint32_t owner_id;

		if (distmind_pool_open(&pool) || new_vgpu(pool, gpu, &owner, &owner_id) ||
		    distmind_buffer_create(owner, SIZE, DISTMIND_BUFFER_WEIGHTS, &weights))
			_exit(1);
		fd = lend(weights, id);
		if (write(fds[1], &fd, sizeof(fd)) != sizeof(fd) ||
		    write(fds[1], &owner_id, sizeof(owner_id)) != sizeof(owner_id))
			_exit(1);
		pause();
		_exit(0);
	}
	ASSERT_EQ(sizeof(fd), read(fds[0], &fd, sizeof(fd)));
	ASSERT_EQ(sizeof(gpu), read(fds[0], &gpu, sizeof(gpu)));
	ASSERT_LE(0, fd);
	fd = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, child, 0), fd, 0);
	ASSERT_LE(0, fd);
	kill(child, SIGKILL);
	EXPECT_EQ(128 + SIGKILL, child_status(child));
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, gpu));
	EXPECT_EQ(SIZE, used(self->pool, id));
	EXPECT_EQ(-EDQUOT, lend(self->weights[0], id));
	close(fd);
	EXPECT_EQ(0, used(self->pool, id));
	close(fds[0]);
	close(fds[1]);
	close(vgpu);
}

struct seen {
	uint32_t id;
	struct distmind_buffer_record record;
	int count;
};

static int see(const struct distmind_buffer_record *buffer, void *arg)
{
	struct seen *seen = arg;

	if (buffer->id == seen->id) {
		seen->record = *buffer;
		seen->count++;
	}
	return 0;
}

/* What a user sees of the buffer: how many payers, or -1 if nothing; -2: it cannot look. */
static int payers_seen_by(uid_t uid, uint32_t buffer)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct seen seen = { .id = buffer };
		struct distmind_pool *pool;

		if (setresuid(uid, uid, uid) || distmind_pool_open(&pool) ||
		    distmind_pool_buffers(pool, see, &seen))
			_exit(100);
		/* What others do with it, who only pays for it does not see. */
		if (seen.count && (seen.record.exports || seen.record.pins))
			_exit(101);
		_exit(seen.count ? seen.record.payer_count : 99);
	}
	status = child_status(pid);
	return status == 99 ? -1 : status > 99 ? -2 : status;
}

TEST_F(payer, payers_are_shown_to_whom_it_concerns)
{
	struct distmind_buffer_info info;
	struct seen seen = { 0 };
	uint32_t mallory, alice;
	int vgpu[2], fd[2];

	vgpu[0] = acquire(MALLORY, SIZE, &mallory);
	vgpu[1] = acquire(ALICE, SIZE, &alice);
	ASSERT_LE(0, vgpu[0]);
	ASSERT_LE(0, vgpu[1]);
	fd[0] = lend(self->weights[0], mallory);
	fd[1] = lend(self->weights[0], alice);
	ASSERT_LE(0, fd[0]);
	ASSERT_LE(0, fd[1]);
	ASSERT_EQ(0, distmind_buffer_info(self->weights[0], &info));
	seen.id = info.id;
	ASSERT_EQ(0, distmind_pool_buffers(self->pool, see, &seen));
	ASSERT_EQ(1, seen.count);
	EXPECT_EQ(2, seen.record.exports);
	EXPECT_EQ(2, seen.record.payer_count);
	EXPECT_EQ(mallory, seen.record.payers[0].vgpu);
	EXPECT_EQ(MALLORY, seen.record.payers[0].uid);
	EXPECT_EQ(alice, seen.record.payers[1].vgpu);
	EXPECT_EQ(1, payers_seen_by(MALLORY, info.id));
	EXPECT_EQ(-1, payers_seen_by(65534, info.id));
	/* One that has ended has no number any more. */
	close(vgpu[0]);
	ASSERT_EQ(0, distmind_pool_buffers(self->pool, see, &seen));
	EXPECT_EQ(DISTMIND_VGPU_ENDED, seen.record.payers[0].vgpu);
	EXPECT_EQ(MALLORY, seen.record.payers[0].uid);
	close(fd[0]);
	close(fd[1]);
	EXPECT_EQ(-1, payers_seen_by(MALLORY, info.id));
	close(vgpu[1]);
}

TEST_HARNESS_MAIN
