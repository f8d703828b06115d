/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which models this host reads often. Every load counts one, and what was counted halves
 * with each half-life. A model is hot from the third load in about as long as a half-life
 * on, and stays so until the count has all but gone, so that a pause does not end it.
 *
 * Without I/O: the time is the caller's, in microseconds of a clock that never goes back.
 */
#ifndef DISTMINDD_HEAT_H
#define DISTMINDD_HEAT_H

#include "../../catalog/catalog.h"

#define HEAT_MODELS 64 /* known at a time: the coldest makes room */

struct heat_model {
	char name[CATALOG_MODEL_LEN]; /* "": none */
	double count;
	bool hot;
};

struct heat {
	uint64_t half_life_us;
	uint64_t us; /* when the counts were what they are */
	struct heat_model models[HEAT_MODELS];
};

void heat_init(struct heat *heat, uint64_t half_life_us);

/*
 * A load of a model has ended well. Only one that read from other hosts makes a model hot;
 * but any keeps it so: the copy that it found in this host's memory may be here because it
 * is hot.
 */
void heat_load(struct heat *heat, const char *name, bool read, uint64_t now_us);

/*
 * The hot ones as of now, in no order that means anything, but the same while they are the
 * same. names has room for CATALOG_HOT_MAX; good until the next call. Returns how many.
 */
size_t heat_hot(struct heat *heat, uint64_t now_us, const char **names);

#endif
