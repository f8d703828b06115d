/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checking a model: every copy of every chunk, on this host by hashing it where it is, on
 * others by reading it. Answers the client with what is wrong.
 */
#ifndef DISTMINDD_VERIFY_H
#define DISTMINDD_VERIFY_H

#include "client.h"
#include "manifests.h"

void verify_begin(struct client *client, struct manifest *manifest);
/* Ends all; no transfer exists any more. */
void verify_close(struct models *models);

#endif
