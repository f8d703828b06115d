// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Queues, jobs and timelines: what runs, in which order, and what fails. The
 * engine is a thread of the test.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What the test's engine does with a launch: its operations. */
enum {
	OP_NOTE,  /* note the first argument */
	OP_FAIL,  /* fail with the first argument */
	OP_STORE, /* write the second argument to the range in the first */
	OP_SPIN,  /* blocks of 1 ms until told to yield */
	OP_HANG,  /* until the lane is reset */
};

FIXTURE(execute)
{
	struct distmind_pool *pool;
	int engine, vgpu;
	uint32_t gpu, id;
	char *heap;
	volatile struct distmind_lane_page *pages;
	pthread_t threads[3];
	uint64_t notes[4096];
	unsigned int noted;
	unsigned int yields;
};

struct lane {
	FIXTURE_DATA(execute) *self;
	uint32_t number;
};

static struct lane lanes[3];

static void run_job(FIXTURE_DATA(execute) *self, volatile struct distmind_lane_page *page,
		    const struct distmind_engine_job *job, struct distmind_engine_exchange *next)
{
	next->status = 0;
	if (job->type == DISTMIND_JOB_COPY) {
		memmove(self->heap + job->arg[0].value, self->heap + job->arg[1].value,
			job->arg[0].length);
		return;
	}
	switch (job->operation) {
	case OP_NOTE:
		self->notes[__atomic_fetch_add(&self->noted, 1, __ATOMIC_SEQ_CST)] = job->arg[0].value;
		break;
	case OP_FAIL:
		next->status = -(int)job->arg[0].value;
		break;
	case OP_STORE:
		memset(self->heap + job->arg[0].value, job->arg[1].value, job->arg[0].length);
		break;
	case OP_HANG:
		while (!page->reset)
			usleep(1000);
		break;
	case OP_SPIN:
		for (next->cookie = job->cookie; next->cookie < job->blocks; next->cookie++) {
			usleep(1000);
			if (page->yield) {
				__atomic_fetch_add(&self->yields, 1, __ATOMIC_SEQ_CST);
				next->cookie++;
				next->status = DISTMIND_DONE_YIELDED;
				return;
			}
		}
		break;
	}
}

static void *lane_thread(void *arg)
{
	struct lane *lane = arg;
	FIXTURE_DATA(execute) *self = lane->self;
	struct distmind_engine_exchange exchange = { .lane = lane->number, .timeout_ms = 60000 };

	for (;;) {
		int err = call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &exchange);

		if (err == -ENODEV || err == -EBADF)
			return NULL;
		exchange.done = 0;
		if (err)
			continue;
		run_job(self, (void *)((char *)self->pages + lane->number * PAGE), &exchange.job, &exchange);
		exchange.done = exchange.job.id;
	}
}

FIXTURE_SETUP(execute)
{
	struct distmind_engine_register reg = {
		.heap_size = 16 * MiB, .numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
		.capabilities = DISTMIND_ENGINE__ALL,
		.copy_lanes = 1, .name = "execute", .kind = "test",
	};

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = open_node("engine");
	ASSERT_LE(0, self->engine);
	ASSERT_EQ(0, call(self->engine, DISTMIND_IOC_ENGINE_REGISTER, &reg));
	self->gpu = reg.gpu;
	self->heap = mmap(NULL, 16 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED, self->engine, 0);
	ASSERT_NE(MAP_FAILED, self->heap);
	self->pages = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, self->engine,
			   DISTMIND_LANE_MAP_OFFSET);
	ASSERT_NE(MAP_FAILED, self->pages);
	for (uint32_t i = 0; i < 2; i++) {
		lanes[i] = (struct lane){ self, i };
		ASSERT_EQ(0, pthread_create(&self->threads[i], NULL, lane_thread, &lanes[i]));
	}
	self->vgpu = vgpu_start(self->pool, self->gpu, 8 * MiB, &self->id);
	ASSERT_LE(0, self->vgpu);
}

FIXTURE_TEARDOWN(execute)
{
	close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	for (int i = 0; i < 2; i++)
		pthread_join(self->threads[i], NULL);
	munmap(self->heap, 16 * MiB);
	munmap((void *)self->pages, 2 * PAGE);
	close(self->engine);
	distmind_pool_close(self->pool);
}

