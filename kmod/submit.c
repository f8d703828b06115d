// SPDX-License-Identifier: GPL-2.0-only
/*
 * Submission: what user space describes becomes jobs.
 *
 * Everything is copied, then checked, then resolved from handles to objects,
 * before the queue sees any of it; nothing is read from the caller's memory
 * afterwards. It is all of the batch or nothing.
 *
 * Jobs may share arguments and waits, so that a batch is up to a million of them: others
 * get the processor after each job, and who is killed stops there.
 */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/jhash.h>
#include <linux/math64.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "account.h"
#include "buffer.h"
#include "client.h"
#include "extent.h"
#include "handle.h"
#include "job.h"
#include "queue.h"
#include "request.h"
#include "submit.h"
#include "tenant.h"
#include "vgpu.h"

/* Under which the length of a vgpu's grants is learned. */
#define GRANT_OPERATION U32_MAX

/* A batch, in the kernel's memory. */
struct batch {
	struct distmind_job_desc *jobs;
	struct distmind_arg *args;
	struct distmind_wait *waits;
};

/* Not by vmemdup_user(): who has it wait for its memory pays for the copy meanwhile. */
static void *copy_array(u64 user, u32 count, size_t size)
{
	void *copy;

	if (!count)
		return NULL;
	copy = kvmalloc_array(count, size, GFP_KERNEL_ACCOUNT);
	if (!copy)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(copy, u64_to_user_ptr(user), count * size)) {
		kvfree(copy);
		return ERR_PTR(-EFAULT);
	}
	return copy;
}

static int copy_batch(const struct distmind_submit *submit, struct batch *batch)
{
	batch->jobs = copy_array(submit->jobs, submit->job_count, sizeof(*batch->jobs));
	if (IS_ERR(batch->jobs))
		return PTR_ERR(batch->jobs);
	batch->args = copy_array(submit->args, submit->arg_count, sizeof(*batch->args));
	if (IS_ERR(batch->args))
		goto err_jobs;
	batch->waits = copy_array(submit->waits, submit->wait_count, sizeof(*batch->waits));
	if (IS_ERR(batch->waits))
		goto err_args;
	return 0;

err_args:
	kvfree(batch->args);
	kvfree(batch->jobs);
	return PTR_ERR(batch->waits);
err_jobs:
	kvfree(batch->jobs);
	return PTR_ERR(batch->args);
}

static void free_batch(struct batch *batch)
{
	kvfree(batch->waits);
	kvfree(batch->args);
	kvfree(batch->jobs);
}

/* Whether @count entries from @first on are within an array of @length. */
static bool within(u32 first, u32 count, u32 length)
{
	return first <= length && count <= length - first;
}

static int check_job(const struct distmind_submit *submit, const struct batch *batch,
		     const struct distmind_job_desc *desc)
{
	const struct distmind_arg *args = batch->args + desc->first_arg;
	u32 i;

	if (desc->type >= DISTMIND_JOB__COUNT || desc->flags || desc->pad)
		return -EINVAL;
	if (desc->args > DISTMIND_ARGS_MAX ||
	    !within(desc->first_arg, desc->args, submit->arg_count) ||
	    !within(desc->first_wait, desc->waits, submit->wait_count))
		return -EINVAL;
	if (desc->type == DISTMIND_JOB_LAUNCH ? !desc->blocks : desc->blocks || desc->operation)
		return -EINVAL;
	if ((desc->type == DISTMIND_JOB_BARRIER || desc->type == DISTMIND_JOB_GRANT) &&
	    desc->args)
		return -EINVAL;
	if (!desc->signal && desc->signal_value)
		return -EINVAL;
	for (i = 0; i < desc->args; i++) {
		if (args[i].pad || !args[i].buffer != !args[i].length)
			return -EINVAL;
	}
	if (desc->type == DISTMIND_JOB_COPY &&
	    (desc->args != 2 || !args[0].buffer || !args[1].buffer ||
	     args[0].length != args[1].length))
		return -EINVAL;
	return 0;
}

