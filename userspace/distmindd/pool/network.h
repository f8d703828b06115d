/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RDMA device of this host, if it has one: what others read the arena with, and what this
 * host reads theirs with. To open it takes as long as to fill the arena, which is registered,
 * so that is a thread's work.
 */
#ifndef DISTMINDD_NETWORK_H
#define DISTMINDD_NETWORK_H

#include "../../memory/loader.h"
#include "../../memory/donor.h"
#include "../../memory/registration.h"

/* All NULL without a device. */
struct network {
	struct memory_fabric *fabric;
	struct memory_donor *donor;
	struct memory_loader *loader;
	struct memory_registration registration; /* of the arena, to read into it */
};

struct network_request {
	struct memory_arena *arena; /* must outlive it */
	const char *name; /* of this host */
	const char *address; /* where others find it; empty: nowhere */
	const char *device; /* empty: that of the address */
	uint16_t port;
	void (*donor_changed)(void *arg, uint32_t donor, bool up, const char *reason);
	/* As of struct memory_loader_options, and of struct memory_donor_options. */
	void (*damaged)(void *arg, uint32_t donor, const uint8_t *digest);
	void (*suspected)(void *arg, const uint8_t *digest);
	void (*expelled)(void *arg, const struct sockaddr_storage *reader, const char *reason);
	void *arg;
};

/* Waits. Calls nobody back but from memory_fabric_dispatch(). A negative errno and why. */
int network_open(struct network *network, const struct network_request *request,
		 char reason[MEMORY_REASON_LEN]);
/* What is open, to another place. */
void network_move(struct network *from, struct network *to);
/* No transfer after this, and nobody is called. */
void network_stop(struct network *network);
/*
 * To where a thread closes it: nobody else has a transfer or memory that is registered with it
 * any more. That thread calls network_shut(), which takes as long as to open it; after that the
 * owner calls network_close().
 */
void network_detach(struct network *network, struct network *to);
void network_shut(struct network *network);
void network_close(struct network *network);

#endif
