/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kernel for tests of distmindd: gpus, vgpus, claims and a queue of events,
 * with the rules of the real one that the daemon's decisions rest on. These
 * functions stand in for libdistmind's at link time. Included by the one file
 * of a test program.
 */
#ifndef TESTS_UNIT_DAEMON_FAKE_H
#define TESTS_UNIT_DAEMON_FAKE_H

#include "unit.h"

#include <distmind.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_MAX 2048

struct distmind_pool {
	int unused;
};

static struct {
	struct distmind_gpu_record gpus[FAKE_MAX];
	unsigned int gpu_count;
	struct distmind_vgpu_record vgpus[FAKE_MAX];
	unsigned int vgpu_count;
	struct distmind_claim_record claims[FAKE_MAX];
	unsigned int claim_count;
	struct distmind_event events[FAKE_MAX];
	unsigned int event_count;
	uint32_t next_gpu, next_vgpu, next_claim;
	const char *error;

	bool deaf;		  /* events are lost, as when a buffer overflows */
	int list_errors;	  /* so many listings fail with EAGAIN */
	void (*before_grant)(void); /* once: something happens at the worst moment */
	void (*before_dispatch)(void); /* whenever events are taken in */
	int set_error;

	unsigned int grants, refusals, sets, removals, listings;
	uint32_t granted_gpus[DISTMIND_ACQUIRE_MAX];
	int refused_error;
	char refused_reason[DISTMIND_REASON_LEN];
} kernel;

static void emit(const struct distmind_event *event)
{
	if (kernel.deaf)
		return;
	assert_true(kernel.event_count < FAKE_MAX);
	kernel.events[kernel.event_count++] = *event;
}

static void emit_gpu(enum distmind_event_type type, const struct distmind_gpu_record *gpu)
{
	struct distmind_event event = { .type = type, .gpu = *gpu };

	emit(&event);
}

static void emit_vgpu(enum distmind_event_type type, const struct distmind_vgpu_record *vgpu)
{
	struct distmind_event event = { .type = type, .vgpu = *vgpu };

	emit(&event);
}

static void emit_claim(enum distmind_event_type type,
			 const struct distmind_claim_record *claim)
{
	struct distmind_event event = { .type = type, .claim = *claim };

	emit(&event);
}

/* What the real kernel sends first when it had to drop events. */
static inline void fake_overrun(void)
{
	struct distmind_event event = { .type = DISTMIND_EVENT_OVERRUN };

	kernel.deaf = false;
	emit(&event);
}