static uint32_t new_queue(int vgpu, uint32_t kind, uint32_t depth)
{
	struct distmind_queue_create create = { .kind = kind, .depth = depth };

	return call(vgpu, DISTMIND_IOC_QUEUE_CREATE, &create) ? 0 : create.handle;
}

/* A timeline: its handle, and a descriptor of it. */
static uint32_t new_timeline(int vgpu, int *fd)
{
	struct distmind_timeline_create create = { 0 };
	struct distmind_timeline_export export = {
		.flags = DISTMIND_EXPORT_RDWR | DISTMIND_EXPORT_CLOEXEC,
	};

	if (call(vgpu, DISTMIND_IOC_TIMELINE_CREATE, &create))
		return 0;
	export.handle = create.handle;
	if (call(vgpu, DISTMIND_IOC_TIMELINE_EXPORT, &export))
		return 0;
	*fd = export.fd;
	return create.handle;
}

static int wait_for(int timeline, uint64_t value)
{
	struct distmind_timeline_wait wait = { .value = value, .timeout_ms = 10000 };

	return call(timeline, DISTMIND_IOC_TIMELINE_WAIT, &wait);
}

static int signal_to(int timeline, uint64_t value)
{
	struct distmind_timeline_signal signal = { .value = value };

	return call(timeline, DISTMIND_IOC_TIMELINE_SIGNAL, &signal);
}

struct batch {
	struct distmind_job_desc jobs[256];
	struct distmind_arg args[256];
	struct distmind_wait waits[256];
	struct distmind_submit submit;
};

static struct distmind_job_desc *add_job(struct batch *batch, uint32_t type, uint32_t operation)
{
	struct distmind_job_desc *job = &batch->jobs[batch->submit.job_count++];

	*job = (struct distmind_job_desc){
		.type = type, .operation = operation, .blocks = type == DISTMIND_JOB_LAUNCH,
		.first_arg = batch->submit.arg_count, .first_wait = batch->submit.wait_count,
	};
	return job;
}

static void add_number(struct batch *batch, struct distmind_job_desc *job, uint64_t value)
{
	batch->args[batch->submit.arg_count++] = (struct distmind_arg){ .value = value };
	job->args++;
}

static void add_range(struct batch *batch, struct distmind_job_desc *job, uint32_t buffer,
		      uint64_t offset, uint64_t length)
{
	batch->args[batch->submit.arg_count++] = (struct distmind_arg){
		.buffer = buffer, .value = offset, .length = length,
	};
	job->args++;
}

static void add_wait(struct batch *batch, struct distmind_job_desc *job, uint32_t timeline,
		     uint64_t value)
{
	batch->waits[batch->submit.wait_count++] = (struct distmind_wait){
		.timeline = timeline, .value = value,
	};
	job->waits++;
}

static void add_signal(struct distmind_job_desc *job, uint32_t timeline, uint64_t value)
{
	job->signal = timeline;
	job->signal_value = value;
}

static int submit(int vgpu, uint32_t queue, struct batch *batch)
{
	batch->submit.queue = queue;
	batch->submit.jobs = (uintptr_t)batch->jobs;
	batch->submit.args = (uintptr_t)batch->args;
	batch->submit.waits = (uintptr_t)batch->waits;
	return call(vgpu, DISTMIND_IOC_SUBMIT, &batch->submit);
}

/* One job that notes a number and signals. */
static int submit_note(int vgpu, uint32_t queue, uint64_t number, uint32_t timeline, uint64_t value)
{
	struct batch batch = { 0 };
	struct distmind_job_desc *job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);

	add_number(&batch, job, number);
	add_signal(job, timeline, value);
	return submit(vgpu, queue, &batch);
}

TEST_F(execute, jobs_of_a_queue_run_in_order)
{
	struct batch batch = { 0 };
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 1000), timeline;
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	ASSERT_NE(0, queue);
	ASSERT_NE(0, timeline);
	for (uint64_t i = 0; i < 200; i++) {
		struct distmind_job_desc *job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);

		add_number(&batch, job, i);
		add_signal(job, timeline, i + 1);
	}
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	ASSERT_EQ(0, wait_for(fd, 200));
	ASSERT_EQ(200, self->noted);
	for (uint64_t i = 0; i < 200; i++)
		EXPECT_EQ(i, self->notes[i]);
	close(fd);
}

