/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long the turns of the event loop take. A turn is what the loop does between two
 * waits: one handler, for one source. While it lasts nobody else is served, so none may
 * take longer than TURNS_LIMIT_US.
 *
 * There is one loop in the process, and one account of it, which belongs to the loop's
 * thread. What a turn waits for a processor is not the daemon's doing: it is noted, but
 * not counted as the turn's.
 */
#ifndef DISTMINDD_TURNS_H
#define DISTMINDD_TURNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define TURNS_LIMIT_US 20000
/* A turn in bucket i is shorter than 2^i us and not shorter than bucket i - 1's; no end. */
#define TURNS_BUCKETS 26

struct turns {
	uint64_t count;
	uint64_t late; /* longer than TURNS_LIMIT_US */
	uint64_t buckets[TURNS_BUCKETS];
	struct {
		uint64_t us;
		uint64_t waited_us; /* for a processor, beside that */
		uint64_t at; /* seconds since the epoch */
		const char *what;
	} longest;
};

/* As sd_event_run(): waits, at most for us, and takes a turn. */
int turns_run(sd_event *loop, uint64_t us);

/* From within a turn: what it does, a literal. The last one counts. */
void turns_name(const char *what);

/* Since the process began, or since turns_reset(). */
const struct turns *turns_account(void);
void turns_reset(void);
/* The same as a JSON object; NULL: no memory. */
json_t *turns_describe(void);

/*
 * Is it time to let others have a turn? A turn that can be continued asks between steps.
 * Never outside of a turn.
 */
bool turns_over(void);

#endif
