/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this host gives up, after a pass (donate.h): surplus, which others are to hold, and
 * garbage, which nobody needs. There may be a million chunks of both, so it is found, given
 * up and freed by and by, in turns of the event loop.
 *
 * Giving up a chunk that is needed elsewhere takes three steps, so that two hosts that give
 * up the last two copies at the same time both notice: say that it is not held any more;
 * look who holds it then; free it, or say that it is held after all.
 */
#ifndef DISTMINDD_GIVING_H
#define DISTMINDD_GIVING_H

#include "chunks.h"

struct giving {
	struct catalog *catalog; /* neither is owned */
	struct chunks *chunks;
	sd_event_source *turn;
	enum giving_step {
		GIVING_NOTHING,
		GIVING_SEEKS_SURPLUS, /* in turns, as all that is not said to wait */
		GIVING_LOSES_SURPLUS,
		GIVING_ASKS, /* waits for the catalog */
		GIVING_FREES_SURPLUS,
		GIVING_SEEKS_GARBAGE,
		GIVING_RELEASES, /* waits for the catalog */
		GIVING_FREES_GARBAGE,
	} step;
	uint64_t mark, changes; /* of the pass that said what is surplus */
	size_t cursor; /* in the arena, or the part of the catalog */
	uint8_t *digests; /* owned */
	size_t count, next;
	int err; /* of the catalog */
	uint64_t freed;
	void (*ended)(void *arg, int err);
	void *arg;
};

/* ended() is called when nothing is left to give up, or it has to be tried again. */
int giving_open(struct giving *giving, sd_event *loop, struct catalog *catalog,
		struct chunks *chunks, void (*ended)(void *arg, int err), void *arg);
/* The catalog is closed, or waits for nobody. */
void giving_close(struct giving *giving);

/*
 * Begins, unless it is under way. What is needed and has neither that mark nor a greater one, of
 * a later pass, is surplus, as long as the changes of the catalog are these; 0: it is not known
 * what is.
 */
void giving_begin(struct giving *giving, uint64_t mark, uint64_t changes);
bool giving_is_over(const struct giving *giving);

#endif
