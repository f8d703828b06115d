/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads for what takes too long in the event loop: hashing, above all. A job is its owner's,
 * who does not touch it between worker_add() and done(). There is no limit to how many wait but
 * the owners' own.
 *
 * Jobs begin in the order in which they were added, those in the background after the others:
 * they are for what nobody's load or push depends on. So that they come to their end too, one
 * of them begins after every sixteen others. Nobody takes a thread away from a job. Most take as
 * long as it takes to hash a chunk or a few; those of the daemon's own can be long: to register
 * the arena, or to place a whole model.
 *
 * All calls are the event loop's, and so is done(). The lock is for the
 * queues, and never held while anything works; the loop does not wait for it, but in
 * worker_cancel().
 */
#ifndef DISTMINDD_WORKER_H
#define DISTMINDD_WORKER_H

#include <stdbool.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct worker;

struct worker_job {
	void (*work)(struct worker_job *job); /* by a thread */
	/* From the loop; the job may be freed. dropped: the worker is being closed. */
	void (*done)(struct worker_job *job, bool dropped);
	bool background;
	/* The worker's. */
	enum worker_state { WORKER_WAITING, WORKER_WORKING, WORKER_OVER } state;
	TAILQ_ENTRY(worker_job) link;
};

int worker_open(struct worker **worker, sd_event *loop);
/* Waits for what is under way. done() is called for all that is left. NULL is fine. */
void worker_close(struct worker *worker);

void worker_add(struct worker *worker, struct worker_job *job);
/*
 * Of one that was added and is not done: done() is not called. Waits if it is being worked at,
 * so that what it works with can be freed.
 */
void worker_cancel(struct worker *worker, struct worker_job *job);

#endif
