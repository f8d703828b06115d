/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What only a look at all chunks of all models of the pool tells about one of them. That
 * takes long for the event loop, and everybody may ask: it is kept until the catalog
 * changes.
 */
#ifndef DISTMINDD_SURVEY_H
#define DISTMINDD_SURVEY_H

#include "manifests.h"

struct survey_model {
	const struct catalog_model *model; /* or upload */
	const struct manifest *manifest; /* NULL: the catalog has not read it, or cannot */
	const char *state;
	uint32_t copies; /* of every chunk */
	uint32_t extra;	 /* replicas that it has at the moment beyond its own */
	uint64_t shared; /* bytes that others have too */
	/* While it is made: */
	uint32_t next; /* chunk, by digest */
	bool missing, away, scarce; /* some chunk is */
};

/* All zero at first. Good until the event loop runs again, as what it points to. */
struct survey {
	struct survey_model *models; /* owned */
	size_t count, room;
	uint64_t stored; /* bytes of all, what they have in common once */
	uint64_t changes; /* of the catalog by then */
	bool made;
};

/* Made afresh only if it has to be. -ENOMEM. */
int survey_make(struct survey *survey, struct catalog *catalog);
void survey_clear(struct survey *survey);

/* NULL: the catalog did not have it. */
const struct survey_model *survey_find(const struct survey *survey,
				       const struct catalog_model *model);

#endif
