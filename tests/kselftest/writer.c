// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A timeline that nobody can signal any more: who waits for it learns that, and as long
 * as somebody can, nobody does.
 */
#include <signal.h>
#include <sys/socket.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define PATIENCE 10000 /* ms */
#define BRIEF	 50

FIXTURE(writer)
{
	struct distmind_pool *pool;
	int engine, owner, other;
	uint32_t gpu, owner_id, other_id;
	struct distmind_timeline_create timeline; /* of the owner */
	int read_only;
};

static int export_timeline(int vgpu, uint32_t handle, uint32_t flags)
{
	struct distmind_timeline_export export = {
		.handle = handle, .flags = flags | DISTMIND_EXPORT_CLOEXEC,
	};
	int err = call(vgpu, DISTMIND_IOC_TIMELINE_EXPORT, &export);

	return err ? err : export.fd;
}

static int destroy_timeline(int vgpu, uint32_t handle)
{
	struct distmind_handle_destroy destroy = { .handle = handle };

	return call(vgpu, DISTMIND_IOC_TIMELINE_DESTROY, &destroy);
}

static int wait_for(int timeline, uint64_t value, uint32_t ms)
{
	struct distmind_timeline_wait wait = { .value = value, .timeout_ms = ms };

	return call(timeline, DISTMIND_IOC_TIMELINE_WAIT, &wait);
}

static int signal_to(int timeline, uint64_t value)
{
	struct distmind_timeline_signal signal = { .value = value };

	return call(timeline, DISTMIND_IOC_TIMELINE_SIGNAL, &signal);
}

FIXTURE_SETUP(writer)
{
	struct distmind_engine_register reg = {
		.heap_size = MiB, .numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
		.name = "writer", .kind = "test",
	};

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = open_node("engine");
	ASSERT_LE(0, self->engine);
	ASSERT_EQ(0, call(self->engine, DISTMIND_IOC_ENGINE_REGISTER, &reg));
	self->gpu = reg.gpu;
	self->owner = vgpu_start(self->pool, self->gpu, MiB, &self->owner_id);
	self->other = vgpu_start(self->pool, self->gpu, MiB, &self->other_id);
	ASSERT_LE(0, self->owner);
	ASSERT_LE(0, self->other);
	self->timeline = (struct distmind_timeline_create){ .value = 2 };
	ASSERT_EQ(0, call(self->owner, DISTMIND_IOC_TIMELINE_CREATE, &self->timeline));
	self->read_only = export_timeline(self->owner, self->timeline.handle, 0);
	ASSERT_LE(0, self->read_only);
}

FIXTURE_TEARDOWN(writer)
{
	close(self->read_only);
	close(self->owner);
	close(self->other);
	distmind_pool_vgpu_delete(self->pool, self->owner_id);
	distmind_pool_vgpu_delete(self->pool, self->other_id);
	close(self->engine);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

/* Only values that were not reached. */
#define EXPECT_DEAD(self, reached) ({                                                   \
	EXPECT_EQ(0, wait_for((self)->read_only, reached, PATIENCE));                   \
	EXPECT_EQ(-EOWNERDEAD, wait_for((self)->read_only, (reached) + 1, PATIENCE));   \
	EXPECT_EQ(-EOWNERDEAD, wait_for((self)->read_only, UINT64_MAX, PATIENCE));      \
})

#define EXPECT_ALIVE(self, reached)                                                     \
	EXPECT_EQ(-ETIMEDOUT, wait_for((self)->read_only, (reached) + 1, BRIEF))

TEST_F(writer, the_end_of_the_last_handle_fails_what_was_not_reached)
{
	EXPECT_ALIVE(self, 2);
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_DEAD(self, 2);
}

TEST_F(writer, the_end_of_its_vgpu_is_the_end_of_its_handles)
{
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, self->owner_id));
	EXPECT_DEAD(self, 2);
}

