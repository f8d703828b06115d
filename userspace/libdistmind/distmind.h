/* SPDX-License-Identifier: MIT */
/*
 * libdistmind: virtual GPUs for applications, and the pool for tools.
 *
 * Three parts, each an object of its own:
 *
 *   struct distmind_vgpu, struct distmind_buffer   an application's side
 *   struct distmind_engine                         a gpu's side
 *   struct distmind_pool                           an operator's side (netlink)
 *
 * Calls return 0 or a non-negative value on success and a negative errno on
 * failure; the meaning of each errno is stated in <linux/distmind.h>. An object
 * may be used by one thread at a time, different objects by different threads.
 * Descriptors are close-on-exec.
 */
#ifndef DISTMIND_H
#define DISTMIND_H

#include <linux/distmind.h>
#include <linux/distmind_netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the loaded module can do. -ENOENT: the module is not loaded. */
int distmind_query(struct distmind_query *query);

/*
 * Applications
 */

struct distmind_vgpu;
struct distmind_buffer;

/* What an application asks the pool for. All zero but memory is a fair start. */
struct distmind_claim {
	uint64_t memory;	/* bytes, each vgpu; rounded up to whole pages */
	uint64_t objective_ns;	/* latency objective, with DISTMIND_CLASS_LATENCY */
	uint32_t share;		/* thousandths of a gpu; 0: a whole one */
	uint32_t sched_class;	/* enum distmind_class */
	uint32_t count;		/* 0: one */
	uint32_t timeout_ms;	/* 0: 30 seconds */
	bool same_box;
	bool capped; /* the share is a limit, also of an idle gpu */
	const char *name;	/* label for operators, or NULL */
	const char *kind;	/* wanted GPU kind, or NULL for any */
};

/*
 * Ask for vgpus and wait for the answer. vgpus has room for claim->count.
 * A refusal's reason in words is put into reason, which may be NULL or has
 * room for DISTMIND_REASON_LEN characters.
 */
int distmind_acquire(const struct distmind_claim *claim, struct distmind_vgpu **vgpus,
		     char *reason);

/* Open the vgpu of a device node, such as "/dev/distmind/vgpu3". */
int distmind_vgpu_open(const char *path, struct distmind_vgpu **vgpu);

/* Use a descriptor that came from elsewhere; the vgpu owns it from now on. */
int distmind_vgpu_from_fd(int fd, struct distmind_vgpu **vgpu);

/*
 * The vgpu that "distmindctl run" gave to this process, the index-th of them.
 * -ENOENT: there is none.
 */
int distmind_vgpu_inherited(unsigned int index, struct distmind_vgpu **vgpu);
#define DISTMIND_ENV_FDS "DISTMIND_VGPU_FDS" /* descriptors, separated by commas */

/* Its buffers must have been destroyed before. */
void distmind_vgpu_close(struct distmind_vgpu *vgpu);
int distmind_vgpu_fd(const struct distmind_vgpu *vgpu);
int distmind_vgpu_info(struct distmind_vgpu *vgpu, struct distmind_vgpu_info *info);

/* size is rounded up to whole pages. The memory is zero. */
int distmind_buffer_create(struct distmind_vgpu *vgpu, uint64_t size,
			   enum distmind_buffer_kind kind, struct distmind_buffer **buffer);
void distmind_buffer_destroy(struct distmind_buffer *buffer);
uint32_t distmind_buffer_handle(const struct distmind_buffer *buffer);
uint64_t distmind_buffer_size(const struct distmind_buffer *buffer);
int distmind_buffer_info(struct distmind_buffer *buffer, struct distmind_buffer_info *info);

/*
 * A handle for the buffer of a dma-buf, which another process exported; fd stays the
 * caller's. Jobs and mappings can only read it if it was exported read-only.
 */
int distmind_buffer_import(struct distmind_vgpu *vgpu, int fd, struct distmind_buffer **buffer);

/*
 * The buffer in this process's address space; mapped by the first call, until
 * the buffer is destroyed. ibv_reg_mr() works on it.
 */
