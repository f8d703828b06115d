/* SPDX-License-Identifier: GPL-2.0-or-later */
/* "list" of a noun: what the kernel has of it, as a table. */
#ifndef DISTMINDCTL_LISTING_H
#define DISTMINDCTL_LISTING_H

#include "ctl.h"

struct listing {
	const char *nouns; /* several of them: the key in JSON */
	/* Prints a row for each. Returns the error of the call on the pool. */
	int (*rows)(struct distmind_pool *pool, struct print *print);
	/* What to say if there are none: to who would see all, and to others. */
	const char *none;
	const char *none_of_yours;
};

int listing_run(struct ctl *ctl, int argc, char **argv, const struct listing *listing);

#endif /* DISTMINDCTL_LISTING_H */
