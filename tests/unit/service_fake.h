/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One gpu, as the model service needs it, in the place of the kernel: buffers are memory,
 * timelines are numbers. Included by the one file of a test program.
 */
#ifndef TESTS_UNIT_SERVICE_FAKE_H
#define TESTS_UNIT_SERVICE_FAKE_H

#include "unit.h"

#include "../../userspace/common/clock.h"

#include <dirent.h>
#include <distmind.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAKE_GPU 3
#define FAKE_TENANT 17

struct distmind_pool {
	int nothing;
};

struct distmind_vgpu {
	int nothing;
};

struct distmind_buffer {
	uint8_t *bytes; /* of a memfd, which stands for its dma-bufs, too */
	uint64_t size;
	int fd;
};

struct distmind_timeline {
	uint64_t value, poll;
	int error; /* of all values */
	int fd;
};

/* What the daemon has done. */
static struct fake {
	struct distmind_buffer *last_buffer; /* made; perhaps gone */
	uint64_t memory; /* of the gpu */
	uint64_t used, quota, peak; /* of what was used */
	unsigned int buffers, timelines, vgpus;
	uint32_t tenant_uid;
	uint64_t tenant_memory, tenant_used; /* its quota, 0: all; and what its buffers have */
	struct {
		ino_t inode; /* of a buffer, for which it pays while another has it open */
		int fd; /* of the buffer itself; -1: it has been destroyed */
		uint64_t size;
	} payments[256];
	unsigned int payment_count;
	unsigned int paid_exports;
	uint64_t set_us; /* that it takes to set a quota */
	size_t extents;
	int extents_error; /* they are refused with that */
	unsigned int failures; /* of timelines */
	uint64_t failed_value;
	int failed_error;
	uint32_t copy_lanes;
	bool copies_wait; /* the copy lane does nothing */
	struct distmind_timeline *last; /* made */
} fake;

/* Whoever has it holds up the errands that make buffers. */
static pthread_mutex_t fake_making = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned int fake_makers; /* who waits for it */

static struct distmind_pool fake_pool;
static struct distmind_vgpu fake_vgpu;

const char *distmind_pool_error(const struct distmind_pool *pool)
{
	(void)pool;
	return "the fake says no";
}

int distmind_pool_vgpus(struct distmind_pool *pool,
			int (*each)(const struct distmind_vgpu_record *vgpu, void *arg), void *arg)
{
	(void)pool;
	(void)each;
	(void)arg;
	return 0;
}

/* Daemon and clients are one process. */
static inline bool fake_is_open(ino_t inode, int but)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	struct stat stat;
	bool found = false;

	assert_non_null(dir);
	while (!found && (entry = readdir(dir)))
		found = atoi(entry->d_name) != but && !fstat(atoi(entry->d_name), &stat) &&
			stat.st_ino == inode;
	closedir(dir);
	return found;
}

static inline uint64_t fake_paid(void)
{
	uint64_t sum = 0;

	for (unsigned int i = fake.payment_count; i--;)
		if (!fake_is_open(fake.payments[i].inode, fake.payments[i].fd))
			fake.payments[i] = fake.payments[--fake.payment_count];
	for (unsigned int i = 0; i < fake.payment_count; i++)
		sum += fake.payments[i].size;
	return sum;
}

int distmind_pool_vgpu(struct distmind_pool *pool, uint32_t id, struct distmind_vgpu_record *vgpu)
{
	(void)pool;
	if (id != FAKE_TENANT)
		return -ENOENT;
	*vgpu = (struct distmind_vgpu_record){
		.id = id, .gpu = FAKE_GPU, .uid = fake.tenant_uid,
		.memory = fake.tenant_memory ? fake.tenant_memory : fake.memory,
		.memory_used = fake.tenant_used + fake_paid(),
		.state = DISTMIND_VGPU_STATE_BOUND,
	};
	return 0;
}