int distmind_buffer_map(struct distmind_buffer *buffer, void **address);

/* A dma-buf of the buffer: a descriptor, with DISTMIND_EXPORT_* flags. */
int distmind_buffer_export(struct distmind_buffer *buffer, uint32_t flags);
/*
 * The same, and the vgpu of that number pays the buffer's size for as long as something is
 * left of it, whoever has it. Needs CAP_NET_ADMIN. -EDQUOT: the vgpu, or its user, has not
 * enough left.
 */
int distmind_buffer_export_paid(struct distmind_buffer *buffer, uint32_t flags, uint32_t payer);

/*
 * Execution: queues of jobs, ordered by timelines
 */

struct distmind_timeline;
struct distmind_queue;
struct distmind_batch;

int distmind_timeline_create(struct distmind_vgpu *vgpu, uint64_t value,
			     struct distmind_timeline **timeline);
/* Somebody else's, by its descriptor, which stays the caller's. */
int distmind_timeline_import(struct distmind_vgpu *vgpu, int fd,
			     struct distmind_timeline **timeline);
/*
 * A descriptor of its own for another process, with DISTMIND_EXPORT_* flags; the caller's.
 * Without DISTMIND_EXPORT_RDWR it can be waited for, but not signalled.
 */
int distmind_timeline_export(struct distmind_timeline *timeline, uint32_t flags);
void distmind_timeline_destroy(struct distmind_timeline *timeline);
/* To pass on as it is or to poll(), see distmind_timeline_poll(); stays the timeline's. */
int distmind_timeline_fd(const struct distmind_timeline *timeline);
/* Where it is, without a system call. */
uint64_t distmind_timeline_value(const struct distmind_timeline *timeline);
/* 0 if value is reached, -EAGAIN if not yet, else what it failed with; no system call. */
int distmind_timeline_status(const struct distmind_timeline *timeline, uint64_t value);
/* -ETIMEDOUT, or what the value failed with. */
int distmind_timeline_wait(struct distmind_timeline *timeline, uint64_t value,
			   uint32_t timeout_ms);
int distmind_timeline_signal(struct distmind_timeline *timeline, uint64_t value);
/* From value on everything fails with error, a negative errno; those before are reached. */
int distmind_timeline_fail(struct distmind_timeline *timeline, uint64_t value, int error);
/* Add 1 to an eventfd when value is reached, once. */
int distmind_timeline_watch(struct distmind_timeline *timeline, uint64_t value, int eventfd);
/* From this value on poll() finds the descriptor readable. */
int distmind_timeline_poll(struct distmind_timeline *timeline, uint64_t value);

/* depth is how many jobs it holds. */
int distmind_queue_create(struct distmind_vgpu *vgpu, enum distmind_lane_kind kind, uint32_t depth,
			  struct distmind_queue **queue);
/* Cancels what has not started. */
void distmind_queue_destroy(struct distmind_queue *queue);
/*
 * Be told of preemptions: eventfd, unless it is -1, is signalled before one of the
 * queue's jobs must leave its lane and after it has left; the page says how often.
 */
int distmind_queue_watch(struct distmind_queue *queue, int eventfd);
/* What is known of the queue without a system call; NULL: it is not watched. */
const struct distmind_queue_page *distmind_queue_page(const struct distmind_queue *queue);
/* For whom its first job waits that has no room in the gpu's memory, or one failed (EBUSY). */
int distmind_queue_room(struct distmind_queue *queue, struct distmind_queue_room *room);

/*
 * Jobs to submit together. Each call that adds a job makes it the one that
 * arguments, waits and the signal are added to. A failure to add (out of
 * memory, too much for one call) is remembered and told by submit.
 */
int distmind_batch_create(struct distmind_batch **batch);
void distmind_batch_destroy(struct distmind_batch *batch);
void distmind_batch_clear(struct distmind_batch *batch);
void distmind_batch_launch(struct distmind_batch *batch, uint32_t operation, uint32_t blocks);
void distmind_batch_copy(struct distmind_batch *batch, struct distmind_buffer *to,
			 uint64_t to_offset, struct distmind_buffer *from, uint64_t from_offset,
			 uint64_t length);
