/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * DistMind: virtual GPUs. The ioctl interface of /dev/distmind/.
 *
 *   /dev/distmind/control   anyone   QUERY, ACQUIRE
 *   /dev/distmind/engine    root     QUERY, ENGINE_REGISTER, ENGINE_EXCHANGE, mmap
 *   /dev/distmind/vgpuN     owner    QUERY, VGPU_INFO, BUFFER_*, QUEUE_*, SUBMIT,
 *                                    GRANT_END, REQUEST_END,
 *                                    TIMELINE_{CREATE,DESTROY,EXPORT,IMPORT}, mmap
 *   an exported timeline    holder   TIMELINE_{WAIT,SIGNAL,FAIL,WATCH,POLL}, mmap, poll
 *
 * What DISTMIND_IOC_ACQUIRE returns answers to the same calls as an open vgpuN.
 *
 * Rules that hold for every call:
 *
 *  - Fields have a fixed width, padding is explicit: one layout for 32 and 64 bit.
 *  - Reserved fields and unknown flags must be zero: EINVAL otherwise.
 *  - Structures only ever grow at their end, and the size is part of the
 *    ioctl number. A module that is newer than the caller reads the missing
 *    tail as zero. A module that is older accepts a longer structure as long
 *    as the tail that it does not know is zero, and says E2BIG otherwise.
 *  - An error leaves the caller's structure untouched, with two exceptions:
 *    ACQUIRE fills in @reason, and SUBMIT @failed.
 *
 * Errors that mean the same in every call:
 *
 *   EINVAL       a field has a value that it can never have
 *   EFAULT       a pointer does not point to memory of the caller
 *   E2BIG        the structure is longer than the module knows, and its tail is used
 *   ENOTTY       this node does not know the call
 *   ENOENT       no such handle in this open file
 *   ENODEV       the vgpu is gone: its lease ended or it was deleted
 *   ENXIO        the vgpu is parked: no gpu backs it at the moment
 *   EOWNERDEAD   the vgpu's gpu is lost: its engine died
 *   EDQUOT       the vgpu's memory quota does not allow it, or the user has as many of
 *                these as a user may have (fdinfo says how many these are)
 *   EAGAIN       the same, of what goes by itself: claims, jobs, waits; try again later
 *   ENOSPC       the gpu's heap is too small for it
 *   ENOMEM       the host, or the caller's memory cgroup, is out of memory
 *   ESTALE       the queue has ended: the vgpu was bound to another gpu
 *   EINTR        a fatal signal arrived
 */
#ifndef _UAPI_LINUX_DISTMIND_H
#define _UAPI_LINUX_DISTMIND_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define DISTMIND_ABI_VERSION	1

#define DISTMIND_NAME_LEN	32	/* with the terminating NUL */
#define DISTMIND_REASON_LEN	160	/* with the terminating NUL */
#define DISTMIND_SHARE_WHOLE	1000	/* shares are thousandths of a gpu */
#define DISTMIND_ACQUIRE_MAX	64	/* vgpus in one claim */
#define DISTMIND_TIMEOUT_MAX_MS	3600000	/* the longest wait for an answer */

/**
 * enum distmind_class - who goes first when vgpus compete for a gpu
 * @DISTMIND_CLASS_BEST_EFFORT: uses what is left, is preempted first
 * @DISTMIND_CLASS_STANDARD: fair among its like
 * @DISTMIND_CLASS_LATENCY: has an objective, preempts the others
 */
enum distmind_class {
	DISTMIND_CLASS_BEST_EFFORT	= 0,
	DISTMIND_CLASS_STANDARD		= 1,
	DISTMIND_CLASS_LATENCY		= 2,
	DISTMIND_CLASS__COUNT
};

/*
 * Every node
 */

#define DISTMIND_FEATURE_DMABUF		0x1ULL	/* BUFFER_EXPORT */
#define DISTMIND_FEATURE_MEMCG		0x2ULL	/* buffers are charged to a memory cgroup */

/**
 * struct distmind_query - what this module can do
 * @version: out, DISTMIND_ABI_VERSION of the module
 * @page_size: out, granularity of buffer sizes and map offsets in bytes
 * @features: out, DISTMIND_FEATURE_*
 * @buffer_max: out, the largest possible buffer in bytes
 */
struct distmind_query {
	__u32 version;
	__u32 page_size;
	__aligned_u64 features;
	__aligned_u64 buffer_max;
};

/*
 * /dev/distmind/control
 */

#define DISTMIND_ACQUIRE_SAME_BOX	0x1U	/* all of them in one box */
#define DISTMIND_ACQUIRE_CAPPED		0x2U	/* the share is a limit, also of an idle gpu */
#define DISTMIND_ACQUIRE__ALL		(DISTMIND_ACQUIRE_SAME_BOX | DISTMIND_ACQUIRE_CAPPED)

