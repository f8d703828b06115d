/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile neighbours: what a tenant can do to others through the module, each as hard and
 * for as long as it can. A neighbour is a process of another user, with a best-effort vgpu
 * on the same gpu, and runs when nobody else wants the processor: who gets that is not the
 * module's to say, so what others feel of it is what the module does for it.
 *
 * One hangs on one lane at a time: whoever has all lanes before anybody asks for one keeps
 * the gpu for the hang limit, which is what an engine bounds its blocks for. The crowd that
 * polls is small, since an eventfd's is woken with interrupts off, with or without a module.
 */
#ifndef BENCH_HOSTILE_H
#define BENCH_HOSTILE_H

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest/importer/importer.h"
#include "client.h"

#define HOSTILE_USER	  65534
#define HOSTILE_HEAP	  (16ULL << 20)
#define HOSTILE_MOST	  (HOSTILE_HEAP - (512 << 10))
#define HOSTILE_IMPORTERS 8
#define HOSTILE_QUEUES	  64
#define HOSTILE_WATCHES	  4096 /* what a user may have */
#define HOSTILE_POLLS	  200

/* Operations of the gpu that all share, see isolation.c. */
enum {
	OP_WORK, /* blocks of so many nanoseconds; yields between them */
	OP_DEAF, /* so many nanoseconds; does not yield */
};

struct hostile {
	struct distmind_vgpu *vgpu;
	struct distmind_batch *batch;
	int importers[HOSTILE_IMPORTERS];
	int ready; /* a byte is written to it when it has begun */
};

static inline void hostile_begun(struct hostile *hostile)
{
	if (write(hostile->ready, "", 1) != 1)
		_exit(1);
}

static inline struct distmind_timeline *hostile_timeline(struct hostile *hostile)
{
	struct distmind_timeline *timeline;

	must(distmind_timeline_create(hostile->vgpu, 0, &timeline), "a neighbour's timeline");
	return timeline;
}

static inline struct distmind_queue *hostile_queue(struct hostile *hostile, uint32_t depth)
{
	struct distmind_queue *queue;

	must(distmind_queue_create(hostile->vgpu, DISTMIND_LANE_COMPUTE, depth, &queue),
	     "a neighbour's queue");
	return queue;
}

static inline struct distmind_buffer *hostile_buffer(struct hostile *hostile, uint64_t size)
{
	struct distmind_buffer *buffer;

	must(distmind_buffer_create(hostile->vgpu, size, DISTMIND_BUFFER_DATA, &buffer),
	     "a neighbour's buffer");
	return buffer;
}

/* A job on all of a buffer, or of none, that signals nothing. */
static inline int hostile_submit(struct hostile *hostile, struct distmind_queue *queue,
				 uint32_t operation, uint32_t blocks, uint64_t ns,
				 struct distmind_buffer *buffer)
{
	distmind_batch_clear(hostile->batch);
	distmind_batch_launch(hostile->batch, operation, blocks);
	distmind_batch_number(hostile->batch, ns);
	if (buffer)
		distmind_batch_range(hostile->batch, buffer, 0, distmind_buffer_size(buffer));
	return distmind_queue_submit(queue, hostile->batch, NULL);
}

/*
 * A job hangs on one lane, and the memory that it uses is given back while it runs; short
 * jobs keep the other lane busy.
 */
static inline void hostile_hangs(struct hostile *hostile)
{
	struct distmind_queue *lane = hostile_queue(hostile, 64);

	hostile_begun(hostile);
	for (;;) {
		struct distmind_queue *queue = hostile_queue(hostile, 1);
		struct distmind_timeline *done = hostile_timeline(hostile);
		struct distmind_buffer *buffer = hostile_buffer(hostile, 1 << 20);

		distmind_batch_clear(hostile->batch);
		distmind_batch_launch(hostile->batch, OP_DEAF, 1);
		distmind_batch_number(hostile->batch, 60000000);
		distmind_batch_range(hostile->batch, buffer, 0, 1 << 20);
		distmind_batch_signal(hostile->batch, done, 1);
		must(distmind_queue_submit(queue, hostile->batch, NULL), "a job that hangs");
		distmind_buffer_destroy(buffer);
		while (distmind_timeline_wait(done, 1, 1) == -ETIMEDOUT) {
			while (!hostile_submit(hostile, lane, OP_WORK, 1, 100000, NULL))
				;
		}
		distmind_queue_destroy(queue);
		distmind_timeline_destroy(done);
	}
}

