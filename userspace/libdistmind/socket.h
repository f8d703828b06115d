/* SPDX-License-Identifier: MIT */
/*
 * A generic netlink socket of the distmind family: one request at a time and
 * the kernel's words when it refuses. Errors are the kernel's own errno.
 */
#ifndef LIBDISTMIND_SOCKET_H
#define LIBDISTMIND_SOCKET_H

#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdint.h>

struct distmind_socket {
	struct nl_sock *nl;
	int family;
	char error[256]; /* of the last request that failed */
};

/* What a message of the family carries: its command and its attributes. */
struct distmind_message {
	uint8_t command;
	struct nlattr *head;
	int len;
};

/* -ENOENT: the kernel has no such family, so the module is not loaded. */
int distmind_socket_open(struct distmind_socket *socket);
void distmind_socket_close(struct distmind_socket *socket);

/* A request without attributes, for distmind_socket_exchange(). NULL: no memory. */
struct nl_msg *distmind_socket_request(struct distmind_socket *socket, uint8_t command, int flags);

/*
 * Send a request and take its answer until it is complete; each is called for
 * every message of it and may be NULL. Its first error becomes the result.
 * Frees the request. -EAGAIN: a dump met changes and is not consistent.
 */
int distmind_socket_exchange(struct distmind_socket *socket, struct nl_msg *request,
			     int (*each)(const struct distmind_message *message, void *arg),
			     void *arg);

/*
 * Hand over the messages of one datagram that nobody asked for. Returns
 * whether there was one, -ENOBUFS if some were lost, or another error.
 */
int distmind_socket_receive(struct distmind_socket *socket,
			    int (*each)(const struct distmind_message *message, void *arg),
			    void *arg);

/* Set the text for an error and return that error. text NULL: what errno means. */
int distmind_socket_fail(struct distmind_socket *socket, int err, const char *text);

/* libnl's error numbers as errno. */
int distmind_socket_errno(int nl_error);

#endif