TEST_F(execute, a_job_reaches_the_buffers_it_names)
{
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	uint32_t compute = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8);
	uint32_t copy = new_queue(self->vgpu, DISTMIND_LANE_COPY, 8);
	uint32_t a, b, timeline;
	char *one = buffer_new(self->vgpu, MiB, &a), *two = buffer_new(self->vgpu, MiB, &b);
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_STORE);
	add_range(&batch, job, a, 4096, 8192);
	add_number(&batch, job, 0x42);
	add_signal(job, timeline, 1);
	ASSERT_EQ(0, submit(self->vgpu, compute, &batch));
	memset(&batch, 0, sizeof(batch));
	job = add_job(&batch, DISTMIND_JOB_COPY, 0);
	add_range(&batch, job, b, 100, 8192);
	add_range(&batch, job, a, 4096, 8192);
	add_wait(&batch, job, timeline, 1);
	add_signal(job, timeline, 2);
	ASSERT_EQ(0, submit(self->vgpu, copy, &batch));
	ASSERT_EQ(0, wait_for(fd, 2));
	EXPECT_TRUE(all_bytes(one, 4096, 0));
	EXPECT_TRUE(all_bytes(one + 4096, 8192, 0x42));
	EXPECT_TRUE(all_bytes(two + 100, 8192, 0x42));
	EXPECT_EQ(0, two[99]);
	munmap(one, MiB);
	munmap(two, MiB);
	close(fd);
}

TEST_F(execute, timelines_order_queues)
{
	uint32_t first = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8);
	uint32_t second = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8);
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	uint32_t timeline;
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);
	add_number(&batch, job, 2);
	add_wait(&batch, job, timeline, 10);
	add_signal(job, timeline, 11);
	ASSERT_EQ(0, submit(self->vgpu, second, &batch));
	EXPECT_EQ(0, self->noted);
	ASSERT_EQ(0, submit_note(self->vgpu, first, 1, timeline, 10));
	ASSERT_EQ(0, wait_for(fd, 11));
	EXPECT_EQ(1, self->notes[0]);
	EXPECT_EQ(2, self->notes[1]);
	close(fd);
}

TEST_F(execute, a_failure_fails_what_depends_on_it_with_its_cause)
{
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8);
	uint32_t other = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8);
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	uint32_t a, b;
	int fa, fb;

	a = new_timeline(self->vgpu, &fa);
	b = new_timeline(self->vgpu, &fb);
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);
	add_number(&batch, job, 99);
	add_wait(&batch, job, a, 2);
	add_signal(job, b, 1);
	ASSERT_EQ(0, submit(self->vgpu, other, &batch));
	memset(&batch, 0, sizeof(batch));
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);
	add_number(&batch, job, 1);
	add_signal(job, a, 1);
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_FAIL);
	add_number(&batch, job, EDOM);
	add_signal(job, a, 2);
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	EXPECT_EQ(0, wait_for(fa, 1));
	EXPECT_EQ(-EDOM, wait_for(fa, 2));
	EXPECT_EQ(-EDOM, wait_for(fb, 1));
	EXPECT_EQ(1, self->noted);
	close(fa);
	close(fb);
}

/* Also one that the module itself uses for "not yet". */
TEST_F(execute, whatever_a_timeline_fails_with_ends_the_wait_for_it)
{
	struct distmind_timeline_fail fail = { .value = 1, .error = -EAGAIN };
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8);
	struct distmind_timeline_signal from = { .value = 1 };
	struct pollfd polled = { .events = POLLIN };
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	uint32_t a, b;
	int fa, fb;

	a = new_timeline(self->vgpu, &fa);
	b = new_timeline(self->vgpu, &fb);
	for (int i = 0; i < 2; i++) {
		/* One that waits already, and one that comes when it has failed. */
		memset(&batch, 0, sizeof(batch));
		job = add_job(&batch, DISTMIND_JOB_BARRIER, 0);
		add_wait(&batch, job, a, 1);
		add_signal(job, b, 1 + i);
		ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
		if (!i)
			ASSERT_EQ(0, call(fa, DISTMIND_IOC_TIMELINE_FAIL, &fail));
		EXPECT_EQ(-EAGAIN, wait_for(fb, 1 + i));
	}
	EXPECT_EQ(-EAGAIN, wait_for(fa, 1));
	ASSERT_EQ(0, call(fa, DISTMIND_IOC_TIMELINE_POLL, &from));
	polled.fd = fa;
	EXPECT_EQ(1, poll(&polled, 1, 0));
	EXPECT_EQ(POLLIN | POLLERR, polled.revents);
	close(fa);
	close(fb);
}