#define FAKE_FIND(noun, id_)                                                   \
	({                                                                     \
		struct distmind_##noun##_record *found_ = NULL;                \
		for (unsigned int i_ = 0; i_ < kernel.noun##_count; i_++)      \
			if (kernel.noun##s[i_].id == (id_))                    \
				found_ = &kernel.noun##s[i_];                  \
		found_;                                                        \
	})

#define FAKE_DROP(noun, record)                                                \
	do {                                                                   \
		struct distmind_##noun##_record *last_ =                       \
			&kernel.noun##s[--kernel.noun##_count];                \
		memmove(record, (record) + 1,                                  \
			(size_t)((char *)last_ - (char *)(record)));           \
	} while (0)

static inline uint32_t fake_gpu(uint64_t memory, const char *kind, uint32_t box)
{
	struct distmind_gpu_record *gpu = &kernel.gpus[kernel.gpu_count++];

	*gpu = (struct distmind_gpu_record){
		.id = kernel.next_gpu++,
		.box = box,
		.memory = memory,
	};
	snprintf(gpu->name, sizeof(gpu->name), "gpu%u", gpu->id);
	snprintf(gpu->kind, sizeof(gpu->kind), "%s", kind);
	emit_gpu(DISTMIND_EVENT_GPU_ADD, gpu);
	return gpu->id;
}

/* As in the real one, the vgpus concerned have no event of their own. */
static inline void fake_gpu_state(uint32_t id, uint32_t state)
{
	struct distmind_gpu_record *gpu = FAKE_FIND(gpu, id);

	assert_non_null(gpu);
	gpu->state = state;
	for (unsigned int i = 0; i < kernel.vgpu_count; i++)
		if (kernel.vgpus[i].gpu == id)
			kernel.vgpus[i].state = state == DISTMIND_GPU_STATE_LOST ?
							DISTMIND_VGPU_STATE_LOST :
							DISTMIND_VGPU_STATE_BOUND;
	emit_gpu(DISTMIND_EVENT_GPU_CHANGE, gpu);
}

static inline void fake_gpu_remove(uint32_t id)
{
	struct distmind_gpu_record *gpu = FAKE_FIND(gpu, id);

	assert_non_null(gpu);
	for (unsigned int i = 0; i < kernel.vgpu_count; i++)
		if (kernel.vgpus[i].gpu == id) {
			kernel.vgpus[i].gpu = DISTMIND_GPU_NONE;
			kernel.vgpus[i].state = DISTMIND_VGPU_STATE_PARKED;
		}
	emit_gpu(DISTMIND_EVENT_GPU_DEL, gpu);
	FAKE_DROP(gpu, gpu);
}

static inline uint32_t fake_vgpu(uint64_t memory, uint32_t share, uint32_t gpu)
{
	struct distmind_vgpu_record *vgpu = &kernel.vgpus[kernel.vgpu_count++];

	assert_true(kernel.vgpu_count <= FAKE_MAX);
	*vgpu = (struct distmind_vgpu_record){
		.id = kernel.next_vgpu++,
		.gpu = gpu,
		.state = gpu == DISTMIND_GPU_NONE ? DISTMIND_VGPU_STATE_PARKED :
						    DISTMIND_VGPU_STATE_BOUND,
		.lease = DISTMIND_VGPU_LEASE_ADMIN,
		.memory = memory,
		.share = share,
	};
	emit_vgpu(DISTMIND_EVENT_VGPU_ADD, vgpu);
	return vgpu->id;
}

static inline void fake_vgpu_delete(uint32_t id)
{
	struct distmind_vgpu_record *vgpu = FAKE_FIND(vgpu, id);

	assert_non_null(vgpu);
	emit_vgpu(DISTMIND_EVENT_VGPU_DEL, vgpu);
	FAKE_DROP(vgpu, vgpu);
}

/* By an operator or by the daemon. */
static inline void fake_vgpu_bind(uint32_t id, uint32_t gpu)
{
	struct distmind_vgpu_record *vgpu = FAKE_FIND(vgpu, id);

	assert_non_null(vgpu);
	vgpu->gpu = gpu;
	vgpu->state = gpu == DISTMIND_GPU_NONE ? DISTMIND_VGPU_STATE_PARKED :
						 DISTMIND_VGPU_STATE_BOUND;
	emit_vgpu(DISTMIND_EVENT_VGPU_CHANGE, vgpu);
}

static inline uint32_t fake_vgpu_gpu(uint32_t id)
{
	struct distmind_vgpu_record *vgpu = FAKE_FIND(vgpu, id);

	assert_non_null(vgpu);
	return vgpu->gpu;
}

static inline uint32_t fake_claim(uint64_t memory, uint32_t share, uint32_t count)
{
	struct distmind_claim_record *claim = &kernel.claims[kernel.claim_count++];

	assert_true(kernel.claim_count <= FAKE_MAX);
	*claim = (struct distmind_claim_record){
		.id = kernel.next_claim++,
		.memory = memory,
		.share = share,
		.count = count,
		.remaining_ms = 30000,
	};
	emit_claim(DISTMIND_EVENT_CLAIM_ADD, claim);
	return claim->id;
}

static inline void fake_claim_end(uint32_t id)
{
	struct distmind_claim_record *claim = FAKE_FIND(claim, id);

	assert_non_null(claim);
	emit_claim(DISTMIND_EVENT_CLAIM_DEL, claim);
	FAKE_DROP(claim, claim);
}

static int refused(int err, const char *text)
{
	kernel.error = text;
	return err;
}

static int bindable(uint32_t id)
{
	struct distmind_gpu_record *gpu = FAKE_FIND(gpu, id);

	if (!gpu)
		return refused(-ENOENT, "no such gpu");
	if (gpu->state == DISTMIND_GPU_STATE_LOST)
		return refused(-EOWNERDEAD, "the gpu is lost");
	if (gpu->state == DISTMIND_GPU_STATE_DRAINING)
		return refused(-EBUSY, "the gpu is draining");
	return 0;
}

/*
 * libdistmind
 */

const char *distmind_pool_error(const struct distmind_pool *pool)
{
	(void)pool;
	return kernel.error ? kernel.error : "";
}

static int listing(void)
{
	kernel.listings++;
	if (!kernel.list_errors)
		return 0;
	kernel.list_errors--;
	return refused(-EAGAIN, "the pool changes too fast to list");
}

#define FAKE_LISTING(noun)                                                                        \
	int distmind_pool_##noun##s(struct distmind_pool *pool,                                   \
				    int (*each)(const struct distmind_##noun##_record *record,    \
						void *arg),                                       \
				    void *arg)                                                    \
	{                                                                                         \
		int ret = listing();                                                              \
                                                                                                  \
		(void)pool;                                                                       \
		for (unsigned int i = 0; i < kernel.noun##_count && !ret; i++)                    \
			ret = each(&kernel.noun##s[i], arg);                                      \
		return ret;                                                                       \
	}

FAKE_LISTING(gpu)
FAKE_LISTING(vgpu)
FAKE_LISTING(claim)

int distmind_pool_dispatch(struct distmind_pool *pool,
			   void (*each)(const struct distmind_event *event, void *arg), void *arg)
{
	unsigned int count;

	(void)pool;
	if (kernel.before_dispatch)
		kernel.before_dispatch();
	count = kernel.event_count;
	for (unsigned int i = 0; i < count; i++)
		each(&kernel.events[i], arg);
	kernel.event_count = 0;
	return (int)count;
}

int distmind_pool_gpu_remove(struct distmind_pool *pool, uint32_t id)
{
	(void)pool;
	kernel.removals++;
	if (!FAKE_FIND(gpu, id))
		return refused(-ENOENT, "no such gpu");
	fake_gpu_remove(id);
	return 0;
}

int distmind_pool_vgpu_set(struct distmind_pool *pool, const struct distmind_vgpu_record *record,
			   uint32_t fields)
{
	int err;

	(void)pool;
	kernel.sets++;
	assert_int_equal(fields, DISTMIND_SET_GPU);
	if (kernel.set_error)
		return refused(kernel.set_error, "it does not want to");
	if (!FAKE_FIND(vgpu, record->id))
		return refused(-ENOENT, "no such vgpu");
	err = bindable(record->gpu);
	if (!err)
		fake_vgpu_bind(record->id, record->gpu);
	return err;
}

int distmind_pool_claim_grant(struct distmind_pool *pool, uint32_t id, const uint32_t *gpus,
				unsigned int count)
{
	void (*before)(void) = kernel.before_grant;
	struct distmind_claim_record *claim;
	int err = 0;

	(void)pool;
	kernel.before_grant = NULL;
	if (before)
		before();
	claim = FAKE_FIND(claim, id);
	if (!claim)
		return refused(-ENOENT, "no such claim");
	assert_int_equal(count, claim->count);
	for (unsigned int i = 0; i < count && !err; i++)
		err = bindable(gpus[i]);
	if (err)
		return err;
	for (unsigned int i = 0; i < count; i++)
		fake_vgpu(claim->memory, claim->share, gpus[i]);
	memcpy(kernel.granted_gpus, gpus, count * sizeof(*gpus));
	kernel.grants++;
	fake_claim_end(id);
	return 0;
}

int distmind_pool_claim_refuse(struct distmind_pool *pool, uint32_t id, int error,
				 const char *reason)
{
	(void)pool;
	if (!FAKE_FIND(claim, id))
		return refused(-ENOENT, "no such claim");
	kernel.refusals++;
	kernel.refused_error = error;
	snprintf(kernel.refused_reason, sizeof(kernel.refused_reason), "%s", reason);
	fake_claim_end(id);
	return 0;
}

#endif
