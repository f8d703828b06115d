// SPDX-License-Identifier: GPL-2.0-or-later
#include "event.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t child(const struct sim_event *event, uint32_t node)
{
	return node < event->leaves ? event->winner[node] : node - event->leaves;
}

static void play(struct sim_event *event, uint32_t node)
{
	uint32_t left = child(event, 2 * node), right = child(event, 2 * node + 1);

	event->winner[node] = event->times[right] < event->times[left] ? right : left;
}

int sim_event_create(struct sim_event *event, uint32_t actors)
{
	if (!actors || actors > 1U << 30)
		return -EINVAL;
	event->leaves = 2;
	while (event->leaves < actors)
		event->leaves *= 2;
	event->times = malloc(event->leaves * sizeof(*event->times));
	event->winner = malloc(event->leaves * sizeof(*event->winner));
	if (!event->times || !event->winner) {
		sim_event_destroy(event);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < event->leaves; i++)
		event->times[i] = SIM_EVENT_NEVER;
	for (uint32_t node = event->leaves - 1; node; node--)
		play(event, node);
	return 0;
}

void sim_event_destroy(struct sim_event *event)
{
	free(event->times);
	free(event->winner);
	event->times = NULL;
	event->winner = NULL;
}

void sim_event_set(struct sim_event *event, uint32_t actor, uint64_t time)
{
	if (event->times[actor] == time)
		return;
	event->times[actor] = time;
	for (uint32_t node = (event->leaves + actor) / 2; node; node /= 2)
		play(event, node);
}
