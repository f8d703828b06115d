/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What report.c and member.c want of each other. */
#ifndef CATALOG_REPORT_H
#define CATALOG_REPORT_H

#include "batch.h"
#include "state.h"

/* report.c */
int catalog_report_open(struct catalog *catalog);
void catalog_report_close(struct catalog *catalog);
/* Something that waiters wait for may have happened. */
void catalog_report_wake(struct catalog *catalog);
/* Everything again, in a new generation. */
void catalog_report_all(struct catalog *catalog);
/* 0: writing can go on. */
void catalog_report_fenced(struct catalog *catalog, int err);
void catalog_host_put(const struct catalog *catalog, struct catalog_batch *batch,
		      const struct catalog_host *host, uint64_t lease);

/* member.c */
void catalog_member_fence(struct catalog *catalog);
/*
 * Makes earlier writes that are still on their way fail, if the generation is still this
 * host's. Ends with catalog_report_fenced().
 */
int catalog_member_refence(struct catalog *catalog);
/* The lease has ended. */
void catalog_member_rejoin(struct catalog *catalog, const char *why);

#endif
