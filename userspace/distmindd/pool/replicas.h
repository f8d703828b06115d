/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many copies of its chunks a model is to have at the moment: its replicas, and one
 * more for each host that calls it hot, while there is room. Everybody works it out from
 * what the catalog says, and comes to the same. That takes a look at all chunks of all
 * models, in turns of the event loop, if any is called hot.
 */
#ifndef DISTMINDD_REPLICAS_H
#define DISTMINDD_REPLICAS_H

#include "../../catalog/catalog.h"

struct replicas {
	struct catalog *catalog; /* not owned */
	struct replicas_model *models; /* owned, as all that follows */
	size_t count, room;
	struct replicas_need *needs; /* of the part that is looked at */
	size_t need_room;
	size_t part; /* the next one */
	uint32_t donors;
	uint64_t memory; /* of all donors */
	uint64_t needed; /* bytes of all replicas */
	struct replicas_hot *hot; /* what hosts call so, by name */
	size_t hot_count;
};

/* The models and hosts as they are now; nothing is extra yet. -ENOMEM. */
int replicas_begin(struct replicas *replicas, struct catalog *catalog);
/* As far as there is time in this turn: 0: all is known; 1: there is more to see. -ENOMEM. */
int replicas_look(struct replicas *replicas);
void replicas_free(struct replicas *replicas);

/* Copies beyond the replicas of the model of that name. */
uint32_t replicas_extra(const struct replicas *replicas, const char *name);

#endif
