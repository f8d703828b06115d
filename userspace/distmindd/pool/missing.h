/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which chunks of a model have to be sent when it is pushed: each once, however often the model
 * has it, and in execution order. One that is held but whose checksum nobody knows is
 * wanted, too: nobody could check it after a load.
 *
 * What others have pushed was checked when it arrived, so their manifests are right about the
 * checksums of what need not be sent again.
 *
 * sort and confirm compare everything with everything, and are for errands: nobody else
 * touches it meanwhile. All else is the event loop's.
 */
#ifndef DISTMINDD_MISSING_H
#define DISTMINDD_MISSING_H

#include "manifests.h"

struct missing {
	const struct model_manifest *model; /* not owned; all that follows is */
	uint32_t *order; /* chunks of the model by their digests, each digest once */
	uint32_t order_count;
	bool *confirmed; /* of these: another model has it with its checksum */
	struct manifest **others; /* references */
	size_t other_count, other_room;
	uint32_t next; /* of the order */
	bool *wanted; /* chunks of the model */
	/* The result: */
	uint32_t *list; /* chunks of the model */
	uint32_t count;
	uint64_t bytes;
};

/* -ENOMEM; -EBADMSG: it says two things about the same chunk. */
int missing_sort(struct missing *missing, const struct model_manifest *model);
/* Which models there are now. -ENOMEM. */
int missing_gather(struct missing *missing, const struct catalog *catalog);
/* -EBADMSG: another model says something else about a chunk. */
int missing_confirm(struct missing *missing);
/* The others are not needed any more. */
void missing_let_go(struct missing *missing);
/* Who holds what, as far as there is time in this turn: 0: all is seen; 1: there is more. */
int missing_look(struct missing *missing, struct catalog *catalog);

/* What is left to free after missing_let_go(); any thread may do so. */
void missing_clear(struct missing *missing);

#endif
