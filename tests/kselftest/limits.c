// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Everything that somebody without privileges can create has a limit for each user: it is
 * reached with an error that says so, others do not notice, and what is given back counts
 * no more.
 */
#include <signal.h>
#include <sys/eventfd.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define NOBODY	65534
#define SOMEONE	1234
#define LIMIT	20

FIXTURE(limits)
{
	struct distmind_pool *pool;
	struct distmind_engine *engine;
	struct distmind_vgpu_record vgpu;
};

FIXTURE_SETUP(limits)
{
	struct distmind_engine_params params = {
		.name = "limits", .kind = "test", .memory = 16 * MiB,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
	};

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_engine_register(&params, &self->engine));
	self->vgpu = (struct distmind_vgpu_record){
		.gpu = distmind_engine_gpu(self->engine), .memory = 16 * MiB, .share = 100,
		.uid = NOBODY, .gid = NOBODY,
	};
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &self->vgpu));
}

FIXTURE_TEARDOWN(limits)
{
	uint32_t gpu = distmind_engine_gpu(self->engine);

	distmind_pool_vgpu_delete(self->pool, self->vgpu.id);
	distmind_engine_close(self->engine);
	distmind_pool_gpu_remove(self->pool, gpu);
	distmind_pool_close(self->pool);
}

/* The old value, or -1. */
static long set_limit(const char *what, long value)
{
	char path[128];
	long old = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/distmind/parameters/max_%s", what);
	file = fopen(path, "r+");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &old) != 1)
		old = -1;
	rewind(file);
	fprintf(file, "%ld\n", value);
	return fclose(file) ? -1 : old;
}

/* What the calling user has of it, as an open file says; -1: it does not. */
static long used(const char *what)
{
	char path[64], line[128], key[64];
	int fd = open_node("control");
	long count = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	snprintf(key, sizeof(key), "distmind-%s:", what);
	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, key, strlen(key)))
			count = strtol(line + strlen(key), NULL, 10);
	}
	if (file)
		fclose(file);
	close(fd);
	return count;
}

/* What each of these makes one more of; a negative errno if that fails. */
struct maker {
	int vgpu, other, timeline, event;
	uint32_t buffer, handle, queue;
};

static int make_file(struct maker *maker)
{
	int fd = open_node("control");

	return fd < 0 ? fd : 0;
}

static int make_buffer(struct maker *maker)
{
	struct distmind_buffer_create create;

	return buffer_create(maker->vgpu, PAGE, &create);
}

static int make_handle(struct maker *maker)
{
	struct distmind_timeline_import import = { .fd = maker->timeline };

	return call(maker->vgpu, DISTMIND_IOC_TIMELINE_IMPORT, &import);
}

static int make_export(struct maker *maker)
{
	struct distmind_timeline_export export = { .handle = maker->handle };

	return call(maker->vgpu, DISTMIND_IOC_TIMELINE_EXPORT, &export);
}

static int make_dmabuf(struct maker *maker)
{
	struct distmind_buffer_export export = { .handle = maker->buffer };

	return call(maker->vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export);
}

/* Its mapping keeps a file. */
static int make_mapping(struct maker *maker)
{
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, maker->timeline, 0);

	return page == MAP_FAILED ? -errno : 0;
}

static int make_timeline(struct maker *maker)
{
	struct distmind_timeline_create create = { 0 };

	return call(maker->vgpu, DISTMIND_IOC_TIMELINE_CREATE, &create);
}

static int make_watch(struct maker *maker)
{
	struct distmind_timeline_watch watch = { .value = 1, .eventfd = maker->event };

	return call(maker->timeline, DISTMIND_IOC_TIMELINE_WATCH, &watch);
}

static int make_queue(struct maker *maker)
{
	struct distmind_queue_create create = { .depth = 1 };

	return call(maker->vgpu, DISTMIND_IOC_QUEUE_CREATE, &create);
}