/* What is still on its way from the memory pool is waited for, asked or not. */
static void wait_for_extents(struct distmind_buffer *buffer, const struct distmind_arg *arg,
			     struct distmind_job *job)
{
	struct distmind_job_wait *wait = &job->waits[job->wait_count];
	struct distmind_timeline *timeline;
	u64 value = distmind_extents_value(buffer, arg->value, arg->length, &timeline);

	if (!value)
		return;
	distmind_timeline_get(timeline);
	wait->timeline = timeline;
	wait->value = value;
	wait->weights = true;
	job->wait_count++;
}

static int resolve_arg(struct distmind_client *client, struct distmind_queue *queue,
		       const struct distmind_arg *arg, struct distmind_job *job, u32 i)
{
	struct distmind_buffer *buffer;
	bool writable;
	u64 size;

	job->args[i].value = arg->value;
	job->args[i].length = arg->length;
	if (!arg->buffer)
		return 0;
	buffer = distmind_handle_get_buffer(client, arg->buffer, &writable, &job->payments[i]);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	job->buffers[i] = buffer;
	/* Its own follow a vgpu to wherever it is bound. */
	if (buffer->vgpu != client->vgpu && READ_ONCE(buffer->gpu) != queue->tenant->gpu)
		return -EXDEV;
	size = distmind_buffer_size(buffer);
	if (arg->value > size || arg->length > size - arg->value)
		return -ERANGE;
	if (!writable)
		job->read_only |= BIT(i);
	wait_for_extents(buffer, arg, job);
	return 0;
}

/* From handles to objects. */
static int resolve_job(struct distmind_client *client, struct distmind_queue *queue,
		       const struct batch *batch, const struct distmind_job_desc *desc,
		       struct distmind_job *job)
{
	u32 i;
	int err;

	for (i = 0; i < desc->args; i++) {
		err = resolve_arg(client, queue, &batch->args[desc->first_arg + i], job, i);
		if (err)
			return err;
	}
	for (i = 0; i < desc->waits; i++) {
		const struct distmind_wait *wait = &batch->waits[desc->first_wait + i];
		struct distmind_timeline *timeline;

		if (wait->pad)
			return -EINVAL;
		timeline = distmind_handle_get(client, DISTMIND_HANDLE_TIMELINE, wait->timeline,
					       NULL);
		if (IS_ERR(timeline))
			return PTR_ERR(timeline);
		job->waits[job->wait_count].timeline = timeline;
		job->waits[job->wait_count++].value = wait->value;
	}
	if (desc->signal) {
		struct distmind_timeline *timeline;
		bool writable;

		timeline = distmind_handle_get(client, DISTMIND_HANDLE_TIMELINE, desc->signal,
					       &writable);
		if (IS_ERR(timeline))
			return PTR_ERR(timeline);
		if (!writable) {
			distmind_timeline_put(timeline);
			return -EACCES;
		}
		distmind_timeline_writer_get(timeline);
		job->signal = timeline;
	}
	job->signal_value = desc->signal_value;
	job->type = desc->type;
	job->operation = desc->operation;
	job->blocks = desc->blocks;
	if (job->type == DISTMIND_JOB_GRANT) {
		job->operation = GRANT_OPERATION;
		job->pid = get_pid(task_tgid(current));
	}
	if (job->type == DISTMIND_JOB_COPY) {
		if (job->read_only & BIT(0))
			return -EACCES;
		job->blocks = DIV_ROUND_UP_ULL(job->args[0].length, DISTMIND_COPY_BLOCK);
	}
	return 0;
}

