// SPDX-License-Identifier: GPL-2.0-or-later
#include "class.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for that many more rows; numbers stay below INT_MAX, as they are returned as int. */
static int grow(void **rows, uint32_t count, uint32_t *room, uint32_t more, size_t size)
{
	uint32_t wanted = *room ? *room : 16;
	void *grown;

	if (more > INT_MAX - count)
		return -ENOMEM;
	while (wanted < count + more)
		wanted *= 2;
	if (wanted == *room)
		return 0;
	grown = reallocarray(*rows, wanted, size);
	if (!grown)
		return -ENOMEM;
	*rows = grown;
	*room = wanted;
	return 0;
}

#define GROW(array, more) \
	grow((void **)&(array).rows, (array).count, &(array).room, more, sizeof(*(array).rows))

struct placement_pool *placement_pool_new(void)
{
	struct placement_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->free_grant = pool->free_hold = PLACEMENT_NONE;
	pool->classes = placement_classes_new();
	if (!pool->classes) {
		free(pool);
		return NULL;
	}
	return pool;
}

void placement_pool_free(struct placement_pool *pool)
{
	if (!pool)
		return;
	placement_classes_free(pool->classes);
	free(pool->hosts.rows);
	free(pool->boxes.rows);
	free(pool->gpus.rows);
	free(pool->grants.rows);
	free(pool->holds.rows);
	free(pool);
}

int placement_pool_find_kind(const struct placement_pool *pool, const char *name)
{
	for (uint32_t i = 0; i < pool->kind_count; i++)
		if (!strcmp(pool->kinds[i].name, name))
			return (int)i;
	return -ENOENT;
}

int placement_pool_add_kind(struct placement_pool *pool, const char *name)
{
	struct placement_kind *kind;
	int found = placement_pool_find_kind(pool, name);

	if (found >= 0)
		return found;
	if (pool->kind_count == PLACEMENT_KINDS_MAX)
		return -ENOSPC;
	kind = &pool->kinds[pool->kind_count];
	*kind = (struct placement_kind){ .speed = 1, .cost = 1 };
	snprintf(kind->name, sizeof(kind->name), "%s", name);
	return (int)pool->kind_count++;
}

int placement_pool_add_host(struct placement_pool *pool, uint64_t cpu, uint64_t memory)
{
	int err = GROW(pool->hosts, 1);

	if (err)
		return err;
	pool->hosts.rows[pool->hosts.count] = (struct placement_host){
		.cpu = cpu,
		.memory = memory,
		.first_box = PLACEMENT_NONE,
	};
	return (int)pool->hosts.count++;
}

int placement_pool_add_box(struct placement_pool *pool, uint32_t host, uint32_t rtt_ns,
			   uint32_t ns_per_mib)
{
	uint32_t number = pool->boxes.count;
	int err = GROW(pool->boxes, 1);

	if (!err)
		err = placement_classes_reserve(pool->classes, number + 1, 0);
	if (err)
		return err;
	pool->boxes.rows[number] = (struct placement_box){
		.id = number,
		.host = host,
		.next_of_host = PLACEMENT_NONE,
		.first_gpu = PLACEMENT_NONE,
		.last_gpu = PLACEMENT_NONE,
		.first_grant = PLACEMENT_NONE,
		.class = PLACEMENT_NONE,
		.rtt_ns = rtt_ns,
		.ns_per_mib = ns_per_mib,
	};
	if (host != PLACEMENT_NONE) {
		pool->boxes.rows[number].next_of_host = pool->hosts.rows[host].first_box;
		pool->hosts.rows[host].first_box = number;
	}
	pool->boxes.count++;
	placement_classes_update(pool, number);
	return (int)number;
}

static void count_milli(struct placement_pool *pool, const struct placement_gpu *gpu, int sign)
{
	if (gpu->state != PLACEMENT_READY)
		return;
	pool->milli += (uint64_t)(sign * (int64_t)gpu->share);
	pool->kinds[gpu->kind].milli += (uint64_t)(sign * (int64_t)gpu->share);
}

