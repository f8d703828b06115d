// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Everything that somebody without privileges can create has a limit for each user: it is
 * reached with an error that says so, others do not notice, and what is given back counts
 * no more.
 */
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "importer/importer.h"
#include "kselftest_harness.h"
#include "library_test.h"

#define NOBODY	65534
#define SOMEONE	1234
#define LIMIT	20
#define IMPORTER "/dev/distmind-test-importer"

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
	uint64_t request;
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

/* By a device, for who has it attach. */
static int make_attachment(struct maker *maker)
{
	struct distmind_buffer_export export = { .handle = maker->buffer };
	int importer = open(IMPORTER, O_RDWR), err;
	struct importer_call attach = { .op = IMPORTER_ATTACH };

	if (importer < 0)
		return -errno;
	err = call(maker->vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export);
	if (err)
		return err;
	attach.value = export.fd;
	err = call(importer, IMPORTER_CALL, &attach);
	close(export.fd);
	return err;
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
	struct distmind_handle_destroy destroy = { .handle = create.handle };
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

/* One that has jobs no more, and may get others. */
static int make_request(struct maker *maker)
{
	struct distmind_job_desc job = { .type = DISTMIND_JOB_BARRIER };
	struct distmind_submit submit = {
		.queue = maker->queue, .jobs = (uintptr_t)&job, .job_count = 1,
		.request = ++maker->request,
	};

	return call(maker->vgpu, DISTMIND_IOC_SUBMIT, &submit);
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
	{ "attachments", make_attachment, -EDQUOT },
	{ "timelines", make_timeline, -EDQUOT },
	{ "watches", make_watch, -EDQUOT },
	{ "queues", make_queue, -EDQUOT },
	{ "queues", make_queue_page, -EDQUOT },
	{ "requests", make_request, -EDQUOT },
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
	maker->request = 0;
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
	ASSERT_EQ(0, chmod(IMPORTER, 0666));
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

/* Also one that is at its limit goes on with what it has begun. */
static int go_on_at_the_limit(uint32_t id)
{
	struct maker maker;
	int err;

	if (maker_init(&maker, id))
		return CANNOT_BEGIN;
	do {
		err = make_request(&maker);
	} while (!err && maker.request <= LIMIT);
	if (err != -EDQUOT)
		return err ? WRONG_ERROR : TOO_MANY;
	maker.request = 0;
	return make_request(&maker) ? TOO_FEW : ALL_RIGHT;
}

TEST_F(limits, a_request_that_is_open_takes_more_jobs_of_a_user_who_has_all_it_may_have)
{
	long old = set_limit("requests", LIMIT);

	ASSERT_LT(0, old);
	EXPECT_EQ(ALL_RIGHT, AS(NOBODY, go_on_at_the_limit(self->vgpu.id)));
	EXPECT_EQ(LIMIT, set_limit("requests", old));
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

/* What a user hands to others. */
struct gift {
	struct maker maker;
	int buffer; /* a dma-buf */
};

static int give(struct gift *gift, uint32_t id, uid_t uid)
{
	struct distmind_buffer_export export = { 0 };
	int err = seteuid(uid) || maker_init(&gift->maker, id);

	export.handle = gift->maker.buffer;
	err = err || call(gift->maker.vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export);
	gift->buffer = export.fd;
	return seteuid(0) || err;
}

/* Makes dma-bufs of the buffer that it was given. */
static int spread_buffer(uint32_t id, const struct gift *gift)
{
	struct distmind_buffer_import import = { .fd = gift->buffer };
	struct maker maker = { .vgpu = open_vgpu(id) };
	int err = 0, made = 0;

	if (maker.vgpu < 0 || call(maker.vgpu, DISTMIND_IOC_BUFFER_IMPORT, &import))
		return CANNOT_BEGIN;
	maker.buffer = import.handle;
	for (; !err && made <= LIMIT; made += !err)
		err = make_dmabuf(&maker);
	if (err != -EDQUOT)
		return err ? WRONG_ERROR : TOO_MANY;
	return made == LIMIT ? ALL_RIGHT : TOO_FEW;
}

/* Maps the timeline that it was given. */
static int spread_timeline(uint32_t id, const struct gift *gift)
{
	struct maker maker = { .timeline = gift->maker.timeline };
	int err = 0, made = 0;

	for (; !err && made <= LIMIT; made += !err)
		err = make_mapping(&maker);
	if (err != -EDQUOT)
		return err ? WRONG_ERROR : TOO_MANY;
	return made == LIMIT ? ALL_RIGHT : TOO_FEW;
}

typedef int (*spreader)(uint32_t id, const struct gift *gift);

/* @uid gives, another one spreads until it is refused; then the giver has what it had. */
static int hand_over(uint32_t from, uid_t uid, uint32_t to, spreader spread)
{
	int result = CANNOT_BEGIN, ends[2];
	struct gift gift;
	pid_t pid;

	if (give(&gift, from, uid) || pipe(ends))
		return CANNOT_BEGIN;
	pid = fork();
	if (!pid) {
		result = become(NOBODY) ? CANNOT_BEGIN : spread(to, &gift);
		if (write(ends[1], &result, sizeof(result)) == sizeof(result))
			pause();
		_exit(1);
	}
	if (read(ends[0], &result, sizeof(result)) != sizeof(result))
		result = CANNOT_BEGIN;
	/* It has given two of them away. */
	for (int i = 0; !result && i < LIMIT - 2; i++)
		result = make_export(&gift.maker) ? TOO_FEW : ALL_RIGHT;
	kill(pid, SIGKILL);
	return child_status(pid) == 128 + SIGKILL ? result : CANNOT_BEGIN;
}

TEST_F(limits, what_is_made_of_anothers_buffer_or_timeline_counts_for_who_makes_it)
{
	static const spreader spreads[] = { spread_buffer, spread_timeline };
	/* Whoever is not limited hands out no exemption. */
	static const uid_t givers[] = { SOMEONE, 0 };
	struct distmind_vgpu_record other = self->vgpu;
	long old = set_limit("exports", LIMIT);

	ASSERT_LT(0, old);
	other.uid = other.gid = SOMEONE;
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &other));
	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(hand_over(other.id, givers[i % 2], self->vgpu.id, spreads[i / 2]));
		EXPECT_EQ(ALL_RIGHT, child_status(pid)) TH_LOG("by %u, way %d", givers[i % 2], i / 2);
	}
	EXPECT_EQ(LIMIT, set_limit("exports", old));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, other.id));
}