TEST_F(writer, a_descriptor_that_can_signal_keeps_it_wherever_it_went)
{
	int writable = export_timeline(self->owner, self->timeline.handle, DISTMIND_EXPORT_RDWR);
	int copy = dup(writable), gate[2];
	char byte;
	pid_t pid;

	ASSERT_LE(0, writable);
	ASSERT_EQ(0, pipe(gate));
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_ALIVE(self, 2);
	close(writable);
	EXPECT_ALIVE(self, 2);
	/* A child has it too, and is the last. */
	pid = fork();
	if (!pid) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) != 1 || signal_to(copy, 5));
	}
	close(copy);
	EXPECT_ALIVE(self, 2);
	ASSERT_EQ(1, write(gate[1], "", 1));
	EXPECT_EQ(0, child_status(pid));
	EXPECT_DEAD(self, 5);
	close(gate[0]);
	close(gate[1]);
}

TEST_F(writer, the_death_of_a_process_that_could_signal_ends_the_wait)
{
	int writable = export_timeline(self->owner, self->timeline.handle, DISTMIND_EXPORT_RDWR);
	pid_t pid;

	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	pid = fork();
	if (!pid) {
		for (;;)
			pause();
	}
	close(writable);
	EXPECT_ALIVE(self, 2);
	kill(pid, SIGKILL);
	EXPECT_DEAD(self, 2);
	child_status(pid);
}

TEST_F(writer, a_descriptor_on_its_way_to_somebody_keeps_it)
{
	int writable = export_timeline(self->owner, self->timeline.handle, DISTMIND_EXPORT_RDWR);
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int ends[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &writable, sizeof(int));
	ASSERT_EQ(1, sendmsg(ends[0], &message, 0));
	close(writable);
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_ALIVE(self, 2);
	/* Nobody will ever receive it. */
	close(ends[0]);
	close(ends[1]);
	EXPECT_DEAD(self, 2);
}

TEST_F(writer, who_may_only_watch_does_not_keep_it)
{
	struct distmind_timeline_import import = { .fd = self->read_only };
	int again;

	ASSERT_EQ(0, call(self->other, DISTMIND_IOC_TIMELINE_IMPORT, &import));
	again = export_timeline(self->other, import.handle, 0);
	ASSERT_LE(0, again);
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_DEAD(self, 2);
	EXPECT_EQ(-EOWNERDEAD, wait_for(again, 3, 0));
	close(again);
}

TEST_F(writer, an_imported_handle_that_can_signal_keeps_it)
{
	int writable = export_timeline(self->owner, self->timeline.handle, DISTMIND_EXPORT_RDWR);
	struct distmind_timeline_import import = { .fd = writable };

	ASSERT_EQ(0, call(self->other, DISTMIND_IOC_TIMELINE_IMPORT, &import));
	close(writable);
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_ALIVE(self, 2);
	close(self->other);
	EXPECT_DEAD(self, 2);
}

TEST_F(writer, a_mapping_of_a_descriptor_that_can_signal_does_not_keep_it)
{
	int writable = export_timeline(self->owner, self->timeline.handle, DISTMIND_EXPORT_RDWR);
	const volatile struct distmind_timeline_page *page;

	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, writable, 0);
	ASSERT_NE(MAP_FAILED, page);
	EXPECT_EQ(2, page->value);
	close(writable);
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_DEAD(self, 2);
	EXPECT_EQ(3, page->failed_value);
	EXPECT_EQ(-EOWNERDEAD, page->error);
	munmap((void *)page, PAGE);
}

static int submit_one(int vgpu, uint32_t queue, struct distmind_job_desc *job,
		      struct distmind_wait *wait)
{
	struct distmind_submit submit = {
		.queue = queue, .jobs = (uintptr_t)job, .job_count = 1,
		.waits = (uintptr_t)wait, .wait_count = !!wait,
	};

	return call(vgpu, DISTMIND_IOC_SUBMIT, &submit);
}