int placement_pool_add_gpu(struct placement_pool *pool, const struct placement_gpu_offer *offer)
{
	struct placement_box *box = &pool->boxes.rows[offer->box];
	uint32_t number = pool->gpus.count;
	struct placement_gpu *gpu;
	int err = GROW(pool->gpus, 1);

	if (!err)
		err = placement_classes_reserve(pool->classes, pool->boxes.count,
						box->gpu_count + 1);
	if (err)
		return err;
	gpu = &pool->gpus.rows[number];
	*gpu = (struct placement_gpu){
		.id = offer->id,
		.box = offer->box,
		.slot = box->gpu_count++,
		.next_in_box = PLACEMENT_NONE,
		.first_hold = PLACEMENT_NONE,
		.kind = offer->kind,
		.share = offer->share,
		.memory = offer->memory,
		.memory_one = offer->memory_one,
	};
	if (box->last_gpu == PLACEMENT_NONE)
		box->first_gpu = number;
	else
		pool->gpus.rows[box->last_gpu].next_in_box = number;
	box->last_gpu = number;
	pool->gpus.count++;
	count_milli(pool, gpu, 1);
	placement_classes_update(pool, offer->box);
	return (int)number;
}

void placement_pool_set_state(struct placement_pool *pool, uint32_t number,
			      enum placement_state state)
{
	struct placement_gpu *gpu = &pool->gpus.rows[number];

	count_milli(pool, gpu, -1);
	pool->spares += (state == PLACEMENT_SPARE) - (gpu->state == PLACEMENT_SPARE);
	gpu->state = state;
	count_milli(pool, gpu, 1);
	placement_classes_update(pool, gpu->box);
}

void placement_pool_cache_model(struct placement_pool *pool, uint32_t gpu, uint64_t model)
{
	uint64_t *models = pool->gpus.rows[gpu].models;
	size_t count = sizeof(pool->gpus.rows[gpu].models) / sizeof(*models), i;

	for (i = 0; i < count - 1 && models[i] != model; i++)
		;
	memmove(models + 1, models, i * sizeof(*models));
	models[0] = model;
}

/* A box's state, and that of all boxes that share its host. */
static void update_host(struct placement_pool *pool, uint32_t box)
{
	uint32_t host = pool->boxes.rows[box].host;

	if (host == PLACEMENT_NONE || (pool->hosts.rows[host].first_box == box &&
				       pool->boxes.rows[box].next_of_host == PLACEMENT_NONE)) {
		placement_classes_update(pool, box);
		return;
	}
	for (box = pool->hosts.rows[host].first_box; box != PLACEMENT_NONE;
	     box = pool->boxes.rows[box].next_of_host)
		placement_classes_update(pool, box);
}

void placement_pool_set_path(struct placement_pool *pool, uint32_t box, uint32_t rtt_ns,
			     uint32_t ns_per_mib)
{
	pool->boxes.rows[box].rtt_ns = rtt_ns;
	pool->boxes.rows[box].ns_per_mib = ns_per_mib;
	placement_classes_update(pool, box);
}

void placement_pool_set_host(struct placement_pool *pool, uint32_t host, bool failed)
{
	pool->hosts.rows[host].failed = failed;
	if (pool->hosts.rows[host].first_box != PLACEMENT_NONE)
		update_host(pool, pool->hosts.rows[host].first_box);
}

static void use_host(struct placement_pool *pool, uint32_t box, const struct placement_need *need,
		     int sign)
{
	struct placement_host *host;

	if (pool->boxes.rows[box].host == PLACEMENT_NONE)
		return;
	host = &pool->hosts.rows[pool->boxes.rows[box].host];
	host->cpu_used += sign < 0 ? -need->cpu : need->cpu;
	host->memory_used += sign < 0 ? -need->memory : need->memory;
}

static void add_hold(struct placement_pool *pool, uint32_t grant, uint32_t number)
{
	const struct placement_need *need = &pool->grants.rows[grant].claim.need;
	struct placement_gpu *gpu = &pool->gpus.rows[number];
	struct placement_hold *hold;
	uint32_t slot = pool->free_hold;

	if (slot != PLACEMENT_NONE) {
		pool->free_hold = pool->holds.rows[slot].next_of_grant;
		pool->free_holds--;
	} else {
		slot = pool->holds.count++;
	}
	hold = &pool->holds.rows[slot];
	*hold = (struct placement_hold){
		.grant = grant,
		.gpu = number,
		.share = placement_kind_share(&pool->kinds[gpu->kind], need->share),
		.next_of_grant = pool->grants.rows[grant].first_hold,
		.prev_on_gpu = PLACEMENT_NONE,
		.next_on_gpu = gpu->first_hold,
	};
	pool->grants.rows[grant].first_hold = slot;
	if (gpu->first_hold != PLACEMENT_NONE)
		pool->holds.rows[gpu->first_hold].prev_on_gpu = slot;
	gpu->first_hold = slot;
	gpu->share_used += hold->share;
	gpu->memory_used += need->gpu_memory;
	gpu->isolated += pool->grants.rows[grant].claim.isolate;
}

