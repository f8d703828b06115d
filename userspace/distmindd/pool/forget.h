/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A host that is gone for good is taken out of the catalog. */
#ifndef DISTMINDD_FORGET_H
#define DISTMINDD_FORGET_H

#include <stdbool.h>

struct client;

/* Answers when it is done, or why not. force: also if models lose chunks. */
void forget_begin(struct client *client, const char *host, bool force);

#endif
