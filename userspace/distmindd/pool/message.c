// SPDX-License-Identifier: GPL-2.0-or-later
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(MESSAGE_FDS * sizeof(int))];
};

static void take_descriptors(struct msghdr *header, struct message *message)
{
	struct cmsghdr *part;

	for (part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
			if (message->fd_count < MESSAGE_FDS)
				message->fds[message->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

int message_receive(int socket, struct message *message, const char **why)
{
	char text[MESSAGE_MAX];
	union control control;
	struct iovec part = { .iov_base = text, .iov_len = sizeof(text) };
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	ssize_t len;

	*message = (struct message){ 0 };
	len = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (len < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	take_descriptors(&header, message);
	if (!len) {
		/* The end, or a message of nothing, which can bring descriptors all the same. */
		message_clear(message);
		return -EPIPE;
	}
	*why = "it is longer than 32768 bytes";
	if (header.msg_flags & MSG_TRUNC)
		goto bad;
	*why = "it has more than 4 descriptors";
	if (header.msg_flags & MSG_CTRUNC)
		goto bad;
	*why = "it is not a JSON object";
	message->body = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(message->body))
		return 0;
bad:
	message_clear(message);
	return -EBADMSG;
}

void message_clear(struct message *message)
{
	json_decref(message->body);
	for (size_t i = 0; i < message->fd_count; i++)
		if (message->fds[i] >= 0)
			close(message->fds[i]);
	*message = (struct message){ 0 };
}

int message_send(int socket, const json_t *body, const int *fds, size_t count)
{
	char *text = json_dumps(body, JSON_COMPACT);
	struct iovec part = { .iov_base = text, .iov_len = text ? strlen(text) : 0 };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	union control control = { 0 };
	int err = 0;

	if (!text)
		return -ENOMEM;
	if (part.iov_len > MESSAGE_MAX) {
		err = -EMSGSIZE;
		goto out;
	}
	if (count) {
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	if (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		err = -errno;
out:
	free(text);
	return err;
}

int message_memfd(const void *data, size_t size)
{
	int fd = memfd_create("distmind", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const char *at = data;
	ssize_t done;
	int err;

	if (fd < 0)
		return -errno;
	for (; size; size -= (size_t)done, at += done) {
		done = write(fd, at, size);
		if (done < 0 && errno == EINTR)
			done = 0;
		if (done < 0)
			goto err_close;
	}
	if (!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		return fd;
err_close:
	err = -errno;
	close(fd);
	return err;
}

int message_memfd_json(json_t *body)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	int fd = text ? message_memfd(text, strlen(text)) : -ENOMEM;

	free(text);
	json_decref(body);
	return fd;
}

int message_check(int fd, size_t max, size_t *size, const char **why)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat stat;

	*why = "it is not a memfd that is sealed against shrinking (F_SEAL_SHRINK)";
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &stat))
		return -EINVAL;
	*why = "it is empty";
	if (stat.st_size <= 0)
		return -EINVAL;
	*why = "it is too large";
	if ((uint64_t)stat.st_size > max)
		return -EMSGSIZE;
	*size = (size_t)stat.st_size;
	return 0;
}

int message_map(int fd, size_t max, const void **data, size_t *size, const char **why)
{
	int err = message_check(fd, max, size, why);
	void *address;

	if (err)
		return err;
	*why = "it cannot be mapped";
	address = mmap(NULL, *size, PROT_READ, MAP_SHARED, fd, 0);
	if (address == MAP_FAILED)
		return -errno;
	*data = address;
	return 0;
}