/* Two queues of barriers that end each other are fed for as long as it lives. */
static inline void hostile_barriers(struct hostile *hostile)
{
	struct distmind_queue *queues[2] = { hostile_queue(hostile, 4096),
					     hostile_queue(hostile, 4096) };
	struct distmind_timeline *timeline = hostile_timeline(hostile);
	struct distmind_queue *first = hostile_queue(hostile, 4096);
	uint64_t from = 1;

	for (bool begun = false;; begun = true) {
		for (uint64_t q = 0; q < 2; q++) {
			distmind_batch_clear(hostile->batch);
			for (uint64_t i = from + q; i < from + 400; i += 2) {
				distmind_batch_barrier(hostile->batch);
				distmind_batch_wait(hostile->batch, timeline, i);
				distmind_batch_signal(hostile->batch, timeline, i + 1);
			}
			while (distmind_queue_submit(queues[q], hostile->batch, NULL) == -EAGAIN)
				;
		}
		/* The end of a job on a lane starts what there is by then. */
		if (!begun) {
			distmind_batch_clear(hostile->batch);
			distmind_batch_launch(hostile->batch, OP_WORK, 1);
			distmind_batch_number(hostile->batch, 10000);
			distmind_batch_signal(hostile->batch, timeline, 1);
			must(distmind_queue_submit(first, hostile->batch, NULL), "a barrier");
			hostile_begun(hostile);
		}
		hostile_submit(hostile, first, OP_WORK, 1, 10000, NULL);
		from += 400;
	}
}

/* Each job needs most of the heap, many wait for it, and an endless one has it. */
static inline void hostile_room(struct hostile *hostile)
{
	struct distmind_buffer *large = hostile_buffer(hostile, HOSTILE_MOST);
	struct distmind_buffer *other = hostile_buffer(hostile, HOSTILE_MOST);
	struct distmind_queue *queues[HOSTILE_QUEUES];

	for (int i = 0; i < HOSTILE_QUEUES; i++) {
		queues[i] = hostile_queue(hostile, 4);
		must(hostile_submit(hostile, queues[i], OP_WORK, i ? 1 : 1 << 30, 50000,
				    i % 2 ? other : large), "a job of a neighbour");
	}
	hostile_begun(hostile);
	for (int i = 1;; i = i % (HOSTILE_QUEUES - 1) + 1)
		hostile_submit(hostile, queues[i], OP_WORK, 1, 50000, i % 2 ? other : large);
}

static inline int hostile_call(int importer, uint32_t op, uint32_t value)
{
	struct importer_call call = { .op = op, .value = value };

	return ioctl(importer, IMPORTER_CALL, &call);
}

