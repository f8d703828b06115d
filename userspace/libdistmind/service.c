// SPDX-License-Identifier: MIT
#include "service.h"

#include "../common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Of what a descriptor of the daemon's may hold: a manifest is far below it. */
#define BODY_MAX (1U << 30)

#define VERSIONS "use a distmindd of the same version"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

int distmind_service_fail(struct distmind_service *service, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(service->reason, sizeof(service->reason), format, args);
	va_end(args);
	return error;
}

int distmind_service_open(struct distmind_service *service)
{
	const char *path = getenv(DISTMIND_SERVICE_ENV);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int err;

	*service = (struct distmind_service){ .fd = -1 };
	if (!path || !*path)
		path = DISTMIND_SERVICE_SOCKET;
	if (strlen(path) >= sizeof(address.sun_path))
		return distmind_service_fail(service, -ENAMETOOLONG,
					     DISTMIND_SERVICE_ENV ": longer than %zu characters",
					     sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, path);
	service->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (service->fd < 0)
		return distmind_service_fail(service, -errno, "socket: %s", strerror(errno));
	if (!connect(service->fd, (struct sockaddr *)&address, sizeof(address)))
		return 0;
	err = -errno;
	distmind_service_close(service);
	if (err == -ENOENT || err == -ECONNREFUSED)
		return distmind_service_fail(service, err,
					     "distmindd does not answer at %s: start it", path);
	return distmind_service_fail(service, err, "distmindd at %s: %s", path, strerror(-err));
}

void distmind_service_close(struct distmind_service *service)
{
	if (service->fd >= 0)
		close(service->fd);
	service->fd = -1;
}

static int lost(struct distmind_service *service, int error)
{
	return distmind_service_fail(service, error, "the connection to distmindd: %s",
				     strerror(-error));
}

static int transmit(struct distmind_service *service,
		    const struct distmind_service_request *request)
{
	size_t fds = request->fd_count * sizeof(int);
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(DISTMIND_SERVICE_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec part;
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	char *text = request->body ? json_dumps(request->body, JSON_COMPACT) : NULL;
	ssize_t sent;
	int err = 0;

	if (!text)
		return distmind_service_fail(service, -ENOMEM, "out of memory");
	part = (struct iovec){ .iov_base = text, .iov_len = strlen(text) };
	if (request->fd_count) {
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(fds) };
		memcpy(CMSG_DATA(&control.header), request->fds, fds);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fds);
	}
	if (part.iov_len > DISTMIND_SERVICE_MESSAGE_MAX)
		err = distmind_service_fail(service, -EMSGSIZE, "the request is too long");
	do {
		sent = err ? 0 : sendmsg(service->fd, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		err = lost(service, -errno);
	free(text);
	return err;
}

static int await(struct distmind_service *service, uint64_t deadline)
{
	struct pollfd socket = { .fd = service->fd, .events = POLLIN };
	int ready, wait;

	do {
		uint64_t now = clock_ms(), left = deadline > now ? deadline - now : 0;

		wait = !deadline ? -1 : left > INT32_MAX ? INT32_MAX : (int)left;
		ready = poll(&socket, 1, wait);
	} while (ready < 0 && errno == EINTR);
	if (ready < 0)
		return lost(service, -errno);
	if (!ready)
		return distmind_service_fail(service, -ETIMEDOUT,
					     "distmindd does not answer in time");
	return 0;
}

/* Whatever came along, also with a message that is refused. */
static void take_descriptors(struct msghdr *message, struct distmind_service_reply *reply)
{
	struct cmsghdr *header;

	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		size_t size = header->cmsg_len - CMSG_LEN(0);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i + sizeof(int) <= size; i += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i, sizeof(fd));
			if (reply->fd_count < DISTMIND_SERVICE_FDS)
				reply->fds[reply->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

static int receive(struct distmind_service *service, struct distmind_service_reply *reply)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(DISTMIND_SERVICE_FDS * sizeof(int))];
	} control;
	struct iovec part = { .iov_len = DISTMIND_SERVICE_MESSAGE_MAX };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	json_error_t error;
	ssize_t size;
	int err = 0;

	part.iov_base = malloc(part.iov_len);
	if (!part.iov_base)
		return distmind_service_fail(service, -ENOMEM, "out of memory");
	do {
		size = recvmsg(service->fd, &message, MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size >= 0)
		take_descriptors(&message, reply);
	if (size < 0) {
		err = lost(service, -errno);
	} else if (!size) {
		err = distmind_service_fail(service, -ECONNRESET,
					    "distmindd has closed the connection: see its log");
	} else if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		err = distmind_service_fail(service, -EPROTO,
					    "distmindd's reply is too long: " VERSIONS);
	} else {
		reply->body = json_loadb(part.iov_base, (size_t)size, JSON_REJECT_DUPLICATES,
					 &error);
		if (!json_is_object(reply->body))
			err = distmind_service_fail(service, -EPROTO,
						    "distmindd's reply is no JSON object: "
						    VERSIONS);
	}
	free(part.iov_base);
	return err;
}

static int errno_of(const char *name)
{
	const char *known;

	for (int i = 1; name && i < 256; i++) {
		known = strerrorname_np(i);
		if (known && !strcmp(known, name))
			return i;
	}
	return EREMOTEIO;
}

