/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is read into has to be registered with the device, which takes
 * longer than many a READ: registrations are kept for the next load into the
 * same memory. A dma-buf is registered as such where the device can, else its
 * mapping is.
 *
 * Kept registrations pin memory, so they are bounded, the least recently used
 * one goes first; and who frees memory must drop its key before. The owner's
 * thread only, no lock.
 */
#ifndef DISTMIND_MEMORY_REGISTRATION_H
#define DISTMIND_MEMORY_REGISTRATION_H

#include "fabric.h"

struct memory_registrations;

struct memory_registration {
	uint32_t lkey;
	bool dmabuf;
	struct memory_registration_entry *entry; /* the cache's */
};

/* Up to idle_bytes stay registered while nobody uses them. NULL: no memory. */
struct memory_registrations *memory_registrations_create(struct memory_fabric *fabric,
							 uint64_t idle_bytes);
/* Nothing may be in use. */
void memory_registrations_destroy(struct memory_registrations *cache);

/*
 * Memory of one key is always the same memory. dmabuf_fd: its buffer, whose
 * first byte is at that address; or -1. A negative errno with the reason.
 */
int memory_registration_get(struct memory_registrations *cache, uint64_t key, void *address,
			    uint64_t length, int dmabuf_fd, struct memory_registration *result,
			    char reason[MEMORY_REASON_LEN]);
void memory_registration_put(struct memory_registrations *cache,
			     struct memory_registration *registration);
/* What is in use goes when it is put. */
void memory_registration_drop(struct memory_registrations *cache, uint64_t key);

uint64_t memory_registrations_idle(const struct memory_registrations *cache);

#endif