TEST_F(execute, a_long_chain_of_barriers_ends_at_one_signal)
{
	uint32_t queues[64], timeline;
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	for (uint64_t q = 0; q < COUNT(queues); q++) {
		struct batch batch = { 0 };

		queues[q] = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 256);
		for (uint64_t i = 0; i < 100; i++) {
			struct distmind_job_desc *job = add_job(&batch, DISTMIND_JOB_BARRIER, 0);

			/* Each waits for the one before it, in the queue before it. */
			add_wait(&batch, job, timeline, 1 + i * COUNT(queues) + q);
			add_signal(job, timeline, 2 + i * COUNT(queues) + q);
		}
		ASSERT_EQ(0, submit(self->vgpu, queues[q], &batch));
	}
	ASSERT_EQ(0, signal_to(fd, 1));
	EXPECT_EQ(0, wait_for(fd, 1 + 100 * COUNT(queues)));
	close(fd);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Somebody who wants to run all the time, and for how long he could not. */
struct bystander {
	bool quit;
	uint64_t longest_ns;
};

static void *stand_by(void *arg)
{
	struct bystander *bystander = arg;
	uint64_t now, last = now_ns();

	while (!__atomic_load_n(&bystander->quit, __ATOMIC_RELAXED)) {
		now = now_ns();
		if (now - last > bystander->longest_ns)
			bystander->longest_ns = now - last;
		last = now;
	}
	return NULL;
}

/* 65536 barriers, each of which waits for the same 240 times. */
TEST_F_TIMEOUT(execute, a_signal_that_ends_many_jobs_lets_others_in_between, 120)
{
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, DISTMIND_QUEUE_DEPTH_MAX);
	struct distmind_job_desc *jobs = calloc(DISTMIND_SUBMIT_MAX, sizeof(*jobs));
	struct distmind_timeline_wait all = { .value = DISTMIND_QUEUE_DEPTH_MAX, .timeout_ms = 100000 };
	struct bystander bystander = { 0 };
	struct distmind_wait waits[240];
	struct distmind_submit submit = {
		.jobs = (uintptr_t)jobs, .waits = (uintptr_t)waits, .queue = queue,
		.job_count = DISTMIND_SUBMIT_MAX, .wait_count = COUNT(waits),
	};
	uint32_t go, done;
	pthread_t thread;
	uint64_t took;
	int fg, fd;

	go = new_timeline(self->vgpu, &fg);
	done = new_timeline(self->vgpu, &fd);
	for (int i = 0; i < COUNT(waits); i++)
		waits[i] = (struct distmind_wait){ .timeline = go, .value = 1 };
	for (uint64_t i = 0; i < DISTMIND_QUEUE_DEPTH_MAX; i += DISTMIND_SUBMIT_MAX) {
		for (int j = 0; j < DISTMIND_SUBMIT_MAX; j++)
			jobs[j] = (struct distmind_job_desc){
				.type = DISTMIND_JOB_BARRIER, .waits = COUNT(waits),
				.signal = done, .signal_value = i + j + 1,
			};
		ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_SUBMIT, &submit));
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, stand_by, &bystander));
	took = now_ns();
	ASSERT_EQ(0, signal_to(fg, 1));
	EXPECT_EQ(0, call(fd, DISTMIND_IOC_TIMELINE_WAIT, &all));
	took = now_ns() - took;
	__atomic_store_n(&bystander.quit, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_GT(took / 5, bystander.longest_ns);
	free(jobs);
	close(fg);
	close(fd);
}

TEST_F(execute, a_full_queue_says_so_and_takes_nothing)
{
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 4), timeline;
	struct batch batch = { 0 };
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	for (int i = 0; i < 3; i++) {
		struct distmind_job_desc *job = add_job(&batch, DISTMIND_JOB_BARRIER, 0);

		add_wait(&batch, job, timeline, 1);
	}
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	EXPECT_EQ(-EAGAIN, submit(self->vgpu, queue, &batch));
	batch.submit.job_count = 1;
	EXPECT_EQ(0, submit(self->vgpu, queue, &batch));
	EXPECT_EQ(-EAGAIN, submit(self->vgpu, queue, &batch));
	ASSERT_EQ(0, signal_to(fd, 1));
	EXPECT_EQ(0, submit(self->vgpu, queue, &batch));
	close(fd);
}

