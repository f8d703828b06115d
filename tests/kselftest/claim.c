// SPDX-License-Identifier: GPL-2.0-or-later
/* Claims for vgpus: granted, refused, timed out, given up. */
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "distmind_test.h"
#include "importer/importer.h"
#include "kselftest_harness.h"

FIXTURE(claim)
{
	struct distmind_pool *pool;
	int engine, control;
	uint32_t gpu;
};

FIXTURE_SETUP(claim)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_pool_subscribe(self->pool));
	self->engine = engine_start("claim", 16 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
	self->control = open_node("control");
	ASSERT_LE(0, self->control);
}

FIXTURE_TEARDOWN(claim)
{
	close(self->control);
	close(self->engine);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

static struct distmind_acquire ask(int32_t *fds, uint32_t count)
{
	return (struct distmind_acquire){
		.memory = MiB, .share = 100, .sched_class = DISTMIND_CLASS_STANDARD, .count = count,
		.timeout_ms = 20000, .fds = (uintptr_t)fds, .name = "asker",
	};
}

struct waiting {
	enum distmind_event_type type;
	struct distmind_claim_record record;
	int seen;
};

static void on_event(const struct distmind_event *event, void *arg)
{
	struct waiting *waiting = arg;

	if (event->type == waiting->type) {
		waiting->record = event->claim;
		waiting->seen++;
	}
}

/* Wait for the next event of that type. */
static int next_claim(struct distmind_pool *pool, enum distmind_event_type type,
			struct distmind_claim_record *record)
{
	struct pollfd pfd = { .fd = distmind_pool_event_fd(pool), .events = POLLIN };
	struct waiting waiting = { .type = type };

	while (!waiting.seen) {
		if (poll(&pfd, 1, 20000) != 1)
			return -ETIMEDOUT;
		distmind_pool_dispatch(pool, on_event, &waiting);
	}
	*record = waiting.record;
	return 0;
}

/* In a child: acquire, then exit with the errno or, if granted, with what check says. */
#define CHILD_ACQUIRES(acquire, check) ({                                        \
	pid_t __pid = fork();                                                    \
	if (!__pid) {                                                            \
		int __err = call(self->control, DISTMIND_IOC_ACQUIRE, acquire);  \
		_exit(__err ? -__err : (check));                                 \
	}                                                                        \
	__pid;                                                                   \
})

TEST_F(claim, a_grant_is_a_lease_that_ends_with_the_descriptor)
{
	int32_t fd = -1;
	struct distmind_acquire acquire = ask(&fd, 1);
	struct distmind_claim_record record;
	struct distmind_vgpu_record vgpu;
	struct distmind_vgpu_info info;
	int id[2], go[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(id));
	ASSERT_EQ(0, pipe(go));
	pid = CHILD_ACQUIRES(&acquire, call(fd, DISTMIND_IOC_VGPU_INFO, &info) ||
			     write(id[1], &info.id, 4) != 4 || read(go[0], &info, 1) != 1);
	ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
	EXPECT_EQ(MiB, record.memory);
	EXPECT_EQ(100, record.share);
	EXPECT_EQ(1, record.count);
	EXPECT_EQ((uint32_t)pid, record.pid);
	EXPECT_STREQ("asker", record.name);
	EXPECT_STREQ("", record.kind);
	EXPECT_LT(0, record.remaining_ms);
	ASSERT_EQ(0, distmind_pool_claim_grant(self->pool, record.id, &self->gpu, 1));
	EXPECT_EQ(-ENOENT, distmind_pool_claim_grant(self->pool, record.id, &self->gpu, 1));
	ASSERT_EQ(4, read(id[0], &info.id, 4));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, info.id, &vgpu));
	EXPECT_EQ(self->gpu, vgpu.gpu);
	EXPECT_EQ(DISTMIND_VGPU_LEASE_FILE, vgpu.lease);
	EXPECT_EQ(1, vgpu.clients);
	EXPECT_EQ((uint32_t)pid, vgpu.pid);
	ASSERT_EQ(1, write(go[1], "", 1));
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(-ENOENT, distmind_pool_vgpu(self->pool, info.id, &vgpu));
}

