/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answers to "list": all models and hosts, in a memfd each (answer.h). What is told is copied
 * first, so one user has one answer made at a time.
 */
#ifndef DISTMINDD_LISTING_H
#define DISTMINDD_LISTING_H

#include "client.h"

#include <sys/queue.h>

struct listing;

struct listings {
	TAILQ_HEAD(, listing) queue; /* all that are not answered */
	unsigned int begun; /* of these */
};

void listings_init(struct listings *listings);
/* Answers the client, now or later. */
void listing_begin(struct client *client);

#endif
