/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checking a model: every copy of every chunk, on this host by hashing it where it is, on
 * others by reading it. Answers the client with what is wrong.
 *
 * That costs as much as the model is large, and anybody who may read it can ask: so one user
 * has one checked at a time, and what else that user asks for waits its turn. Copies are
 * looked at behind everybody's loads and pushes.
 */
#ifndef DISTMINDD_VERIFY_H
#define DISTMINDD_VERIFY_H

#include "client.h"
#include "manifests.h"

void verify_begin(struct client *client, struct manifest *manifest);
/* Ends all; no transfer exists any more. */
void verify_close(struct models *models);

#endif