/* Pins come and go as fast as they can, with jobs on what is pinned and on what no longer fits. */
static inline void hostile_pins(struct hostile *hostile)
{
	struct distmind_buffer *buffers[HOSTILE_IMPORTERS];
	struct distmind_buffer *large = hostile_buffer(hostile, HOSTILE_HEAP);
	struct distmind_queue *queues[HOSTILE_IMPORTERS], *queue = hostile_queue(hostile, 16);
	int fd;

	for (int i = 0; i < HOSTILE_IMPORTERS; i++) {
		queues[i] = hostile_queue(hostile, 4);
		buffers[i] = hostile_buffer(hostile, HOSTILE_HEAP / 32);
		fd = distmind_buffer_export(buffers[i],
					    DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
		must(fd, "export a neighbour's buffer");
		if (hostile_call(hostile->importers[i], IMPORTER_ATTACH, fd))
			bench_die("attach a neighbour's buffer");
		close(fd);
	}
	hostile_begun(hostile);
	for (int i = 0;; i = (i + 1) % HOSTILE_IMPORTERS) {
		if (!hostile_call(hostile->importers[i], IMPORTER_PIN, 0)) {
			hostile_submit(hostile, queues[i], OP_WORK, 1, 10000, buffers[i]);
			hostile_submit(hostile, queue, OP_WORK, 1, 10000, large);
		}
		hostile_call(hostile->importers[(i + 3) % HOSTILE_IMPORTERS], IMPORTER_UNPIN, 0);
	}
}

/* All that a user may have of watches on a timeline that is signalled, and a crowd that polls. */
static inline void hostile_watches(struct hostile *hostile)
{
	struct epoll_event want = { .events = EPOLLIN | EPOLLET };
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), set = epoll_create1(EPOLL_CLOEXEC);
	struct distmind_queue *watched = hostile_queue(hostile, 64);
	int files[HOSTILE_WATCHES / 64];

	must(distmind_queue_watch(watched, event), "watch a queue");
	for (int i = 0; i < HOSTILE_POLLS; i++) {
		if (epoll_ctl(set, EPOLL_CTL_ADD, dup(event), &want))
			bench_die("epoll");
	}
	for (bool begun = false;; begun = true) {
		struct distmind_timeline *timeline = hostile_timeline(hostile);
		struct distmind_timeline_watch watch = { .value = 1, .eventfd = event };

		for (int i = 0; i < HOSTILE_WATCHES; i++) {
			if (i % 64 == 0)
				files[i / 64] = distmind_timeline_export(timeline,
									 DISTMIND_EXPORT_CLOEXEC);
			/* Those of the last round may not be gone. */
			ioctl(files[i / 64], DISTMIND_IOC_TIMELINE_WATCH, &watch);
		}
		if (!begun)
			hostile_begun(hostile);
		/* This one is asked to yield by whoever comes, and its watchers are told. */
		hostile_submit(hostile, watched, OP_WORK, 100, 10000, NULL);
		distmind_timeline_signal(timeline, 1);
		for (int i = 0; i < HOSTILE_WATCHES / 64; i++)
			close(files[i]);
		distmind_timeline_destroy(timeline);
	}
}

struct hostile_kind {
	const char *name;
	void (*act)(struct hostile *hostile);
};

static const struct hostile_kind hostile_kinds[] = {
	{ "hangs", hostile_hangs },
	{ "barriers", hostile_barriers },
	{ "room", hostile_room },
	{ "pins", hostile_pins },
	{ "watches", hostile_watches },
};

/* Until it is killed. */
static inline void hostile_live(const struct hostile_kind *kind, uint32_t id, int ready)
{
	struct rlimit files = { .rlim_cur = 16384, .rlim_max = 16384 };
	struct sched_param priority = { 0 };
	struct hostile hostile = { .ready = ready };
	char path[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < HOSTILE_IMPORTERS; i++) {
		hostile.importers[i] = open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC);
		if (hostile.importers[i] < 0)
			bench_die("/dev/distmind-test-importer: %s", strerror(errno));
	}
	if (setrlimit(RLIMIT_NOFILE, &files) || sched_setscheduler(0, SCHED_IDLE, &priority) ||
	    setgroups(0, NULL) || setgid(HOSTILE_USER) || setuid(HOSTILE_USER))
		bench_die("a neighbour: %s", strerror(errno));
	snprintf(path, sizeof(path), "/dev/distmind/vgpu%u", id);
	must(distmind_vgpu_open(path, &hostile.vgpu), "open a neighbour's vgpu");
	must(distmind_batch_create(&hostile.batch), "a neighbour's batch");
	kind->act(&hostile);
}

/* Returns when it has begun. */
static inline pid_t hostile_start(const struct hostile_kind *kind, uint32_t vgpu)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready))
		bench_die("pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		close(ready[0]);
		hostile_live(kind, vgpu, ready[1]);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		bench_die("%s: the neighbour did not begin", kind->name);
	close(ready[0]);
	return pid;
}

static inline void hostile_stop(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (!WIFSIGNALED(status))
		bench_die("the neighbour ended by itself");
}

#endif /* BENCH_HOSTILE_H */