TEST_F(claim, a_refusal_carries_error_and_reason)
{
	int32_t fd = -1;
	struct distmind_acquire acquire = ask(&fd, 1);
	struct distmind_claim_record record;
	pid_t pid;

	strcpy(acquire.kind, "H100");
	pid = fork();
	if (!pid) {
		int err = call(self->control, DISTMIND_IOC_ACQUIRE, &acquire);

		_exit(!(err == -ENOSPC && !strcmp(acquire.reason, "no H100 here: ask for a test")));
	}
	ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
	EXPECT_STREQ("H100", record.kind);
	ASSERT_EQ(0, distmind_pool_claim_refuse(self->pool, record.id, ENOSPC,
						  "no H100 here: ask for a test"));
	EXPECT_EQ(0, child_status(pid));
}

TEST_F(claim, several_vgpus_come_all_or_none)
{
	int32_t fds[3] = { -1, -1, -1 };
	struct distmind_acquire acquire = ask(fds, 3);
	struct distmind_claim_record record;
	uint32_t gpus[3] = { self->gpu, self->gpu, self->gpu + 999 };
	struct distmind_gpu_record gpu;
	struct distmind_vgpu_info a, b;
	pid_t pid = CHILD_ACQUIRES(&acquire, call(fds[0], DISTMIND_IOC_VGPU_INFO, &a) ||
				   call(fds[2], DISTMIND_IOC_VGPU_INFO, &b) || a.id == b.id);

	ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
	EXPECT_EQ(3, record.count);
	EXPECT_EQ(-EINVAL, distmind_pool_claim_grant(self->pool, record.id, gpus, 2));
	EXPECT_EQ(-ENOENT, distmind_pool_claim_grant(self->pool, record.id, gpus, 3));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(0, gpu.vgpus);
	gpus[2] = self->gpu;
	ASSERT_EQ(0, distmind_pool_claim_grant(self->pool, record.id, gpus, 3));
	EXPECT_EQ(0, child_status(pid));
}

TEST_F(claim, without_an_answer_it_times_out_and_says_why)
{
	int32_t fd = -1;
	struct distmind_acquire acquire = ask(&fd, 1);
	struct distmind_claim_record record;
	struct timespec begin, end;

	acquire.timeout_ms = 300;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	EXPECT_EQ(-ETIMEDOUT, call(self->control, DISTMIND_IOC_ACQUIRE, &acquire));
	clock_gettime(CLOCK_MONOTONIC, &end);
	EXPECT_LE(290, (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000);
	EXPECT_NE(NULL, strstr(acquire.reason, "no answer within"));
	/* It is over: a late answer is told so. */
	ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_DEL, &record));
	EXPECT_EQ(-ENOENT, distmind_pool_claim_grant(self->pool, record.id, &self->gpu, 1));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "no such claim"));
}

TEST_F(claim, without_a_daemon_the_reason_says_so)
{
	int32_t fd = -1;
	struct distmind_acquire acquire = ask(&fd, 1);

	distmind_pool_close(self->pool);
	acquire.timeout_ms = 50;
	EXPECT_EQ(-ETIMEDOUT, call(self->control, DISTMIND_IOC_ACQUIRE, &acquire));
	EXPECT_NE(NULL, strstr(acquire.reason, "start distmindd"));
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
}

TEST_F(claim, a_killed_waiter_leaves_nothing_behind)
{
	int32_t fd = -1;
	struct distmind_acquire acquire = ask(&fd, 1);
	struct distmind_claim_record record;
	pid_t pid = CHILD_ACQUIRES(&acquire, 0);

	ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
	kill(pid, SIGKILL);
	EXPECT_EQ(128 + SIGKILL, child_status(pid));
	ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_DEL, &record));
	EXPECT_EQ(-ENOENT, distmind_pool_claim_grant(self->pool, record.id, &self->gpu, 1));
}

TEST_F(claim, a_waiter_killed_while_it_is_granted_keeps_nothing)
{
	struct distmind_claim_record record;
	struct distmind_gpu_record gpu;

	for (int round = 0; round < 20; round++) {
		int32_t fds[4];
		struct distmind_acquire acquire = ask(fds, 4);
		uint32_t gpus[4] = { self->gpu, self->gpu, self->gpu, self->gpu };
		pid_t pid = CHILD_ACQUIRES(&acquire, 0);

		ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
		if (round % 2)
			kill(pid, SIGKILL);
		distmind_pool_claim_grant(self->pool, record.id, gpus, 4);
		kill(pid, SIGKILL);
		child_status(pid);
	}
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(0, gpu.vgpus);
}

