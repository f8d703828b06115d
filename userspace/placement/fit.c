// SPDX-License-Identifier: GPL-2.0-or-later
#include "placement.h"

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

uint64_t placement_memory_left(const struct placement_pool *pool, const struct placement_gpu *gpu)
{
	uint64_t limit = percent_of(gpu->memory, pool->memory_percent);

	return gpu->memory_promised < limit ? limit - gpu->memory_promised : 0;
}

uint32_t placement_share_left(const struct placement_pool *pool, const struct placement_gpu *gpu)
{
	uint64_t limit = percent_of(DISTMIND_SHARE_WHOLE, pool->share_percent);

	if (gpu->share_promised >= limit)
		return 0;
	limit -= gpu->share_promised;
	return limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
}

bool placement_fits(const struct placement_pool *pool, const struct placement_gpu *gpu,
		    const struct placement_request *request)
{
	if (gpu->state != DISTMIND_GPU_STATE_READY)
		return false;
	if (request->kind[0] && strcmp(request->kind, gpu->kind))
		return false;
	/* Overcommitted or not, one vgpu can never use more than there is. */
	return request->memory <= gpu->memory &&
	       request->memory <= placement_memory_left(pool, gpu) &&
	       request->share <= placement_share_left(pool, gpu);
}
