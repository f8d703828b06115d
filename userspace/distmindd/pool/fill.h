/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Filling memory with the image of a model, group by group, from two kinds of source:
 * memory of this host that has a chunk already (its arena, its cache, or other weights on
 * the same gpu), which is copied; and other hosts, which are read from. Both go on at the
 * same time, a group is there when both have done their part of it.
 *
 * All bytes are checked when they are in place, and what is damaged is looked for elsewhere.
 *
 * Where the chunks are is looked for in turns of the event loop, copies are done by a worker, a few
 * megabytes at a time. The memory belongs to the caller, and so does whatever find() returned,
 * until quiet(), or ready() with an error.
 *
 * Who has not memory for all of it allows the first groups, and others as their places
 * become free. groups() comes only when all READs of a group are over, those that have lost
 * a race too: its place is free as soon as nobody needs the bytes there any more.
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
	/* Of the memory, until quiet(); with nothing in it if there is no RDMA device any more. */
	const struct memory_registration *registration;
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
	/*
	 * It is known where everything is: fill_start() can be called. Or why not, a negative
	 * errno: then the fill is gone. That may follow even when it was ready, if it does not
	 * start.
	 */
	void (*ready)(void *arg, int err, const char *reason);
	/* How many are there, from the first on, and will not be written to again. */
	void (*groups)(void *arg, uint32_t done);
	void (*ended)(void *arg, int err, const char *reason);
	void (*quiet)(void *arg); /* nobody touches the memory; the fill is gone after it */
};

/* Begins to look where the chunks are; ready() follows, from the loop. NULL: no memory. */
struct fill *fill_create(struct chunks *chunks, struct peers *peers, sd_event *loop,
			 const struct fill_request *request, const struct fill_ops *ops, void *arg);
/* Both once it is ready. */
uint64_t fill_read_bytes(const struct fill *fill);
uint64_t fill_copied_bytes(const struct fill *fill);

/* A thread has a part of it, or will have: until then its memory is not quiet. */
bool fill_is_busy(const struct fill *fill);

/* Begins, once it is ready. False: it cannot, and ready() follows with the error, from the loop. */
bool fill_start(struct fill *fill);
/* Groups below may come from now on. */
void fill_allow(struct fill *fill, uint32_t groups);
/* For somebody else too, who does not want it less urgently, or to end earlier. */
void fill_extend(struct fill *fill, enum memory_class class, uint64_t deadline_ns);
/* ready(), or ended() and quiet(), are still called with that error, from the loop. */
void fill_fail(struct fill *fill, int err, const char *reason);
/* Without calls, and at once: the daemon ends, and no transfer and no worker exist any more. */
void fill_destroy(struct fill *fill);

#endif
