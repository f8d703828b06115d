/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_JOB_H
#define _DISTMIND_JOB_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <uapi/linux/distmind.h>

struct distmind_account;
struct distmind_buffer;
struct distmind_payment;
struct distmind_queue;
struct distmind_request;
struct distmind_suspension;
struct distmind_timeline;
struct distmind_turn;
struct pid;

/* Jobs that are ended, and waiters that are called, before the rest is somebody else's. */
#define DISTMIND_ENDS_AT_ONCE 32

/**
 * struct distmind_job_wait - what a job waits for
 * @timeline: held
 * @value: which must be reached
 * @weights: it is a load from the memory pool, that nobody asked to wait for
 */
struct distmind_job_wait {
	struct distmind_timeline *timeline;
	u64 value;
	bool weights;
};

/**
 * struct distmind_job - one piece of work
 * @ref: held by its queue until it has ended, and by a lane whose engine still has it
 * @link: in its queue, among those that have ended or not
 * @account: for whom it counts; held
 * @queue: held
 * @request: what it belongs to, or NULL; held
 * @phase: enum distmind_request_phase: what it waits for or does; only with @request, and
 *	under its lock
 * @turn: of the last job of a submission with a request: its place in the line of requests
 *	of the queue, or NULL; freed with the job
 * @work_ns: of the last job of a submission: what all of it was expected to take
 * @id: what engines know it by
 * @type: enum distmind_job_type
 * @operation: of a launch
 * @blocks: how many
 * @cookie: where to go on
 * @ready_ns: when it had nothing left to wait for
 * @since_ns: since when it is ready and not on a lane
 * @room_ns: since when it has no room in the heap, 0 if it has; see room.c
 * @room_seen: the heap's changes when that was found out
 * @ran_ns: for how long it has run so far
 * @admitted: its buffers are active, see residency.c; changes under the heap's use_lock
 * @error: with what it ended; JOB_DROPPED: with what its queue ended
 * @suspended: of a grant, its work that the vendor's hook has stopped, or NULL; whoever
 *	lets the grant go on or ends it must have that resumed
 * @pid: of a grant, the process that submitted it; held
 * @signal: what it signals, or NULL; held, and the job is a writer of it
 * @signal_value: to which value
 * @in_signallers: in the tree of @signal, from its submission until it signals; empty
 *	before and after, see inherit.c
 * @wait_count: length of @waits, as far as they are used
 * @wait_room: for how many there is room
 * @waited: how many of these are reached
 * @arg_count: length of @args, @buffers and @payments
 * @read_only: bit i: the range in argument i must not be written
 * @args: as engines see them, but for ranges: those are offsets into their buffers
 * @buffers: that the arguments are in, or NULL; each held
 * @payments: who pays for these, or NULL; each held
 * @waits: what must be reached before it is ready
 */
struct distmind_job {
	refcount_t ref;
	struct list_head link;
	struct distmind_account *account;
	struct distmind_queue *queue;
	struct distmind_request *request;
	u32 phase;
	struct distmind_turn *turn;
	u64 work_ns;
	u64 id;
	u32 type;
	u32 operation;
	u32 blocks;
	u64 cookie;
	u64 ready_ns;
	u64 since_ns;
	u64 room_ns;
	u64 room_seen;
	u64 ran_ns;
	int error;
	bool admitted;
	struct distmind_suspension *suspended;
	struct pid *pid;
	struct distmind_timeline *signal;
	u64 signal_value;
	struct rb_node in_signallers;
	u32 wait_count;
	u32 wait_room;
	u32 waited;
	u32 arg_count;
	u32 read_only;
	struct distmind_engine_arg *args;
	struct distmind_buffer **buffers;
	struct distmind_payment **payments;
	struct distmind_job_wait *waits;
};

struct distmind_job *distmind_job_alloc(struct distmind_account *account, u32 args, u32 waits);
void distmind_job_free(struct distmind_job *job);
void distmind_job_get(struct distmind_job *job);
void distmind_job_put(struct distmind_job *job);
void distmind_job_end(struct distmind_job *job, int error, struct list_head *ended);
void distmind_job_end_all(struct list_head *ended);

#endif /* _DISTMIND_JOB_H */
