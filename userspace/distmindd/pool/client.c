// SPDX-License-Identifier: GPL-2.0-or-later
#include "client.h"

#include "models.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void client_begin(struct client *client, struct exchange *exchange)
{
	exchange->client = client;
	client->exchange = exchange;
}

static void send_last(struct client *client, json_t *body, const int *fds, size_t count)
{
	/* It does not read its answers, or has gone: the service finds it dead. */
	if (!body || message_send(client->fd, body, fds, count))
		client->dead = true;
	if (client->dead)
		shutdown(client->fd, SHUT_RDWR);
	json_decref(body);
}

void client_answer(struct client *client, json_t *body, const int *fds, size_t count)
{
	if (!client) {
		json_decref(body);
		return;
	}
	if (client->exchange)
		client->exchange->client = NULL;
	client->exchange = NULL;
	if (body)
		json_object_set_new(body, "ok", json_true());
	send_last(client, body, fds, count);
}

/* Does a connection of that user have it, of those before the last one? */
static bool is_lent(const struct service *service, uint64_t payer, const struct answer *answer,
		    const struct client *last)
{
	const struct client *client;

	for (client = service->clients; client != last; client = client->next)
		if (client->payer == payer && client->answer == answer)
			return true;
	return false;
}

/* Bytes that the connections of a user have, each answer once. */
static uint64_t lent_to(const struct service *service, uint64_t payer)
{
	const struct client *client;
	uint64_t bytes = 0;

	for (client = service->clients; client; client = client->next)
		if (client->payer == payer && client->answer &&
		    !is_lent(service, payer, client->answer, client))
			bytes += answer_size(client->answer);
	return bytes;
}

void client_lend(struct client *client, struct answer *answer)
{
	const struct service *service = client ? &client->models->service : NULL;
	int fd = answer_descriptor(answer);
	uint64_t lent;

	if (!client)
		return;
	lent = lent_to(service, client->payer);
	if (client->user.uid && !is_lent(service, client->payer, answer, NULL) &&
	    lent + answer_size(answer) > service->lent_max) {
		client_refuse(client, -EUSERS,
			      "you hold %llu MB of answers, with this one more than %llu MB: close "
			      "the connections that have read theirs",
			      (unsigned long long)lent >> 20,
			      (unsigned long long)service->lent_max >> 20);
		return;
	}
	client->answer = answer_get(answer);
	client_answer(client, json_object(), &fd, 1);
}

void client_take_back(struct client *client)
{
	answer_put(client->answer, client->models->errands, client->payer);
	client->answer = NULL;
}

void client_refuse(struct client *client, int err, const char *format, ...)
{
	const char *name = strerrorname_np(-err);
	char reason[2048];
	va_list args;

	if (!client)
		return;
	if (client->exchange)
		client->exchange->client = NULL;
	client->exchange = NULL;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	send_last(client,
		  json_pack("{s:b, s:s, s:s}", "ok", 0, "errno", name ? name : "EIO", "reason",
			    reason),
		  NULL, 0);
}

void client_progress(struct client *client, uint64_t done, uint64_t total)
{
	json_t *body;

	if (!client)
		return;
	body = json_pack("{s:{s:I, s:I}}", "progress", "done", (json_int_t)done, "total",
			 (json_int_t)total);
	/* One that is not read in time is not worth waiting for. */
	if (body)
		message_send(client->fd, body, NULL, 0);
	json_decref(body);
}
