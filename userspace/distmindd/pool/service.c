// SPDX-License-Identifier: GPL-2.0-or-later
#include "service.h"

#include "../../libdistmind/service.h"
#include "../common/log.h"
#include "../common/turns.h"
#include "models.h"
#include "operations.h"
#include "push.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Bytes as the kernel counts them, of a few answers. */
#define UNREAD_MAX 8192

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/*
 * Connections
 */

static void close_socket(struct errand *errand)
{
	struct client *client = errand_in(errand, struct client, closing);

	close(client->fd);
}

static void on_closed(struct errand *errand)
{
	struct client *client = errand_in(errand, struct client, closing), **at;
	struct service *service = &client->models->service;

	for (at = &service->clients; *at != client; at = &(*at)->next)
		;
	*at = client->next;
	service->count--;
	access_user_close(&client->user);
	free(client);
}

/* All that it had ends at once; it is gone when its socket is closed. */
static void client_end(struct client *client)
{
	if (client->exchange) {
		struct exchange *exchange = client->exchange;

		exchange->client = NULL;
		client->exchange = NULL;
		if (exchange->gone)
			exchange->gone(exchange);
	}
	push_end(client->push);
	client_take_back(client);
	if (client->use)
		weights_use_end(client->use);
	client->use = NULL;
	client->source = sd_event_source_disable_unref(client->source);
	client->ending = true;
	/* The other side sees the end now, however long the rest takes. */
	shutdown(client->fd, SHUT_RDWR);
	client->closing = (struct errand){ .work = close_socket, .done = on_closed };
	errands_add(client->models->errands, client->payer, &client->closing);
}

/* Answers that nobody reads pile up: who has left a few gets no more of them. */
static bool reads_answers(const struct client *client)
{
	int unread;

	return ioctl(client->fd, SIOCOUTQ, &unread) || unread <= UNREAD_MAX;
}

static void handle(struct client *client, struct message *message, int err, const char *why)
{
	client_take_back(client);
	if (err == -EBADMSG)
		client_refuse(client, err, "this is not a message: %s", why);
	else if (!err && (client->exchange || !reads_answers(client)))
		err = -EPROTO; /* answers could not be told apart */
	else if (!err && message->fd_count && client->user.uid)
		client_refuse(client, -EPERM, "descriptors are for root only: send none");
	else if (!err)
		operation_begin(client, message);
	if (err)
		client_end(client);
}

/* A message that brings descriptors. The client outlives it: its socket is closed later. */
struct reception {
	struct errand errand;
	struct client *client;
	struct message message;
	int err;
	const char *why;
};

static void receive_message(struct errand *errand)
{
	struct reception *reception = errand_in(errand, struct reception, errand);

	reception->err = message_receive(reception->client->fd, &reception->message,
					 &reception->why);
}

static void clear_message(struct errand *errand)
{
	message_clear(&errand_in(errand, struct reception, errand)->message);
}

static void free_reception(struct errand *errand)
{
	free(errand_in(errand, struct reception, errand));
}

static void on_received(struct errand *errand)
{
	struct reception *reception = errand_in(errand, struct reception, errand);
	struct client *client = reception->client;
	uint64_t payer = client->payer;

	if (!client->ending) {
		sd_event_source_set_enabled(client->source, SD_EVENT_ON);
		if (reception->err != -EAGAIN)
			handle(client, &reception->message, reception->err, reception->why);
	}
	reception->errand = (struct errand){ .work = clear_message, .done = free_reception };
	errands_add(client->models->errands, payer, &reception->errand);
}

static void receive_elsewhere(struct client *client)
{
	struct reception *reception = malloc(sizeof(*reception));

	if (!reception) {
		client_end(client);
		return;
	}
	reception->client = client;
	reception->errand = (struct errand){ .work = receive_message, .done = on_received };
	sd_event_source_set_enabled(client->source, SD_EVENT_OFF);
	errands_add(client->models->errands, client->payer, &reception->errand);
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct client *client = arg;
	struct message message;
	bool descriptors;
	const char *why;
	int err;

	(void)source;
	(void)revents;
	turns_name("message");
	err = message_peek(fd, &descriptors);
	if (err == -EAGAIN)
		return 0;
	if (!err && descriptors) {
		receive_elsewhere(client);
		return 0;
	}
	if (!err) {
		err = message_receive(fd, &message, &why);
		handle(client, &message, err, why);
		message_clear(&message);
	} else {
		client_end(client);
	}
	return 0;
}

/* One user cannot keep the others out. */
static bool is_crowded(const struct service *service, uint32_t uid, uint64_t payer)
{
	const struct client *other;
	uint32_t same = 0;

	for (other = service->clients; other; other = other->next)
		same += other->payer == payer;
	if (!uid)
		return service->count >= SERVICE_CLIENTS_MAX;
	return same >= SERVICE_CLIENTS_USER ||
	       service->count >= SERVICE_CLIENTS_MAX - SERVICE_CLIENTS_ROOT;
}

/*
 * Who has no use for descriptors need not be able to send any: connections begin without,
 * and only root's get them. Kernels before 6.16 cannot do that; then handle() refuses them.
 */