static void remove_hold(struct placement_pool *pool, uint32_t slot)
{
	struct placement_hold *hold = &pool->holds.rows[slot];
	struct placement_gpu *gpu = &pool->gpus.rows[hold->gpu];

	gpu->share_used -= hold->share;
	gpu->isolated -= pool->grants.rows[hold->grant].claim.isolate;
	gpu->memory_used -= pool->grants.rows[hold->grant].claim.need.gpu_memory;
	if (hold->prev_on_gpu != PLACEMENT_NONE)
		pool->holds.rows[hold->prev_on_gpu].next_on_gpu = hold->next_on_gpu;
	else
		gpu->first_hold = hold->next_on_gpu;
	if (hold->next_on_gpu != PLACEMENT_NONE)
		pool->holds.rows[hold->next_on_gpu].prev_on_gpu = hold->prev_on_gpu;
	hold->next_of_grant = pool->free_hold;
	pool->free_hold = slot;
	pool->free_holds++;
}

/* The boxes of its gpus, which are not all the grant's if it is in several. */
static void update_boxes(struct placement_pool *pool, uint32_t box, const uint32_t *gpus,
			 uint32_t count)
{
	update_host(pool, box);
	for (uint32_t i = 0; i < count; i++)
		if (pool->gpus.rows[gpus[i]].box != box)
			placement_classes_update(pool, pool->gpus.rows[gpus[i]].box);
}

int placement_pool_grant(struct placement_pool *pool, const struct placement_claim *claim,
			 uint32_t box, const uint32_t *gpus)
{
	struct placement_box *home = &pool->boxes.rows[box];
	const struct placement_need *need = &claim->need;
	uint32_t number = pool->free_grant;
	struct placement_grant *grant;
	int err = 0;

	/* What was released can be put back without memory. */
	if (need->count > pool->free_holds)
		err = GROW(pool->holds, need->count - pool->free_holds);
	if (!err && number == PLACEMENT_NONE)
		err = GROW(pool->grants, 1);
	if (err)
		return err;
	if (number != PLACEMENT_NONE)
		pool->free_grant = pool->grants.rows[number].first_hold;
	else
		number = pool->grants.count++;
	grant = &pool->grants.rows[number];
	*grant = (struct placement_grant){
		.claim = *claim,
		.box = box,
		.first_hold = PLACEMENT_NONE,
		.prev_in_box = PLACEMENT_NONE,
		.next_in_box = home->first_grant,
	};
	if (home->first_grant != PLACEMENT_NONE)
		pool->grants.rows[home->first_grant].prev_in_box = number;
	home->first_grant = number;
	use_host(pool, box, need, 1);
	/* Backwards, for the list to be in their order. */
	for (uint32_t i = need->count; i--;)
		add_hold(pool, number, gpus[i]);
	pool->milli_used += placement_need_milli(need);
	update_boxes(pool, box, gpus, need->count);
	return (int)number;
}

void placement_pool_release(struct placement_pool *pool, uint32_t number)
{
	struct placement_grant *grant = &pool->grants.rows[number];
	uint32_t gpus[PLACEMENT_GPUS_MAX], count = 0, box = grant->box, next;

	for (uint32_t slot = grant->first_hold; slot != PLACEMENT_NONE; slot = next) {
		next = pool->holds.rows[slot].next_of_grant;
		gpus[count++] = pool->holds.rows[slot].gpu;
		remove_hold(pool, slot);
	}
	use_host(pool, box, &grant->claim.need, -1);
	pool->milli_used -= placement_need_milli(&grant->claim.need);
	if (grant->prev_in_box != PLACEMENT_NONE)
		pool->grants.rows[grant->prev_in_box].next_in_box = grant->next_in_box;
	else
		pool->boxes.rows[box].first_grant = grant->next_in_box;
	if (grant->next_in_box != PLACEMENT_NONE)
		pool->grants.rows[grant->next_in_box].prev_in_box = grant->prev_in_box;
	grant->box = PLACEMENT_NONE;
	grant->first_hold = pool->free_grant;
	pool->free_grant = number;
	update_boxes(pool, box, gpus, count);
}
