/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client of the model service: one connection, one exchange at a time.
 *
 * What takes longer than the call that begins it is an exchange: it belongs to whoever
 * began it, and the client points to it until it is answered. When the connection ends
 * before that, the client is taken out of the exchange and gone() is called; answers to
 * an exchange without a client go nowhere. A push and a use of weights belong to the
 * connection and end with it.
 */
#ifndef DISTMINDD_CLIENT_H
#define DISTMINDD_CLIENT_H

#include "../../common/message.h"
#include "../common/errands.h"
#include "access.h"
#include "answer.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>

struct client;
struct models;
struct push;
struct weights_use;

struct exchange {
	struct client *client; /* NULL: it has gone, or was answered */
	void (*gone)(struct exchange *exchange); /* NULL: nothing to do */
};

struct client {
	struct models *models;
	int fd;
	struct access_user user;
	uint64_t payer; /* of its errands, and for whom it counts: see subordinates.h */
	sd_event_source *source;
	struct exchange *exchange; /* NULL: none is under way */
	bool dead; /* an answer could not be sent */
	struct push *push;	 /* owned */
	struct weights_use *use; /* owned */
	struct answer *answer;	 /* a reference to the one that it was lent last, or NULL */
	bool ending; /* what it had is gone, its socket is being closed */
	struct errand closing;
	struct client *next;
};

/* Takes the client's only exchange to itself. */
void client_begin(struct client *client, struct exchange *exchange);

/*
 * The end of an exchange, also of one that is over within the call that began it. The
 * exchange may be freed afterwards. body is taken and gets "ok": true; descriptors stay
 * the caller's.
 */
void client_answer(struct client *client, json_t *body, const int *fds, size_t count);
/*
 * The same with a large one, which it has until client_take_back(). If its user would have more
 * than service->lent_max bytes then, with what its other connections have, it is refused.
 */
void client_lend(struct client *client, struct answer *answer);
/* It asks for something else, or has ended: what it was lent goes, whether it was read or not. */
void client_take_back(struct client *client);
/* err is a negative errno; the text names the field and the fix. */
void client_refuse(struct client *client, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void client_progress(struct client *client, uint64_t done, uint64_t total);

#endif