int distmind_pool_gpu(struct distmind_pool *pool, uint32_t id, struct distmind_gpu_record *gpu)
{
	(void)pool;
	if (id != FAKE_GPU)
		return -ENOENT;
	*gpu = (struct distmind_gpu_record){
		.id = id, .name = "fake", .memory = fake.memory, .memory_used = fake.used,
		.copy_lanes = fake.copy_lanes,
	};
	return 0;
}

int distmind_pool_vgpu_create(struct distmind_pool *pool, struct distmind_vgpu_record *record)
{
	(void)pool;
	assert_string_equal(record->name, "weights-fake");
	assert_int_equal(record->gpu, FAKE_GPU);
	fake.vgpus++;
	record->id = 99;
	return 0;
}

int distmind_pool_vgpu_set(struct distmind_pool *pool, const struct distmind_vgpu_record *record,
			   uint32_t fields)
{
	(void)pool;
	assert_int_equal(fields, DISTMIND_SET_MEMORY);
	for (uint64_t begin = clock_us(); clock_us() - begin < fake.set_us;)
		;
	fake.quota = record->memory;
	return 0;
}

int distmind_pool_vgpu_delete(struct distmind_pool *pool, uint32_t id)
{
	(void)pool;
	assert_int_equal(id, 99);
	fake.vgpus--;
	return 0;
}

int distmind_pool_extents_add(struct distmind_pool *pool, uint32_t buffer, int timeline,
			      const struct distmind_extent_record *extents, size_t count)
{
	(void)pool;
	(void)buffer;
	(void)timeline;
	for (size_t i = 1; i < count; i++)
		assert_true(extents[i].offset >= extents[i - 1].offset + extents[i - 1].size);
	if (fake.extents_error)
		return fake.extents_error;
	fake.extents = count;
	return 0;
}

int distmind_vgpu_open(const char *path, struct distmind_vgpu **vgpu)
{
	(void)path;
	*vgpu = &fake_vgpu;
	return 0;
}

void distmind_vgpu_close(struct distmind_vgpu *vgpu)
{
	(void)vgpu;
}

int distmind_buffer_create(struct distmind_vgpu *vgpu, uint64_t size,
			   enum distmind_buffer_kind kind, struct distmind_buffer **buffer)
{
	(void)vgpu;
	(void)kind;
	fake_makers++;
	pthread_mutex_lock(&fake_making);
	pthread_mutex_unlock(&fake_making);
	fake_makers--;
	size = (size + 4095) / 4096 * 4096;
	if (fake.used + size > fake.quota)
		return -EDQUOT;
	*buffer = calloc(1, sizeof(**buffer));
	(*buffer)->fd = memfd_create("buffer", MFD_CLOEXEC);
	assert_int_equal(ftruncate((*buffer)->fd, (off_t)size), 0);
	(*buffer)->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (*buffer)->fd, 0);
	assert_ptr_not_equal((*buffer)->bytes, MAP_FAILED);
	(*buffer)->size = size;
	fake.used += size;
	if (fake.used > fake.peak)
		fake.peak = fake.used;
	fake.buffers++;
	fake.last_buffer = *buffer;
	return 0;
}

void distmind_buffer_destroy(struct distmind_buffer *buffer)
{
	if (!buffer)
		return;
	fake.used -= buffer->size;
	fake.buffers--;
	for (unsigned int i = 0; i < fake.payment_count; i++)
		if (fake.payments[i].fd == buffer->fd)
			fake.payments[i].fd = -1;
	munmap(buffer->bytes, buffer->size);
	close(buffer->fd);
	free(buffer);
}

uint64_t distmind_buffer_size(const struct distmind_buffer *buffer)
{
	return buffer->size;
}

int distmind_buffer_map(struct distmind_buffer *buffer, void **address)
{
	*address = buffer->bytes;
	return 0;
}

int distmind_buffer_info(struct distmind_buffer *buffer, struct distmind_buffer_info *info)
{
	(void)buffer;
	memset(info, 0, sizeof(*info));
	return 0;
}

