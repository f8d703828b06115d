/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pool from what the kernel reports, for whoever has listed it: gpus first, each with
 * its box, then the vgpus that are bound to them. Ids of gpus and boxes are the kernel's.
 */
#ifndef DISTMIND_PLACEMENT_RECORDS_H
#define DISTMIND_PLACEMENT_RECORDS_H

#include "pool.h"

#include <distmind.h>
#include <stdbool.h>

/* What the operator says of the gpus. */
struct placement_rules {
	uint32_t share, memory; /* so much of each may be promised, in percent */
	/*
	 * Names of gpus, separated by commas, or NULL: as long as nothing is on one of these it
	 * is kept for what another's loss leaves without a gpu.
	 */
	const char *spares;
};

/*
 * Returns the gpu's number or -ENOMEM. A gpu of one kind more than the pool has room for
 * is taken as failed, for it cannot be told from others.
 */
int placement_records_add_gpu(struct placement_pool *pool, const struct distmind_gpu_record *record,
			      const struct placement_rules *rules);

/*
 * Is it one of distmindd's own, which hold the weights that it has loaded? They are no
 * tenants: what tenants load is within their own quotas, and weights that nobody uses go when
 * somebody needs the room.
 */
bool placement_records_is_weights(const struct distmind_vgpu_record *record);

/*
 * A vgpu that is bound to the gpu of that number and record; it stays with the gpu's kind.
 * Returns the grant's number, -ENOMEM, or -ENOENT: it counts for nothing, as weights do, or
 * the pool had no room for the kind.
 */
int placement_records_add_vgpu(struct placement_pool *pool,
			       const struct distmind_vgpu_record *record,
			       const struct distmind_gpu_record *gpu, uint32_t number);

/* What such a vgpu needs. */
struct placement_need placement_records_need(const struct distmind_vgpu_record *record);

#endif