void distmind_batch_barrier(struct distmind_batch *batch);
void distmind_batch_number(struct distmind_batch *batch, uint64_t value);
void distmind_batch_range(struct distmind_batch *batch, struct distmind_buffer *buffer,
			  uint64_t offset, uint64_t length);
void distmind_batch_wait(struct distmind_batch *batch, struct distmind_timeline *timeline,
			 uint64_t value);
void distmind_batch_signal(struct distmind_batch *batch, struct distmind_timeline *timeline,
			   uint64_t value);
/*
 * What the application wants done, in one batch or several, in one queue of the vgpu or
 * several: what its objective is about, and what is counted as late or not. It begins with
 * the first batch that names it. It ends with its jobs after one that is marked as the last
 * was submitted, or after distmind_request_end().
 */
struct distmind_request {
	uint64_t id;	      /* of the caller's choice, not 0 */
	uint64_t deadline_ns; /* on CLOCK_MONOTONIC; 0: as before, or else by the objective */
	uint64_t left_ns;     /* lane time, with this batch; 0: as before, or else learned */
	bool last;
};

/* The batch, until it is cleared, belongs to this; the request is copied. */
void distmind_batch_request(struct distmind_batch *batch, const struct distmind_request *request);
/* Nothing more comes. -ENOENT: no such request is open. */
int distmind_request_end(struct distmind_vgpu *vgpu, uint64_t id);

/*
 * All of the batch or nothing; the batch stays as it is. -EAGAIN: the queue has
 * no room; -EDQUOT: too many requests are open; -EBUSY: its request has had its last
 * batch. failed, if not NULL, gets the index of the job that is at fault.
 */
int distmind_queue_submit(struct distmind_queue *queue, const struct distmind_batch *batch,
			  uint32_t *failed);

/*
 * Models: weights of the memory pool, which distmindd reads into the memory of the
 * vgpu's gpu in the order in which they are used.
 */

struct distmind_model;

#define DISTMIND_TENSOR_RANK 8

/* Its texts are the model's. */
struct distmind_tensor {
	const char *name;
	const char *dtype; /* as safetensors names it: "F32", "BF16" */
	uint64_t shape[DISTMIND_TENSOR_RANK];
	uint32_t rank;
	uint64_t offset; /* in the model's buffer */
	uint64_t size;	 /* bytes */
	uint64_t value;	 /* of the model's timeline, from which on it is there */
};

enum distmind_model_form {
	DISTMIND_MODEL_AUTO,
	DISTMIND_MODEL_DIRECT, /* the network writes into the memory of the gpu */
	DISTMIND_MODEL_STAGED, /* through host memory and a copy lane */
};

/* All zero is a fair start. */
struct distmind_model_options {
	uint32_t deadline_ms; /* in which all must be there; 0: 30 seconds */
	enum distmind_model_form form;
	bool background;     /* after the loads of those who are in a hurry */
	bool verify;	     /* compare the digest of every chunk */
	bool wait;	     /* return when all is there, or with the reason why not */
	uint64_t compute_ns; /* what a request computes, all layers, if it is known */
};

struct distmind_model_info {
	uint64_t size;	       /* of the weights */
	uint64_t final;	       /* value of the timeline when all is there */
	uint64_t groups;       /* steps of the pipeline */
	uint64_t predicted_ns; /* until all is there and computed; 0: not known */
	uint64_t read_bytes;   /* from other hosts; what this one has is copied */
	bool cached;	       /* the gpu has all of it, or it is on its way for others */
	bool staged;
};

/*
 * How much of a vgpu's quota the use of a model takes, besides the vgpu's own buffers. reason
 * is as for distmind_acquire(). -ENOENT, -EACCES.
 */
int distmind_model_size(const char *name, uint64_t *size, char *reason);

