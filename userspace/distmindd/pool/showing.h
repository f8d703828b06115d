/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answers to "show": all about a model, in a memfd each (answer.h). A model may have a
 * million chunks, so an answer is made in three steps: the survey; who holds its chunks, in
 * turns of the loop; and what follows from that, its groups and the text, by an errand of whoever
 * asks. One user has one answer made at a time, and the last answers are kept until what they
 * depend on changes: others that ask for the same meanwhile get that one.
 */
#ifndef DISTMINDD_SHOWING_H
#define DISTMINDD_SHOWING_H

#include "client.h"
#include "manifests.h"

#include <sys/queue.h>

#define SHOWINGS_KEPT 8

struct showing;

/* What an answer depends on. */
struct showing_stamp {
	uint8_t sha256[CATALOG_DIGEST];
	uint64_t revision; /* of the model */
	uint64_t catalog, weights; /* changes */
	struct grouping_rates rates;
};

struct showings {
	sd_event_source *turn;
	TAILQ_HEAD(, showing) queue; /* those whose chunks are looked at, or that are written */
	struct {
		struct showing_stamp stamp;
		struct answer *answer; /* a reference; NULL: none */
	} kept[SHOWINGS_KEPT];
	unsigned int oldest;
};

int showings_open(struct showings *showings, sd_event *loop);
void showings_close(struct showings *showings);

/* Answers the client, now or later. */
void showing_begin(struct client *client, const struct catalog_model *model,
		   struct manifest *manifest);

#endif