int distmind_buffer_export(struct distmind_buffer *buffer, uint32_t flags)
{
	(void)flags;
	return fcntl(buffer->fd, F_DUPFD_CLOEXEC, 0);
}

/* Once for each buffer. */
int distmind_buffer_export_paid(struct distmind_buffer *buffer, uint32_t flags, uint32_t payer)
{
	uint64_t paid = fake_paid();
	struct stat stat;

	assert_int_equal(payer, FAKE_TENANT);
	assert_false(flags & DISTMIND_EXPORT_RDWR);
	fake.paid_exports++;
	/* Without a quota nobody counts. */
	if (!fake.tenant_memory)
		return distmind_buffer_export(buffer, flags);
	for (unsigned int i = 0; i < fake.payment_count; i++)
		if (fake.payments[i].fd == buffer->fd)
			return distmind_buffer_export(buffer, flags);
	if (fake.tenant_used + paid + buffer->size > fake.tenant_memory)
		return -EDQUOT;
	assert_true(fake.payment_count < COUNT(fake.payments));
	assert_int_equal(fstat(buffer->fd, &stat), 0);
	fake.payments[fake.payment_count].inode = stat.st_ino;
	fake.payments[fake.payment_count].fd = buffer->fd;
	fake.payments[fake.payment_count++].size = buffer->size;
	return distmind_buffer_export(buffer, flags);
}

int distmind_timeline_create(struct distmind_vgpu *vgpu, uint64_t value,
			     struct distmind_timeline **timeline)
{
	(void)vgpu;
	*timeline = calloc(1, sizeof(**timeline));
	(*timeline)->value = value;
	(*timeline)->fd = eventfd(0, EFD_CLOEXEC);
	fake.timelines++;
	fake.last = *timeline;
	return 0;
}

void distmind_timeline_destroy(struct distmind_timeline *timeline)
{
	if (!timeline)
		return;
	fake.timelines--;
	if (fake.last == timeline)
		fake.last = NULL;
	close(timeline->fd);
	free(timeline);
}

int distmind_timeline_export(struct distmind_timeline *timeline, uint32_t flags)
{
	assert_false(flags & DISTMIND_EXPORT_RDWR);
	return dup(timeline->fd);
}

int distmind_timeline_fd(const struct distmind_timeline *timeline)
{
	return timeline->fd;
}

uint64_t distmind_timeline_value(const struct distmind_timeline *timeline)
{
	return timeline->value;
}

int distmind_timeline_status(const struct distmind_timeline *timeline, uint64_t value)
{
	return timeline->error ? timeline->error : timeline->value < value ? -EAGAIN : 0;
}

int distmind_timeline_signal(struct distmind_timeline *timeline, uint64_t value)
{
	assert_true(value > timeline->value);
	timeline->value = value;
	if (timeline->poll && value >= timeline->poll)
		eventfd_write(timeline->fd, 1);
	return 0;
}

int distmind_timeline_fail(struct distmind_timeline *timeline, uint64_t value, int error)
{
	assert_true(value > timeline->value);
	fake.failures++;
	fake.failed_value = value;
	fake.failed_error = error;
	return 0;
}

int distmind_timeline_poll(struct distmind_timeline *timeline, uint64_t value)
{
	eventfd_t count;

	assert_true(value > timeline->value);
	/* Readable only when the new value has come. */
	while (timeline->poll && poll(&(struct pollfd){ timeline->fd, POLLIN, 0 }, 1, 0) > 0)
		eventfd_read(timeline->fd, &count);
	timeline->poll = value;
	return 0;
}

/*
 * Copies: a queue takes one batch, and runs the jobs of it whose waits are over when it is
 * told to.
 */

struct distmind_batch {
	struct {
		uint8_t *to;
		const uint8_t *from;
		uint64_t length, wait, signal;
		struct distmind_timeline *waits, *signals;
	} jobs[64];
	unsigned int count;
};

struct distmind_queue {
	struct distmind_batch batch;
	unsigned int next;
};