static void let_descriptors(int fd, int let)
{
	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &let, sizeof(let));
}

/*
 * Is there nothing with descriptors in what was sent to a socket that is shut down, so that no
 * more comes? Takes what is before it. With credentials, which come with every message then, one
 * of nothing is not mistaken for the end.
 */
static bool brings_nothing(int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	int let = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &let, sizeof(let)))
		return false;
	for (;;) {
		struct msghdr message = { .msg_control = &control,
					  .msg_controllen = sizeof(control) };

		if (recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT) < 0)
			return false;
		if (message.msg_flags & MSG_CTRUNC)
			return false;
		if (!message.msg_controllen)
			return true;
		recv(fd, NULL, 0, MSG_DONTWAIT);
	}
}

/*
 * Somebody who is not let in. A close that can take long is an errand of the user, behind
 * others that do: as many as that user can have descriptors on their way, which the kernel limits,
 * since each has one at least. All others are closed at once, so that a user can turn up as often
 * as it likes and keeps nobody from being accepted.
 */
static void turn_away(struct service *service, int fd, uint64_t payer)
{
	shutdown(fd, SHUT_RDWR);
	if (brings_nothing(fd))
		close(fd);
	else
		errands_dispose(service->models->errands, payer, fd);
}

static void refuse_crowd(int fd, uint32_t uid)
{
	char reason[128];
	json_t *body;

	snprintf(reason, sizeof(reason),
		 "there are too many connections, of user %u or in all: close others", uid);
	body = json_pack("{s:b, s:s, s:s}", "ok", 0, "errno", "EUSERS", "reason", reason);
	if (body)
		message_send(fd, body, NULL, 0);
	json_decref(body);
}

static int client_create(struct service *service, int fd, struct access_user *user, uint64_t payer)
{
	struct client *client = calloc(1, sizeof(*client));
	int err;

	if (!client)
		return -ENOMEM;
	client->models = service->models;
	client->fd = fd;
	client->user = *user;
	client->payer = payer;
	if (!user->uid)
		let_descriptors(fd, 1);
	err = sd_event_add_io(service->models->loop, &client->source, fd, EPOLLIN, on_message,
			      client);
	if (err < 0) {
		free(client);
		return err;
	}
	/* The client's from here on. */
	*user = (struct access_user){ 0 };
	client->next = service->clients;
	service->clients = client;
	service->accepted++;
	service->count++;
	return 0;
}

static int on_connect(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct service *service = arg;
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct access_user user;
	uint32_t payer;

	(void)source;
	(void)revents;
	turns_name("connect");
	if (client < 0)
		return 0;
	if (access_user_open(&user, client)) {
		turn_away(service, client, ERRANDS_DAEMON);
		return 0;
	}
	payer = subordinates_owner(&service->subordinates, user.uid);
	if (is_crowded(service, user.uid, payer)) {
		refuse_crowd(client, payer);
		turn_away(service, client, payer);
	} else if (client_create(service, client, &user, payer)) {
		turn_away(service, client, payer);
	}
	access_user_close(&user);
	return 0;
}

/* The usual limit is below what this many connections and their models need. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* What is there is of a daemon that died: the lock says that there is no other. */
static int remove_socket(const char *path)
{
	struct stat status;

	if (lstat(path, &status))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -ENOTSOCK;
	return unlink(path) ? -errno : 0;
}

int service_open(struct service *service, struct models *models, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *other = getenv(SERVICE_ENV);
	int err;

	*service = (struct service){ .models = models, .fd = -1, .lent_max = SERVICE_LENT_USER };
	subordinates_init(&service->subordinates, SUBORDINATES_PATH, SUBORDINATES_USERS);
	snprintf(service->path, sizeof(service->path), "%s", other && *other ? other : path);
	strcpy(address.sun_path, service->path);
	raise_limit();
	service->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (service->fd < 0)
		goto err;
	let_descriptors(service->fd, 0);
	err = remove_socket(service->path);
	if (err) {
		errno = -err;
		goto err;
	}
	if (bind(service->fd, (struct sockaddr *)&address, sizeof(address)) ||
	    chmod(service->path, 0666) || listen(service->fd, 64))
		goto err;
	err = sd_event_add_io(models->loop, &service->source, service->fd, EPOLLIN, on_connect,
			      service);
	if (err >= 0)
		return 0;
	errno = -err;
err:
	err = -errno;
	log_error("no-model-socket", LOG_S("path", service->path),
		  LOG_S("reason", err == -ENOTSOCK ? "something else is there" : strerror(-err)),
		  LOG_S("fix", "give another path ([models] socket in distmindd.conf), in a directory "
			       "that is there"));
	if (service->fd >= 0)
		close(service->fd);
	service->fd = -1;
	return err;
}

void service_close(struct service *service)
{
	struct client *client;

	if (service->fd < 0)
		return;
	for (client = service->clients; client; client = client->next)
		if (!client->ending)
			client_end(client);
	service->source = sd_event_source_disable_unref(service->source);
	close(service->fd);
	unlink(service->path);
	service->fd = -1;
	subordinates_clear(&service->subordinates);
}
