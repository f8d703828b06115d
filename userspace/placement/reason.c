// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Conditions are checked from the coarse to the fine, and the first that leaves no
 * gpu is the one to tell: a kind that the pool does not have is not to be explained
 * by memory.
 */
#include "reason.h"

#include "../common/size.h"
#include "scan.h"

#include <stdarg.h>
#include <stdio.h>

struct reason {
	const struct placement_pool *pool;
	const struct placement_claim *claim;
	char *text;
};

__attribute__((format(printf, 2, 3))) static bool say(struct reason *reason, const char *format,
						      ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason->text, DISTMIND_REASON_LEN, format, args);
	va_end(args);
	return true;
}

/* Kinds with a separator between, as far as there is room. */
static void list_kinds(const struct placement_pool *pool, uint64_t kinds, const char *between,
		       char *text, size_t room)
{
	size_t len = 0;
	int wrote;

	*text = '\0';
	for (uint32_t i = 0; i < pool->kind_count; i++) {
		if (!(kinds & 1ULL << i))
			continue;
		wrote = snprintf(text + len, room - len, "%s%s", len ? between : "",
				 pool->kinds[i].name);
		if (wrote < 0 || (size_t)wrote >= room - len) {
			text[len] = '\0';
			return;
		}
		len += (size_t)wrote;
	}
}

static bool is_kind(const struct placement_need *need, const struct placement_gpu *gpu)
{
	return !need->kinds || need->kinds & 1ULL << gpu->kind;
}

static bool is_candidate(const struct reason *reason, const struct placement_gpu *gpu)
{
	return gpu->state == PLACEMENT_READY && is_kind(&reason->claim->need, gpu);
}

static bool no_such_kind(struct reason *reason, const char *wanted)
{
	const struct placement_pool *pool = reason->pool;
	char kinds[DISTMIND_REASON_LEN / 2];
	uint64_t ready = 0;

	if (!pool->gpus.count)
		return say(reason, "the pool has no gpus: start an engine");
	for (uint32_t i = 0; i < pool->gpus.count; i++)
		if (pool->gpus.rows[i].state == PLACEMENT_READY)
			ready |= 1ULL << pool->gpus.rows[i].kind;
	list_kinds(pool, ready, ", ", kinds, sizeof(kinds));
	if (!kinds[0])
		return say(reason, "no gpu of kind %s; start an engine for one", wanted);
	return say(reason, "no gpu of kind %s; the pool has: %s", wanted, kinds);
}

void placement_reason_kind(const struct placement_pool *pool, const char *kind, char *text)
{
	struct reason reason = { .pool = pool, .text = text };

	no_such_kind(&reason, kind);
}

static bool no_ready_gpu(struct reason *reason)
{
	const struct placement_pool *pool = reason->pool;
	const struct placement_need *need = &reason->claim->need;
	uint32_t of_state[PLACEMENT_FAILED + 1] = { 0 };
	char wanted[DISTMIND_REASON_LEN / 3];

	if (!pool->gpus.count)
		return say(reason, "the pool has no gpus: start an engine");
	for (uint32_t i = 0; i < pool->gpus.count; i++) {
		const struct placement_gpu *gpu = &pool->gpus.rows[i];

		of_state[gpu->state] += is_kind(need, gpu);
	}
	if (of_state[PLACEMENT_READY])
		return false;
	list_kinds(pool, need->kinds, " or ", wanted, sizeof(wanted));
	if (of_state[PLACEMENT_SPARE] && !of_state[PLACEMENT_DRAINING])
		return say(reason, "no gpu%s%s is ready: %u spare, %u lost; start an engine",
			   need->kinds ? " of kind " : "", wanted, of_state[PLACEMENT_SPARE],
			   of_state[PLACEMENT_FAILED]);
	if (of_state[PLACEMENT_DRAINING] || of_state[PLACEMENT_FAILED])
		return say(reason, "no gpu%s%s is ready: %u draining, %u lost; %s",
			   need->kinds ? " of kind " : "", wanted, of_state[PLACEMENT_DRAINING],
			   of_state[PLACEMENT_FAILED],
			   of_state[PLACEMENT_DRAINING] ? "undrain one or start an engine" :
							  "start an engine");
	return no_such_kind(reason, wanted);
}

/* Of memory as a whole, then of what is not promised. */
static bool short_of_memory(struct reason *reason, bool whole)
{
	const struct placement_pool *pool = reason->pool;
	const struct placement_need *need = &reason->claim->need;
	const struct placement_gpu *best = NULL;
	char wanted[SIZE_TEXT_LEN], largest[SIZE_TEXT_LEN];
	uint64_t has, best_has = 0;

	for (uint32_t i = 0; i < pool->gpus.count; i++) {
		const struct placement_gpu *gpu = &pool->gpus.rows[i];

		if (!is_candidate(reason, gpu) || (!whole && gpu->memory_one < need->gpu_memory))
			continue;
		has = whole ? gpu->memory_one : placement_gpu_memory_left(gpu);
		if (has >= need->gpu_memory)
			return false;
		if (!best || has > best_has) {
			best = gpu;
			best_has = has;
		}
	}
	if (!best)
		return false;
	size_format(need->gpu_memory, wanted, sizeof(wanted));
	size_format(best_has, largest, sizeof(largest));
	return say(reason, "no gpu has %s of %smemory; the largest has %s (gpu %u): ask for less%s",
		   wanted, whole ? "" : "unpromised ", largest, best->id,
		   whole ? "" : " or wait");
}

