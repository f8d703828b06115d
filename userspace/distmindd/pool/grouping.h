/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A grouping: into which groups a model is cut for a load, or for placement. Placement uses
 * rates that all hosts know, so that all of them come to the same groups; a load uses
 * what was measured.
 */
#ifndef DISTMINDD_GROUPING_H
#define DISTMINDD_GROUPING_H

#include "../../model/manifest.h"
#include "../../planner/planner.h"

/* What was measured; 0: not yet. */
struct grouping_rates {
	double network; /* bytes/s */
	double spread;	/* by which it varies, a share of it */
	double copy;	/* of the staged form; 0: the direct one */
	double transfer_cost; /* seconds */
	double begin_cost;    /* seconds for each byte, before the first of them moves */
	uint64_t compute_ns;  /* of a whole request; 0: as long as the transfer */
};

struct grouping_group {
	uint32_t end_layer; /* of a part but the last: the same as that of the group before */
	uint32_t end_chunk; /* of those before and its own */
	uint64_t bytes;
};

struct grouping {
	uint32_t count;
	struct grouping_group *groups; /* owned */
	struct planner_rates rates; /* that it was made with */
	uint64_t predicted_ns, greedy_ns, bound_ns;
};

/*
 * Groupings of one model that loads have asked for lately, by the rates that they were made
 * with: rates stay the same until one has measured something. All zero at first. The event
 * loop's only; what is shown of a model is grouped, and kept, by showing.h.
 */
#define GROUPING_RECENT 4

struct grouping_recent {
	struct {
		struct grouping_rates rates;
		struct grouping grouping; /* owned; no groups: not used */
	} entries[GROUPING_RECENT];
	unsigned int next; /* to be replaced */
};

/* -EINVAL: the model has no layers; -ENOMEM, -ERANGE. */
int grouping_make(struct grouping *grouping, const struct model_manifest *manifest,
		  const struct grouping_rates *rates);
/*
 * Cuts groups that are longer than max, which is at least MODEL_CHUNK_MAX, or have more than
 * so many chunks, between two chunks. -ENOMEM: the grouping is as it was.
 */
int grouping_cut(struct grouping *grouping, const struct model_manifest *manifest, uint64_t max,
		 uint32_t chunks);
void grouping_clear(struct grouping *grouping);

/* As grouping_make(); it belongs to @recent, and is there until the next call. NULL: *err. */
const struct grouping *grouping_recent_get(struct grouping_recent *recent,
					   const struct model_manifest *manifest,
					   const struct grouping_rates *rates, int *err);
/* The same as a copy, the caller's. For errands: any thread may call, and may wait for others. */
int grouping_take(struct grouping *grouping, struct grouping_recent *recent,
		  const struct model_manifest *manifest, const struct grouping_rates *rates);
void grouping_recent_clear(struct grouping_recent *recent);

uint32_t grouping_find(const struct grouping *grouping, uint32_t chunk);

#endif