TEST_F(execute, a_timeline_is_read_polled_and_watched)
{
	struct distmind_timeline_signal from = { .value = 5 };
	struct distmind_timeline_watch watch = { .value = 5, .eventfd = eventfd(0, EFD_NONBLOCK) };
	const volatile struct distmind_timeline_page *page;
	struct pollfd pfd = { .events = POLLIN };
	struct pollfd told = { .fd = watch.eventfd, .events = POLLIN };
	uint64_t value;

	ASSERT_NE(0, new_timeline(self->vgpu, &pfd.fd));
	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, pfd.fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, pfd.fd, 0));
	EXPECT_EQ(-1, mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, call(pfd.fd, DISTMIND_IOC_TIMELINE_POLL, &from));
	ASSERT_EQ(0, call(pfd.fd, DISTMIND_IOC_TIMELINE_WATCH, &watch));
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	ASSERT_EQ(0, signal_to(pfd.fd, 4));
	EXPECT_EQ(4, page->value);
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	EXPECT_EQ(-1, read(watch.eventfd, &value, 8));
	ASSERT_EQ(0, signal_to(pfd.fd, 7));
	EXPECT_EQ(-EINVAL, signal_to(pfd.fd, 7));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	/* It is told at its own expense, so a little later. */
	EXPECT_EQ(1, poll(&told, 1, 10000));
	EXPECT_EQ(8, read(watch.eventfd, &value, 8));
	EXPECT_EQ(7, page->value);
	EXPECT_EQ(UINT64_MAX, page->failed_value);
	munmap((void *)page, PAGE);
	close(watch.eventfd);
	close(pfd.fd);
}

TEST_F(execute, a_timeline_passes_to_another_client)
{
	struct distmind_timeline_import import;
	struct distmind_timeline_export readonly = { 0 };
	int other = open_vgpu(self->id);
	uint32_t queue = new_queue(other, DISTMIND_LANE_COMPUTE, 8), timeline;
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	import = (struct distmind_timeline_import){ .fd = fd };
	ASSERT_EQ(0, call(other, DISTMIND_IOC_TIMELINE_IMPORT, &import));
	ASSERT_EQ(0, submit_note(other, queue, 1, import.handle, 3));
	EXPECT_EQ(0, wait_for(fd, 3));
	/* Who can only watch cannot have it signalled. */
	readonly.handle = timeline;
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_TIMELINE_EXPORT, &readonly));
	EXPECT_EQ(-EBADF, signal_to(readonly.fd, 100));
	import.fd = readonly.fd;
	ASSERT_EQ(0, call(other, DISTMIND_IOC_TIMELINE_IMPORT, &import));
	EXPECT_EQ(-EACCES, submit_note(other, queue, 1, import.handle, 4));
	import.fd = 0;
	EXPECT_EQ(-EBADF, call(other, DISTMIND_IOC_TIMELINE_IMPORT, &import));
	close(other);
	close(fd);
	close(readonly.fd);
}

TEST_F(execute, what_is_wrong_with_a_batch_is_said_by_index)
{
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8), handle, timeline;
	struct distmind_job_desc *job;
	struct batch batch;
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	munmap(buffer_new(self->vgpu, MiB, &handle), MiB);
#define REFUSED(error, change)                                                  \
	do {                                                                    \
		memset(&batch, 0, sizeof(batch));                               \
		job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);            \
		add_number(&batch, job, 1);                                     \
		job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_STORE);           \
		change;                                                         \
		EXPECT_EQ(error, submit(self->vgpu, queue, &batch));            \
		EXPECT_EQ(1, batch.submit.failed);                              \
	} while (0)
	REFUSED(-EINVAL, job->type = 3);
	REFUSED(-EINVAL, job->flags = 1);
	REFUSED(-EINVAL, job->pad = 1);
	REFUSED(-EINVAL, job->blocks = 0);
	REFUSED(-EINVAL, job->args = 1);
	REFUSED(-EINVAL, job->first_arg = UINT32_MAX);
	REFUSED(-EINVAL, (job->waits = 1, job->first_wait = UINT32_MAX));
	REFUSED(-EINVAL, job->signal_value = 1);
	REFUSED(-ENOENT, add_signal(job, 77, 1));
	REFUSED(-ENOENT, add_wait(&batch, job, 77, 1));
	REFUSED(-ENOENT, add_range(&batch, job, 77, 0, 1));
	REFUSED(-EINVAL, add_range(&batch, job, handle, 0, 0));
	REFUSED(-ERANGE, add_range(&batch, job, handle, 0, MiB + 1));
	REFUSED(-ERANGE, add_range(&batch, job, handle, UINT64_MAX, 2));
	REFUSED(-ERANGE, add_range(&batch, job, handle, MiB, UINT64_MAX));
	REFUSED(-EOPNOTSUPP, (job->type = DISTMIND_JOB_COPY, job->operation = 0, job->blocks = 0,
			      add_range(&batch, job, handle, 0, 8),
			      add_range(&batch, job, handle, 0, 8)));
	/* Nothing of any of these ran before what comes after them. */
	ASSERT_EQ(0, submit_note(self->vgpu, queue, 2, timeline, 1));
	ASSERT_EQ(0, wait_for(fd, 1));
	EXPECT_EQ(1, self->noted);
	EXPECT_EQ(2, self->notes[0]);
	close(fd);
}

