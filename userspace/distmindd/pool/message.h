/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What goes over the model service's socket: a JSON object and up to four descriptors in
 * each message. A body that may be larger travels in a memfd, which its maker has sealed
 * against shrinking, so that reading it cannot fault.
 */
#ifndef DISTMINDD_MESSAGE_H
#define DISTMINDD_MESSAGE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAX 32768
#define MESSAGE_FDS 4

/* Owns the body and the descriptors; those that were taken out are -1. */
struct message {
	json_t *body;
	int fds[MESSAGE_FDS];
	size_t fd_count;
};

/*
 * -EAGAIN: there is none; -EPIPE: the other side has closed; -EBADMSG: it is not a
 * message, *why says what is wrong.
 */
int message_receive(int socket, struct message *message, const char **why);
void message_clear(struct message *message);

/* Never waits. Descriptors stay the caller's. */
int message_send(int socket, const json_t *body, const int *fds, size_t count);

/* A sealed memfd with these bytes, or a negative errno. */
int message_memfd(const void *data, size_t size);
/* The JSON of body, which it takes, in a sealed memfd. */
int message_memfd_json(json_t *body);

/* Is it a memfd that can be read or mapped without blocking or faulting? *why says why not. */
int message_check(int fd, size_t max, size_t *size, const char **why);
/* Maps a memfd that somebody else made; *why says why not. */
int message_map(int fd, size_t max, const void **data, size_t *size, const char **why);

#endif
