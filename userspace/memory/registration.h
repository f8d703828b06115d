/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is read into has to be registered with the device. A dma-buf is registered as
 * such where the device can, else its mapping is. Registered memory is pinned: who frees it ends
 * the registration before. The end of the fabric ends those that are left. The owner's thread
 * only, no lock.
 */
#ifndef DISTMIND_MEMORY_REGISTRATION_H
#define DISTMIND_MEMORY_REGISTRATION_H

#include "fabric.h"

/* The caller's, and it stays where it is, but for memory_registration_move(). */
struct memory_registration {
	struct ibv_mr *mr; /* NULL: nothing is registered */
	uint32_t lkey;
	bool dmabuf;
	LIST_ENTRY(memory_registration) link;
};

/*
 * dmabuf_fd: the buffer whose first byte is at that address; or -1. A negative errno with the
 * reason.
 */
int memory_registration_begin(struct memory_registration *registration,
			      struct memory_fabric *fabric, void *address, uint64_t length,
			      int dmabuf_fd, char reason[MEMORY_REASON_LEN]);
/* From one place to another, where nothing is registered. */
void memory_registration_move(struct memory_registration *from, struct memory_registration *to);
/* Nothing to end is fine. */
void memory_registration_end(struct memory_registration *registration);

#endif