TEST_F(execute, a_latency_job_takes_the_lane_within_a_block)
{
	struct distmind_vgpu_record urgent = {
		.gpu = self->gpu, .memory = MiB, .share = 500,
		.sched_class = DISTMIND_CLASS_LATENCY, .objective_ns = 1000000,
	};
	struct distmind_vgpu_record lazy = { .id = self->id, .sched_class = DISTMIND_CLASS_BEST_EFFORT };
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8), timeline, theirs;
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	int fd, other, other_fd;

	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &lazy, DISTMIND_SET_CLASS));
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &urgent));
	other = open_vgpu(urgent.id);
	timeline = new_timeline(self->vgpu, &fd);
	theirs = new_timeline(other, &other_fd);
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_SPIN);
	job->blocks = 200;
	add_signal(job, timeline, 1);
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	usleep(20000);
	ASSERT_EQ(0, submit_note(other, new_queue(other, DISTMIND_LANE_COMPUTE, 8), 5, theirs, 1));
	ASSERT_EQ(0, wait_for(other_fd, 1));
	/* The long job was interrupted, is not done, and goes on to its end. */
	EXPECT_EQ(1, self->yields);
	EXPECT_EQ(-ETIMEDOUT, call(fd, DISTMIND_IOC_TIMELINE_WAIT,
				   &(struct distmind_timeline_wait){ .value = 1 }));
	EXPECT_EQ(0, wait_for(fd, 1));
	close(other);
	close(fd);
	close(other_fd);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, urgent.id));
}

TEST_F(execute, destroying_a_queue_cancels_what_has_not_started)
{
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8), timeline, later;
	struct distmind_handle_destroy destroy = { .handle = queue };
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	int fd, later_fd;

	timeline = new_timeline(self->vgpu, &fd);
	later = new_timeline(self->vgpu, &later_fd);
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_SPIN);
	job->blocks = 5000;
	add_signal(job, timeline, 1);
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);
	add_number(&batch, job, 1);
	add_signal(job, later, 1);
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	usleep(5000);
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_QUEUE_DESTROY, &destroy));
	EXPECT_EQ(-ECANCELED, wait_for(later_fd, 1));
	EXPECT_EQ(-ECANCELED, wait_for(fd, 1));
	EXPECT_EQ(0, self->noted);
	EXPECT_EQ(-ENOENT, call(self->vgpu, DISTMIND_IOC_QUEUE_DESTROY, &destroy));
	close(fd);
	close(later_fd);
}

TEST_F(execute, parking_a_vgpu_fails_its_jobs)
{
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8), timeline;
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	int fd;

	timeline = new_timeline(self->vgpu, &fd);
	for (int i = 0; i < 2; i++) {
		job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_SPIN);
		job->blocks = 100000;
		add_signal(job, timeline, i + 1);
	}
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	usleep(5000);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &(struct distmind_vgpu_record){
		.id = self->id, .gpu = DISTMIND_GPU_NONE }, DISTMIND_SET_GPU));
	EXPECT_EQ(-ESTALE, wait_for(fd, 2));
	EXPECT_EQ(-ESTALE, submit_note(self->vgpu, queue, 1, 0, 0));
	close(fd);
}

