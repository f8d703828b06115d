// SPDX-License-Identifier: MIT
#include "handle.h"
#include "vgpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Owns its handle and the mapping of its page; borrows the vgpu's descriptor. */
struct distmind_queue {
	struct distmind_vgpu *vgpu;
	uint32_t handle;
	void *page; /* or NULL: not watched */
	size_t page_size;
};

/* The arrays of one submission. They grow; error is the first that did not. */
struct distmind_batch {
	struct distmind_job_desc *jobs;
	struct distmind_arg *args;
	struct distmind_wait *waits;
	uint32_t job_count, job_room;
	uint32_t arg_count, arg_room;
	uint32_t wait_count, wait_room;
	struct distmind_request request; /* id 0: none */
	int error;
};

int distmind_queue_create(struct distmind_vgpu *vgpu, enum distmind_lane_kind kind, uint32_t depth,
			  struct distmind_queue **queue)
{
	struct distmind_queue_create create = { .kind = kind, .depth = depth };
	struct distmind_queue *made = calloc(1, sizeof(*made));
	int err;

	if (!made)
		return -ENOMEM;
	err = distmind_ioctl(vgpu->fd, DISTMIND_IOC_QUEUE_CREATE, &create);
	if (err) {
		free(made);
		return err;
	}
	made->vgpu = vgpu;
	made->handle = create.handle;
	*queue = made;
	return 0;
}

void distmind_queue_destroy(struct distmind_queue *queue)
{
	struct distmind_handle_destroy destroy = { 0 };

	if (!queue)
		return;
	destroy.handle = queue->handle;
	distmind_ioctl(queue->vgpu->fd, DISTMIND_IOC_QUEUE_DESTROY, &destroy);
	if (queue->page)
		munmap(queue->page, queue->page_size);
	free(queue);
}

uint32_t distmind_queue_handle(const struct distmind_queue *queue)
{
	return queue->handle;
}

int distmind_queue_watch(struct distmind_queue *queue, int eventfd)
{
	struct distmind_queue_watch watch = { .queue = queue->handle, .eventfd = eventfd };
	uint32_t page_size;
	void *page;
	int err;

	err = distmind_page_size(queue->vgpu->fd, &page_size);
	if (!err)
		err = distmind_ioctl(queue->vgpu->fd, DISTMIND_IOC_QUEUE_WATCH, &watch);
	if (err || queue->page)
		return err;
	page = mmap(NULL, page_size, PROT_READ, MAP_SHARED, queue->vgpu->fd,
		    (off_t)watch.map_offset);
	if (page == MAP_FAILED)
		return -errno;
	queue->page = page;
	queue->page_size = page_size;
	return 0;
}

const struct distmind_queue_page *distmind_queue_page(const struct distmind_queue *queue)
{
	return queue->page;
}

int distmind_queue_room(struct distmind_queue *queue, struct distmind_queue_room *room)
{
	*room = (struct distmind_queue_room){ .queue = queue->handle };
	return distmind_ioctl(queue->vgpu->fd, DISTMIND_IOC_QUEUE_ROOM, room);
}

int distmind_queue_submit(struct distmind_queue *queue, const struct distmind_batch *batch,
			  uint32_t *failed)
{
	struct distmind_submit submit = {
		.jobs = (uintptr_t)batch->jobs,
		.args = (uintptr_t)batch->args,
		.waits = (uintptr_t)batch->waits,
		.job_count = batch->job_count,
		.arg_count = batch->arg_count,
		.wait_count = batch->wait_count,
		.queue = queue->handle,
		.flags = batch->request.last ? DISTMIND_SUBMIT_LAST : 0,
		.request = batch->request.id,
		.deadline_ns = batch->request.deadline_ns,
		.left_ns = batch->request.left_ns,
	};
	int err = batch->error;

	if (!err)
		err = distmind_ioctl(queue->vgpu->fd, DISTMIND_IOC_SUBMIT, &submit);
	if (failed)
		*failed = submit.failed;
	return err;
}

int distmind_batch_create(struct distmind_batch **batch)
{
	*batch = calloc(1, sizeof(**batch));
	return *batch ? 0 : -ENOMEM;
}

void distmind_batch_destroy(struct distmind_batch *batch)
{
	if (!batch)
		return;
	free(batch->jobs);
	free(batch->args);
	free(batch->waits);
	free(batch);
}

