// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The reasons of refusals. Conditions are checked from the coarse to the fine,
 * and the first that leaves no gpu is the one to tell: a kind that the pool
 * does not have is not to be explained by memory.
 */
#include "../common/size.h"
#include "placement.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static int refuse(struct placement_answer *answer,
							 const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(answer->reason, sizeof(answer->reason), format, args);
	va_end(args);
	return -ENOSPC;
}

static bool is_ready(const struct placement_gpu *gpu)
{
	return gpu->state == DISTMIND_GPU_STATE_READY;
}

static bool is_kind(const struct placement_gpu *gpu, const struct placement_request *request)
{
	return !request->kind[0] || !strcmp(gpu->kind, request->kind);
}

static bool is_candidate(const struct placement_gpu *gpu, const struct placement_request *request)
{
	return is_ready(gpu) && is_kind(gpu, request);
}

static size_t count_state(const struct placement_pool *pool,
			  const struct placement_request *request, uint32_t state)
{
	size_t count = 0;

	for (size_t i = 0; i < pool->count; i++)
		count += pool->gpus[i].state == state && is_kind(&pool->gpus[i], request);
	return count;
}

/* The kinds of the ready gpus, each once, as far as there is room. */
static void list_kinds(const struct placement_pool *pool, char *text, size_t room)
{
	size_t len = 0, k;
	int wrote;

	*text = '\0';
	for (size_t i = 0; i < pool->count; i++) {
		if (!is_ready(&pool->gpus[i]))
			continue;
		for (k = 0; k < i; k++)
			if (is_ready(&pool->gpus[k]) &&
			    !strcmp(pool->gpus[k].kind, pool->gpus[i].kind))
				break;
		if (k < i)
			continue;
		wrote = snprintf(text + len, room - len, "%s%s", len ? ", " : "",
				 pool->gpus[i].kind);
		if (wrote < 0 || (size_t)wrote >= room - len) {
			text[len] = '\0';
			return;
		}
		len += (size_t)wrote;
	}
}

static int refuse_unready(const struct placement_pool *pool,
			  const struct placement_request *request, struct placement_answer *answer)
{
	size_t draining = count_state(pool, request, DISTMIND_GPU_STATE_DRAINING);
	size_t lost = count_state(pool, request, DISTMIND_GPU_STATE_LOST);
	bool any = !request->kind[0];

	return refuse(answer, "no gpu%s%s is ready: %zu draining, %zu lost; %s",
		      any ? "" : " of kind ", request->kind, draining, lost,
		      draining ? "undrain one or start an engine" : "start an engine");
}

static int refuse_kind(const struct placement_pool *pool, const struct placement_request *request,
		       struct placement_answer *answer)
{
	char kinds[DISTMIND_REASON_LEN / 2];

	list_kinds(pool, kinds, sizeof(kinds));
	if (!kinds[0])
		return refuse(answer, "no gpu of kind %s; start an engine for one", request->kind);
	return refuse(answer, "no gpu of kind %s; the pool has: %s", request->kind, kinds);
}

/* Memory, whole and then unpromised; NULL when some gpu has enough. */
static const struct placement_gpu *short_of_memory(const struct placement_pool *pool,
						   const struct placement_request *request,
						   bool whole)
{
	const struct placement_gpu *best = NULL;
	uint64_t has, best_has = 0;

	for (size_t i = 0; i < pool->count; i++) {
		const struct placement_gpu *gpu = &pool->gpus[i];

		if (!is_candidate(gpu, request))
			continue;
		if (!whole && gpu->memory < request->memory)
			continue;
		has = whole ? gpu->memory : placement_memory_left(pool, gpu);
		if (has >= request->memory)
			return NULL;
		if (!best || has > best_has) {
			best = gpu;
			best_has = has;
		}
	}
	return best;
}

static bool has_memory(const struct placement_pool *pool, const struct placement_gpu *gpu,
		       const struct placement_request *request)
{
	return is_candidate(gpu, request) && request->memory <= gpu->memory &&
	       request->memory <= placement_memory_left(pool, gpu);
}

/* The gpu with most share left among those with enough memory; NULL: enough. */
static const struct placement_gpu *short_of_share(const struct placement_pool *pool,
						  const struct placement_request *request)
{
	const struct placement_gpu *best = NULL;

	for (size_t i = 0; i < pool->count; i++) {
		const struct placement_gpu *gpu = &pool->gpus[i];

		if (!has_memory(pool, gpu, request))
			continue;
		if (request->share <= placement_share_left(pool, gpu))
			return NULL;
		if (!best || placement_share_left(pool, gpu) > placement_share_left(pool, best))
			best = gpu;
	}
	return best;
}

static size_t count_fits(const struct placement_pool *pool,
			 const struct placement_request *request, const uint32_t *box)
{
	size_t count = 0;

	for (size_t i = 0; i < pool->count; i++)
		count += (!box || pool->gpus[i].box == *box) &&
			 placement_fits(pool, &pool->gpus[i], request);
	return count;
}

static int refuse_box(const struct placement_pool *pool, const struct placement_request *request,
		      struct placement_answer *answer)
{
	size_t best = 0, count;
	uint32_t box = 0;

	for (size_t i = 0; i < pool->count; i++) {
		count = count_fits(pool, request, &pool->gpus[i].box);
		if (count > best) {
			best = count;
			box = pool->gpus[i].box;
		}
	}
	return refuse(answer,
		      "no box has %u gpus that fit; the best is box %u with %zu: ask for fewer, or "
		      "not for the same box",
		      request->count, box, best);
}

int placement_refuse(const struct placement_pool *pool, const struct placement_request *request,
		     struct placement_answer *answer)
{
	char wanted[SIZE_TEXT_LEN], has[SIZE_TEXT_LEN];
	const struct placement_gpu *gpu;
	size_t fits;

	if (!pool->count)
		return refuse(answer, "the pool has no gpus: start an engine");
	if (!count_state(pool, request, DISTMIND_GPU_STATE_READY)) {
		if (count_state(pool, request, DISTMIND_GPU_STATE_DRAINING) ||
		    count_state(pool, request, DISTMIND_GPU_STATE_LOST))
			return refuse_unready(pool, request, answer);
		return refuse_kind(pool, request, answer);
	}

	size_format(request->memory, wanted, sizeof(wanted));
	gpu = short_of_memory(pool, request, true);
	if (gpu) {
		size_format(gpu->memory, has, sizeof(has));
		return refuse(answer, "no gpu has %s of memory; the largest has %s (gpu %u): ask "
			      "for less", wanted, has, gpu->id);
	}
	gpu = short_of_memory(pool, request, false);
	if (gpu) {
		size_format(placement_memory_left(pool, gpu), has, sizeof(has));
		return refuse(answer, "no gpu has %s of unpromised memory; the largest has %s "
			      "(gpu %u): ask for less or wait", wanted, has, gpu->id);
	}
	gpu = short_of_share(pool, request);
	if (gpu)
		return refuse(answer, "no gpu with %s of memory has a share of %.4g %% left; "
			      "the most is %.4g %% (gpu %u): ask for less or wait", wanted,
			      request->share / 10.0, placement_share_left(pool, gpu) / 10.0,
			      gpu->id);

	fits = count_fits(pool, request, NULL);
	if (fits < request->count)
		return refuse(answer, "%u gpus wanted, %zu of the pool's %zu fit: ask for fewer or "
			      "for less of each", request->count, fits, pool->count);
	if (request->same_box)
		return refuse_box(pool, request, answer);
	return refuse(answer, "nothing in the pool fits");
}
