/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Inside sharding: donors found by id, and input checked once. */
#ifndef DISTMIND_SHARDING_DONORS_H
#define DISTMIND_SHARDING_DONORS_H

#include "sharding.h"

#include <stdbool.h>

#define SHARDING_NOBODY UINT32_MAX

struct sharding_donors {
	const struct sharding_donor *list; /* the caller's */
	uint32_t count;
	uint32_t *by_id; /* owned */
};

/* -EINVAL, -ENOMEM. Checks the chunks, too. */
int sharding_donors_create(struct sharding_donors *donors, const struct sharding_donor *list,
			   size_t count, const struct sharding_chunk *chunks, size_t chunk_count);
void sharding_donors_destroy(struct sharding_donors *donors);

/* Its index in the list, or SHARDING_NOBODY. */
uint32_t sharding_donors_find(const struct sharding_donors *donors, uint64_t id);

#endif