TEST_F(execute, a_lost_gpu_ends_every_job_with_an_error_that_says_so)
{
	struct distmind_engine_register reg = {
		.heap_size = MiB, .numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
		.capabilities = DISTMIND_ENGINE__ALL,
		.name = "doomed", .kind = "test",
	};
	struct distmind_engine_exchange fetch = { .lane = 0 };
	struct batch batch = { 0 };
	uint32_t id, queue, a, b;
	int engine = open_node("engine"), vgpu, fa, fb;

	ASSERT_EQ(0, call(engine, DISTMIND_IOC_ENGINE_REGISTER, &reg));
	vgpu = vgpu_start(self->pool, reg.gpu, MiB, &id);
	ASSERT_LE(0, vgpu);
	queue = new_queue(vgpu, DISTMIND_LANE_COMPUTE, 8);
	a = new_timeline(vgpu, &fa);
	b = new_timeline(vgpu, &fb);
	for (int i = 0; i < 2; i++) {
		struct distmind_job_desc *job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);

		add_signal(job, i ? b : a, 1);
	}
	ASSERT_EQ(0, submit(vgpu, queue, &batch));
	/* One is on the lane, one waits, and the engine dies. */
	ASSERT_EQ(0, call(engine, DISTMIND_IOC_ENGINE_EXCHANGE, &fetch));
	EXPECT_NE(0, fetch.job.id);
	close(engine);
	EXPECT_EQ(-EOWNERDEAD, wait_for(fa, 1));
	EXPECT_EQ(-EOWNERDEAD, wait_for(fb, 1));
	EXPECT_EQ(-EOWNERDEAD, submit(vgpu, queue, &batch));
	close(vgpu);
	close(fa);
	close(fb);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, reg.gpu));
}

TEST_F(execute, a_job_that_does_not_yield_fails_and_the_lane_goes_on)
{
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8), timeline, later;
	struct distmind_handle_destroy destroy = { .handle = queue };
	struct distmind_gpu_record gpu;
	struct batch batch = { 0 };
	struct distmind_job_desc *job;
	int fd, later_fd;

	timeline = new_timeline(self->vgpu, &fd);
	later = new_timeline(self->vgpu, &later_fd);
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, self->gpu, 50000000));
	job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_HANG);
	add_signal(job, timeline, 1);
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	/* Nobody wants the lane: it may run for as long as it likes. */
	EXPECT_EQ(-ETIMEDOUT, call(fd, DISTMIND_IOC_TIMELINE_WAIT,
				   &(struct distmind_timeline_wait){ .value = 1, .timeout_ms = 200 }));
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_QUEUE_DESTROY, &destroy));
	EXPECT_EQ(-ETIME, wait_for(fd, 1));
	ASSERT_EQ(0, submit_note(self->vgpu, new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8), 1,
				 later, 1));
	EXPECT_EQ(0, wait_for(later_fd, 1));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_EQ(1, gpu.hangs);
	EXPECT_EQ(50000000, gpu.hang_ns);
	close(fd);
	close(later_fd);
}

TEST_F(execute, an_engine_that_does_not_answer_loses_its_gpu)
{
	struct distmind_engine_register reg = {
		.heap_size = MiB, .numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
		.capabilities = DISTMIND_ENGINE__ALL,
		.name = "silent", .kind = "test",
	};
	struct distmind_engine_exchange fetch = { .lane = 0 };
	struct distmind_handle_destroy destroy;
	struct distmind_gpu_record gpu = { 0 };
	struct batch batch = { 0 };
	uint32_t id;
	int engine = open_node("engine"), vgpu;

	ASSERT_EQ(0, call(engine, DISTMIND_IOC_ENGINE_REGISTER, &reg));
	vgpu = vgpu_start(self->pool, reg.gpu, MiB, &id);
	ASSERT_LE(0, vgpu);
	destroy = (struct distmind_handle_destroy){ .handle = new_queue(vgpu, DISTMIND_LANE_COMPUTE, 8) };
	add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);
	ASSERT_EQ(0, submit(vgpu, destroy.handle, &batch));
	ASSERT_EQ(0, call(engine, DISTMIND_IOC_ENGINE_EXCHANGE, &fetch));
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, reg.gpu, 20000000));
	ASSERT_EQ(0, call(vgpu, DISTMIND_IOC_QUEUE_DESTROY, &destroy));
	for (int i = 0; i < 500 && gpu.state != DISTMIND_GPU_STATE_LOST; i++) {
		usleep(10000);
		ASSERT_EQ(0, distmind_pool_gpu(self->pool, reg.gpu, &gpu));
	}
	EXPECT_EQ(DISTMIND_GPU_STATE_LOST, gpu.state);
	/* Too late. */
	fetch.done = fetch.job.id;
	EXPECT_GT(0, call(engine, DISTMIND_IOC_ENGINE_EXCHANGE, &fetch));
	close(vgpu);
	close(engine);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, reg.gpu));
}