static bool short_of_share(struct reason *reason)
{
	const struct placement_pool *pool = reason->pool;
	const struct placement_need *need = &reason->claim->need;
	const struct placement_gpu *best = NULL;
	char memory[SIZE_TEXT_LEN + 32] = "", size[SIZE_TEXT_LEN];

	for (uint32_t i = 0; i < pool->gpus.count; i++) {
		const struct placement_gpu *gpu = &pool->gpus.rows[i];

		if (!is_candidate(reason, gpu) || gpu->memory_one < need->gpu_memory ||
		    placement_gpu_memory_left(gpu) < need->gpu_memory)
			continue;
		if (placement_gpu_share_left(gpu) >=
		    placement_kind_share(&pool->kinds[gpu->kind], need->share))
			return false;
		if (!best || placement_gpu_share_left(gpu) > placement_gpu_share_left(best))
			best = gpu;
	}
	if (!best)
		return false;
	if (need->gpu_memory) {
		size_format(need->gpu_memory, size, sizeof(size));
		snprintf(memory, sizeof(memory), " with %s of memory", size);
	}
	return say(reason,
		   "no gpu%s has a share of %.4g %% left; the most is %.4g %% (gpu %u): ask for "
		   "less or wait",
		   memory, need->share / 10.0, placement_gpu_share_left(best) / 10.0, best->id);
}

static bool fits(const struct reason *reason, uint32_t number, bool company)
{
	const struct placement_gpu *gpu = &reason->pool->gpus.rows[number];
	struct placement_hole hole = placement_gpu_hole(gpu);

	return gpu->state == PLACEMENT_READY &&
	       placement_fits_hole(reason->pool, &hole, &reason->claim->need) &&
	       (!company || placement_suits_gpu(reason->pool, number, reason->claim));
}

static uint32_t count_fits(const struct reason *reason, bool company)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < reason->pool->gpus.count; i++)
		count += fits(reason, i, company);
	return count;
}

static bool short_of_gpus(struct reason *reason)
{
	uint32_t wanted = reason->claim->need.count;
	uint32_t fit = count_fits(reason, false), alone = count_fits(reason, true);

	if (fit < wanted)
		return say(reason, "%u gpus wanted, %u of the pool's %u fit: ask for fewer or for "
			   "less of each", wanted, fit, reason->pool->gpus.count);
	if (alone < wanted)
		return say(reason, "%u of %u gpus that fit are shared with those that it must be "
			   "apart from: drop the isolation or the group, or wait", fit - alone,
			   fit);
	return false;
}

static bool short_of_host(struct reason *reason)
{
	const struct placement_pool *pool = reason->pool;
	const struct placement_need *need = &reason->claim->need;
	char wanted[SIZE_TEXT_LEN], most[SIZE_TEXT_LEN];
	uint64_t cpu = 0, memory = 0, left;

	for (uint32_t i = 0; i < pool->hosts.count; i++) {
		const struct placement_host *host = &pool->hosts.rows[i];

		if (host->failed)
			continue;
		left = host->cpu_used < host->cpu ? host->cpu - host->cpu_used : 0;
		cpu = left > cpu ? left : cpu;
		left = host->memory_used < host->memory ? host->memory - host->memory_used : 0;
		memory = left > memory ? left : memory;
	}
	if (cpu < need->cpu)
		return say(reason, "no host has %.4g cpus left; the most is %.4g: ask for less or "
			   "wait", (double)need->cpu / 1000, (double)cpu / 1000);
	if (memory < need->memory) {
		size_format(need->memory, wanted, sizeof(wanted));
		size_format(memory, most, sizeof(most));
		return say(reason, "no host has %s of memory left; the most is %s: ask for less or "
			   "wait", wanted, most);
	}
	return false;
}

static bool short_of_box(struct reason *reason)
{
	const struct placement_pool *pool = reason->pool;
	uint32_t best = 0, box = 0, count;

	if (reason->claim->need.count < 2)
		return false;
	for (uint32_t i = 0; i < pool->boxes.count; i++) {
		count = 0;
		placement_each_gpu(pool, i, gpu)
			count += fits(reason, gpu, true);
		if (count > best) {
			best = count;
			box = pool->boxes.rows[i].id;
		}
	}
	if (best >= reason->claim->need.count)
		return false;
	return say(reason, "no box has %u gpus that fit; the best is box %u with %u: ask for "
		   "fewer, or not for the same box", reason->claim->need.count, box, best);
}

void placement_reason(const struct placement_pool *pool, const struct placement_claim *claim,
		      char *text)
{
	struct reason reason = { pool, claim, text };

	if (claim->need.count &&
	    (no_ready_gpu(&reason) || short_of_memory(&reason, true) ||
	     short_of_memory(&reason, false) || short_of_share(&reason) ||
	     short_of_gpus(&reason) || short_of_box(&reason)))
		return;
	if (short_of_host(&reason))
		return;
	say(&reason, "no host has gpus, cpus and memory together as wanted: ask for less or wait");
}