/* 0: that was the reply; 1: another message follows. */
static int look(struct distmind_service *service, const struct distmind_service_request *request,
		const json_t *body)
{
	const json_t *ok = json_object_get(body, "ok"), *progress;
	const char *reason;
	uint64_t done, total;
	int err;

	if (json_is_true(ok))
		return 0;
	if (json_is_false(ok)) {
		reason = json_string_value(json_object_get(body, "reason"));
		err = -errno_of(json_string_value(json_object_get(body, "errno")));
		return distmind_service_fail(service, err, "%s", reason ? reason : strerror(-err));
	}
	progress = json_object_get(body, "progress");
	if (!json_is_object(progress))
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: ok: neither true nor false: "
					     VERSIONS);
	err = distmind_service_number(service, progress, "done", "progress", &done);
	if (!err)
		err = distmind_service_number(service, progress, "total", "progress", &total);
	if (!err && request->progress)
		request->progress(done, total, request->arg);
	return err ? err : 1;
}

/* Replies come in the order of the requests: those of earlier ones come first. */
static bool is_late(struct distmind_service *service, const json_t *body)
{
	if (!service->late)
		return false;
	if (json_object_get(body, "ok"))
		service->late--;
	return true;
}

static int exchange(struct distmind_service *service,
		    const struct distmind_service_request *request,
		    struct distmind_service_reply *reply)
{
	uint64_t deadline = request->timeout_ms ? clock_ms() + request->timeout_ms : 0;
	int ret;

	*reply = (struct distmind_service_reply){ 0 };
	ret = transmit(service, request);
	if (ret)
		return ret;
	do {
		distmind_service_reply_end(reply);
		ret = await(service, deadline);
		if (ret == -ETIMEDOUT)
			service->late++;
		if (!ret)
			ret = receive(service, reply);
		if (!ret)
			ret = is_late(service, reply->body) ? 1 :
							      look(service, request, reply->body);
	} while (ret > 0);
	return ret;
}

/*
 * distmindd takes descriptors of root alone, and the kernel refuses them until it has
 * accepted the connection and seen who this is: before it answers, whatever the answer is.
 */
static void be_seen(struct distmind_service *service, uint32_t timeout_ms)
{
	struct distmind_service_request request = {
		.body = json_pack("{s:s}", "op", "state"), .timeout_ms = timeout_ms,
	};
	struct distmind_service_reply reply;

	exchange(service, &request, &reply);
	distmind_service_reply_end(&reply);
	json_decref(request.body);
}

int distmind_service_ask(struct distmind_service *service,
			 const struct distmind_service_request *request,
			 struct distmind_service_reply *reply)
{
	int ret = exchange(service, request, reply);

	/* A reply, also one that refuses, has a body. */
	if (ret == -EPERM && request->fd_count && !reply->body) {
		be_seen(service, request->timeout_ms);
		ret = exchange(service, request, reply);
	}
	json_decref(request->body);
	return ret;
}

void distmind_service_reply_end(struct distmind_service_reply *reply)
{
	json_decref(reply->body);
	for (unsigned int i = 0; i < reply->fd_count; i++)
		close(reply->fds[i]);
	*reply = (struct distmind_service_reply){ 0 };
}

int distmind_service_number(struct distmind_service *service, const json_t *object,
			    const char *key, const char *what, uint64_t *number)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: %s.%s: not a number of 0 or more: "
					     VERSIONS, what, key);
	*number = (uint64_t)json_integer_value(value);
	return 0;
}

int distmind_service_read(struct distmind_service *service,
			  const struct distmind_service_reply *reply, unsigned int index,
			  void **data, size_t *size)
{
	struct stat status;
	size_t done = 0;
	char *copy;

	if (index >= reply->fd_count)
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: descriptor %u is missing: "
					     VERSIONS, index);
	if (fstat(reply->fds[index], &status) < 0)
		return lost(service, -errno);
	if (!S_ISREG(status.st_mode) || status.st_size > BODY_MAX)
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: descriptor %u: no memfd of up to "
					     "%u bytes: " VERSIONS, index, BODY_MAX);
	copy = malloc((size_t)status.st_size + 1);
	if (!copy)
		return distmind_service_fail(service, -ENOMEM, "out of memory");
	/* Read, not mapped: whatever its maker does to it meanwhile, it is no signal. */
	while (done < (size_t)status.st_size) {
		ssize_t part = pread(reply->fds[index], copy + done,
				     (size_t)status.st_size - done, (off_t)done);

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			break;
		done += (size_t)part;
	}
	if (done < (size_t)status.st_size) {
		free(copy);
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: descriptor %u: it ended early: "
					     VERSIONS, index);
	}
	*data = copy;
	*size = done;
	return 0;
}

int distmind_service_object(struct distmind_service *service,
			    const struct distmind_service_reply *reply, unsigned int fd,
			    json_t **object)
{
	json_error_t error;
	size_t size;
	void *text;
	int err = distmind_service_read(service, reply, fd, &text, &size);

	*object = NULL;
	if (err)
		return err;
	*object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	free(text);
	if (json_is_object(*object))
		return 0;
	json_decref(*object);
	*object = NULL;
	return distmind_service_fail(service, -EPROTO,
				     "distmindd's reply: descriptor %u: no JSON object: " VERSIONS,
				     fd);
}

int distmind_service_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

int distmind_service_memfd(const char *name, const void *data, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t done = 0;
	int err;

	if (fd < 0)
		return -errno;
	while (done < size) {
		ssize_t part = write(fd, (const char *)data + done, size - done);

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			goto err_close;
		done += (size_t)part;
	}
	err = distmind_service_seal(fd);
	if (!err)
		return fd;
	errno = -err;
err_close:
	err = -errno;
	close(fd);
	return err;
}
