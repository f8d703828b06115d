/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens next: each of a fixed number of actors has at most one time at
 * which it acts; the first of them is found at once, ties go to the lower
 * actor, so that a run is the same every time.
 */
#ifndef DISTMIND_SIM_EVENT_H
#define DISTMIND_SIM_EVENT_H

#include <stdint.h>

#define SIM_EVENT_NEVER UINT64_MAX

/*
 * A tree of which each node is the first of its two children; the actors are
 * its leaves, padded to a power of two.
 */
struct sim_event {
	uint64_t *times;  /* of each actor; owned */
	uint32_t *winner; /* of each inner node, from 1; owned */
	uint32_t leaves;
};

/* No actor has a time. -EINVAL: more than 2^30 or none; -ENOMEM. */
int sim_event_create(struct sim_event *event, uint32_t actors);
void sim_event_destroy(struct sim_event *event);
void sim_event_set(struct sim_event *event, uint32_t actor, uint64_t time);

static inline uint32_t sim_event_first(const struct sim_event *event)
{
	return event->winner[1];
}

static inline uint64_t sim_event_time(const struct sim_event *event)
{
	return event->times[event->winner[1]];
}

#endif
