/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RDMA device of this host: with one, others read its chunks, and it reads theirs. Devices
 * come and go, and are followed: one that goes is let go of within a second or two, since
 * whoever removes it may have to wait for that; one that comes is used, and said in the catalog.
 */
#ifndef DISTMINDD_RDMA_H
#define DISTMINDD_RDMA_H

#include "chunks.h"

/* The arena and the worker are there. Negative errno: no memory, no loop. */
int rdma_open(struct chunks *chunks, const struct config_models *config);
/* Looks for a device, with a thread; chunks_join() follows if there is a catalog. */
void rdma_begin(struct chunks *chunks);
/* Has that come to its end, with a device or without? */
bool rdma_looked(const struct chunks *chunks);
/*
 * Ends all transfers without calling anybody, and looks for devices no more. The worker is
 * closed.
 */
void rdma_stop(struct chunks *chunks);
void rdma_close(struct chunks *chunks);

/*
 * changed(): a device is there, or another host can be read from with it (up); or it is gone,
 * and its transfers with it.
 */
void rdma_watch(struct chunks *chunks, void (*changed)(void *arg, bool up), void *arg);

/* The name of the device that is used; NULL: none, and why. */
const char *rdma_device(const struct chunks *chunks, const char **reason);

#endif
