// SPDX-License-Identifier: GPL-2.0-or-later
#include "inventory.h"

#include "../../common/clock.h"
#include "../common/log.h"

#include <errno.h>
#include <string.h>

/* How often in a row a listing may be overtaken by another overrun. */
#define UPDATE_TRIES 4

void inventory_init(struct inventory *inventory, struct distmind_pool *kernel)
{
	*inventory = (struct inventory){
		.kernel = kernel,
		.gpus.size = sizeof(struct inventory_gpu),
		.vgpus.size = sizeof(struct inventory_vgpu),
		.claims.size = sizeof(struct inventory_claim),
		.stale = true,
		.clock_us = clock_us,
	};
}

void inventory_free(struct inventory *inventory)
{
	table_free(&inventory->gpus);
	table_free(&inventory->vgpus);
	table_free(&inventory->claims);
	view_free(&inventory->view);
}

bool inventory_vgpu_bound(const struct inventory *inventory, const struct inventory_vgpu *vgpu)
{
	const struct inventory_gpu *gpu = table_find(&inventory->gpus, vgpu->record.gpu);

	return gpu && gpu->record.state != DISTMIND_GPU_STATE_LOST;
}

/* A gpu came or came back: what did not go before may go now. */
static void unstick(struct inventory *inventory)
{
	struct inventory_vgpu *vgpu;

	table_each(&inventory->vgpus, vgpu)
		vgpu->stuck = false;
}

static int put_gpu(struct inventory *inventory, const struct distmind_gpu_record *record)
{
	struct inventory_gpu *gpu = table_find(&inventory->gpus, record->id);
	bool new = !gpu, changed = new || gpu->record.state != record->state;

	gpu = table_add(&inventory->gpus, record->id);
	if (!gpu)
		return -ENOMEM;
	gpu->record = *record;
	gpu->seen = true;
	if (record->state != DISTMIND_GPU_STATE_LOST)
		gpu->lost_since_us = 0;
	else if (!gpu->lost_since_us)
		gpu->lost_since_us = inventory->clock_us();
	if (!changed)
		return 0;
	if (record->state == DISTMIND_GPU_STATE_READY)
		unstick(inventory);
	log_write(record->state == DISTMIND_GPU_STATE_LOST ? LOG_WARNING : LOG_INFO,
		  new ? "gpu-added" : "gpu-changed",
		  LOG_FIELDS(LOG_U("gpu", record->id), LOG_S("name", record->name),
			     LOG_S("kind", record->kind), LOG_U("box", record->box),
			     LOG_U("memory", record->memory),
			     LOG_S("state", distmind_gpu_state_name(record->state))));
	return 0;
}

static void remove_gpu(struct inventory *inventory, uint32_t id)
{
	struct inventory_gpu *gpu = table_find(&inventory->gpus, id);
	struct inventory_vgpu *vgpu;

	if (!gpu)
		return;
	log_info("gpu-removed", LOG_U("gpu", id), LOG_S("name", gpu->record.name));
	table_remove(&inventory->gpus, id);
	/* The kernel parks what was on it. */
	table_each(&inventory->vgpus, vgpu)
		if (vgpu->record.gpu == id) {
			vgpu->record.gpu = DISTMIND_GPU_NONE;
			vgpu->record.state = DISTMIND_VGPU_STATE_PARKED;
		}
}

static int put_vgpu(struct inventory *inventory, const struct distmind_vgpu_record *record)
{
	struct inventory_vgpu *vgpu = table_add(&inventory->vgpus, record->id);
	struct inventory_gpu *gpu;

	if (!vgpu)
		return -ENOMEM;
	gpu = table_find(&inventory->gpus, record->gpu);
	if (record->gpu != DISTMIND_GPU_NONE)
		vgpu->parked_on_purpose = false;
	/* A new row has memory 0, which no vgpu has. */
	else if (vgpu->record.memory && vgpu->record.gpu != DISTMIND_GPU_NONE)
		vgpu->parked_on_purpose = inventory_vgpu_bound(inventory, vgpu);
	if (gpu)
		memcpy(vgpu->kind, gpu->record.kind, sizeof(vgpu->kind));
	vgpu->record = *record;
	vgpu->stuck = false;
	vgpu->waits = false;
	vgpu->seen = true;
	return 0;
}

static int put_claim(struct inventory *inventory, const struct distmind_claim_record *record)
{
	struct inventory_claim *claim = table_add(&inventory->claims, record->id);

	if (!claim)
		return -ENOMEM;
	claim->record = *record;
	claim->seen = true;
	return 0;
}

