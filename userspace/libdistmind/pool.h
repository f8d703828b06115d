/* SPDX-License-Identifier: MIT */
#ifndef LIBDISTMIND_POOL_H
#define LIBDISTMIND_POOL_H

#include "distmind.h"
#include "socket.h"

/* Requests and events have a socket each, so that neither waits for the other. */
struct distmind_pool {
	struct distmind_socket requests;
	struct distmind_socket events; /* nl is NULL until somebody subscribes */
};

#endif
