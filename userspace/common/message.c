// SPDX-License-Identifier: MIT
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_WRITE)

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(MESSAGE_FDS_RECEIVED * sizeof(int))];
};

int message_peek(int socket, bool *descriptors)
{
	char byte;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t len = recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);

	*descriptors = false;
	if (len < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	/* There was no room for them. */
	*descriptors = header.msg_flags & MSG_CTRUNC;
	return len || *descriptors ? 0 : -EPIPE;
}

static void take_descriptors(struct msghdr *header, struct message *message)
{
	struct cmsghdr *part;

	for (part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count && message->fd_count < MESSAGE_FDS_RECEIVED; i++)
			memcpy(&message->fds[message->fd_count++],
			       CMSG_DATA(part) + i * sizeof(int), sizeof(int));
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

	message->body = NULL;
	message->fd_count = 0;
	*why = "";
	do
		len = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return -errno;
	take_descriptors(&header, message);
	/* The end, or a message of nothing, which can bring descriptors all the same. */
	if (!len)
		return -EPIPE;
	*why = "it is too long: more than 32768 bytes";
	if (header.msg_flags & MSG_TRUNC)
		return -EBADMSG;
	*why = "it has more than 4 descriptors";
	if (header.msg_flags & MSG_CTRUNC || message->fd_count > MESSAGE_FDS)
		return -EBADMSG;
	*why = "it is no JSON object";
	message->body = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, NULL);
	return json_is_object(message->body) ? 0 : -EBADMSG;
}

void message_clear(struct message *message)
{
	json_decref(message->body);
	message->body = NULL;
	for (unsigned int i = 0; i < message->fd_count; i++)
		if (message->fds[i] >= 0)
			close(message->fds[i]);
	message->fd_count = 0;
}

int message_send(int socket, const json_t *body, const int *fds, size_t count)
{
	char *text = json_dumps(body, JSON_COMPACT);
	struct iovec part = { .iov_base = text, .iov_len = text ? strlen(text) : 0 };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	union control control = { 0 };
	ssize_t sent;
	int err = 0;

	if (!text)
		return -ENOMEM;
	if (part.iov_len > MESSAGE_MAX || count > MESSAGE_FDS) {
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
	do
		sent = sendmsg(socket, &header, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		err = -errno;
out:
	free(text);
	return err;
}

int message_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

int message_memfd(const void *data, size_t size)
{
	int fd = memfd_create("distmind", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const char *at = data;
	int err = 0;

	if (fd < 0)
		return -errno;
	while (size && !err) {
		ssize_t done = write(fd, at, size);

		if (done < 0) {
			err = errno == EINTR ? 0 : -errno;
			continue;
		}
		size -= (size_t)done;
		at += done;
	}
	if (!err)
		err = message_seal(fd);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int message_check(int fd, size_t max, size_t *size, const char **why)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat stat;

	*why = "it is not a memfd that is sealed against writes and shrinking (F_SEAL_WRITE, "
	       "F_SEAL_SHRINK)";
	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED || fstat(fd, &stat))
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
	/* A shared mapping of what cannot be written to is refused before 6.7. */
	address = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (address == MAP_FAILED)
		return -errno;
	*data = address;
	return 0;
}

/* Read, not mapped: whatever its maker does to it meanwhile, it is no signal. */
int message_read(int fd, size_t max, void **data, size_t *size, const char **why)
{
	struct stat status;
	size_t done = 0;
	char *copy;

	*why = "it is no memfd";
	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		return -EPROTO;
	*why = "it is too large";
	if ((uint64_t)status.st_size > max)
		return -EMSGSIZE;
	*why = "out of memory";
	copy = malloc((size_t)status.st_size + 1);
	if (!copy)
		return -ENOMEM;
	while (done < (size_t)status.st_size) {
		ssize_t part = pread(fd, copy + done, (size_t)status.st_size - done, (off_t)done);

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			break;
		done += (size_t)part;
	}
	*why = "it ended early";
	if (done < (size_t)status.st_size) {
		free(copy);
		return -EPROTO;
	}
	*data = copy;
	*size = done;
	return 0;
}
