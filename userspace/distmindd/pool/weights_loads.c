// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which loads may begin. A load is in the list from when it is asked for until it is loaded, or
 * until all its memory is given back.
 */
#include "weights_state.h"

/* A user is one, whatever vgpus it has; vgpus of root's are limited each by itself. */
static uint64_t find_owner(uint32_t uid, uint32_t vgpu)
{
	return uid ? uid : 1ULL << 32 | vgpu;
}

static bool wants(const struct resident *load, uint64_t owner)
{
	const struct weights_use *use;

	if (load->owner == owner)
		return true;
	LIST_FOREACH(use, &load->uses, link)
		if (find_owner(use->uid, use->vgpu) == owner)
			return true;
	return false;
}

static bool was_left(const struct resident *load)
{
	return load->cancelled || load->state == RESIDENT_FAILED;
}

static bool prepares(const struct weights_device *device, uint64_t owner)
{
	const struct resident *load;

	TAILQ_FOREACH(load, &device->weights->loads, load)
		if (load->owner == owner && load->device == device && load->begun &&
		    load->preparing)
			return true;
	return false;
}

void weights_loads_begin(struct weights *weights, uint64_t owner)
{
	struct resident *load;

	if (weights->closing)
		return;
	TAILQ_FOREACH(load, &weights->loads, load)
		if (load->owner == owner && was_left(load))
			return;
	TAILQ_FOREACH(load, &weights->loads, load) {
		if (load->begun || !wants(load, owner) || prepares(load->device, owner))
			continue;
		/* It may be another's who waits: from now on it is of who need not. */
		load->owner = owner;
		resident_begin(load);
	}
}

void weights_loads_add(struct weights *weights, struct resident *resident,
		       const struct weights_request *request)
{
	resident->owner = find_owner(request->uid, request->vgpu);
	resident->listed = true;
	TAILQ_INSERT_TAIL(&weights->loads, resident, load);
	weights_loads_begin(weights, resident->owner);
}

void weights_loads_join(struct weights *weights, const struct weights_use *use)
{
	if (use->resident->listed && !use->resident->begun)
		weights_loads_begin(weights, find_owner(use->uid, use->vgpu));
}

void weights_loads_remove(struct weights *weights, struct resident *resident)
{
	if (!resident->listed)
		return;
	resident->listed = false;
	TAILQ_REMOVE(&weights->loads, resident, load);
	weights_loads_begin(weights, resident->owner);
}
