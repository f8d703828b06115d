/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The answer to "list": all models and hosts, in a memfd (answer.h). */
#ifndef DISTMINDD_LISTING_H
#define DISTMINDD_LISTING_H

#include "client.h"

/* Answers the client, now or later. */
void listing_begin(struct client *client);

#endif