/**
 * struct distmind_acquire - ask the pool for virtual GPUs
 * @memory: memory quota of each vgpu in bytes, a multiple of the page size
 * @objective_ns: latency objective; only and always with DISTMIND_CLASS_LATENCY
 * @fds: points to __s32[@count]; out, one descriptor each, close-on-exec
 * @share: share of a gpu for each vgpu, 1 to DISTMIND_SHARE_WHOLE
 * @sched_class: enum distmind_class
 * @count: how many vgpus, 1 to DISTMIND_ACQUIRE_MAX; all of them or none
 * @flags: DISTMIND_ACQUIRE_*
 * @timeout_ms: how long to wait for an answer, 1 to DISTMIND_TIMEOUT_MAX_MS
 * @claim: out, the claim's number, as in the operator's tools
 * @name: a label for operators, [A-Za-z0-9._-], may be empty
 * @kind: the GPU kind wanted, same characters, empty for any
 * @reason: out, why the claim was refused, in words
 *
 * The wait ends with an answer, at its deadline, or by a fatal signal. Each
 * descriptor is the lease of its vgpu: when its last copy is closed and nothing
 * is mapped through it any more, the vgpu and all that belongs to it is released.
 *
 * Errors: ETIMEDOUT no answer within @timeout_ms; EAGAIN the caller has too
 * many claims under way; any errno that the daemon chose for its refusal,
 * usually ENOSPC. @reason is filled in for each of these.
 */
struct distmind_acquire {
	__aligned_u64 memory;
	__aligned_u64 objective_ns;
	__aligned_u64 fds;
	__u32 share;
	__u32 sched_class;
	__u32 count;
	__u32 flags;
	__u32 timeout_ms;
	__u32 claim;
	char name[DISTMIND_NAME_LEN];
	char kind[DISTMIND_NAME_LEN];
	char reason[DISTMIND_REASON_LEN];
};

/*
 * /dev/distmind/engine
 */

#define DISTMIND_NUMA_ANY		(-1)

/* What an engine can do beyond running jobs. */
#define DISTMIND_ENGINE_YIELDS		0x1U	/* looks whether it is asked to yield */
#define DISTMIND_ENGINE_LENDS		0x2U	/* lanes may be lent to processes by grants */
#define DISTMIND_ENGINE__ALL		(DISTMIND_ENGINE_YIELDS | DISTMIND_ENGINE_LENDS)

/**
 * struct distmind_engine_register - put a gpu into the pool
 * @heap_size: memory of the gpu in bytes, a multiple of the page size
 * @numa_node: node that the heap's pages come from, or DISTMIND_NUMA_ANY
 * @box: the box (chassis, switch domain) that the gpu is in
 * @flags: must be 0
 * @gpu: out, the gpu's number
 * @compute_lanes: lanes 0 to @compute_lanes - 1 run launches; may be 0
 * @copy_lanes: the lanes after those run copies; at most DISTMIND_LANES_MAX in all
 * @name: unique among the gpus that are not lost, [A-Za-z0-9._-]; a lost gpu
 *	of the same name is replaced
 * @kind: what kind of GPU, same characters
 * @capabilities: in, DISTMIND_ENGINE_*, whatever the engine knows of; out, those
 *	that the module knows too, which are in force. Jobs of an engine that does
 *	not yield run to their end.
 * @pad: must be 0
 *
 * An open file serves one gpu. The gpu lives as long as the file: when it is
 * closed, by death or otherwise, the gpu is lost. After registration the whole
 * heap can be mapped at offset 0, shared; a page of it is there while a buffer
 * covers it, and touching another one is SIGBUS. poll() reports EPOLLHUP when
 * an operator has removed the gpu.
 *
 * Errors: EBUSY this file has registered already; EEXIST the name is taken;
 * ENOMEM the heap is larger than the host's memory; EINVAL no such node.
 */
struct distmind_engine_register {
	__aligned_u64 heap_size;
	__s32 numa_node;
	__u32 box;
	__u32 flags;
	__u32 gpu;
	__u32 compute_lanes;
	__u32 copy_lanes;
	char name[DISTMIND_NAME_LEN];
	char kind[DISTMIND_NAME_LEN];
	__u32 capabilities;
	__u32 pad;
};

#define DISTMIND_LANES_MAX		16
/* Where in the engine's file the lanes' control pages are mapped, a page each. */
#define DISTMIND_LANE_MAP_OFFSET	0x4000000000000000ULL

