/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a host reads from donors with: a link to each of them and loads over all
 * of them (reader.h decides what is read when). Donors have names; their indices
 * are what pieces of loads refer to, and stay valid.
 *
 * Functions are the owner's, callbacks come from memory_fabric_dispatch() in
 * the owner's thread and may call anything but memory_client_close(). The
 * fabric's lock covers what is inside.
 */
#ifndef DISTMIND_MEMORY_CLIENT_H
#define DISTMIND_MEMORY_CLIENT_H

#include "fabric.h"
#include "reader.h"

struct memory_client;
struct memory_transfer; /* a load that the client has accepted */

struct memory_client_options {
	uint32_t depth;	    /* READs in flight to each donor */
	uint32_t read_size; /* the largest READ; cut to what the device can do */
	/* May be NULL. The reason is that of a link that is down. */
	void (*donor_changed)(void *arg, uint32_t donor, bool up, const char *reason);
	/* May be NULL. The donor had damaged bytes under that name, and has been told so. */
	void (*damaged)(void *arg, uint32_t donor, const uint8_t *digest);
	void *arg;
};

struct memory_transfer_ops {
	/* Groups are told in order, each once. May be NULL. */
	void (*group_done)(void *arg, uint32_t group);
	/* And so is when no READ can touch the memory of a group any more. May be NULL. */
	void (*group_clear)(void *arg, uint32_t group);
	/* All groups are there, or why not. Late READs of a race may still come in. May be NULL. */
	void (*ended)(void *arg, const struct memory_load_progress *progress);
	/*
	 * Always the last: no READ can touch the memory any more, which may be
	 * unregistered now. The transfer does not exist after it returns.
	 */
	void (*quiet)(void *arg, const struct memory_load_progress *progress);
};

/* A negative errno with the reason. */
int memory_client_open(struct memory_client **client, struct memory_fabric *fabric,
		       const struct memory_client_options *options,
		       char reason[MEMORY_REASON_LEN]);
/* Ends all transfers without calling anybody; their memory is then untouched by READs. */
void memory_client_close(struct memory_client *client);

/*
 * Ends all connections and all transfers, with that error, and calls whom that concerns; no
 * others can begin. For a device that is gone: what is left is to close the client. Not from
 * within a callback.
 */
void memory_client_fail(struct memory_client *client, int err, const char *reason);

/*
 * The index. Connects from now on; a name that is known gets its index again,
 * and the new address. A negative errno: -ENOSPC, -ENOMEM.
 */
int memory_client_donor_add(struct memory_client *client, const char *name,
			    const struct sockaddr_storage *address);
/* Disconnects; what is being read from it is read from others. */
void memory_client_donor_remove(struct memory_client *client, uint32_t donor);
/* -ENOENT: no such index. */
int memory_client_donor_stats(struct memory_client *client, uint32_t donor,
			      struct memory_reader_donor *stats);

/* NULL with the reason. */
struct memory_transfer *memory_client_load(struct memory_client *client,
					   const struct memory_load_request *request,
					   const struct memory_transfer_ops *ops, void *arg,
					   char reason[MEMORY_REASON_LEN]);
/* Groups below may be read from now on, for a request that did not allow all of them. */
void memory_client_allow(struct memory_client *client, struct memory_transfer *transfer,
			 uint32_t groups);
/* Somebody else wants it too: not less urgently, and not to end earlier, than that. */
void memory_client_extend(struct memory_client *client, struct memory_transfer *transfer,
			  enum memory_class class, uint64_t deadline_ns);
/* It ends with -ECANCELED if it has not ended; ended() and quiet() are still called. */
void memory_client_cancel(struct memory_client *client, struct memory_transfer *transfer);
/* Every chunk that is not there, each of its donors and why; for ended(). */
void memory_client_missing(struct memory_client *client, struct memory_transfer *transfer,
			   void (*tell)(void *arg, const uint8_t *digest, const char *donor,
					const char *reason),
			   void *arg);

#endif