/*
 * Ask for a model's weights. The call returns when it is known what comes when; jobs
 * that use a tensor can be submitted at once, since the kernel lets each wait for what
 * it needs. reason is as for distmind_acquire(). options may be NULL.
 */
int distmind_model_load(struct distmind_vgpu *vgpu, const char *name,
			const struct distmind_model_options *options,
			struct distmind_model **model, char *reason);
/* Before the vgpu is closed. The weights may stay on the gpu for whoever comes next. */
void distmind_model_release(struct distmind_model *model);

/* -ENOENT */
int distmind_model_tensor(const struct distmind_model *model, const char *name,
			  struct distmind_tensor *tensor);
/* All of them, in the order in which they are used. -EINVAL: there is no such index. */
size_t distmind_model_count(const struct distmind_model *model);
int distmind_model_at(const struct distmind_model *model, size_t index,
		      struct distmind_tensor *tensor);
void distmind_model_info(const struct distmind_model *model, struct distmind_model_info *info);

/* Both stay the model's. The buffer can only be read. */
struct distmind_buffer *distmind_model_buffer(const struct distmind_model *model);
struct distmind_timeline *distmind_model_timeline(const struct distmind_model *model);
/* Until a tensor's value; 0: until all is there. -ETIMEDOUT, or why the load failed. */
int distmind_model_wait(struct distmind_model *model, uint64_t value, uint32_t timeout_ms);
/*
 * How the load stands: 0 all is there, -EAGAIN not yet, or why it failed; then reason,
 * as for distmind_acquire(), says which chunks are missing and of whom.
 */
int distmind_model_state(struct distmind_model *model, char *reason);

/*
 * Grants: a lane for work that this process starts on the device itself, under
 * the same shares, classes and accounts as jobs.
 */

struct distmind_grant;

int distmind_grant_create(struct distmind_vgpu *vgpu, enum distmind_lane_kind kind,
			  struct distmind_grant **grant);
/* Gives the lane back if it has one. */
void distmind_grant_destroy(struct distmind_grant *grant);
/*
 * Wait for a lane; it is this process's until distmind_grant_end(). -ETIMEDOUT:
 * none came, and the wish is withdrawn. Other errors are those of jobs.
 */
int distmind_grant_begin(struct distmind_grant *grant, uint32_t timeout_ms);
/*
 * Does somebody else need the lane? No system call. Then bring the work on the
 * device to a stop and call distmind_grant_end() or _again() within the gpu's
 * grace period: later the vendor's driver may stop it, after the hang limit the
 * grant fails, and after as long again the process is killed.
 */
bool distmind_grant_asked(const struct distmind_grant *grant);
int distmind_grant_end(struct distmind_grant *grant);
/* Give the lane back and wait, at the head of the queue, for the next one. */
int distmind_grant_again(struct distmind_grant *grant, uint32_t timeout_ms);
/* An eventfd to poll(): something about the grant has changed. It stays the grant's. */
int distmind_grant_fd(const struct distmind_grant *grant);

/*
 * Engines
 */

struct distmind_engine;

struct distmind_engine_params {
	const char *name;
	const char *kind;
	uint64_t memory;   /* bytes of heap; rounded up to whole pages */
	int32_t numa_node; /* or DISTMIND_NUMA_ANY */
	uint32_t box;
	uint32_t compute_lanes;
	uint32_t copy_lanes;
	uint32_t capabilities; /* DISTMIND_ENGINE_* */
};

/* Put a gpu into the pool and map its heap. */
int distmind_engine_register(const struct distmind_engine_params *params,
			     struct distmind_engine **engine);
/* Takes the gpu out of the pool: it is lost to whoever uses it. */
void distmind_engine_close(struct distmind_engine *engine);
/* poll(): POLLHUP when an operator has removed the gpu. */
int distmind_engine_fd(const struct distmind_engine *engine);
uint32_t distmind_engine_gpu(const struct distmind_engine *engine);
/* Those of the params that are in force: the module must know them too. */
uint32_t distmind_engine_capabilities(const struct distmind_engine *engine);
void *distmind_engine_heap(const struct distmind_engine *engine);
/*
 * Hand back a job and wait for the next one; one thread for each lane. See
 * struct distmind_engine_exchange.
 */