/* A queue that is gone but for the mapping of its page. */
static int make_queue_page(struct maker *maker)
{
	struct distmind_queue_create create = { .depth = 1 };
	int err = call(maker->vgpu, DISTMIND_IOC_QUEUE_CREATE, &create);
	struct distmind_queue_watch watch = { .queue = create.handle, .eventfd = -1 };
	struct distmind_queue_destroy destroy = { .handle = create.handle };
	void *page;

	if (err)
		return err;
	err = call(maker->vgpu, DISTMIND_IOC_QUEUE_WATCH, &watch);
	if (err)
		return err;
	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, maker->vgpu, watch.map_offset);
	if (page == MAP_FAILED)
		return -errno;
	return call(maker->vgpu, DISTMIND_IOC_QUEUE_DESTROY, &destroy);
}

static int submit_waiting(struct maker *maker, uint32_t count)
{
	struct distmind_job_desc job = { .type = DISTMIND_JOB_BARRIER, .waits = count };
	struct distmind_wait waits[LIMIT + 1];
	struct distmind_submit submit = {
		.queue = maker->queue, .jobs = (uintptr_t)&job, .job_count = 1,
		.waits = (uintptr_t)waits, .wait_count = count,
	};

	for (uint32_t i = 0; i < count; i++)
		waits[i] = (struct distmind_wait){ .timeline = maker->handle, .value = 1 };
	return call(maker->vgpu, DISTMIND_IOC_SUBMIT, &submit);
}

static int make_job(struct maker *maker)
{
	return submit_waiting(maker, 1);
}

static const struct {
	const char *what;
	int (*make)(struct maker *maker);
	int error;
} kinds[] = {
	{ "files", make_file, -EDQUOT },
	{ "handles", make_handle, -EDQUOT },
	{ "buffers", make_buffer, -EDQUOT },
	{ "exports", make_export, -EDQUOT },
	{ "exports", make_dmabuf, -EDQUOT },
	{ "exports", make_mapping, -EDQUOT },
	{ "timelines", make_timeline, -EDQUOT },
	{ "watches", make_watch, -EDQUOT },
	{ "queues", make_queue, -EDQUOT },
	{ "queues", make_queue_page, -EDQUOT },
	{ "jobs", make_job, -EAGAIN },
	{ "waits", make_job, -EAGAIN },
};

static int maker_init(struct maker *maker, uint32_t id)
{
	struct distmind_timeline_create timeline = { 0 };
	struct distmind_timeline_export export = { .flags = DISTMIND_EXPORT_RDWR };
	struct distmind_queue_create queue = { .depth = 1000 };
	struct distmind_buffer_create buffer;

	maker->vgpu = open_vgpu(id);
	if (maker->vgpu < 0 || buffer_create(maker->vgpu, PAGE, &buffer) ||
	    call(maker->vgpu, DISTMIND_IOC_TIMELINE_CREATE, &timeline) ||
	    call(maker->vgpu, DISTMIND_IOC_QUEUE_CREATE, &queue))
		return -1;
	export.handle = maker->handle = timeline.handle;
	if (call(maker->vgpu, DISTMIND_IOC_TIMELINE_EXPORT, &export))
		return -1;
	maker->timeline = export.fd;
	maker->event = eventfd(0, 0);
	maker->buffer = buffer.handle;
	maker->queue = queue.handle;
	return 0;
}

enum { ALL_RIGHT, CANNOT_BEGIN, WRONG_ERROR, TOO_FEW, TOO_MANY, NOT_SHOWN };

/* As many as it may have, and no more. */
static int exhaust(uint32_t id, int kind)
{
	struct maker maker;
	int err = 0, made = 0;
	long before;

	if (maker_init(&maker, id))
		return CANNOT_BEGIN;
	before = used(kinds[kind].what);
	while (!err && made <= LIMIT) {
		err = kinds[kind].make(&maker);
		made += !err;
	}
	if (err != kinds[kind].error)
		return err ? WRONG_ERROR : TOO_MANY;
	/* What asks is an open file itself. */
	if (kinds[kind].make != make_file && used(kinds[kind].what) < LIMIT - 1)
		return NOT_SHOWN;
	return before < 0 ? NOT_SHOWN : made < LIMIT - 5 ? TOO_FEW : ALL_RIGHT;
}

