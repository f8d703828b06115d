// SPDX-License-Identifier: GPL-2.0-or-later
#include "pool.h"

#include "log.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* How often in a row a listing may be overtaken by another overrun. */
#define UPDATE_TRIES 4

static uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void pool_init(struct pool *pool, struct distmind_pool *kernel)
{
	*pool = (struct pool){
		.kernel = kernel,
		.gpus.size = sizeof(struct pool_gpu),
		.vgpus.size = sizeof(struct pool_vgpu),
		.claims.size = sizeof(struct pool_claim),
		.stale = true,
		.clock_us = clock_us,
	};
}

void pool_free(struct pool *pool)
{
	table_free(&pool->gpus);
	table_free(&pool->vgpus);
	table_free(&pool->claims);
	view_free(&pool->view);
}

bool pool_vgpu_bound(const struct pool *pool, const struct pool_vgpu *vgpu)
{
	const struct pool_gpu *gpu = table_find(&pool->gpus, vgpu->record.gpu);

	return gpu && gpu->record.state != DISTMIND_GPU_STATE_LOST;
}

/* A gpu came or came back: what did not go before may go now. */
static void unstick(struct pool *pool)
{
	struct pool_vgpu *vgpu;

	table_each(&pool->vgpus, vgpu)
		vgpu->stuck = false;
}

static int put_gpu(struct pool *pool, const struct distmind_gpu_record *record)
{
	struct pool_gpu *gpu = table_find(&pool->gpus, record->id);
	bool new = !gpu, changed = new || gpu->record.state != record->state;

	gpu = table_add(&pool->gpus, record->id);
	if (!gpu)
		return -ENOMEM;
	gpu->record = *record;
	gpu->seen = true;
	if (record->state != DISTMIND_GPU_STATE_LOST)
		gpu->lost_since_us = 0;
	else if (!gpu->lost_since_us)
		gpu->lost_since_us = pool->clock_us();
	if (!changed)
		return 0;
	if (record->state == DISTMIND_GPU_STATE_READY)
		unstick(pool);
	log_write(record->state == DISTMIND_GPU_STATE_LOST ? LOG_WARNING : LOG_INFO,
		  new ? "gpu-added" : "gpu-changed",
		  LOG_FIELDS(LOG_U("gpu", record->id), LOG_S("name", record->name),
			     LOG_S("kind", record->kind), LOG_U("box", record->box),
			     LOG_U("memory", record->memory),
			     LOG_S("state", distmind_gpu_state_name(record->state))));
	return 0;
}

static void remove_gpu(struct pool *pool, uint32_t id)
{
	struct pool_gpu *gpu = table_find(&pool->gpus, id);
	struct pool_vgpu *vgpu;

	if (!gpu)
		return;
	log_info("gpu-removed", LOG_U("gpu", id), LOG_S("name", gpu->record.name));
	table_remove(&pool->gpus, id);
	/* The kernel parks what was on it. */
	table_each(&pool->vgpus, vgpu)
		if (vgpu->record.gpu == id) {
			vgpu->record.gpu = DISTMIND_GPU_NONE;
			vgpu->record.state = DISTMIND_VGPU_STATE_PARKED;
		}
}

static int put_vgpu(struct pool *pool, const struct distmind_vgpu_record *record)
{
	struct pool_vgpu *vgpu = table_add(&pool->vgpus, record->id);
	struct pool_gpu *gpu;

	if (!vgpu)
		return -ENOMEM;
	gpu = table_find(&pool->gpus, record->gpu);
	if (record->gpu != DISTMIND_GPU_NONE)
		vgpu->parked_on_purpose = false;
	/* A new row has memory 0, which no vgpu has. */
	else if (vgpu->record.memory && vgpu->record.gpu != DISTMIND_GPU_NONE)
		vgpu->parked_on_purpose = pool_vgpu_bound(pool, vgpu);
	if (gpu)
		memcpy(vgpu->kind, gpu->record.kind, sizeof(vgpu->kind));
	vgpu->record = *record;
	vgpu->stuck = false;
	vgpu->waits = false;
	vgpu->seen = true;
	return 0;
}

static int put_claim(struct pool *pool, const struct distmind_claim_record *record)
{
	struct pool_claim *claim = table_add(&pool->claims, record->id);

	if (!claim)
		return -ENOMEM;
	claim->record = *record;
	claim->seen = true;
	return 0;
}