/**
 * struct distmind_lane_page - what the kernel tells an engine while a job runs
 * @job: the job that this is about
 * @yield: not 0: end the job at the next block and hand back a resume cookie
 * @reset: not 0, and @yield too: the job has been failed, for hanging or with
 *	its gpu; whatever it still does has no effect, its memory stays until the
 *	engine has handed it back, and the lane gets no other job before
 */
struct distmind_lane_page {
	__aligned_u64 job;
	__u32 yield;
	__u32 reset;
};

#define DISTMIND_ARGS_MAX		24	/* arguments of one job */
#define DISTMIND_COPY_BLOCK		1048576	/* bytes; copies yield between two of these */

/**
 * struct distmind_engine_arg - an argument, as an engine sees it
 * @value: a number, or the offset in the heap at which a range begins
 * @length: 0 for a number, else the length of the range in bytes
 */
struct distmind_engine_arg {
	__aligned_u64 value;
	__aligned_u64 length;
};

/**
 * struct distmind_engine_job - a job, as an engine sees it
 * @id: its number, never 0 and never used again
 * @cookie: 0, or what the engine returned when the job yielded
 * @vgpu: whose it is
 * @type: enum distmind_job_type: launch or copy
 * @operation: of a launch
 * @blocks: how many; of a copy, one for each DISTMIND_COPY_BLOCK or part of it
 * @args: how many arguments
 * @read_only: bit i: the range in argument i must not be written; a job that would
 *	must be failed with EACCES
 * @arg: the arguments; of a copy: destination, source
 */
struct distmind_engine_job {
	__aligned_u64 id;
	__aligned_u64 cookie;
	__u32 vgpu;
	__u32 type;
	__u32 operation;
	__u32 blocks;
	__u32 args;
	__u32 read_only;
	struct distmind_engine_arg arg[DISTMIND_ARGS_MAX];
};

#define DISTMIND_DONE_YIELDED		1	/* @status: not finished, go on from @cookie */

/**
 * struct distmind_engine_exchange - hand back a job and fetch the next
 * @lane: whose turn this is; a lane runs one job at a time
 * @timeout_ms: how long to wait for a job: 0 not at all, at most
 *	DISTMIND_TIMEOUT_MAX_MS
 * @done: the job that the engine is done with, 0 for none
 * @cookie: where it wants to go on, with DISTMIND_DONE_YIELDED
 * @ran_ns: how long it ran, for accounting; the kernel does not believe more
 *	than its own clock says
 * @status: 0 finished, DISTMIND_DONE_YIELDED, or a negative errno: failed
 * @pad: must be 0
 * @job: out, the next job
 *
 * Errors: ETIMEDOUT no job came, what was handed back has been taken; EPROTO
 * the lane does not run @done: it is not its job or was handed back before; or
 * @done is 0 and the lane has a job, or had one that was failed for hanging and
 * was not handed back (which is an answer, and taken as such); EBUSY another
 * thread waits on the lane; ENODEV the gpu was lost or removed, or none was
 * registered.
 *
 * Have a thread wait on each lane that has no job. A lane for which none comes
 * although a job waits is out of use after the hang limit, or a second if that is
 * longer, until one comes; an engine none of whose lanes answers loses its gpu.
 *
 * poll() says POLLHUP when the gpu was removed, POLLERR when it was lost: then the
 * heap can be reached no more, an access to it is a SIGBUS.
 */
struct distmind_engine_exchange {
	__u32 lane;
	__u32 timeout_ms;
	__aligned_u64 done;
	__aligned_u64 cookie;
	__aligned_u64 ran_ns;
	__s32 status;
	__u32 pad;
	struct distmind_engine_job job;
};

/*
 * /dev/distmind/vgpuN
 */

/**
 * enum distmind_vgpu_state - what backs a vgpu
 * @DISTMIND_VGPU_STATE_BOUND: a gpu backs it
 * @DISTMIND_VGPU_STATE_PARKED: no gpu backs it
 * @DISTMIND_VGPU_STATE_LOST: its gpu is lost
 */
enum distmind_vgpu_state {
	DISTMIND_VGPU_STATE_BOUND	= 0,
	DISTMIND_VGPU_STATE_PARKED	= 1,
	DISTMIND_VGPU_STATE_LOST	= 2,
};

/**
 * struct distmind_vgpu_info - what this vgpu has
 * @memory: quota in bytes
 * @memory_used: bytes charged to it
 * @objective_ns: latency objective, 0 for none
 * @id: the N of /dev/distmind/vgpuN
 * @gpu: number of the gpu that backs it, ~0 if it is parked
 * @state: enum distmind_vgpu_state
 * @share: share of the gpu in thousandths
 * @sched_class: enum distmind_class
 * @pad: 0
 * @name: label
 *
 * All fields are out.
 */
