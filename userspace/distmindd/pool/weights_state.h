/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the weights share. */
#ifndef DISTMINDD_WEIGHTS_STATE_H
#define DISTMINDD_WEIGHTS_STATE_H

#include "weights.h"

struct weights_device {
	struct weights *weights;
	uint32_t gpu;
	uint32_t vgpu_id;
	struct distmind_vgpu *vgpu;
	uint64_t quota;
	uint64_t memory; /* of the gpu */
	uint32_t copy_lanes;
	bool lost;
	bool draining;
	uint32_t leaving; /* residents that are no longer found, and not gone */
	uint64_t freeing; /* bytes that are being given back */
	struct resident *residents; /* owned */
	struct weights_device *next;
};

/* Of a client, which ends it; a preload's ends with the load. */
struct weights_use {
	struct exchange exchange; /* while it waits for the end of the load */
	struct resident *resident; /* NULL: its load has failed */
	uint32_t vgpu, uid; /* whose it is */
	int dmabuf; /* for which the vgpu pays; -1: not yet, or a preload's */
	int err; /* if it has failed this is why */
	char reason[MEMORY_REASON_LEN];
	bool cached;
	bool waits;
	bool all; /* it waits until all is there */
	bool verify; /* it wants nothing that was not */
	bool preload;
	LIST_ENTRY(weights_use) link;
};

/* One that others can have too; NULL: none. */
struct resident *weights_find_resident(const struct weights_device *device,
				       const struct manifest *manifest);

/* One that has ended well says how fast loads are. */
void weights_learn_rates(struct weights *weights, const struct resident *resident);

/* Loads, of which some wait (weights.h). */
void weights_loads_add(struct weights *weights, struct resident *resident,
		       const struct weights_request *request);
/* Somebody has a use of one that others asked for, and need not wait for their other loads. */
void weights_loads_join(struct weights *weights, const struct weights_use *use);
/* It is loaded, or it is gone; not being there is fine. */
void weights_loads_remove(struct weights *weights, struct resident *resident);
/* Those that the owner wants and that need not wait for others of that owner any longer. */
void weights_loads_begin(struct weights *weights, uint64_t owner);

#endif