TEST_F(claim, bad_fields_are_refused_in_words)
{
	int32_t fd;
	struct distmind_acquire bad;

#define REFUSED(change, word)                                                             \
	do {                                                                              \
		bad = ask(&fd, 1);                                                        \
		change;                                                                   \
		EXPECT_EQ(-EINVAL, call(self->control, DISTMIND_IOC_ACQUIRE, &bad));      \
		EXPECT_NE(NULL, strstr(bad.reason, word)) TH_LOG("reason: %s", bad.reason); \
	} while (0)
	REFUSED(bad.memory = 0, "memory");
	REFUSED(bad.memory = 4097, "memory");
	REFUSED(bad.memory = 1ULL << 63, "memory");
	REFUSED(bad.share = 0, "share");
	REFUSED(bad.share = 1001, "share");
	REFUSED(bad.sched_class = 3, "class");
	REFUSED(bad.sched_class = DISTMIND_CLASS_LATENCY, "objective");
	REFUSED(bad.objective_ns = 1, "objective");
	REFUSED(bad.count = 0, "count");
	REFUSED(bad.count = 65, "count");
	REFUSED(bad.flags = 4, "flags");
	REFUSED(bad.timeout_ms = 0, "timeout");
	REFUSED(bad.timeout_ms = 3600001, "timeout");
	REFUSED(strcpy(bad.name, "a b"), "name");
	REFUSED(memset(bad.kind, 'k', 32), "kind");
}

TEST_F(claim, a_bad_place_for_descriptors_loses_no_vgpu)
{
	struct distmind_acquire acquire = ask((int32_t *)8, 1);
	struct distmind_claim_record record;
	struct distmind_gpu_record gpu;
	pid_t pid = CHILD_ACQUIRES(&acquire, 0);

	ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
	ASSERT_EQ(0, distmind_pool_claim_grant(self->pool, record.id, &self->gpu, 1));
	EXPECT_EQ(EFAULT, child_status(pid));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(0, gpu.vgpus);
}

TEST_F(claim, one_user_cannot_fill_the_table)
{
	struct distmind_claim_record record;
	pid_t pids[64];
	int32_t fd;
	struct distmind_acquire acquire = ask(&fd, 1);

	for (int i = 0; i < 64; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(become_nobody() ? 99 : -call(self->control, DISTMIND_IOC_ACQUIRE, &acquire));
		ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
		EXPECT_EQ(65534, record.uid);
	}
	EXPECT_EQ(EAGAIN, AS_NOBODY(-call(self->control, DISTMIND_IOC_ACQUIRE, &acquire)));
	/* Another user still can. */
	acquire.timeout_ms = 1;
	EXPECT_EQ(-ETIMEDOUT, call(self->control, DISTMIND_IOC_ACQUIRE, &acquire));
	for (int i = 0; i < 64; i++) {
		kill(pids[i], SIGKILL);
		child_status(pids[i]);
	}
}

static int write_map(pid_t pid, const char *map)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	file = fopen(path, "w");
	if (!file)
		return -errno;
	fputs(map, file);
	return fclose(file);
}

/* A process that keeps a user namespace of that owner; a hundred other users are in it. */
static pid_t namespace_of(uid_t owner)
{
	char map[64], byte;
	int ready[2];
	pid_t pid;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		if (setresuid(owner, owner, owner) || unshare(CLONE_NEWUSER) ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	snprintf(map, sizeof(map), "0 %u 1\n1 100000 100\n", owner);
	if (read(ready[0], &byte, 1) != 1 || write_map(pid, map)) {
		kill(pid, SIGKILL);
		child_status(pid);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

static void end_namespaces(pid_t mine, pid_t container, pid_t other)
{
	const pid_t pids[] = { mine, container, other };

	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGKILL);
		child_status(pids[i]);
	}
}

/* Become a user of the namespace that the process has. */
static int enter(pid_t pid, uid_t uid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return setns(fd, CLONE_NEWUSER) || setresuid(uid, uid, uid);
}

/* Run code in a child that has entered, return its exit status. */
#define AS_USER(namespace, uid, code) ({                                \
	pid_t __pid = fork();                                           \
	if (!__pid)                                                     \
		_exit(enter(namespace, uid) ? 99 : (code));             \
	child_status(__pid);                                            \
})

