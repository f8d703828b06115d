/* SPDX-License-Identifier: MIT */
/*
 * What goes over the model service's socket, for both of its sides: a JSON object and up to
 * four descriptors in each message. A body that may be larger travels in a memfd, which its
 * maker has sealed; what the daemon has to tell it may take back when it is asked for something
 * else, so that it is read at once.
 *
 * A descriptor is dangerous before it is looked at: its last close can take as long as
 * whoever made it likes (a TCP socket that lingers, a file of a file system that is
 * somebody's program). It is closed by whoever is last to have it, and the kernel closes what
 * a receiver has no room for. So a receiver has room for all that a message can bring, and
 * who must not be held up looks with message_peek() first, and receives and clears what
 * brings descriptors where it may take long.
 */
#ifndef COMMON_MESSAGE_H
#define COMMON_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAX 32768 /* bytes of JSON */
#define MESSAGE_FDS 4
#define MESSAGE_FDS_RECEIVED 253 /* the most that the kernel lets through: SCM_MAX_FD */

/*
 * Owns the body and the descriptors; those that were taken out are -1. One that is refused
 * has descriptors too, as many as came.
 */
struct message {
	json_t *body;
	unsigned int fd_count;
	int fds[MESSAGE_FDS_RECEIVED];
};

/*
 * Does the next message bring descriptors? It stays where it is, and none of them is
 * touched. -EAGAIN: there is none; -EPIPE: the other side has closed.
 */
int message_peek(int socket, bool *descriptors);

/*
 * Waits for one if the socket does. -EAGAIN: there is none; -EPIPE: the other side has
 * closed; -EBADMSG: it is not a message, *why says what is wrong. To be cleared whatever
 * came of it.
 */
int message_receive(int socket, struct message *message, const char **why);
void message_clear(struct message *message);

/* Descriptors stay the caller's. Waits for room if the socket does. */
int message_send(int socket, const json_t *body, const int *fds, size_t count);

/* A memfd with these bytes, which does not change any more, or a negative errno. */
int message_memfd(const void *data, size_t size);
/* For one that is filled bit by bit: no change from here on. */
int message_seal(int fd);

/*
 * Is it a memfd that somebody else made and that can be read without blocking or faulting,
 * sealed against writes and shrinking? *why says why not.
 */
int message_check(int fd, size_t max, size_t *size, const char **why);
/* Maps one. */
int message_map(int fd, size_t max, const void **data, size_t *size, const char **why);
/* What is in a file of up to max bytes, whatever its maker does to it; the caller's to free. */
int message_read(int fd, size_t max, void **data, size_t *size, const char **why);

#endif
