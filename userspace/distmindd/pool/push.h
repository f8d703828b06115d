/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model that is being pushed: its manifest is in the catalog as an upload, so that
 * donors know which chunks are theirs and fetch them from here as they come. It belongs to
 * a connection: if that ends before the commit, the upload is given up, and whatever was
 * stored for it is garbage.
 */
#ifndef DISTMINDD_PUSH_H
#define DISTMINDD_PUSH_H

#include "client.h"

#define PUSH_BATCH_MAX (64UL << 20)

/* Each answers the client, now or later. Descriptors stay the caller's. */
/* Before a model is hashed: could it fit if all donors had nothing else? */
void push_room(struct client *client, uint64_t bytes);
void push_begin(struct client *client, const char *name, uint32_t replicas,
		const struct catalog_access *access, int manifest);
void push_chunk(struct client *client, uint32_t first, uint32_t count, int bytes);
void push_commit(struct client *client);
/* The connection has ended. NULL is fine. */
void push_end(struct push *push);

#endif
