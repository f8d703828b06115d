/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is asked of a daemon that has just started. Until this host has joined the pool and has
 * seen the catalog it does not know what models there are: an operation on a model waits for
 * that, for as long as a push does, and is then refused with what it has waited for. A host
 * that has joined once answers from what it knows, whatever becomes of the catalog later.
 */
#ifndef DISTMINDD_EARLY_H
#define DISTMINDD_EARLY_H

#include "client.h"

#define EARLY_WAIT_US 10000000
#define EARLY_REASON_LEN 1024

/*
 * begin() is called later, or the client is refused. False: it need not wait, or the message
 * brings descriptors.
 */
bool early_wait(struct client *client, struct message *message,
		void (*begin)(struct client *client, struct message *message));

/* Why this host has not joined, and what to do. */
const char *early_reason(const struct models *models, char reason[EARLY_REASON_LEN]);

#endif