static struct distmind_queue *fake_queue;
/* The lane works while queues come and go by errands. */
static pthread_mutex_t fake_lane = PTHREAD_MUTEX_INITIALIZER;

int distmind_batch_create(struct distmind_batch **batch)
{
	*batch = calloc(1, sizeof(**batch));
	return 0;
}

void distmind_batch_destroy(struct distmind_batch *batch)
{
	free(batch);
}

void distmind_batch_clear(struct distmind_batch *batch)
{
	batch->count = 0;
}

void distmind_batch_copy(struct distmind_batch *batch, struct distmind_buffer *to,
			 uint64_t to_offset, struct distmind_buffer *from, uint64_t from_offset,
			 uint64_t length)
{
	assert_true(to_offset + length <= to->size && from_offset + length <= from->size);
	assert_true(batch->count < COUNT(batch->jobs));
	batch->jobs[batch->count].to = to->bytes + to_offset;
	batch->jobs[batch->count].from = from->bytes + from_offset;
	batch->jobs[batch->count++].length = length;
}

void distmind_batch_barrier(struct distmind_batch *batch)
{
	batch->jobs[batch->count++].length = 0;
}

void distmind_batch_wait(struct distmind_batch *batch, struct distmind_timeline *timeline,
			 uint64_t value)
{
	batch->jobs[batch->count - 1].waits = timeline;
	batch->jobs[batch->count - 1].wait = value;
}

void distmind_batch_signal(struct distmind_batch *batch, struct distmind_timeline *timeline,
			   uint64_t value)
{
	batch->jobs[batch->count - 1].signals = timeline;
	batch->jobs[batch->count - 1].signal = value;
}

int distmind_queue_create(struct distmind_vgpu *vgpu, enum distmind_lane_kind kind, uint32_t depth,
			  struct distmind_queue **queue)
{
	(void)vgpu;
	(void)depth;
	assert_int_equal(kind, DISTMIND_LANE_COPY);
	pthread_mutex_lock(&fake_lane);
	*queue = fake_queue = calloc(1, sizeof(**queue));
	pthread_mutex_unlock(&fake_lane);
	return 0;
}

void distmind_queue_destroy(struct distmind_queue *queue)
{
	pthread_mutex_lock(&fake_lane);
	if (queue)
		fake_queue = NULL;
	free(queue);
	pthread_mutex_unlock(&fake_lane);
}

int distmind_queue_submit(struct distmind_queue *queue, const struct distmind_batch *batch,
			  uint32_t *failed)
{
	(void)failed;
	assert_int_equal(queue->batch.count, 0);
	/* Later they would wait for themselves. */
	assert_int_equal(fake.extents, 0);
	pthread_mutex_lock(&fake_lane);
	queue->batch = *batch;
	pthread_mutex_unlock(&fake_lane);
	return 0;
}

static inline void fake_copy_lane(void)
{
	pthread_mutex_lock(&fake_lane);
	while (!fake.copies_wait && fake_queue && fake_queue->next < fake_queue->batch.count &&
	       fake_queue->batch.jobs[fake_queue->next].waits->value >=
		       fake_queue->batch.jobs[fake_queue->next].wait) {
		unsigned int i = fake_queue->next++;

		memcpy(fake_queue->batch.jobs[i].to, fake_queue->batch.jobs[i].from,
		       fake_queue->batch.jobs[i].length);
		distmind_timeline_signal(fake_queue->batch.jobs[i].signals,
					 fake_queue->batch.jobs[i].signal);
	}
	pthread_mutex_unlock(&fake_lane);
}

/* The timeline that copies signal, and the one that the first of those to come waits for. */
static inline struct distmind_timeline *fake_copied(void)
{
	return fake_queue->batch.jobs[0].signals;
}

static inline struct distmind_timeline *fake_arrival(void)
{
	return fake_queue->batch.jobs[0].waits;
}

/* The gpu does not copy any more. */
static inline void fake_fail_copies(int error)
{
	fake_copied()->error = error;
	eventfd_write(fake_copied()->fd, 1);
}

#endif