/* Each of them lets a user be others; those of root are containers, each somebody's. */
TEST_F(claim, nobody_can_fill_the_table_by_being_many_users)
{
	pid_t mine = namespace_of(1000), container = namespace_of(0), other = namespace_of(0);
	struct distmind_claim_record record;
	struct waiting told = { 0 };
	pid_t pids[64], of[] = { mine, container };
	int32_t fd;
	struct distmind_acquire acquire = ask(&fd, 1), brief = ask(&fd, 1);

	ASSERT_LT(0, mine);
	ASSERT_LT(0, container);
	ASSERT_LT(0, other);
	brief.timeout_ms = 1;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 64; i++) {
			pids[i] = fork();
			if (!pids[i])
				_exit(enter(of[round], 1 + i) ? 99 :
				      -call(self->control, DISTMIND_IOC_ACQUIRE, &acquire));
			ASSERT_EQ(0, next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record));
			EXPECT_EQ(100000 + i, record.uid);
		}
		EXPECT_EQ(EAGAIN, AS_USER(of[round], 65,
					  -call(self->control, DISTMIND_IOC_ACQUIRE, &brief)));
		EXPECT_EQ(ETIMEDOUT, AS_USER(of[!round], 65,
					     -call(self->control, DISTMIND_IOC_ACQUIRE, &brief)));
		EXPECT_EQ(ETIMEDOUT, AS_USER(other, 65,
					     -call(self->control, DISTMIND_IOC_ACQUIRE, &brief)));
		EXPECT_EQ(-ETIMEDOUT, call(self->control, DISTMIND_IOC_ACQUIRE, &brief));
		for (int i = 0; i < 64; i++) {
			kill(pids[i], SIGKILL);
			child_status(pids[i]);
		}
		/* What was told of the others is not for the next round. */
		ASSERT_LT(0, distmind_pool_dispatch(self->pool, on_event, &told));
	}
	end_namespaces(mine, container, other);
}

/* Pins buffers of a MiB by the importers, one each, until that fails; how many it were. */
static int pin_as_many(int vgpu, const int *importers, int count)
{
	for (int i = 0; i < count; i++) {
		struct distmind_buffer_create create;
		struct distmind_buffer_export export = { 0 };
		struct importer_call step = { .op = IMPORTER_ATTACH };

		if (buffer_create(vgpu, MiB, &create))
			return -1;
		export.handle = create.handle;
		if (call(vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export))
			return -1;
		step.value = export.fd;
		if (call(importers[i], IMPORTER_CALL, &step))
			return -1;
		step.op = IMPORTER_PIN;
		if (call(importers[i], IMPORTER_CALL, &step))
			return i;
	}
	return count;
}

#define PINS 9

/* A user of the namespace acquires a vgpu and pins what it can; keeps that until it is killed. */
static pid_t pin_as(FIXTURE_DATA(claim) *self, pid_t namespace, uid_t uid, int *pinned)
{
	struct distmind_claim_record record;
	int32_t fd, importers[PINS], ends[2];
	struct distmind_acquire acquire = ask(&fd, 1);
	pid_t pid;

	acquire.memory = 16 * MiB;
	*pinned = -1;
	for (int i = 0; i < PINS; i++)
		importers[i] = open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC);
	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		if (!enter(namespace, uid) && !call(self->control, DISTMIND_IOC_ACQUIRE, &acquire))
			*pinned = pin_as_many(fd, importers, PINS);
		if (write(ends[1], pinned, sizeof(*pinned)) == sizeof(*pinned))
			pause();
		_exit(1);
	}
	for (int i = 0; i < PINS; i++)
		close(importers[i]);
	close(ends[1]);
	if (next_claim(self->pool, DISTMIND_EVENT_CLAIM_ADD, &record) ||
	    distmind_pool_claim_grant(self->pool, record.id, &self->gpu, 1) ||
	    read(ends[0], pinned, sizeof(*pinned)) != sizeof(*pinned))
		*pinned = -1;
	close(ends[0]);
	return pid;
}

/* Half of the heap can be pinned, half of that by one alone. */
TEST_F(claim, nobody_can_pin_more_by_being_many_users)
{
	pid_t mine = namespace_of(1000), container = namespace_of(0), other = namespace_of(0);
	pid_t of[] = { mine, container }, pids[3];
	int pinned;

	ASSERT_LT(0, mine);
	ASSERT_LT(0, container);
	ASSERT_LT(0, other);
	for (int round = 0; round < 2; round++) {
		pids[0] = pin_as(self, of[round], 1, &pinned);
		EXPECT_EQ(4, pinned);
		pids[1] = pin_as(self, of[round], 2, &pinned);
		EXPECT_EQ(0, pinned);
		/* Another container's user is another one, although it has the same number. */
		pids[2] = pin_as(self, other, 1, &pinned);
		EXPECT_EQ(2, pinned);
		for (int i = 0; i < 3; i++) {
			kill(pids[i], SIGKILL);
			EXPECT_EQ(128 + SIGKILL, child_status(pids[i]));
		}
	}
	end_namespaces(mine, container, other);
}

TEST_HARNESS_MAIN
