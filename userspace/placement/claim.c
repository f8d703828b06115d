// SPDX-License-Identifier: GPL-2.0-or-later
#include "claim.h"

#include <errno.h>
#include <stdio.h>

bool placement_need_equal(const struct placement_need *a, const struct placement_need *b)
{
	return a->count == b->count && a->share == b->share && a->gpu_memory == b->gpu_memory &&
	       a->cpu == b->cpu && a->memory == b->memory && a->kinds == b->kinds &&
	       a->same_box == b->same_box && a->objective_ns == b->objective_ns &&
	       a->work_ns == b->work_ns && a->launches == b->launches && a->bytes == b->bytes;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9fb21c651e98df25ULL;
	return hash ^ hash >> 32;
}

uint64_t placement_need_hash(const struct placement_need *need)
{
	uint64_t hash = mix(need->count, (uint64_t)need->share << 1 | need->same_box);

	hash = mix(hash, need->gpu_memory);
	hash = mix(hash, need->cpu);
	hash = mix(hash, need->memory);
	hash = mix(hash, need->kinds);
	if (!need->work_ns)
		return hash;
	hash = mix(hash, need->objective_ns);
	hash = mix(hash, need->work_ns);
	hash = mix(hash, need->launches);
	return mix(hash, need->bytes);
}

bool placement_claim_plain(const struct placement_claim *claim)
{
	return !claim->isolate && !claim->tenant && !claim->group && !claim->profile &&
	       !claim->model && !claim->moves;
}

int placement_claim_check(const struct placement_claim *claim, char *reason)
{
	const struct placement_need *need = &claim->need;

	if (need->count > PLACEMENT_GPUS_MAX)
		snprintf(reason, DISTMIND_REASON_LEN, "%u gpus are too many: ask for up to %u",
			 need->count, PLACEMENT_GPUS_MAX);
	else if (need->count && (!need->share || need->share > PLACEMENT_WHOLE))
		snprintf(reason, DISTMIND_REASON_LEN,
			 "a share of %u thousandths: ask for 1 to %u", need->share,
			 PLACEMENT_WHOLE);
	else if (!need->count && !need->cpu && !need->memory)
		snprintf(reason, DISTMIND_REASON_LEN, "nothing is asked for: ask for a gpu");
	else
		return 0;
	return -EINVAL;
}
