/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket of the model service: SOCK_SEQPACKET, open to all, who asks is known by
 * SO_PEERCRED. What may be asked for and what is answered:
 *
 *   list state turns status                     anyone
 *   show size load verify                       who may read the model; load of a vgpu of
 *                                               one's own
 *   delete replicas                             who may write to it
 *   access                                      its owner, root
 *   push chunk commit preload evict forget room root
 *
 * The answers to list, show and forget are lent: they can be read until the connection asks for
 * something else or ends (answer.h). One user has at most 256 MB of them.
 *
 * Every field is checked here; what is wrong is answered, and changes nothing. Descriptors
 * are for root too: a message of others that brings some is refused, by the kernel if that
 * is 6.16 or later.
 *
 * No descriptor of somebody else's is received or closed by the loop's thread, for that can
 * take as long as its maker likes: messages that bring some are received, and connections
 * closed, by errands of the user, since what nobody has received goes with them; a connection
 * counts as one until it is closed. Who is too many is closed by the loop, unless descriptors were
 * sent already.
 */
#ifndef DISTMINDD_SERVICE_H
#define DISTMINDD_SERVICE_H

#include "client.h"
#include "subordinates.h"

#define SERVICE_ENV "DISTMIND_SOCKET" /* overrides the path */
#define SERVICE_CLIENTS_MAX 1024
#define SERVICE_CLIENTS_USER 128 /* of these, of one user (subordinates.h); root has no limit */
#define SERVICE_CLIENTS_ROOT 64	 /* and for root alone, who has to see what is going on */
#define SERVICE_LENT_USER (256ULL << 20) /* bytes of answers; root has no limit */

struct service {
	struct models *models;
	int fd;
	char path[108];
	sd_event_source *source;
	struct client *clients; /* those that end too */
	unsigned int count;
	uint64_t accepted; /* clients, since it began */
	struct subordinates subordinates;
	uint64_t lent_max; /* bytes of answers that one user has at a time */
};

/* -EADDRINUSE and others; has been logged. */
int service_open(struct service *service, struct models *models, const char *path);
/* Ends all connections, and what depends on them. */
void service_close(struct service *service);

#endif
