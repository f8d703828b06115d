/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a claim cannot be placed, in words that name what is missing, the best there
 * is and what to do. Gpus and boxes are named by their ids.
 */
#ifndef DISTMIND_PLACEMENT_REASON_H
#define DISTMIND_PLACEMENT_REASON_H

#include "pool.h"

/* reason has room for DISTMIND_REASON_LEN. */
void placement_reason(const struct placement_pool *pool, const struct placement_claim *claim,
		      char *reason);

/* The same for a kind that the pool has never had. */
void placement_reason_kind(const struct placement_pool *pool, const char *kind, char *reason);

#endif
