/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Filling memory with the image of a model, group by group, from two kinds of source:
 * memory of this host that has a chunk already (its arena, its cache, or other weights on
 * the same gpu), which is copied; and other hosts, which are read from. Both go on at the
 * same time, a group is there when both have done their part of it.
 *
 * All bytes are checked when they are in place, and what is damaged is looked for elsewhere.
 *
 * Copies are done by the event loop, a few megabytes in each turn. The memory belongs to
 * the caller, and so does whatever find() returned, until quiet().
 *
 * Who has not memory for all of it allows the first groups, and others as their places
 * become free. A place is free of the group that had it when that is clear: a READ that has
 * lost a race may write the same bytes once more after the group is there.
 */
#ifndef DISTMINDD_FILL_H
#define DISTMINDD_FILL_H

#include "peers.h"
#include "grouping.h"

#include <distmind.h>

struct fill;

struct fill_request {
	const struct model_manifest *manifest; /* both until quiet() */
	const struct grouping *grouping;
	uint32_t lkey; /* if there is an RDMA device */
	uint32_t allowed; /* groups; 0: all of them */
	enum memory_class class;
	uint64_t deadline_ns;
	bool verify; /* by digests, not only by checksums */
	uint64_t begun_us; /* the cache's time of the load */
	uint8_t *(*place)(void *arg, uint32_t chunk); /* where it goes */
	/* NULL or where on this host the bytes of a chunk are, or NULL. */
	const void *(*find)(void *arg, const struct model_chunk *chunk);
	void (*lied)(void *arg, const void *bytes); /* what find() said is damaged */
};

struct fill_ops {
	void (*groups)(void *arg, uint32_t done); /* how many are there, from the first on */
	/* How many will not be written to again, from the first on. May be NULL. */
	void (*clear)(void *arg, uint32_t groups);
	void (*ended)(void *arg, int err, const char *reason);
	/* After ended() without an error: what was there has been written over since. */
	void (*spoiled)(void *arg);
	void (*quiet)(void *arg); /* nobody touches the memory; the fill is gone after it */
};

/* NULL: *err and the reason, which has room for MEMORY_REASON_LEN, say why. */
struct fill *fill_create(struct chunks *chunks, struct peers *peers,
			 const struct fill_request *request, const struct fill_ops *ops, void *arg,
			 int *err, char *reason);
uint64_t fill_read_bytes(const struct fill *fill);
uint64_t fill_copied_bytes(const struct fill *fill);

/* Begins. On an error the fill is gone. */
int fill_start(struct fill *fill, sd_event *loop, char *reason);
/* Groups below may come from now on. */
void fill_allow(struct fill *fill, uint32_t groups);
/* For somebody else too, who does not want it less urgently, or to end earlier. */
void fill_extend(struct fill *fill, enum memory_class class, uint64_t deadline_ns);
/* ended() and quiet() are still called, from the loop. */
void fill_cancel(struct fill *fill);
/* Without calls: it has not been started, or no transfer exists any more. */
void fill_destroy(struct fill *fill);

#endif