/* A lane of the queue's kind must be there to run it. */
static int check_lane(const struct distmind_queue *queue, const struct distmind_job_desc *desc)
{
	const struct distmind_sched *sched = &queue->tenant->gpu->sched;
	u32 kind = desc->type == DISTMIND_JOB_COPY ? DISTMIND_LANE_COPY : DISTMIND_LANE_COMPUTE;

	if (desc->type == DISTMIND_JOB_BARRIER)
		return 0;
	if (desc->type == DISTMIND_JOB_GRANT) {
		if (!queue->page)
			return -EBADFD;
		kind = sched->capabilities & DISTMIND_ENGINE_LENDS ? queue->kind : U32_MAX;
	}
	if (kind != queue->kind || !sched->lanes_of[kind])
		return -EOPNOTSUPP;
	return 0;
}

static int build_job(struct distmind_client *client, struct distmind_queue *queue,
		     const struct distmind_submit *submit, const struct batch *batch,
		     const struct distmind_job_desc *desc, struct list_head *jobs)
{
	struct distmind_job *job;
	int err;

	err = check_job(submit, batch, desc);
	if (!err)
		err = check_lane(queue, desc);
	if (err)
		return err;
	/* A wait for each that is asked for, and one for each range that is being loaded. */
	job = distmind_job_alloc(queue->account, desc->args, desc->waits + desc->args);
	if (IS_ERR(job))
		return PTR_ERR(job);
	list_add_tail(&job->link, jobs);
	return resolve_job(client, queue, batch, desc, job);
}

/* Requests that begin like this are taken to be alike. */
static u32 shape_of(const struct distmind_submit *submit, const struct batch *batch)
{
	return jhash_3words(batch->jobs[0].operation, batch->jobs[0].blocks, submit->job_count,
			    batch->jobs[0].type);
}

static int submit_batch(struct distmind_client *client, struct distmind_queue *queue,
			struct distmind_submit *submit, const struct batch *batch)
{
	struct distmind_request *request = NULL;
	struct distmind_job *job, *next;
	LIST_HEAD(jobs);
	int err = 0;
	u32 i;

	for (i = 0; !err && i < submit->job_count; i++) {
		submit->failed = i;
		err = fatal_signal_pending(current) ? -EINTR :
			build_job(client, queue, submit, batch, &batch->jobs[i], &jobs);
		cond_resched();
	}
	if (!err && submit->request) {
		request = distmind_request_join(client->vgpu, client->account, client->id,
						submit, shape_of(submit, batch));
		if (IS_ERR(request)) {
			err = PTR_ERR(request);
			request = NULL;
		}
	}
	if (!err)
		err = distmind_queue_submit(queue, &jobs, submit, request);
	if (request)
		distmind_request_leave(request);
	list_for_each_entry_safe(job, next, &jobs, link) {
		distmind_job_free(job);
		cond_resched();
	}
	return err;
}

int distmind_submit_call(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_submit __user *where = user;
	struct distmind_submit *submit = arg;
	struct distmind_queue *queue;
	struct batch batch;
	int err;

	if (submit->flags & ~DISTMIND_SUBMIT__ALL || !submit->job_count ||
	    submit->job_count > DISTMIND_SUBMIT_MAX || submit->arg_count > DISTMIND_SUBMIT_MAX ||
	    submit->wait_count > DISTMIND_SUBMIT_MAX)
		return -EINVAL;
	if (!submit->request && (submit->flags || submit->deadline_ns || submit->left_ns))
		return -EINVAL;
	if (submit->deadline_ns > S64_MAX || submit->left_ns > S64_MAX)
		return -EINVAL;
	queue = distmind_handle_get(client, DISTMIND_HANDLE_QUEUE, submit->queue, NULL);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	err = copy_batch(submit, &batch);
	if (!err) {
		err = submit_batch(client, queue, submit, &batch);
		free_batch(&batch);
	}
	distmind_account_help(queue->account);
	distmind_queue_put(queue);
	if (err && put_user(submit->failed, &where->failed))
		return -EFAULT;
	return err;
}