struct distmind_vgpu_info {
	__aligned_u64 memory;
	__aligned_u64 memory_used;
	__aligned_u64 objective_ns;
	__u32 id;
	__u32 gpu;
	__u32 state;
	__u32 share;
	__u32 sched_class;
	__u32 pad;
	char name[DISTMIND_NAME_LEN];
};

#define DISTMIND_GPU_NONE		(~0U)

/**
 * enum distmind_buffer_kind - what a buffer holds
 * @DISTMIND_BUFFER_DATA: the tenant's own data
 * @DISTMIND_BUFFER_WEIGHTS: a model's weights, which the memory pool has too
 */
enum distmind_buffer_kind {
	DISTMIND_BUFFER_DATA		= 0,
	DISTMIND_BUFFER_WEIGHTS		= 1,
	DISTMIND_BUFFER__COUNT
};

/**
 * struct distmind_buffer_create - memory on the vgpu's gpu
 * @size: in bytes, a multiple of the page size
 * @kind: enum distmind_buffer_kind
 * @flags: must be 0
 * @map_offset: out, the offset at which mmap() finds the buffer
 * @handle: out, its name in this open file, never 0
 * @pad: must be 0
 *
 * The memory is zero. It belongs to the open file: closing the file destroys
 * it, as does DISTMIND_IOC_BUFFER_DESTROY. Mappings and exported dma-bufs keep
 * the memory, and its charge to the quota, until they are gone. It can be
 * mapped shared, whole or in part; a private mapping is EINVAL, and so is one
 * that goes beyond the end of the buffer.
 */
struct distmind_buffer_create {
	__aligned_u64 size;
	__u32 kind;
	__u32 flags;
	__aligned_u64 map_offset;
	__u32 handle;
	__u32 pad;
};

/**
 * struct distmind_handle_destroy - give back a handle of a buffer, queue or timeline
 * @handle: which
 * @pad: must be 0
 *
 * A queue ends: jobs that have not started fail with ECANCELED; one that runs is asked to
 * yield and then fails the same way.
 */
struct distmind_handle_destroy {
	__u32 handle;
	__u32 pad;
};

#define DISTMIND_OFFSET_NONE		(~0ULL)

/**
 * struct distmind_buffer_info - what is known of a buffer
 * @handle: in, of the buffer
 * @id: out, its number in the operator's tools
 * @size: out, in bytes
 * @map_offset: out
 * @heap_offset: out, where in its gpu's heap it starts at the moment, or
 *	DISTMIND_OFFSET_NONE: the heap is full of others, and it has been put out until
 *	a job uses it
 * @kind: out, enum distmind_buffer_kind
 * @gpu: out, number of the gpu whose heap it is in
 * @pins: out, how often dma-buf importers have pinned it
 * @pad: must be 0
 */
struct distmind_buffer_info {
	__u32 handle;
	__u32 id;
	__aligned_u64 size;
	__aligned_u64 map_offset;
	__aligned_u64 heap_offset;
	__u32 kind;
	__u32 gpu;
	__u32 pins;
	__u32 pad;
};

#define DISTMIND_EXPORT_CLOEXEC		0x1U
#define DISTMIND_EXPORT_RDWR		0x2U	/* else read-only */
#define DISTMIND_EXPORT__ALL		(DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR)
/* And of buffers: */
#define DISTMIND_EXPORT_PAID		0x4U	/* by the vgpu that is named */

/**
 * struct distmind_buffer_export - a dma-buf of a buffer
 * @handle: of the buffer
 * @flags: DISTMIND_EXPORT_*
 * @fd: out, the dma-buf's descriptor
 * @payer: with DISTMIND_EXPORT_PAID, number of the vgpu that is charged the size of the
 *	buffer, else 0
 *
 * With DISTMIND_EXPORT_PAID, which needs CAP_NET_ADMIN, the vgpu pays until nothing is
 * left that comes of this dma-buf: descriptors, mappings, handles of who has imported it,
 * jobs that use these, and dma-bufs that are exported from these. It pays once for one
 * buffer, beside the vgpu that has made it and others that pay for it.
 *
 * Errors: EACCES the buffer was imported and can only be read, and _RDWR is asked for;
 * EPERM _PAID is asked for without privilege; ENXIO there is no such vgpu; EDQUOT its
 * quota, or what its user may have in all, does not allow it.
 */
struct distmind_buffer_export {
	__u32 handle;
	__u32 flags;
	__s32 fd;
	__u32 payer;
};

