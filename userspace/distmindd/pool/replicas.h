/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many copies of its chunks a model is to have at the moment: its replicas, and one
 * more for each host that calls it hot, while there is room. Everybody works it out from
 * what the catalog says, and comes to the same.
 */
#ifndef DISTMINDD_REPLICAS_H
#define DISTMINDD_REPLICAS_H

#include "../../catalog/catalog.h"
#include "../../sharding/sharding.h"

/* Good until the event loop runs again, as what it points to in the catalog. */
struct replicas {
	const struct catalog_model **models; /* those that hosts call hot; owned */
	struct sharding_model *rows; /* the same ones; owned */
	size_t count, room;
};

/* -ENOMEM. */
int replicas_read(struct replicas *replicas, struct catalog *catalog);
void replicas_free(struct replicas *replicas);

/* Copies beyond the model's own replicas. */
uint32_t replicas_extra(const struct replicas *replicas, const struct catalog_model *model);

#endif
