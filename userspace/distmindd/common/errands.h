/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What may take long is done by others than the event loop. An errand belongs to a payer: a
 * user, or a gpu. Errands of one payer are run in their order, but for those that say so, one
 * at a time, by a thread of that payer; those of others do not wait for them. So whoever blocks a thread, with a
 * descriptor whose close takes long, or keeps it busy, holds up nobody but itself.
 *
 * work() is called by such a thread and may touch nothing that the loop's thread could
 * touch meanwhile; done() is called by the loop afterwards. The errand is its owner's, who
 * may free it in done() and not before.
 */
#ifndef DISTMINDD_ERRANDS_H
#define DISTMINDD_ERRANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct errands;

struct errand {
	void (*work)(struct errand *errand); /* NULL: there is nothing to do before done() */
	void (*done)(struct errand *errand);
	bool first; /* before those of its payer that wait */
	/* Private: */
	STAILQ_ENTRY(errand) link;
};

/* The struct that an errand is a member of. */
#define errand_in(errand, type, member) \
	((type *)(void *)((char *)(errand) - offsetof(type, member)))

/* Payers: users by their uid, and gpus. */
#define ERRANDS_GPU(id) (1ULL << 32 | (id))
#define ERRANDS_DAEMON (2ULL << 32) /* what is nobody's in particular */

/* NULL: see errno. */
struct errands *errands_open(sd_event *loop);
/*
 * Waits until all are done, but for ms at most: what has not come to its end by then is
 * left to the end of the process, and so is its memory. done() is called for those that
 * have. NULL is fine. False: some are left.
 */
bool errands_close(struct errands *errands, unsigned int ms);

/* The same, and there can be others afterwards. */
bool errands_drain(struct errands *errands, unsigned int ms);

/* It cannot fail: without memory for a thread it waits until there is some. */
void errands_add(struct errands *errands, uint64_t payer, struct errand *errand);
/* If it has not begun, work() is not called; done() is called as ever, and not from within. */
void errands_skip(struct errands *errands, uint64_t payer, struct errand *errand);
/* Closes a descriptor, where that may take long. */
void errands_dispose(struct errands *errands, uint64_t payer, int fd);
/* How many of that payer are not done. */
unsigned int errands_of(const struct errands *errands, uint64_t payer);

#endif
