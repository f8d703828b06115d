/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Staging: pinned memory through which the groups of a model come to a gpu that the network
 * does not write to. They arrive there, and the engine's copy lane brings them into the
 * buffer of the weights.
 *
 * It is a ring, however large the model. Each group has its place, one after the other; a
 * group that would cross the end of the ring begins at its start. So a group may arrive as
 * soon as the groups that had its place before have been copied, and no late READ of a race
 * can write there any more (they are "clear", see fill.h). Both are told in order, so one
 * number says it: how many groups must have left before a group may come.
 *
 * All copies are submitted at the beginning. Each waits for its group to arrive, and signals
 * the timeline of the weights; that is also how it is seen that it has left.
 */
#ifndef DISTMINDD_STAGING_H
#define DISTMINDD_STAGING_H

#include "grouping.h"

#include <distmind.h>

/*
 * A group is at most a quarter of the ring: one is copied, one is told to be free, and two
 * are on their way meanwhile. 8 MiB are 0.7 ms of 100 Gb/s, more than it takes to say so.
 * Any chunk is a group that is small enough. Each is a job, of which a queue has only so
 * many: of a model that is larger than STAGING_GROUPS of the least, groups are larger.
 */
#define STAGING_GROUP_LEAST MODEL_CHUNK_MAX
#define STAGING_LEAST (4 * (uint64_t)STAGING_GROUP_LEAST)
#define STAGING_GROUPS 8192

struct staging;

/* How long a group may be. */
uint64_t staging_group_max(const struct model_manifest *model);
/* Bytes of quota that it takes. */
uint64_t staging_size(const struct model_manifest *model);

/*
 * Groups are at most staging_group_max() long; model and grouping are used until it is
 * destroyed. Submits the copies into the buffer, which may have no extents yet: a job that
 * uses a range with an extent waits for it, and the copies are what makes it present.
 */
int staging_create(struct staging **staging, struct distmind_vgpu *vgpu,
		   const struct model_manifest *model, const struct grouping *grouping,
		   struct distmind_buffer *weights, struct distmind_timeline *timeline);
/* Copies that wait are gone with it, whoever has been told of them. */
void staging_destroy(struct staging *staging);

struct distmind_buffer *staging_buffer(const struct staging *staging);
uint8_t *staging_address(const struct staging *staging);
/* Where a chunk arrives. */
uint8_t *staging_place(const struct staging *staging, uint32_t chunk);
/* So many groups have arrived. */
int staging_arrived(struct staging *staging, uint32_t groups);

/* How many groups may arrive when so many have left. */
uint32_t staging_allowed(const struct staging *staging, uint32_t left);
/* How many have to leave for that to become more; all of them if it cannot. */
uint32_t staging_next(const struct staging *staging, uint32_t left);

#endif
