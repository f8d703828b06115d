/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A reader's connection to one donor, from the first attempt on: when it
 * is lost, it is tried again, later and later. Up means that the donor has said
 * HELLO; what happens then goes to the reader, under the index of the donor.
 *
 * The loader owns its links. Everything is called with the fabric's lock.
 */
#ifndef DISTMIND_MEMORY_LINK_H
#define DISTMIND_MEMORY_LINK_H

#include "fabric.h"
#include "reader.h"

struct memory_link;

/* What the reader calls; its link argument is a struct memory_link. */
extern const struct memory_reader_ops memory_link_ops;

/* Not connected before it is run for the first time. */
struct memory_link *memory_link_create(struct memory_fabric *fabric, struct memory_reader *reader,
				       uint32_t donor, const struct sockaddr_storage *address,
				       uint32_t depth);
void memory_link_destroy(struct memory_link *link);

/* Connects when it is time, gives up what takes too long; returns when to call again. */
uint64_t memory_link_run(struct memory_link *link, uint64_t now);
/* Does not wait for the next attempt: somebody wants it. */
void memory_link_hurry(struct memory_link *link);
/* True once for each change of its state. */
bool memory_link_changed(struct memory_link *link, bool *up);

#endif
