// SPDX-License-Identifier: GPL-2.0-or-later
#include "records.h"

#include <errno.h>
#include <string.h>

/* Without the intermediate product, which may exceed 64 bits. */
static uint64_t percent_of(uint64_t value, uint32_t percent)
{
	uint64_t whole, part = value % 100 * percent / 100;

	if (__builtin_mul_overflow(value / 100, percent, &whole) ||
	    __builtin_add_overflow(whole, part, &whole))
		return UINT64_MAX;
	return whole;
}

static int find_box(struct placement_pool *pool, uint32_t id)
{
	int box;

	for (uint32_t i = 0; i < pool->boxes.count; i++)
		if (pool->boxes.rows[i].id == id)
			return (int)i;
	box = placement_pool_add_box(pool, PLACEMENT_NONE, 0, 0);
	if (box >= 0)
		pool->boxes.rows[box].id = id;
	return box;
}

static bool is_named(const char *names, const char *name)
{
	size_t len = strlen(name);

	while (names && *names) {
		size_t part = strcspn(names, ",");

		if (part == len && !strncmp(names, name, len))
			return true;
		names += part + (names[part] == ',');
	}
	return false;
}

static enum placement_state state_of(const struct distmind_gpu_record *record,
				     const struct placement_rules *rules)
{
	switch (record->state) {
	case DISTMIND_GPU_STATE_READY:
		return !record->vgpus && is_named(rules->spares, record->name) ? PLACEMENT_SPARE :
										 PLACEMENT_READY;
	case DISTMIND_GPU_STATE_DRAINING:
		return PLACEMENT_DRAINING;
	default:
		return PLACEMENT_FAILED;
	}
}

int placement_records_add_gpu(struct placement_pool *pool, const struct distmind_gpu_record *record,
			      const struct placement_rules *rules)
{
	uint64_t share = percent_of(PLACEMENT_WHOLE, rules->share);
	struct placement_gpu_offer offer = {
		.id = record->id,
		.share = share < UINT32_MAX ? (uint32_t)share : UINT32_MAX,
		.memory = percent_of(record->memory, rules->memory),
		/* Overcommitted or not, one vgpu can never use more than there is. */
		.memory_one = record->memory,
	};
	int box = find_box(pool, record->box), kind, gpu;

	if (box < 0)
		return box;
	kind = placement_pool_add_kind(pool, record->kind);
	offer.box = (uint32_t)box;
	offer.kind = kind < 0 ? 0 : (uint32_t)kind;
	gpu = placement_pool_add_gpu(pool, &offer);
	if (gpu >= 0)
		placement_pool_set_state(pool, (uint32_t)gpu,
					 kind < 0 ? PLACEMENT_FAILED : state_of(record, rules));
	return gpu;
}

struct placement_need placement_records_need(const struct distmind_vgpu_record *record)
{
	return (struct placement_need){
		.count = 1,
		.share = record->share,
		.gpu_memory = record->memory,
		.objective_ns = record->objective_ns,
	};
}

bool placement_records_is_weights(const struct distmind_vgpu_record *record)
{
	return !record->uid && !record->pid &&
	       !strncmp(record->name, DISTMIND_WEIGHTS_PREFIX, strlen(DISTMIND_WEIGHTS_PREFIX));
}

int placement_records_add_vgpu(struct placement_pool *pool,
			       const struct distmind_vgpu_record *record,
			       const struct distmind_gpu_record *gpu, uint32_t number)
{
	struct placement_claim claim = { .need = placement_records_need(record) };
	const struct placement_gpu *row = &pool->gpus.rows[number];
	int kind = placement_pool_find_kind(pool, gpu->kind);

	if (placement_records_is_weights(record))
		return -ENOENT;
	if (kind < 0)
		return kind;
	/* A tenant is not moved to another kind. */
	claim.need.kinds = 1ULL << kind;
	/* What is promised beyond all memory is no more than all of it. */
	if (claim.need.gpu_memory > row->memory)
		claim.need.gpu_memory = row->memory;
	return placement_pool_grant(pool, &claim, row->box, &number);
}