int distmind_engine_exchange(struct distmind_engine *engine,
			     struct distmind_engine_exchange *exchange);
/* What the kernel tells the lane while a job runs; NULL: no such lane. */
const struct distmind_lane_page *distmind_engine_lane(const struct distmind_engine *engine,
						      uint32_t lane);

/*
 * The pool
 */

struct distmind_pool;

#define DISTMIND_LATENCY_BUCKETS 24

struct distmind_gpu_record {
	uint32_t id;
	char name[DISTMIND_NAME_LEN];
	char kind[DISTMIND_NAME_LEN];
	uint32_t state; /* enum distmind_gpu_state */
	uint32_t box;
	int32_t numa_node;
	uint64_t memory;
	uint64_t memory_used;
	uint64_t memory_evictions; /* buffers put out of the heap for others */
	uint32_t vgpus;
	uint32_t engine_pid;
	char policy[DISTMIND_NAME_LEN];
	uint32_t compute_lanes;
	uint32_t copy_lanes;
	uint32_t lanes_out; /* of both, whose engine or holder does not answer */
	uint64_t grace_ns;
	uint64_t hang_ns;
	uint32_t capabilities; /* enum distmind_engine_capabilities */
	uint64_t jobs;
	uint64_t failed_jobs;
	uint64_t busy_ns; /* of compute lanes */
	uint64_t copy_busy_ns;
	uint64_t preemptions;
	uint64_t evictions;
	uint64_t hangs;
	uint64_t preempt_latency[DISTMIND_LATENCY_BUCKETS]; /* entry i: below 2^i us */
};

/* The vgpus in which the daemon keeps the weights of models are called this and their gpu. */
#define DISTMIND_WEIGHTS_PREFIX "weights-"

struct distmind_vgpu_record {
	uint32_t id;
	char name[DISTMIND_NAME_LEN];
	uint32_t gpu;	/* DISTMIND_GPU_NONE: parked */
	uint32_t state; /* enum distmind_vgpu_state */
	uint32_t lease; /* enum distmind_vgpu_lease */
	uint32_t uid;
	uint32_t gid;
	uint32_t pid; /* 0: an administrator's */
	uint64_t memory;
	uint64_t memory_used;
	uint32_t share;
	uint32_t sched_class;
	uint64_t objective_ns;
	uint32_t clients;
	uint32_t buffers;
	bool capped;
	uint64_t jobs;
	uint64_t failed_jobs;
	uint64_t busy_ns;
	uint64_t wait_ns;
	uint64_t preemptions;
	uint64_t misses;
	uint32_t queued;  /* jobs that have not ended */
	uint32_t running; /* of these, on a lane */
	uint64_t requests;
	uint64_t failed_requests;
	uint32_t open_requests;
	uint64_t request_latency[DISTMIND_LATENCY_BUCKETS]; /* entry i: below 2^i us */
	uint64_t request_ns[DISTMIND_REQUEST_PHASE_MAX + 1]; /* where their time went */
};

#define DISTMIND_PAYERS_MAX 32

/* A vgpu that pays for a buffer which is not its own. */
struct distmind_payer_record {
	uint32_t vgpu; /* DISTMIND_VGPU_ENDED: it has, and something is left for which it pays */
	uint32_t uid;
};

#define DISTMIND_VGPU_ENDED UINT32_MAX

struct distmind_buffer_record {
	uint32_t id;
	uint32_t vgpu;
	uint32_t gpu;
	uint32_t kind;
	uint64_t size;
	uint64_t offset; /* in the heap, or DISTMIND_OFFSET_NONE */
	uint32_t pins;
	uint32_t exports; /* dma-bufs of it */
	uint32_t payer_count;
	uint32_t payers_known; /* of these, which are in payers: there may be no room for all */
	struct distmind_payer_record payers[DISTMIND_PAYERS_MAX];
};