static int become(uid_t uid)
{
	return setresgid(uid, uid, uid) || setresuid(uid, uid, uid);
}

#define AS(uid, code) ({                                    \
	pid_t __pid = fork();                               \
	if (!__pid)                                         \
		_exit(become(uid) ? 99 : (code));           \
	child_status(__pid);                                \
})

TEST_F(limits, what_a_user_can_create_is_limited_and_counts_no_more_when_it_is_gone)
{
	struct distmind_vgpu_record other = self->vgpu;

	other.uid = other.gid = SOMEONE;
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &other));
	for (int kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		long old = set_limit(kinds[kind].what, LIMIT);

		ASSERT_LT(0, old) TH_LOG("no limit of %s", kinds[kind].what);
		EXPECT_EQ(ALL_RIGHT, AS(NOBODY, exhaust(self->vgpu.id, kind)))
			TH_LOG("kind %d, %s", kind, kinds[kind].what);
		/* The process has ended, and all that it had. */
		EXPECT_EQ(ALL_RIGHT, AS(NOBODY, exhaust(self->vgpu.id, kind)))
			TH_LOG("kind %d, %s, again", kind, kinds[kind].what);
		EXPECT_EQ(old, set_limit(kinds[kind].what, old) == LIMIT ? old : 0);
	}
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, other.id));
}

TEST_F(limits, one_user_at_its_limit_does_not_keep_another_from_its_own)
{
	struct distmind_vgpu_record other = self->vgpu;
	long old = set_limit("queues", LIMIT);
	struct maker maker;
	pid_t pid;

	ASSERT_LT(0, old);
	other.uid = other.gid = SOMEONE;
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &other));
	pid = fork();
	if (!pid) {
		if (become(NOBODY) || maker_init(&maker, self->vgpu.id))
			_exit(CANNOT_BEGIN);
		while (!make_queue(&maker))
			;
		if (make_queue(&maker) != -EDQUOT)
			_exit(WRONG_ERROR);
		raise(SIGSTOP);
		_exit(ALL_RIGHT);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, WUNTRACED));
	EXPECT_EQ(ALL_RIGHT, AS(SOMEONE, maker_init(&maker, other.id) || make_queue(&maker)));
	/* Nor is root limited, whose limits these are. */
	EXPECT_EQ(0, maker_init(&maker, self->vgpu.id));
	for (int i = 0; i < 2 * LIMIT; i++)
		EXPECT_EQ(0, make_queue(&maker));
	close(maker.timeline);
	close(maker.vgpu);
	kill(pid, SIGCONT);
	EXPECT_EQ(ALL_RIGHT, child_status(pid));
	EXPECT_EQ(LIMIT, set_limit("queues", old));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, other.id));
}

/* Asks for a vgpu; prints nothing, says whether the reason names the limit. */
static int ask_too_many(void)
{
	struct distmind_acquire acquire = {
		.memory = PAGE, .share = 1, .count = LIMIT + 1, .timeout_ms = 1000,
	};
	int32_t fds[LIMIT + 1];
	int control = open_node("control");
	int err;

	acquire.fds = (uintptr_t)fds;
	err = call(control, DISTMIND_IOC_ACQUIRE, &acquire);
	if (err != -EDQUOT)
		return WRONG_ERROR;
	return strstr(acquire.reason, "vgpus") ? ALL_RIGHT : NOT_SHOWN;
}

TEST_F(limits, a_claim_for_more_vgpus_than_a_user_may_have_is_refused_in_words)
{
	long old = set_limit("vgpus", LIMIT);

	ASSERT_LT(0, old);
	EXPECT_EQ(ALL_RIGHT, AS(NOBODY, ask_too_many()));
	EXPECT_EQ(0, AS(NOBODY, used("vgpus")));
	EXPECT_EQ(LIMIT, set_limit("vgpus", old));
}

TEST_HARNESS_MAIN