static void take_event(const struct distmind_event *event, void *arg)
{
	struct pool *pool = arg;
	int err = 0;

	switch (event->type) {
	case DISTMIND_EVENT_GPU_ADD:
	case DISTMIND_EVENT_GPU_CHANGE:
		err = put_gpu(pool, &event->gpu);
		break;
	case DISTMIND_EVENT_GPU_DEL:
		remove_gpu(pool, event->gpu.id);
		break;
	case DISTMIND_EVENT_VGPU_ADD:
		/* The number may have been another's whose end was not reported. */
		table_remove(&pool->vgpus, event->vgpu.id);
		err = put_vgpu(pool, &event->vgpu);
		break;
	case DISTMIND_EVENT_VGPU_CHANGE:
		err = put_vgpu(pool, &event->vgpu);
		break;
	case DISTMIND_EVENT_VGPU_DEL:
		table_remove(&pool->vgpus, event->vgpu.id);
		break;
	case DISTMIND_EVENT_CLAIM_ADD:
		err = put_claim(pool, &event->claim);
		break;
	case DISTMIND_EVENT_CLAIM_DEL:
		table_remove(&pool->claims, event->claim.id);
		break;
	case DISTMIND_EVENT_PREEMPT:
		/* Nobody is bound elsewhere for it. */
		break;
	case DISTMIND_EVENT_OVERRUN:
		pool->stale = true;
		break;
	}
	if (err)
		pool->stale = true;
}

static int list_gpu(const struct distmind_gpu_record *record, void *pool)
{
	return put_gpu(pool, record);
}

static int list_vgpu(const struct distmind_vgpu_record *record, void *pool)
{
	return put_vgpu(pool, record);
}

static int list_claim(const struct distmind_claim_record *record, void *pool)
{
	return put_claim(pool, record);
}

static void forget_seen(struct pool *pool)
{
	struct pool_claim *claim;
	struct pool_vgpu *vgpu;
	struct pool_gpu *gpu;

	table_each(&pool->gpus, gpu)
		gpu->seen = false;
	table_each(&pool->vgpus, vgpu)
		vgpu->seen = false;
	table_each(&pool->claims, claim)
		claim->seen = false;
}

static void remove_unseen_gpus(struct pool *pool)
{
	struct pool_gpu *gpu;

	for (size_t i = pool->gpus.count; i--;) {
		gpu = table_row(&pool->gpus, i);
		if (!gpu->seen)
			remove_gpu(pool, gpu->record.id);
	}
}

static void remove_unseen(struct pool *pool)
{
	struct pool_claim *claim;
	struct pool_vgpu *vgpu;

	for (size_t i = pool->vgpus.count; i--;) {
		vgpu = table_row(&pool->vgpus, i);
		if (!vgpu->seen)
			table_remove(&pool->vgpus, vgpu->record.id);
	}
	for (size_t i = pool->claims.count; i--;) {
		claim = table_row(&pool->claims, i);
		if (!claim->seen)
			table_remove(&pool->claims, claim->record.id);
	}
}

/*
 * The three listings are of three moments; the events that arrived meanwhile,
 * taken in afterwards, make them one.
 */
static int list_all(struct pool *pool)
{
	int err;

	pool->stale = false;
	forget_seen(pool);
	err = distmind_pool_gpus(pool->kernel, list_gpu, pool);
	if (!err) {
		/* First, or a vgpu that lost its gpu looks parked on purpose. */
		remove_unseen_gpus(pool);
		err = distmind_pool_vgpus(pool->kernel, list_vgpu, pool);
	}
	if (!err)
		err = distmind_pool_claims(pool->kernel, list_claim, pool);
	if (err) {
		pool->stale = true;
		log_warning("pool-not-listed", LOG_S("reason", distmind_pool_error(pool->kernel)));
		return err;
	}
	remove_unseen(pool);
	log_info("pool-listed", LOG_U("gpus", pool->gpus.count),
		 LOG_U("vgpus", pool->vgpus.count), LOG_U("claims", pool->claims.count));
	return 0;
}

int pool_update(struct pool *pool)
{
	int ret;

	for (int tries = 0; tries < UPDATE_TRIES; tries++) {
		ret = distmind_pool_dispatch(pool->kernel, take_event, pool);
		if (ret < 0) {
			pool->stale = true;
			return ret;
		}
		if (!pool->stale)
			return 0;
		ret = list_all(pool);
		if (ret)
			return ret;
	}
	pool->stale = true;
	return -EAGAIN;
}