/**
 * struct distmind_buffer_import - a handle for somebody's buffer
 * @fd: a dma-buf that DISTMIND_IOC_BUFFER_EXPORT made
 * @access: out, DISTMIND_EXPORT_RDWR, or 0: it can only be read, by mappings and by
 *	jobs
 * @size: out, in bytes
 * @map_offset: out, the offset at which mmap() finds it
 * @handle: out, its name in this open file, never 0
 * @flags: must be 0
 *
 * The memory stays charged to the vgpu that created it. Jobs can use it while it is
 * on the gpu that their vgpu is bound to: EXDEV otherwise.
 *
 * Errors: EBADF no open file; EINVAL not a dma-buf of a buffer.
 */
struct distmind_buffer_import {
	__s32 fd;
	__u32 access;
	__aligned_u64 size;
	__aligned_u64 map_offset;
	__u32 handle;
	__u32 flags;
};

/*
 * Timelines: monotonic counters that jobs wait for and signal
 */

/**
 * struct distmind_timeline_page - what an exported timeline shows when mapped
 * @value: where it is
 * @failed_value: from this value on it has failed; ~0: it has not
 * @error: a negative errno: with what it failed
 * @pad: 0
 */
struct distmind_timeline_page {
	__aligned_u64 value;
	__aligned_u64 failed_value;
	__s32 error;
	__u32 pad;
};

/**
 * struct distmind_timeline_create - a new timeline
 * @value: where it begins
 * @handle: out, its name in this open file, never 0
 * @pad: must be 0
 *
 * When nobody is left who can signal it, no handle and no descriptor with that right and
 * no job that will, the values that were not reached fail with EOWNERDEAD.
 */
struct distmind_timeline_create {
	__aligned_u64 value;
	__u32 handle;
	__u32 pad;
};

/**
 * struct distmind_timeline_export - a descriptor of a timeline
 * @handle: of the timeline
 * @flags: DISTMIND_EXPORT_*; without _RDWR the holder can only watch
 * @fd: out
 * @pad: must be 0
 *
 * Errors: EACCES it was imported and can only be watched, and _RDWR is asked for.
 */
struct distmind_timeline_export {
	__u32 handle;
	__u32 flags;
	__s32 fd;
	__u32 pad;
};

/**
 * struct distmind_timeline_import - a handle for somebody's timeline
 * @fd: its descriptor
 * @handle: out; jobs can signal it only if @fd was exported with _RDWR
 *
 * Errors: EBADF it is not the descriptor of a timeline.
 */
struct distmind_timeline_import {
	__s32 fd;
	__u32 handle;
};

/**
 * struct distmind_timeline_wait - sleep until a value is reached
 * @value: which
 * @timeout_ms: at most DISTMIND_TIMEOUT_MAX_MS
 * @pad: must be 0
 *
 * Errors: ETIMEDOUT; the error that the value failed with.
 */
struct distmind_timeline_wait {
	__aligned_u64 value;
	__u32 timeout_ms;
	__u32 pad;
};

/**
 * struct distmind_timeline_signal - go on to a value
 * @value: greater than where the timeline is, EINVAL otherwise
 *
 * Also the argument of DISTMIND_IOC_TIMELINE_POLL: from which value on poll()
 * finds this descriptor readable, and in error if that value has failed.
 *
 * Errors, not of POLL: EBADF the descriptor was exported without _RDWR.
 */
struct distmind_timeline_signal {
	__aligned_u64 value;
};

/**
 * struct distmind_timeline_fail - end a timeline with an error
 * @value: from which value on everything fails; greater than where the timeline is,
 *	EINVAL otherwise. Values before it count as reached.
 * @error: a negative errno
 * @pad: must be 0
 *
 * Errors: EBADF the descriptor was exported without _RDWR.
 */
struct distmind_timeline_fail {
	__aligned_u64 value;
	__s32 error;
	__u32 pad;
};

/**
 * struct distmind_timeline_watch - signal an eventfd when a value is reached
 * @value: which
 * @eventfd: signalled once, soon after, if this descriptor is still open then
 * @pad: must be 0
 *
 * Errors: ENOSPC 64 values are watched by this descriptor.
 */
struct distmind_timeline_watch {
	__aligned_u64 value;
	__s32 eventfd;
	__u32 pad;
};

/*
 * Queues and jobs
 */

/**
 * enum distmind_lane_kind - what a lane is for
 * @DISTMIND_LANE_COMPUTE: launches
 * @DISTMIND_LANE_COPY: copies
 */
enum distmind_lane_kind {
	DISTMIND_LANE_COMPUTE	= 0,
	DISTMIND_LANE_COPY	= 1,
	DISTMIND_LANE__COUNT
};

#define DISTMIND_QUEUE_DEPTH_MAX	65536	/* jobs in one queue */
#define DISTMIND_SUBMIT_MAX		1024	/* jobs, arguments or waits in one call */

