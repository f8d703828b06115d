/* SPDX-License-Identifier: MIT */
#ifndef LIBDISTMIND_POOL_H
#define LIBDISTMIND_POOL_H

#include "distmind.h"
#include "socket.h"

/* Commands and events have a socket each, so that neither waits for the other. */
struct distmind_pool {
	struct distmind_socket commands;
	struct distmind_socket events; /* nl is NULL until somebody subscribes */
};

/* A request about one object: its id is attribute 1 in every set. NULL: no memory. */
struct nl_msg *distmind_pool_about(struct distmind_pool *pool, uint8_t command, uint32_t id);
/*
 * Send a request, of which putting an attribute may have failed, and hand over what
 * comes back. Takes the request; a failure is told by distmind_pool_error().
 */
int distmind_pool_exchange(struct distmind_pool *pool, struct nl_msg *msg, int put_error,
			   int (*each)(const struct distmind_message *message, void *arg),
			   void *arg);

#endif
