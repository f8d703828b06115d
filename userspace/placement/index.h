/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An index of a pool for needs that come again: for each, the classes it fits in a
 * heap by their totals. A heap is brought up to date when its need comes, by the
 * classes born since; those that have died are dropped when they come to the top.
 * So a placement costs as many scores as there are needs, not as there are boxes.
 */
#ifndef DISTMIND_PLACEMENT_INDEX_H
#define DISTMIND_PLACEMENT_INDEX_H

#include "score.h"

struct placement_index;

struct placement_index *placement_index_new(void);
void placement_index_free(struct placement_index *index);

/* The class with the least total, or PLACEMENT_NONE if the need fits none; -ENOMEM. */
int placement_index_best(struct placement_index *index, const struct placement_scorer *scorer,
			 const struct placement_need *need, uint32_t *class);

#endif
