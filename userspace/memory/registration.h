/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is read into has to be registered with the device. A dma-buf is registered as
 * such where the device can, else its mapping is. Registered memory is pinned: who frees it ends
 * the registration before. The end of the fabric ends those that are left. The owner's thread
 * only, no lock.
 *
 * To pin much memory, and to let it go, takes long: a second for some ten GB. So another thread
 * can make a registration, which the owner then adopts, and unmake one that the owner has let
 * go; the fabric is held as long as one is not the owner's.
 */
#ifndef DISTMIND_MEMORY_REGISTRATION_H
#define DISTMIND_MEMORY_REGISTRATION_H

#include "fabric.h"

/* The caller's, and it stays where it is, but for memory_registration_move(). */
struct memory_registration {
	struct ibv_mr *mr; /* NULL: nothing is registered */
	uint32_t lkey;
	bool dmabuf;
	bool owned; /* by the owner of the fabric */
	LIST_ENTRY(memory_registration) link;
};

/* By any thread: as begin and end, but that the owner of the fabric has it before and after. */
int memory_registration_make(struct memory_registration *registration,
			     struct memory_fabric *fabric, void *address, uint64_t length,
			     int dmabuf_fd, char reason[MEMORY_REASON_LEN]);
void memory_registration_unmake(struct memory_registration *registration);
/* By the owner, between them. Nothing to adopt, or to let go, is fine. */
void memory_registration_adopt(struct memory_registration *registration,
			       struct memory_fabric *fabric);
void memory_registration_let_go(struct memory_registration *registration);

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