/**
 * struct distmind_queue_create - an ordered stream of jobs
 * @kind: enum distmind_lane_kind: which lanes run it
 * @depth: how many jobs it holds, 1 to DISTMIND_QUEUE_DEPTH_MAX
 * @flags: must be 0
 * @handle: out, its name in this open file, never 0
 *
 * Jobs of a queue run one after another, in order. Between queues there is no
 * order but by timelines. A queue belongs to the gpu that the vgpu is bound to
 * at its creation: when the vgpu loses that gpu, the queue's jobs fail.
 */
struct distmind_queue_create {
	__u32 kind;
	__u32 depth;
	__u32 flags;
	__u32 handle;
};

/**
 * enum distmind_room_cause - why there is no room for a job in its gpu's memory
 * @DISTMIND_ROOM_NONE: there is, or it is not at that
 * @DISTMIND_ROOM_JOBS: because of what jobs on lanes use; they leave, or are asked to
 * @DISTMIND_ROOM_PINNED: because of what a device has pinned there, or because a device
 *	has pinned a buffer of the job on the gpu that its vgpu has left
 * @DISTMIND_ROOM_ELSEWHERE: a job on the gpu that the vgpu has left uses a buffer of it
 * @DISTMIND_ROOM_HUNG: because of what a job used that was failed for hanging and that its
 *	engine has not let go
 * @DISTMIND_ROOM__COUNT: how many causes there are
 */
enum distmind_room_cause {
	DISTMIND_ROOM_NONE,
	DISTMIND_ROOM_JOBS,
	DISTMIND_ROOM_PINNED,
	DISTMIND_ROOM_ELSEWHERE,
	DISTMIND_ROOM_HUNG,
	DISTMIND_ROOM__COUNT
};

#define DISTMIND_ROOM_HIDDEN	0xffffffffU	/* it is another user's */

/**
 * struct distmind_queue_room - for whom a queue's first job waits, or why one failed
 * @queue: its handle
 * @cause: out, enum distmind_room_cause
 * @error: out, 0: the first job waits; else what the last job that waited for so long
 *	that it was failed has failed with
 * @buffer: out, number of the buffer that is in the way; the largest of several
 * @vgpu: out, whose that is
 * @gpu: out, where it is
 * @pid: out, with DISTMIND_ROOM_PINNED: the process that had it pinned last
 * @pad: 0
 * @waited_ns: out, for how long
 * @device: out, with DISTMIND_ROOM_PINNED: the device that pinned it
 *
 * If that is another user's and the caller has no CAP_NET_ADMIN, @buffer and @vgpu are
 * DISTMIND_ROOM_HIDDEN, @pid is 0 and @device is empty.
 */
struct distmind_queue_room {
	__u32 queue;
	__u32 cause;
	__s32 error;
	__u32 buffer;
	__u32 vgpu;
	__u32 gpu;
	__s32 pid;
	__u32 pad;
	__aligned_u64 waited_ns;
	char device[DISTMIND_NAME_LEN];
};

/**
 * struct distmind_queue_page - what a watched queue shows when mapped
 * @grant: number of the grant that has a lane, 0 for none
 * @asked: how often the job on the lane was asked to yield
 * @yielded: how often one left the lane after that
 * @yield: not 0: the job on the lane has been asked to yield
 * @pad: 0
 */
struct distmind_queue_page {
	__aligned_u64 grant;
	__aligned_u64 asked;
	__aligned_u64 yielded;
	__u32 yield;
	__u32 pad;
};

/* Where in a vgpu's file the pages of watched queues are mapped. */
#define DISTMIND_QUEUE_MAP_OFFSET	0x4000000000000000ULL

/**
 * struct distmind_queue_watch - be told what happens to a queue's jobs
 * @queue: handle
 * @eventfd: signalled before a preemption (a job is asked to yield), after it
 *	(the job has left its lane), and when a grant begins; -1 for none
 * @map_offset: out, where mmap() finds the queue's page, read-only
 */
struct distmind_queue_watch {
	__u32 queue;
	__s32 eventfd;
	__aligned_u64 map_offset;
};

#define DISTMIND_GRANT_AGAIN		0x1U	/* it was asked to yield and wants to go on */
#define DISTMIND_GRANT__ALL		DISTMIND_GRANT_AGAIN

/**
 * struct distmind_grant_end - give a lane back
 * @queue: handle
 * @flags: DISTMIND_GRANT_*; with _AGAIN the job stays the first of its queue and
 *	is granted a lane again, under another number, when its turn comes
 * @grant: its number
 *
 * Errors: EPROTO the queue does not have that grant; the error that the queue
 * has ended with.
 */
