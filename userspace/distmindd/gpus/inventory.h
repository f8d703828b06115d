/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pool as the kernel reports it: listed once, then kept by events, listed
 * again when events were lost. Nothing here survives the daemon but what can
 * be learned again, so that it may die at any moment.
 *
 * Why that is enough to decide on: the kernel creates the vgpus of a grant
 * before it acknowledges it, and sends its events in that order. Whoever takes
 * in all events after an answer and before the next decision knows of every
 * promise made.
 */
#ifndef DISTMINDD_INVENTORY_H
#define DISTMINDD_INVENTORY_H

#include "../common/table.h"
#include "view.h"

#include <distmind.h>
#include <stdbool.h>

/* Each row begins with a record, and each record with its id. */

struct inventory_gpu {
	struct distmind_gpu_record record;
	uint64_t lost_since_us; /* 0: not lost */
	bool seen;		/* by the listing under way */
};

struct inventory_vgpu {
	struct distmind_vgpu_record record;
	/* Of the gpu it was last on: a tenant is not moved to another kind. */
	char kind[DISTMIND_NAME_LEN];
	/* By an operator, from a gpu that was well: he wants it so. */
	bool parked_on_purpose;
	/* The kernel would not bind it; to be tried again when something changes. */
	bool stuck;
	bool waits; /* for room; logged once */
	bool seen;
};

struct inventory_claim {
	struct distmind_claim_record record;
	bool answered; /* its end has not been reported yet */
	bool seen;
};

struct inventory {
	struct distmind_pool *kernel; /* not owned */
	struct table gpus;
	struct table vgpus;
	struct table claims;
	struct view view;	   /* for placement; made by decide() */
	bool stale;		   /* events were lost */
	uint64_t (*clock_us)(void); /* monotonic */
};

void inventory_init(struct inventory *inventory, struct distmind_pool *kernel);
void inventory_free(struct inventory *inventory);

/*
 * Take in the events that have arrived, list everything if some were lost.
 * -EAGAIN: the pool changes too fast to be listed, try again in a while. After
 * any error the pool is stale.
 */
int inventory_update(struct inventory *inventory);

/* Does a gpu that is well back it? */
bool inventory_vgpu_bound(const struct inventory *inventory, const struct inventory_vgpu *vgpu);

#endif
