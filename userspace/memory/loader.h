/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a host reads from donors with: a link to each of them and loads over all
 * of them (reader.h decides what is read when). Donors have names; their indices
 * are what pieces of loads refer to, and stay valid.
 *
 * Functions are the owner's, callbacks come from memory_fabric_dispatch() in
 * the owner's thread and may call anything but memory_loader_close(). The
 * fabric's lock covers what is inside.
 */
#ifndef DISTMIND_MEMORY_LOADER_H
#define DISTMIND_MEMORY_LOADER_H

#include "fabric.h"
#include "reader.h"

struct memory_loader;
struct memory_transfer; /* a load that the loader has accepted */

struct memory_loader_options {
	uint32_t depth;	    /* READs in flight to each donor */
	uint32_t read_size; /* the largest READ; cut to what the device can do */
	/* May be NULL. The reason is that of a link that is down. */
	void (*donor_changed)(void *arg, uint32_t donor, bool up, const char *reason);
	/* May be NULL. The donor had damaged bytes under that name, and has been told so. */
	void (*damaged)(void *arg, uint32_t donor, const uint8_t *digest);
	void *arg;
};

struct memory_transfer_ops {
	/* Groups are told in order, each once: nobody writes to them any more. May be NULL. */
	void (*group_done)(void *arg, uint32_t group);
	/* All groups are there, or why not: then READs may still come in. May be NULL. */
	void (*ended)(void *arg, const struct memory_load_progress *progress);
	/*
	 * Always the last: no READ can touch the memory any more, which may be
	 * unregistered now. The transfer does not exist after it returns.
	 */
	void (*quiet)(void *arg, const struct memory_load_progress *progress);
};

/* A negative errno with the reason. */
int memory_loader_open(struct memory_loader **loader, struct memory_fabric *fabric,
		       const struct memory_loader_options *options,
		       char reason[MEMORY_REASON_LEN]);
/* Ends all transfers without calling anybody; their memory is then untouched by READs. */
void memory_loader_close(struct memory_loader *loader);

/*
 * For a device that is gone: ends all transfers, with that error, and no others can begin. The
 * fabric's thread ends the connections, which may take long; whom it concerns is called by
 * dispatches, as ever.
 */
void memory_loader_fail(struct memory_loader *loader, int err, const char *reason);
/* It has failed, and everybody was told: what is left is to close it. */
bool memory_loader_over(struct memory_loader *loader);

/*
 * The index. Connects from now on; a name that is known gets its index again,
 * and the new address. A negative errno: -ENOSPC, -ENOMEM, -ENODEV of one that has failed.
 */
int memory_loader_donor_add(struct memory_loader *loader, const char *name,
			    const struct sockaddr_storage *address);
/* Disconnects; what is being read from it is read from others. */
void memory_loader_donor_remove(struct memory_loader *loader, uint32_t donor);
/* -ENOENT: no such index. */
int memory_loader_donor_stats(struct memory_loader *loader, uint32_t donor,
			      struct memory_reader_donor *stats);

/* NULL with the reason. */
struct memory_transfer *memory_loader_load(struct memory_loader *loader,
					   const struct memory_load_request *request,
					   const struct memory_transfer_ops *ops, void *arg,
					   char reason[MEMORY_REASON_LEN]);
/*
 * To make a load of very many pieces takes long. Whoever must not be held up asks what it is made
 * for, has a thread of its own make it (memory_load_create()), and submits it with the request
 * that it was made of. The load is taken, also if it is refused.
 */
void memory_loader_shape(struct memory_loader *loader, uint32_t *lane_count,
			 uint32_t *segment_size);
struct memory_transfer *memory_loader_submit(struct memory_loader *loader, struct memory_load *load,
					     const struct memory_load_request *request,
					     const struct memory_transfer_ops *ops, void *arg,
					     char reason[MEMORY_REASON_LEN]);
/* Groups below may be read from now on, for a request that did not allow all of them. */
void memory_loader_allow(struct memory_loader *loader, struct memory_transfer *transfer,
			 uint32_t groups);
/* Somebody else wants it too: not less urgently, and not to end earlier, than that. */
void memory_loader_extend(struct memory_loader *loader, struct memory_transfer *transfer,
			  enum memory_class class, uint64_t deadline_ns);
/* It ends with -ECANCELED if it has not ended; ended() and quiet() are still called. */
void memory_loader_cancel(struct memory_loader *loader, struct memory_transfer *transfer);
/*
 * The chunks that are not there, each of their donors and why, as long as tell() wants more; for
 * ended().
 */
void memory_loader_missing(struct memory_loader *loader, struct memory_transfer *transfer,
			   bool (*tell)(void *arg, const uint8_t *digest, const char *donor,
					const char *reason),
			   void *arg);

#endif
