/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A store for which a thread works: it runs another store, in an event loop that nobody else
 * runs, and carries requests there and results back. So what that store does to send a request
 * and to understand an answer, however large, is done aside.
 */
#ifndef CATALOG_COURIER_H
#define CATALOG_COURIER_H

#include "store.h"

/*
 * Results are told in loop. The other store was opened with inside, and nobody else uses it any
 * more; it is taken, also on failure. NULL: see errno.
 */
struct catalog_store *catalog_courier_open(struct sd_event *loop, struct sd_event *inside,
					   struct catalog_store *store);

#endif