struct distmind_grant_end {
	__u32 queue;
	__u32 flags;
	__aligned_u64 grant;
};

/**
 * enum distmind_job_type - what a job does
 * @DISTMIND_JOB_LAUNCH: runs an operation on a compute lane
 * @DISTMIND_JOB_COPY: copies between two buffers; arguments: destination, source
 * @DISTMIND_JOB_BARRIER: waits and signals, nothing else
 * @DISTMIND_JOB_GRANT: lends a lane of the queue's kind to the submitting process,
 *	which runs work of its own on the device until GRANT_END. The queue must be
 *	watched. Asked to yield, it has the grace period to give the lane back; then
 *	the vendor's hook may stop its work on the device until it is granted a lane
 *	again; after the hang limit the job fails, and the process is killed if it
 *	keeps the lane for as long again.
 */
enum distmind_job_type {
	DISTMIND_JOB_LAUNCH	= 0,
	DISTMIND_JOB_COPY	= 1,
	DISTMIND_JOB_BARRIER	= 2,
	DISTMIND_JOB_GRANT	= 3,
	DISTMIND_JOB__COUNT
};

/**
 * struct distmind_arg - an argument of a job
 * @buffer: handle of a buffer of this open file, or 0: @value is a number
 * @pad: must be 0
 * @value: the number, or the offset into the buffer
 * @length: of the range in bytes, not 0; 0 for a number
 */
struct distmind_arg {
	__u32 buffer;
	__u32 pad;
	__aligned_u64 value;
	__aligned_u64 length;
};

/**
 * struct distmind_wait - what a job waits for
 * @timeline: handle
 * @pad: must be 0
 * @value: which must be reached
 */
struct distmind_wait {
	__u32 timeline;
	__u32 pad;
	__aligned_u64 value;
};

/**
 * struct distmind_job_desc - a job to submit
 * @type: enum distmind_job_type
 * @operation: of a launch, what the engine is to do; 0 otherwise
 * @blocks: of a launch, the number of its blocks, not 0; 0 otherwise
 * @flags: must be 0
 * @first_arg: index of its first argument in the call's array
 * @args: how many, at most DISTMIND_ARGS_MAX
 * @first_wait: index of its first wait in the call's array
 * @waits: how many
 * @signal: handle of a timeline, or 0
 * @pad: must be 0
 * @signal_value: what that timeline goes to when the job has ended
 *
 * A job whose wait has failed fails with the same error and does not run. A job
 * that fails signals its timeline with its error: what the engine said, or
 * ECANCELED its queue was destroyed, ESTALE its vgpu was bound elsewhere, ENODEV
 * its vgpu is gone, EOWNERDEAD its gpu is lost, ETIME it did not yield in time,
 * ENOSPC its buffers do not fit into the heap together, EXDEV an imported buffer has
 * followed its own vgpu to another gpu.
 */
struct distmind_job_desc {
	__u32 type;
	__u32 operation;
	__u32 blocks;
	__u32 flags;
	__u32 first_arg;
	__u32 args;
	__u32 first_wait;
	__u32 waits;
	__u32 signal;
	__u32 pad;
	__aligned_u64 signal_value;
};

#define DISTMIND_SUBMIT_LAST		0x1U	/* of its request */
#define DISTMIND_SUBMIT__ALL		DISTMIND_SUBMIT_LAST

/**
 * struct distmind_submit - put jobs into a queue, all of them or none
 * @jobs: points to struct distmind_job_desc[@job_count]
 * @args: points to struct distmind_arg[@arg_count]
 * @waits: points to struct distmind_wait[@wait_count]
 * @job_count: 1 to DISTMIND_SUBMIT_MAX
 * @arg_count: at most DISTMIND_SUBMIT_MAX
 * @wait_count: at most DISTMIND_SUBMIT_MAX
 * @queue: handle
 * @flags: DISTMIND_SUBMIT_*; with _LAST nothing more comes for @request, which ends
 *	with its last job
 * @failed: out, also on error: index of the job that is at fault
 * @request: what the jobs belong to: a number of the caller's choice, for this open
 *	file, or 0: each is by itself. With 0, @deadline_ns and @left_ns must be 0 too.
 * @deadline_ns: when the request should be done, on CLOCK_MONOTONIC; 0: as said before,
 *	or else the vgpu's objective after its first submission
 * @left_ns: lane time that is left of the request, these jobs included; 0: as said
 *	before, or else what requests took that began alike
 *
 * A request begins with the first submission that names it and is open until one with
 * _LAST, or REQUEST_END, and the end of its jobs. Then its number is free again.
 * Policies go by its deadline and by what is left of it, and whether it was late is
 * counted once. Of jobs without a request each is one of its own, which begins when the
 * job is ready.
 *
 * Errors: EAGAIN the queue has no room for all of them; ENOENT a handle of job
 * @failed; ERANGE a range of job @failed that is not within its buffer; EXDEV a
 * buffer of job @failed that is on another gpu; EOPNOTSUPP the gpu has no lane
 * for job @failed, or does not lend lanes; EBADFD a grant on a queue that is not
 * watched; EACCES job @failed copies into a buffer that it can only read, or signals
 * a timeline that it can only watch; EBUSY the request has had its last submission and
 * is not over; EDQUOT the user has as many requests as a user may have.
 */