void distmind_batch_clear(struct distmind_batch *batch)
{
	batch->job_count = batch->arg_count = batch->wait_count = 0;
	batch->request = (struct distmind_request){ 0 };
	batch->error = 0;
}

/* One more entry of an array, zero; NULL if there is none to be had. */
static void *grow(struct distmind_batch *batch, void *array, uint32_t *count, uint32_t *room,
		  size_t size)
{
	void **entries = array;

	if (batch->error)
		return NULL;
	if (*count == DISTMIND_SUBMIT_MAX) {
		batch->error = -E2BIG;
		return NULL;
	}
	if (*count == *room) {
		uint32_t larger = *room ? *room * 2 : 16;
		void *moved = realloc(*entries, larger * size);

		if (!moved) {
			batch->error = -ENOMEM;
			return NULL;
		}
		*entries = moved;
		*room = larger;
	}
	return memset((char *)*entries + (*count)++ * size, 0, size);
}

static void add_job(struct distmind_batch *batch, uint32_t type, uint32_t operation,
		    uint32_t blocks)
{
	struct distmind_job_desc *job = grow(batch, &batch->jobs, &batch->job_count,
					     &batch->job_room, sizeof(*job));

	if (!job)
		return;
	job->type = type;
	job->operation = operation;
	job->blocks = blocks;
	job->first_arg = batch->arg_count;
	job->first_wait = batch->wait_count;
}

/* The job that is being described. */
static struct distmind_job_desc *last_job(struct distmind_batch *batch)
{
	if (!batch->job_count && !batch->error)
		batch->error = -EINVAL;
	return batch->error ? NULL : &batch->jobs[batch->job_count - 1];
}

static void add_arg(struct distmind_batch *batch, uint32_t buffer, uint64_t value, uint64_t length)
{
	struct distmind_job_desc *job = last_job(batch);
	struct distmind_arg *arg = grow(batch, &batch->args, &batch->arg_count, &batch->arg_room,
					sizeof(*arg));

	if (!job || !arg)
		return;
	arg->buffer = buffer;
	arg->value = value;
	arg->length = length;
	job->args++;
}

void distmind_batch_launch(struct distmind_batch *batch, uint32_t operation, uint32_t blocks)
{
	add_job(batch, DISTMIND_JOB_LAUNCH, operation, blocks);
}

void distmind_batch_copy(struct distmind_batch *batch, struct distmind_buffer *to,
			 uint64_t to_offset, struct distmind_buffer *from, uint64_t from_offset,
			 uint64_t length)
{
	add_job(batch, DISTMIND_JOB_COPY, 0, 0);
	distmind_batch_range(batch, to, to_offset, length);
	distmind_batch_range(batch, from, from_offset, length);
}

void distmind_batch_barrier(struct distmind_batch *batch)
{
	add_job(batch, DISTMIND_JOB_BARRIER, 0, 0);
}

void distmind_batch_grant(struct distmind_batch *batch)
{
	add_job(batch, DISTMIND_JOB_GRANT, 0, 0);
}

void distmind_batch_number(struct distmind_batch *batch, uint64_t value)
{
	add_arg(batch, 0, value, 0);
}

void distmind_batch_range(struct distmind_batch *batch, struct distmind_buffer *buffer,
			  uint64_t offset, uint64_t length)
{
	add_arg(batch, distmind_buffer_handle(buffer), offset, length);
}

void distmind_batch_wait(struct distmind_batch *batch, struct distmind_timeline *timeline,
			 uint64_t value)
{
	struct distmind_job_desc *job = last_job(batch);
	struct distmind_wait *wait = grow(batch, &batch->waits, &batch->wait_count,
					  &batch->wait_room, sizeof(*wait));

	if (!job || !wait)
		return;
	wait->timeline = distmind_timeline_handle(timeline);
	wait->value = value;
	job->waits++;
}

void distmind_batch_signal(struct distmind_batch *batch, struct distmind_timeline *timeline,
			   uint64_t value)
{
	struct distmind_job_desc *job = last_job(batch);

	if (!job)
		return;
	job->signal = distmind_timeline_handle(timeline);
	job->signal_value = value;
}

void distmind_batch_request(struct distmind_batch *batch, const struct distmind_request *request)
{
	batch->request = *request;
}

int distmind_request_end(struct distmind_vgpu *vgpu, uint64_t id)
{
	struct distmind_request_end end = { .request = id };

	return distmind_ioctl(vgpu->fd, DISTMIND_IOC_REQUEST_END, &end);
}
