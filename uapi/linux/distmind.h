/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * DistMind: virtual GPUs. The ioctl interface of /dev/distmind/.
 *
 *   /dev/distmind/control   anyone   QUERY, ACQUIRE
 *   /dev/distmind/engine    root     QUERY, ENGINE_REGISTER, mmap
 *   /dev/distmind/vgpuN     owner    QUERY, VGPU_INFO, BUFFER_*, mmap
 *
 * The file descriptors that DISTMIND_IOC_ACQUIRE returns answer to the same
 * calls as an open /dev/distmind/vgpuN.
 *
 * Rules that hold for every call:
 *
 *  - Fields are of fixed width, padding is explicit, and the structures have
 *    the same layout in 32-bit and 64-bit processes.
 *  - Reserved fields and unknown flags must be zero: EINVAL otherwise.
 *  - Structures only ever grow at their end, and the size is part of the
 *    ioctl number. A module that is newer than the caller reads the missing
 *    tail as zero. A module that is older accepts a longer structure as long
 *    as the tail that it does not know is zero, and says E2BIG otherwise.
 *    So an old library works on a new module and the reverse.
 *  - An error leaves the caller's structure untouched, with one exception:
 *    ACQUIRE fills in @reason.
 *
 * Errors that mean the same in every call:
 *
 *   EINVAL       a field has a value that it can never have
 *   EFAULT       a pointer does not point to memory of the caller
 *   ENOTTY       this node does not know the call
 *   ENOENT       no such handle in this open file
 *   ENODEV       the vgpu is gone: its lease ended or it was deleted
 *   ENXIO        the vgpu is parked: no gpu backs it at the moment
 *   EOWNERDEAD   the vgpu's gpu is lost: its engine died
 *   EDQUOT       the vgpu's memory quota does not allow it
 *   ENOSPC       the gpu's heap has no contiguous room of that size
 *   ENOMEM       the host, or the caller's memory cgroup, is out of memory
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
#define DISTMIND_ACQUIRE_MAX	64	/* vgpus in one request */
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
#define DISTMIND_ACQUIRE__ALL		(DISTMIND_ACQUIRE_SAME_BOX)

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
 * @request: out, the request's number, as in the operator's tools
 * @name: a label for operators, [A-Za-z0-9._-], may be empty
 * @kind: the GPU kind wanted, same characters, empty for any
 * @reason: out, why the request was refused, in words
 *
 * The wait ends with an answer, at its deadline, or by a fatal signal. Each
 * descriptor is the lease of its vgpu: when its last copy is closed the vgpu
 * and everything that belongs to it is released.
 *
 * Errors: ETIMEDOUT no answer within @timeout_ms; EAGAIN the caller has too
 * many requests under way; any errno that the daemon chose for its refusal,
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
	__u32 request;
	char name[DISTMIND_NAME_LEN];
	char kind[DISTMIND_NAME_LEN];
	char reason[DISTMIND_REASON_LEN];
};

/*
 * /dev/distmind/engine
 */

#define DISTMIND_NUMA_ANY		(-1)

/**
 * struct distmind_engine_register - put a gpu into the pool
 * @heap_size: memory of the gpu in bytes, a multiple of the page size
 * @numa_node: node that the heap's pages come from, or DISTMIND_NUMA_ANY
 * @box: the box (chassis, switch domain) that the gpu is in
 * @flags: must be 0
 * @gpu: out, the gpu's number
 * @name: unique among the gpus that are not lost, [A-Za-z0-9._-]; a lost gpu
 *	of the same name is replaced
 * @kind: what kind of GPU, same characters
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
	char name[DISTMIND_NAME_LEN];
	char kind[DISTMIND_NAME_LEN];
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
 * struct distmind_buffer_destroy - give a handle back
 * @handle: of the buffer
 * @pad: must be 0
 */
struct distmind_buffer_destroy {
	__u32 handle;
	__u32 pad;
};

/**
 * struct distmind_buffer_info - what is known of a buffer
 * @handle: in, of the buffer
 * @id: out, its number in the operator's tools
 * @size: out, in bytes
 * @map_offset: out
 * @heap_offset: out, where in its gpu's heap it starts
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

/**
 * struct distmind_buffer_export - a dma-buf of a buffer
 * @handle: of the buffer
 * @flags: DISTMIND_EXPORT_*
 * @fd: out, the dma-buf's descriptor
 * @pad: must be 0
 */
struct distmind_buffer_export {
	__u32 handle;
	__u32 flags;
	__s32 fd;
	__u32 pad;
};

#define DISTMIND_IOC_MAGIC		0xD7
#define DISTMIND_IOC(nr, type)		_IOWR(DISTMIND_IOC_MAGIC, nr, struct distmind_##type)

#define DISTMIND_IOC_QUERY		DISTMIND_IOC(0x00, query)

#define DISTMIND_IOC_ACQUIRE		DISTMIND_IOC(0x10, acquire)

#define DISTMIND_IOC_ENGINE_REGISTER	DISTMIND_IOC(0x20, engine_register)

#define DISTMIND_IOC_VGPU_INFO		DISTMIND_IOC(0x40, vgpu_info)
#define DISTMIND_IOC_BUFFER_CREATE	DISTMIND_IOC(0x41, buffer_create)
#define DISTMIND_IOC_BUFFER_DESTROY	DISTMIND_IOC(0x42, buffer_destroy)
#define DISTMIND_IOC_BUFFER_INFO	DISTMIND_IOC(0x43, buffer_info)
#define DISTMIND_IOC_BUFFER_EXPORT	DISTMIND_IOC(0x44, buffer_export)

#endif /* _UAPI_LINUX_DISTMIND_H */