/* A range of a weights buffer that is filled at once. */
struct distmind_extent_record {
	uint64_t offset;
	uint64_t size;
	uint64_t value; /* of the buffer's timeline, from which on it is present */
	uint32_t state; /* enum distmind_extent_state */
};

struct distmind_claim_record {
	uint32_t id;
	char name[DISTMIND_NAME_LEN];
	char kind[DISTMIND_NAME_LEN];
	uint32_t pid;
	uint32_t uid;
	uint32_t gid;
	uint64_t memory;
	uint32_t share;
	uint32_t sched_class;
	uint64_t objective_ns;
	uint32_t count;
	uint32_t flags; /* enum distmind_claim_flags */
	uint32_t remaining_ms;
};

/* What a user has of one thing that is limited; ioctl.md says what there is. */
struct distmind_limit_record {
	uint32_t uid;
	bool container; /* not root, but those in a user namespace that root has made */
	char what[DISTMIND_NAME_LEN];
	uint32_t used;
	uint32_t allowed; /* UINT32_MAX: it is not limited */
	uint32_t refused; /* how often it would have had more, since it last had nothing */
};

struct distmind_preempt_record {
	uint32_t rung; /* enum distmind_preempt_rung */
	uint32_t gpu;
	uint32_t lane;
	uint32_t vgpu;
	uint64_t job;
	uint64_t latency_ns; /* DISTMIND_PREEMPT_RUNG_YIELDED */
	int32_t result;	     /* DISTMIND_PREEMPT_RUNG_HOOK: what it returned */
};

/* -ENOENT: the module is not loaded. */
int distmind_pool_open(struct distmind_pool **pool);
void distmind_pool_close(struct distmind_pool *pool);

/* The last failure of a call on this pool in words, the kernel's where it gave some. */
const char *distmind_pool_error(const struct distmind_pool *pool);

/*
 * Everything of one kind. The callback's non-zero return ends the listing and
 * becomes the call's. When the pool changes meanwhile the listing is taken
 * anew before the first callback, so callbacks see one consistent state.
 */
int distmind_pool_gpus(struct distmind_pool *pool,
		       int (*each)(const struct distmind_gpu_record *gpu, void *arg), void *arg);
int distmind_pool_vgpus(struct distmind_pool *pool,
			int (*each)(const struct distmind_vgpu_record *vgpu, void *arg), void *arg);
int distmind_pool_buffers(struct distmind_pool *pool,
			  int (*each)(const struct distmind_buffer_record *buffer, void *arg),
			  void *arg);
int distmind_pool_claims(struct distmind_pool *pool,
			   int (*each)(const struct distmind_claim_record *claim, void *arg),
			   void *arg);
int distmind_pool_limits(struct distmind_pool *pool,
			 int (*each)(const struct distmind_limit_record *limit, void *arg),
			 void *arg);
int distmind_pool_gpu(struct distmind_pool *pool, uint32_t id, struct distmind_gpu_record *gpu);
int distmind_pool_vgpu(struct distmind_pool *pool, uint32_t id, struct distmind_vgpu_record *vgpu);

int distmind_pool_gpu_drain(struct distmind_pool *pool, uint32_t id, bool drain);
int distmind_pool_gpu_remove(struct distmind_pool *pool, uint32_t id);
/* Who runs next: "fifo", "fair", "slo" or "srpt". */
int distmind_pool_gpu_policy(struct distmind_pool *pool, uint32_t id, const char *policy);
/* After which time a job that was asked to yield meets the vendor's hook. */
int distmind_pool_gpu_grace(struct distmind_pool *pool, uint32_t id, uint64_t grace_ns);
/* How long a job may go on after it was asked to yield. */
int distmind_pool_gpu_hang(struct distmind_pool *pool, uint32_t id, uint64_t hang_ns);

