// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every allocation of every call can fail: the call says so, and nothing of it is left.
 *
 * The kernel's fault injection has the nth object of the slabs that this process asks for
 * fail, for each n until the call succeeds. What an error path forgets shows in what the user
 * has afterwards, in the ledger and in kmemleak. Only the debug kernels have it.
 *
 * time-limit: 300
 */
#include <sys/eventfd.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define FAILSLAB "/sys/kernel/debug/failslab/"

FIXTURE(fault)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	struct distmind_vgpu_record record;
	int vgpu, timeline, event, nth;
	uint32_t buffer, handle, queue;
	void *page; /* what the last call has mapped */
	int fd; /* what it has opened */
	uint32_t made; /* the handle that it has made */
	uint64_t request;
};

static void run_at_once(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	next->status = 0;
}

static int write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return -errno;
	fputs(text, file);
	return fclose(file);
}

FIXTURE_SETUP(fault)
{
	struct distmind_engine_params params = {
		.name = "fault", .kind = "test", .memory = 16 * MiB,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
	};
	struct distmind_timeline_create timeline = { 0 };
	struct distmind_timeline_export export = { .flags = DISTMIND_EXPORT_RDWR };
	struct distmind_queue_create queue = { .depth = 64 };
	struct distmind_buffer_create buffer;

	if (access(FAILSLAB, F_OK))
		SKIP(return, "this kernel has no fault injection");
	/* Also of those that may sleep; and without a trace of each in the log. */
	ASSERT_EQ(0, write_text(FAILSLAB "ignore-gfp-wait", "N"));
	ASSERT_EQ(0, write_text(FAILSLAB "verbose", "0"));
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_at_once));
	self->record = (struct distmind_vgpu_record){
		.gpu = distmind_engine_gpu(self->gpu.engine), .memory = 16 * MiB, .share = 100,
	};
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &self->record));
	self->vgpu = open_vgpu(self->record.id);
	ASSERT_LE(0, self->vgpu);
	ASSERT_EQ(0, buffer_create(self->vgpu, MiB, &buffer));
	self->buffer = buffer.handle;
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_TIMELINE_CREATE, &timeline));
	self->handle = export.handle = timeline.handle;
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_TIMELINE_EXPORT, &export));
	self->timeline = export.fd;
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_QUEUE_CREATE, &queue));
	self->queue = queue.handle;
	self->event = eventfd(0, EFD_CLOEXEC);
	self->nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->nth);
	self->request = 0;
}

FIXTURE_TEARDOWN(fault)
{
	if (access(FAILSLAB, F_OK))
		return;
	close(self->nth);
	close(self->event);
	close(self->timeline);
	close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->record.id);
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
	write_text(FAILSLAB "ignore-gfp-wait", "Y");
}

typedef FIXTURE_DATA(fault) bed;

/* Each of these is one call, which makes something, and how that is unmade. */

static int open_file(bed *self)
{
	self->fd = open_vgpu(self->record.id);
	return self->fd < 0 ? self->fd : 0;
}

static void close_file(bed *self)
{
	close(self->fd);
}

static int make_buffer(bed *self)
{
	struct distmind_buffer_create create = { .size = 2 * MiB };
	int err = call(self->vgpu, DISTMIND_IOC_BUFFER_CREATE, &create);

	self->made = create.handle;
	return err;
}

static void unmake_buffer(bed *self)
{
	buffer_destroy(self->vgpu, self->made);
}

static int export_buffer(bed *self)
{
	struct distmind_buffer_export export = { .handle = self->buffer };
	int err = call(self->vgpu, DISTMIND_IOC_BUFFER_EXPORT, &export);

	self->fd = export.fd;
	return err;
}

static int make_timeline(bed *self)
{
	struct distmind_timeline_create create = { 0 };
	int err = call(self->vgpu, DISTMIND_IOC_TIMELINE_CREATE, &create);

	self->made = create.handle;
	return err;
}

static void unmake_timeline(bed *self)
{
	struct distmind_handle_destroy destroy = { .handle = self->made };

	call(self->vgpu, DISTMIND_IOC_TIMELINE_DESTROY, &destroy);
}

static int export_timeline(bed *self)
{
	struct distmind_timeline_export export = { .handle = self->handle };
	int err = call(self->vgpu, DISTMIND_IOC_TIMELINE_EXPORT, &export);

	self->fd = export.fd;
	return err;
}

static int import_timeline(bed *self)
{
	struct distmind_timeline_import import = { .fd = self->timeline };
	int err = call(self->vgpu, DISTMIND_IOC_TIMELINE_IMPORT, &import);

	self->made = import.handle;
	return err;
}

static int map_timeline(bed *self)
{
	self->page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, self->timeline, 0);
	return self->page == MAP_FAILED ? -errno : 0;
}

static void unmap(bed *self)
{
	munmap(self->page, PAGE);
}