static void take_event(const struct distmind_event *event, void *arg)
{
	struct inventory *inventory = arg;
	int err = 0;

	switch (event->type) {
	case DISTMIND_EVENT_GPU_ADD:
	case DISTMIND_EVENT_GPU_CHANGE:
		err = put_gpu(inventory, &event->gpu);
		break;
	case DISTMIND_EVENT_GPU_DEL:
		remove_gpu(inventory, event->gpu.id);
		break;
	case DISTMIND_EVENT_VGPU_ADD:
		/* The number may have been another's whose end was not reported. */
		table_remove(&inventory->vgpus, event->vgpu.id);
		err = put_vgpu(inventory, &event->vgpu);
		break;
	case DISTMIND_EVENT_VGPU_CHANGE:
		err = put_vgpu(inventory, &event->vgpu);
		break;
	case DISTMIND_EVENT_VGPU_DEL:
		table_remove(&inventory->vgpus, event->vgpu.id);
		break;
	case DISTMIND_EVENT_CLAIM_ADD:
		err = put_claim(inventory, &event->claim);
		break;
	case DISTMIND_EVENT_CLAIM_DEL:
		table_remove(&inventory->claims, event->claim.id);
		break;
	case DISTMIND_EVENT_PREEMPT:
		/* Nobody is bound elsewhere for it. */
		break;
	case DISTMIND_EVENT_OVERRUN:
		inventory->stale = true;
		break;
	}
	if (err)
		inventory->stale = true;
}

static int list_gpu(const struct distmind_gpu_record *record, void *inventory)
{
	return put_gpu(inventory, record);
}

static int list_vgpu(const struct distmind_vgpu_record *record, void *inventory)
{
	return put_vgpu(inventory, record);
}

static int list_claim(const struct distmind_claim_record *record, void *inventory)
{
	return put_claim(inventory, record);
}

static void forget_seen(struct inventory *inventory)
{
	struct inventory_claim *claim;
	struct inventory_vgpu *vgpu;
	struct inventory_gpu *gpu;

	table_each(&inventory->gpus, gpu)
		gpu->seen = false;
	table_each(&inventory->vgpus, vgpu)
		vgpu->seen = false;
	table_each(&inventory->claims, claim)
		claim->seen = false;
}

static void remove_unseen_gpus(struct inventory *inventory)
{
	struct inventory_gpu *gpu;

	for (size_t i = inventory->gpus.count; i--;) {
		gpu = table_row(&inventory->gpus, i);
		if (!gpu->seen)
			remove_gpu(inventory, gpu->record.id);
	}
}

static void remove_unseen(struct inventory *inventory)
{
	struct inventory_claim *claim;
	struct inventory_vgpu *vgpu;

	for (size_t i = inventory->vgpus.count; i--;) {
		vgpu = table_row(&inventory->vgpus, i);
		if (!vgpu->seen)
			table_remove(&inventory->vgpus, vgpu->record.id);
	}
	for (size_t i = inventory->claims.count; i--;) {
		claim = table_row(&inventory->claims, i);
		if (!claim->seen)
			table_remove(&inventory->claims, claim->record.id);
	}
}

/*
 * The three listings are of three moments; the events that arrived meanwhile,
 * taken in afterwards, make them one.
 */
static int list_all(struct inventory *inventory)
{
	int err;

	inventory->stale = false;
	forget_seen(inventory);
	err = distmind_pool_gpus(inventory->kernel, list_gpu, inventory);
	if (!err) {
		/* First, or a vgpu that lost its gpu looks parked on purpose. */
		remove_unseen_gpus(inventory);
		err = distmind_pool_vgpus(inventory->kernel, list_vgpu, inventory);
	}
	if (!err)
		err = distmind_pool_claims(inventory->kernel, list_claim, inventory);
	if (err) {
		inventory->stale = true;
		log_warning("pool-not-listed", LOG_S("reason", distmind_pool_error(inventory->kernel)));
		return err;
	}
	remove_unseen(inventory);
	log_info("pool-listed", LOG_U("gpus", inventory->gpus.count),
		 LOG_U("vgpus", inventory->vgpus.count), LOG_U("claims", inventory->claims.count));
	return 0;
}

int inventory_update(struct inventory *inventory)
{
	int ret;

	for (int tries = 0; tries < UPDATE_TRIES; tries++) {
		ret = distmind_pool_dispatch(inventory->kernel, take_event, inventory);
		if (ret < 0) {
			inventory->stale = true;
			return ret;
		}
		if (!inventory->stale)
			return 0;
		ret = list_all(inventory);
		if (ret)
			return ret;
	}
	inventory->stale = true;
	return -EAGAIN;
}