TEST_F(execute, policies_switch_without_losing_a_job)
{
	static const char *const policies[] = { "fifo", "fair", "srpt", "slo" };
	uint32_t queues[8], timelines[8];
	struct distmind_gpu_record gpu;
	int fds[8];

	for (int q = 0; q < 8; q++) {
		struct batch batch = { 0 };

		queues[q] = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 256);
		timelines[q] = new_timeline(self->vgpu, &fds[q]);
		for (uint64_t i = 0; i < 100; i++) {
			struct distmind_job_desc *job = add_job(&batch, DISTMIND_JOB_LAUNCH, OP_NOTE);

			add_number(&batch, job, i);
			add_signal(job, timelines[q], i + 1);
		}
		ASSERT_EQ(0, submit(self->vgpu, queues[q], &batch));
		ASSERT_EQ(0, distmind_pool_gpu_policy(self->pool, self->gpu, policies[q % 4]));
	}
	for (int q = 0; q < 8; q++) {
		EXPECT_EQ(0, wait_for(fds[q], 100));
		close(fds[q]);
	}
	EXPECT_EQ(800, self->noted);
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, self->gpu, &gpu));
	EXPECT_STREQ("slo", gpu.policy);
	EXPECT_EQ(800, gpu.jobs);
	EXPECT_EQ(-EINVAL, distmind_pool_gpu_policy(self->pool, self->gpu, "random"));
	EXPECT_NE(NULL, strstr(distmind_pool_error(self->pool), "fifo"));
}

TEST_F(execute, a_capped_vgpu_stays_below_its_share_of_an_idle_gpu)
{
	struct distmind_vgpu_record record = { .id = self->id, .share = 200, .capped = true };
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 256);
	struct batch batch = { 0 };
	uint64_t before;

	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &record,
					    DISTMIND_SET_SHARE | DISTMIND_SET_CAPPED));
	for (int i = 0; i < 200; i++)
		add_job(&batch, DISTMIND_JOB_LAUNCH, OP_SPIN)->blocks = 100;
	ASSERT_EQ(0, submit(self->vgpu, queue, &batch));
	usleep(300000);
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, self->id, &record));
	EXPECT_TRUE(record.capped);
	before = record.busy_ns;
	usleep(2000000);
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, self->id, &record));
	/* A fifth of the time, and what a block or a slow clock adds to each stretch. */
	EXPECT_LT(0.05 * 2e9, record.busy_ns - before);
	EXPECT_GT(0.3 * 2e9, record.busy_ns - before);
	TH_LOG("%.1f %% of a lane", (record.busy_ns - before) / 2e7);
	EXPECT_LT(0, record.preemptions);
	EXPECT_LT(0, record.wait_ns);
}

TEST_F(execute, an_engine_that_lies_is_contained)
{
	struct distmind_engine_exchange lie = { .lane = 0, .done = 12345 };
	uint32_t queue = new_queue(self->vgpu, DISTMIND_LANE_COMPUTE, 8), timeline;
	int fd, err;

	timeline = new_timeline(self->vgpu, &fd);
	/* No such job is on the lane; and once its thread waits there, it is that thread's. */
	do {
		err = call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &lie);
	} while (err == -EPROTO && !usleep(1000));
	EXPECT_EQ(-EBUSY, err);
	lie.lane = 2;
	EXPECT_EQ(-EINVAL, call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &lie));
	lie.lane = 0;
	lie.status = 2;
	EXPECT_EQ(-EINVAL, call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &lie));
	lie.status = -512; /* no errno of user space */
	EXPECT_EQ(-EINVAL, call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &lie));
	ASSERT_EQ(0, submit_note(self->vgpu, queue, 1, timeline, 1));
	EXPECT_EQ(0, wait_for(fd, 1));
	close(fd);
}

TEST_HARNESS_MAIN