/* It goes with the timeline. */
static int watch_timeline(bed *self)
{
	struct distmind_timeline_watch watch = { .value = ~0ULL, .eventfd = self->event };

	return call(self->timeline, DISTMIND_IOC_TIMELINE_WATCH, &watch);
}

static int make_queue(bed *self)
{
	struct distmind_queue_create create = { .depth = 1 };
	int err = call(self->vgpu, DISTMIND_IOC_QUEUE_CREATE, &create);

	self->made = create.handle;
	return err;
}

static void unmake_queue(bed *self)
{
	struct distmind_handle_destroy destroy = { .handle = self->made };

	call(self->vgpu, DISTMIND_IOC_QUEUE_DESTROY, &destroy);
}

/* Three jobs with all that a job can have, of which the last signals what was not reached. */
static int submit_as(bed *self, uint64_t request)
{
	static uint64_t value;
	struct distmind_arg arg = { .buffer = self->buffer, .length = MiB };
	struct distmind_wait wait = { .timeline = self->handle };
	struct distmind_job_desc jobs[3] = {
		{ .type = DISTMIND_JOB_BARRIER, .waits = 1 },
		{ .type = DISTMIND_JOB_LAUNCH, .blocks = 1, .args = 1 },
		{
			.type = DISTMIND_JOB_LAUNCH, .blocks = 1, .args = 1, .waits = 1,
			.signal = self->handle, .signal_value = value + 1,
		},
	};
	struct distmind_submit submit = {
		.queue = self->queue, .jobs = (uintptr_t)jobs, .job_count = 3,
		.args = (uintptr_t)&arg, .arg_count = 1, .waits = (uintptr_t)&wait, .wait_count = 1,
		.request = request, .flags = request ? DISTMIND_SUBMIT_LAST : 0,
	};
	int err = call(self->vgpu, DISTMIND_IOC_SUBMIT, &submit);

	value += !err;
	return err;
}

static int submit_jobs(bed *self)
{
	return submit_as(self, 0);
}

static int submit_request(bed *self)
{
	return submit_as(self, ++self->request);
}

static void nothing(bed *self)
{
}

static const struct {
	const char *what;
	int (*make)(bed *self);
	void (*unmake)(bed *self);
} calls[] = {
	{ "open a vgpu", open_file, close_file },
	{ "create a buffer", make_buffer, unmake_buffer },
	{ "export a buffer", export_buffer, close_file },
	{ "create a timeline", make_timeline, unmake_timeline },
	{ "export a timeline", export_timeline, close_file },
	{ "import a timeline", import_timeline, unmake_timeline },
	{ "map a timeline", map_timeline, unmap },
	{ "create a queue", make_queue, unmake_queue },
	{ "submit jobs", submit_jobs, nothing },
	{ "submit a request", submit_request, nothing },
	/* What this makes stays, so it is the last one. */
	{ "watch a timeline", watch_timeline, nothing },
};

/* What the user has of all that is counted, as text; jobs and waits end by and by. */
static void usage(bed *self, char *text, size_t size)
{
	char path[64], line[128];
	FILE *file;

	text[0] = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->vgpu);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "distmind-", 9) && !strstr(line, "requests") &&
		    !strstr(line, "jobs") && !strstr(line, "waits") &&
		    strlen(text) + strlen(line) < size)
			strcat(text, line);
	}
	if (file)
		fclose(file);
}

/* Has the nth allocation of the call fail; returns whether there was one. */
static bool make_failing(bed *self, int index, int nth, int *err)
{
	char text[16] = { 0 };
	bool failed;

	snprintf(text, sizeof(text), "%d", nth);
	if (pwrite(self->nth, text, strlen(text), 0) < 0) {
		*err = -errno;
		return false;
	}
	*err = calls[index].make(self);
	memset(text, 0, sizeof(text));
	failed = pread(self->nth, text, sizeof(text) - 1, 0) > 0 && !atoi(text);
	if (pwrite(self->nth, "0", 1, 0) < 0)
		*err = -errno;
	return failed;
}

#define TRIES 1000

TEST_F_TIMEOUT(fault, a_call_that_lacks_memory_fails_and_leaves_nothing, 240)
{
	char before[1024], after[1024];

	for (int i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		int err = -ENOMEM, nth = 1;

		usage(self, before, sizeof(before));
		for (; nth < TRIES; nth++) {
			bool failed = make_failing(self, i, nth, &err);

			if (err) {
				EXPECT_EQ(-ENOMEM, err) TH_LOG("%s, allocation %d", calls[i].what, nth);
				if (!failed)
					break;
				usage(self, after, sizeof(after));
				EXPECT_STREQ(before, after)
					TH_LOG("%s, allocation %d", calls[i].what, nth);
				continue;
			}
			calls[i].unmake(self);
			/* It can do without that one, or had all it wanted. */
			if (!failed)
				break;
		}
		EXPECT_EQ(0, err) TH_LOG("%s", calls[i].what);
		EXPECT_LT(1, nth) TH_LOG("%s allocates nothing", calls[i].what);
	}
}

TEST_HARNESS_MAIN
