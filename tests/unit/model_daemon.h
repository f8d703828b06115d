/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A distmindd that answers as a test of a client wants it to: a thread behind a socket
 * of its own, one connection after the other. What it saw is the test's to look at after
 * model_daemon_stop(), which waits for the last connection's end.
 */
#ifndef TESTS_UNIT_MODEL_DAEMON_H
#define TESTS_UNIT_MODEL_DAEMON_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MODEL_DAEMON_FDS 4

struct model_daemon;

/* A request; its descriptors are closed afterwards. False: close the connection. */
typedef bool model_daemon_answer(struct model_daemon *daemon, const json_t *request,
				 const int *fds, unsigned int fd_count);

static struct model_daemon {
	model_daemon_answer *answer;
	int listener;
	int connection;
	pthread_t thread;
	char directory[64];
	struct sockaddr_un address;

	unsigned int connections;
	json_t *asked; /* all requests, in order */
} model_daemon;

static inline void model_daemon_send(struct model_daemon *daemon, const char *text, const int *fds,
				     unsigned int count)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	struct iovec part = { .iov_base = (void *)text, .iov_len = strlen(text) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (count) {
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(count * sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	if (sendmsg(daemon->connection, &message, MSG_NOSIGNAL) < 0)
		perror("the daemon's reply");
}

static inline void model_daemon_reply(struct model_daemon *daemon, const char *text)
{
	model_daemon_send(daemon, text, NULL, 0);
}

static inline int model_daemon_memfd(const void *data, size_t size)
{
	int fd = memfd_create("fake", MFD_CLOEXEC);

	if (write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

/* What is in a file, with a zero after it; the caller's to free. */
static inline char *model_daemon_read(int fd, size_t *size)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char *data = malloc((size_t)end + 1);

	*size = (size_t)end;
	if (pread(fd, data, *size, 0) != (ssize_t)*size)
		abort();
	data[*size] = '\0';
	return data;
}

/* False: the client has gone. */
static inline bool model_daemon_serve(struct model_daemon *daemon)
{
	static char text[32768];
	char room[CMSG_SPACE(MODEL_DAEMON_FDS * sizeof(int))];
	struct iovec part = { .iov_base = text, .iov_len = sizeof(text) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof(room) };
	ssize_t size = recvmsg(daemon->connection, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int fds[MODEL_DAEMON_FDS];
	unsigned int count = 0;
	json_t *request;
	bool more;

	if (size <= 0)
		return false;
	if (header) {
		count = (unsigned int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	}
	request = json_loadb(text, (size_t)size, 0, NULL);
	if (!request)
		abort();
	json_array_append_new(daemon->asked, request);
	more = daemon->answer(daemon, request, fds, count);
	while (count)
		close(fds[--count]);
	return more;
}

static inline void *model_daemon_run(void *arg)
{
	struct model_daemon *daemon = arg;

	while ((daemon->connection = accept4(daemon->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		daemon->connections++;
		while (model_daemon_serve(daemon))
			;
		close(daemon->connection);
	}
	return NULL;
}

static inline void model_daemon_start(model_daemon_answer *answer)
{
	struct model_daemon *daemon = &model_daemon;

	*daemon = (struct model_daemon){ .answer = answer,
					 .directory = "/tmp/distmind-daemon-XXXXXX",
					 .address.sun_family = AF_UNIX, .asked = json_array() };
	assert_non_null(mkdtemp(daemon->directory));
	snprintf(daemon->address.sun_path, sizeof(daemon->address.sun_path), "%.63s/socket",
		 daemon->directory);
	setenv("DISTMIND_SOCKET", daemon->address.sun_path, 1);
	daemon->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(daemon->listener, (struct sockaddr *)&daemon->address,
			      sizeof(daemon->address)), 0);
	assert_int_equal(listen(daemon->listener, 8), 0);
	assert_int_equal(pthread_create(&daemon->thread, NULL, model_daemon_run, daemon), 0);
}

static inline void model_daemon_stop(void)
{
	struct model_daemon *daemon = &model_daemon;

	shutdown(daemon->listener, SHUT_RDWR);
	pthread_join(daemon->thread, NULL);
	close(daemon->listener);
	unlink(daemon->address.sun_path);
	rmdir(daemon->directory);
}

/* After model_daemon_stop(): request i of those that came, until model_daemon_end(). */
static inline const json_t *model_daemon_asked(size_t i)
{
	return json_array_get(model_daemon.asked, i);
}

static inline void model_daemon_end(void)
{
	json_decref(model_daemon.asked);
	model_daemon.asked = NULL;
}

#endif