/* Which fields of a struct distmind_vgpu_record a call sets. */
#define DISTMIND_SET_GPU       (1U << 0)
#define DISTMIND_SET_MEMORY    (1U << 1)
#define DISTMIND_SET_SHARE     (1U << 2)
#define DISTMIND_SET_CLASS     (1U << 3)
#define DISTMIND_SET_OBJECTIVE (1U << 4)
#define DISTMIND_SET_CAPPED    (1U << 5)

/*
 * A vgpu that lives until it is deleted, with record's name, gpu, uid, gid,
 * memory, share, sched_class, objective_ns and capped; filled in with what was made.
 */
int distmind_pool_vgpu_create(struct distmind_pool *pool, struct distmind_vgpu_record *record);
int distmind_pool_vgpu_set(struct distmind_pool *pool, const struct distmind_vgpu_record *record,
			   uint32_t fields);
int distmind_pool_vgpu_delete(struct distmind_pool *pool, uint32_t id);

/*
 * Say when which ranges of a weights buffer, by its number, will be filled, in the order
 * of their offsets, after those that it has; timeline is the descriptor of the timeline
 * that says how far the load is. At most 65536 of them; those that touch each other and
 * have the same value are one.
 */
int distmind_pool_extents_add(struct distmind_pool *pool, uint32_t buffer, int timeline,
			      const struct distmind_extent_record *extents, size_t count);
/* All extents of a buffer; as for listings. */
int distmind_pool_extents(struct distmind_pool *pool, uint32_t buffer,
			  int (*each)(const struct distmind_extent_record *extent, void *arg),
			  void *arg);

/* -ENOENT: the claim was answered already, or is over. */
int distmind_pool_claim_grant(struct distmind_pool *pool, uint32_t id, const uint32_t *gpus,
				unsigned int count);
int distmind_pool_claim_refuse(struct distmind_pool *pool, uint32_t id, int error,
				 const char *reason);

/* Events */

enum distmind_event_type {
	DISTMIND_EVENT_GPU_ADD,
	DISTMIND_EVENT_GPU_CHANGE,
	DISTMIND_EVENT_GPU_DEL,
	DISTMIND_EVENT_VGPU_ADD,
	DISTMIND_EVENT_VGPU_CHANGE,
	DISTMIND_EVENT_VGPU_DEL,
	DISTMIND_EVENT_CLAIM_ADD,
	DISTMIND_EVENT_CLAIM_DEL,
	DISTMIND_EVENT_PREEMPT,
	DISTMIND_EVENT_OVERRUN, /* events were lost: list everything again */
};

struct distmind_event {
	enum distmind_event_type type;
	union {
		struct distmind_gpu_record gpu;
		struct distmind_vgpu_record vgpu;
		struct distmind_claim_record claim;
		struct distmind_preempt_record preempt;
	};
};

/* Join the multicast groups; needs CAP_NET_ADMIN. Events begin at once. */
int distmind_pool_subscribe(struct distmind_pool *pool);
/* Events of preemptions too, which can be thousands a second. */
int distmind_pool_subscribe_preempt(struct distmind_pool *pool);
/* Readable when there are events. */
int distmind_pool_event_fd(const struct distmind_pool *pool);
/* Hand over the events that have arrived; never waits. Returns their number. */
int distmind_pool_dispatch(struct distmind_pool *pool,
			   void (*each)(const struct distmind_event *event, void *arg), void *arg);

/* Words for the numbers: "latency", "ready", "bound", "weights"; "?" if unknown. */
const char *distmind_class_name(uint32_t sched_class);
const char *distmind_gpu_state_name(uint32_t state);
const char *distmind_vgpu_state_name(uint32_t state);
const char *distmind_buffer_kind_name(uint32_t kind);
const char *distmind_preempt_rung_name(uint32_t rung);
const char *distmind_extent_state_name(uint32_t state);
const char *distmind_request_phase_name(uint32_t phase);
/* -EINVAL: no such class. */
int distmind_class_parse(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* DISTMIND_H */