TEST_F(writer, a_job_that_will_signal_keeps_it_until_it_has)
{
	struct distmind_queue_create queue = { .depth = 1 };
	struct distmind_engine_exchange exchange = { .timeout_ms = PATIENCE };
	struct distmind_job_desc job = {
		.type = DISTMIND_JOB_LAUNCH, .blocks = 1, .signal = self->timeline.handle,
		.signal_value = 9,
	};

	ASSERT_EQ(0, call(self->owner, DISTMIND_IOC_QUEUE_CREATE, &queue));
	ASSERT_EQ(0, submit_one(self->owner, queue.handle, &job, NULL));
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_ALIVE(self, 2);
	ASSERT_EQ(0, call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &exchange));
	EXPECT_ALIVE(self, 2);
	exchange.done = exchange.job.id;
	exchange.timeout_ms = 0;
	EXPECT_EQ(-ETIMEDOUT, call(self->engine, DISTMIND_IOC_ENGINE_EXCHANGE, &exchange));
	EXPECT_DEAD(self, 9);
}

TEST_F(writer, a_batch_that_is_refused_keeps_nothing)
{
	struct distmind_queue_create queue = { .depth = 1 };
	struct distmind_job_desc jobs[2] = {
		{ .type = DISTMIND_JOB_BARRIER, .signal = self->timeline.handle, .signal_value = 9 },
		{ .type = DISTMIND_JOB__COUNT },
	};
	struct distmind_submit submit = { .jobs = (uintptr_t)jobs, .job_count = 2 };

	ASSERT_EQ(0, call(self->owner, DISTMIND_IOC_QUEUE_CREATE, &queue));
	submit.queue = queue.handle;
	ASSERT_EQ(-EINVAL, call(self->owner, DISTMIND_IOC_SUBMIT, &submit));
	EXPECT_ALIVE(self, 2);
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_DEAD(self, 2);
}

TEST_F(writer, a_job_that_waits_for_it_fails_with_it)
{
	struct distmind_timeline_import import = { .fd = self->read_only };
	struct distmind_queue_create queue = { .depth = 1 };
	struct distmind_timeline_create done = { 0 };
	struct distmind_job_desc job = {
		.type = DISTMIND_JOB_LAUNCH, .blocks = 1, .waits = 1, .signal_value = 1,
	};
	struct distmind_wait wait = { .value = 3 };
	int fd;

	ASSERT_EQ(0, call(self->other, DISTMIND_IOC_TIMELINE_IMPORT, &import));
	ASSERT_EQ(0, call(self->other, DISTMIND_IOC_TIMELINE_CREATE, &done));
	ASSERT_EQ(0, call(self->other, DISTMIND_IOC_QUEUE_CREATE, &queue));
	fd = export_timeline(self->other, done.handle, 0);
	ASSERT_LE(0, fd);
	wait.timeline = import.handle;
	job.signal = done.handle;
	ASSERT_EQ(0, submit_one(self->other, queue.handle, &job, &wait));
	EXPECT_EQ(-ETIMEDOUT, wait_for(fd, 1, BRIEF));
	close(self->owner);
	EXPECT_EQ(-EOWNERDEAD, wait_for(fd, 1, PATIENCE));
	close(fd);
}

TEST_F(writer, one_that_was_ended_with_an_error_keeps_that_error)
{
	int writable = export_timeline(self->owner, self->timeline.handle, DISTMIND_EXPORT_RDWR);
	struct distmind_timeline_fail fail = { .value = 4, .error = -EIO };

	ASSERT_EQ(0, call(writable, DISTMIND_IOC_TIMELINE_FAIL, &fail));
	close(writable);
	ASSERT_EQ(0, destroy_timeline(self->owner, self->timeline.handle));
	EXPECT_EQ(0, wait_for(self->read_only, 3, 0));
	EXPECT_EQ(-EIO, wait_for(self->read_only, 4, 0));
	EXPECT_EQ(-EIO, wait_for(self->read_only, UINT64_MAX, 0));
}

TEST_HARNESS_MAIN