struct distmind_submit {
	__aligned_u64 jobs;
	__aligned_u64 args;
	__aligned_u64 waits;
	__u32 job_count;
	__u32 arg_count;
	__u32 wait_count;
	__u32 queue;
	__u32 flags;
	__u32 failed;
	__aligned_u64 request;
	__aligned_u64 deadline_ns;
	__aligned_u64 left_ns;
};

/**
 * struct distmind_request_end - nothing more comes for a request
 * @request: its number
 * @flags: must be 0
 * @pad: must be 0
 *
 * It ends with the last of its jobs, or now.
 *
 * Errors: ENOENT this open file has no such request.
 */
struct distmind_request_end {
	__aligned_u64 request;
	__u32 flags;
	__u32 pad;
};

#define DISTMIND_IOC_MAGIC		0xD7
#define DISTMIND_IOC(nr, type)		_IOWR(DISTMIND_IOC_MAGIC, nr, struct distmind_##type)

#define DISTMIND_IOC_QUERY		DISTMIND_IOC(0x00, query)

#define DISTMIND_IOC_ACQUIRE		DISTMIND_IOC(0x10, acquire)

#define DISTMIND_IOC_ENGINE_REGISTER	DISTMIND_IOC(0x20, engine_register)

#define DISTMIND_IOC_ENGINE_EXCHANGE	DISTMIND_IOC(0x21, engine_exchange)

#define DISTMIND_IOC_VGPU_INFO		DISTMIND_IOC(0x40, vgpu_info)
#define DISTMIND_IOC_BUFFER_CREATE	DISTMIND_IOC(0x41, buffer_create)
#define DISTMIND_IOC_BUFFER_DESTROY	DISTMIND_IOC(0x42, handle_destroy)
#define DISTMIND_IOC_BUFFER_INFO	DISTMIND_IOC(0x43, buffer_info)
#define DISTMIND_IOC_BUFFER_EXPORT	DISTMIND_IOC(0x44, buffer_export)
#define DISTMIND_IOC_TIMELINE_CREATE	DISTMIND_IOC(0x45, timeline_create)
#define DISTMIND_IOC_TIMELINE_DESTROY	DISTMIND_IOC(0x46, handle_destroy)
#define DISTMIND_IOC_TIMELINE_EXPORT	DISTMIND_IOC(0x47, timeline_export)
#define DISTMIND_IOC_TIMELINE_IMPORT	DISTMIND_IOC(0x48, timeline_import)
#define DISTMIND_IOC_QUEUE_CREATE	DISTMIND_IOC(0x49, queue_create)
#define DISTMIND_IOC_QUEUE_DESTROY	DISTMIND_IOC(0x4a, handle_destroy)
#define DISTMIND_IOC_SUBMIT		DISTMIND_IOC(0x4b, submit)
#define DISTMIND_IOC_QUEUE_WATCH	DISTMIND_IOC(0x4c, queue_watch)
#define DISTMIND_IOC_GRANT_END		DISTMIND_IOC(0x4d, grant_end)
#define DISTMIND_IOC_BUFFER_IMPORT	DISTMIND_IOC(0x4e, buffer_import)
#define DISTMIND_IOC_REQUEST_END	DISTMIND_IOC(0x4f, request_end)
#define DISTMIND_IOC_QUEUE_ROOM		DISTMIND_IOC(0x50, queue_room)

#define DISTMIND_IOC_TIMELINE_WAIT	DISTMIND_IOC(0x60, timeline_wait)
#define DISTMIND_IOC_TIMELINE_SIGNAL	DISTMIND_IOC(0x61, timeline_signal)
#define DISTMIND_IOC_TIMELINE_WATCH	DISTMIND_IOC(0x62, timeline_watch)
#define DISTMIND_IOC_TIMELINE_POLL	DISTMIND_IOC(0x63, timeline_signal)
#define DISTMIND_IOC_TIMELINE_FAIL	DISTMIND_IOC(0x64, timeline_fail)

#endif /* _UAPI_LINUX_DISTMIND_H */