/* What the listing says of one thing that a user may have. */
struct seen {
	uint32_t uid;
	const char *what;
	struct distmind_limit_record record;
	int found, others;
};

static int see(const struct distmind_limit_record *limit, void *arg)
{
	struct seen *seen = arg;

	if (limit->uid != seen->uid || limit->container) {
		seen->others++;
	} else if (!strcmp(limit->what, seen->what)) {
		seen->record = *limit;
		seen->found++;
	}
	return 0;
}

/* It has LIMIT queues and was refused one more, twice. */
static int see_own(uint32_t id)
{
	struct seen seen = { .uid = NOBODY, .what = "queues" };
	struct distmind_pool *pool;
	struct maker maker;

	if (maker_init(&maker, id) || distmind_pool_open(&pool))
		return CANNOT_BEGIN;
	while (!make_queue(&maker))
		;
	if (make_queue(&maker) != -EDQUOT)
		return WRONG_ERROR;
	if (distmind_pool_limits(pool, see, &seen) || seen.found != 1 || seen.others)
		return seen.others ? TOO_MANY : NOT_SHOWN;
	return seen.record.used == LIMIT && seen.record.allowed == LIMIT &&
	       seen.record.refused == 2 ? ALL_RIGHT : WRONG_ERROR;
}

TEST_F(limits, what_users_have_is_shown_to_themselves_and_to_root)
{
	long old = set_limit("queues", LIMIT);
	struct seen theirs = { .uid = NOBODY, .what = "queues" };
	struct seen ours = { .uid = 0, .what = "files" };
	int err, control = open_node("control");
	pid_t pid;

	ASSERT_LT(0, old);
	pid = fork();
	if (!pid) {
		err = become(NOBODY) ? CANNOT_BEGIN : see_own(self->vgpu.id);
		if (!err)
			raise(SIGSTOP);
		_exit(err);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, WUNTRACED));
	ASSERT_EQ(0, distmind_pool_limits(self->pool, see, &theirs));
	EXPECT_EQ(1, theirs.found);
	EXPECT_EQ(LIMIT, theirs.record.used);
	EXPECT_EQ(2, theirs.record.refused);
	ASSERT_EQ(0, distmind_pool_limits(self->pool, see, &ours));
	EXPECT_EQ(1, ours.found);
	EXPECT_LE(1, ours.record.used);
	EXPECT_EQ(UINT32_MAX, ours.record.allowed);
	kill(pid, SIGCONT);
	EXPECT_EQ(ALL_RIGHT, child_status(pid));
	/* It has nothing any more, and so no account. */
	theirs.found = 0;
	ASSERT_EQ(0, distmind_pool_limits(self->pool, see, &theirs));
	EXPECT_EQ(0, theirs.found);
	close(control);
	EXPECT_EQ(LIMIT, set_limit("queues", old));
}

TEST_HARNESS_MAIN
