// SPDX-License-Identifier: MIT
#include "service.h"

#include "../common/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Of what a descriptor of the daemon's may hold: a manifest is far below it. */
#define BODY_MAX (1U << 30)

#define VERSIONS "use a distmindd of the same version"

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
					     "distmindd does not answer at %s: start it; if it "
					     "runs, see its log",
					     path);
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
	int err = request->body ? message_send(service->fd, request->body, request->fds,
					       request->fd_count) :
				  -ENOMEM;

	if (err == -ENOMEM)
		return distmind_service_fail(service, err, "out of memory");
	if (err == -EMSGSIZE)
		return distmind_service_fail(service, err, "the request is too long");
	return err ? lost(service, err) : 0;
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

static int receive(struct distmind_service *service, struct message *reply)
{
	const char *why;
	int err = message_receive(service->fd, reply, &why);

	if (err == -EPIPE)
		return distmind_service_fail(service, -ECONNRESET,
					     "distmindd has closed the connection: see its log");
	if (err == -EBADMSG)
		return distmind_service_fail(service, -EPROTO, "distmindd's reply: %s: " VERSIONS,
					     why);
	return err ? lost(service, err) : 0;
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
		    struct message *reply)
{
	uint64_t deadline = request->timeout_ms ? clock_ms() + request->timeout_ms : 0;
	int ret;

	reply->body = NULL;
	reply->fd_count = 0;
	ret = transmit(service, request);
	if (ret)
		return ret;
	do {
		message_clear(reply);
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
	struct message reply;

	exchange(service, &request, &reply);
	message_clear(&reply);
	json_decref(request.body);
}

int distmind_service_ask(struct distmind_service *service,
			 const struct distmind_service_request *request,
			 struct message *reply)
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

int distmind_service_read(struct distmind_service *service, const struct message *reply,
			  unsigned int index, void **data, size_t *size)
{
	const char *why = "it is missing";
	int err = index < reply->fd_count ?
			  message_read(reply->fds[index], BODY_MAX, data, size, &why) :
			  -EPROTO;

	if (!err || err == -ENOMEM)
		return err ? distmind_service_fail(service, err, "%s", why) : 0;
	return distmind_service_fail(service, -EPROTO,
				     "distmindd's reply: descriptor %u: %s: " VERSIONS, index, why);
}

int distmind_service_object(struct distmind_service *service,
			    const struct message *reply, unsigned int fd,
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
