// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Best fit: the gpus that would have least memory left, then least share, then
 * the lowest id. Several vgpus get a gpu each; in one box if they must, the
 * box where least is left over in sum.
 */
#include "placement.h"

#include <errno.h>
#include <stdlib.h>

/* A gpu that fits, and what it would have left. */
struct candidate {
	uint64_t memory;
	uint32_t share;
	uint32_t id;
	uint32_t box;
};

static int compare_fit(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->memory != b->memory)
		return a->memory < b->memory ? -1 : 1;
	if (a->share != b->share)
		return a->share < b->share ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_box(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->box != b->box)
		return a->box < b->box ? -1 : 1;
	return compare_fit(a, b);
}

static size_t gather(const struct placement_pool *pool, const struct placement_request *request,
		     struct candidate *candidates)
{
	size_t count = 0;

	for (size_t i = 0; i < pool->count; i++) {
		const struct placement_gpu *gpu = &pool->gpus[i];

		if (!placement_fits(pool, gpu, request))
			continue;
		candidates[count++] = (struct candidate){
			.memory = placement_memory_left(pool, gpu) - request->memory,
			.share = placement_share_left(pool, gpu) - request->share,
			.id = gpu->id,
			.box = gpu->box,
		};
	}
	return count;
}

/* Saturates: sums of memory that large are equally bad. */
static struct candidate sum(const struct candidate *candidates, uint32_t count)
{
	struct candidate total = { .id = candidates[0].box };

	for (uint32_t i = 0; i < count; i++) {
		if (__builtin_add_overflow(total.memory, candidates[i].memory, &total.memory))
			total.memory = UINT64_MAX;
		if (__builtin_add_overflow(total.share, candidates[i].share, &total.share))
			total.share = UINT32_MAX;
	}
	return total;
}

/* The first of the best box's candidates, which are in order within each box. */
static const struct candidate *best_box(const struct candidate *candidates, size_t count,
					uint32_t wanted)
{
	const struct candidate *best = NULL;
	struct candidate best_sum, this_sum;
	size_t end;

	for (size_t start = 0; start < count; start = end) {
		for (end = start; end < count && candidates[end].box == candidates[start].box;)
			end++;
		if (end - start < wanted)
			continue;
		this_sum = sum(&candidates[start], wanted);
		if (!best || compare_fit(&this_sum, &best_sum) < 0) {
			best = &candidates[start];
			best_sum = this_sum;
		}
	}
	return best;
}

static int pick(const struct placement_pool *pool, const struct placement_request *request,
		struct placement_answer *answer)
{
	const struct candidate *chosen = NULL;
	struct candidate *candidates;
	size_t count;

	if (!request->count || request->count > DISTMIND_ACQUIRE_MAX)
		return -EINVAL;
	candidates = calloc(pool->count ? pool->count : 1, sizeof(*candidates));
	if (!candidates)
		return -ENOMEM;
	count = gather(pool, request, candidates);
	if (request->same_box) {
		qsort(candidates, count, sizeof(*candidates), compare_box);
		chosen = best_box(candidates, count, request->count);
	} else if (count >= request->count) {
		qsort(candidates, count, sizeof(*candidates), compare_fit);
		chosen = candidates;
	}
	if (chosen)
		for (uint32_t i = 0; i < request->count; i++)
			answer->gpus[i] = chosen[i].id;
	free(candidates);
	return chosen ? 0 : placement_refuse(pool, request, answer);
}

const struct placement_policy placement_best_fit = {
	.name = "best-fit",
	.pick = pick,
};
