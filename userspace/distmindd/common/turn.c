// SPDX-License-Identifier: GPL-2.0-or-later
#include "turn.h"

#include <time.h>

int turn_begin(sd_event *loop, sd_event_source **turn, sd_event_time_handler_t work, void *arg)
{
	sd_event_source *source;
	int err;

	/*
	 * Of what is pending, sd-event takes first what has been so for longest. A defer source
	 * always has, and one of a lower priority would wait for a flood of requests to end; a
	 * time that has passed is pending anew each time.
	 */
	err = sd_event_add_time(loop, &source, CLOCK_MONOTONIC, 0, 1, work, arg);
	if (err < 0)
		return err;
	err = sd_event_source_set_enabled(source, SD_EVENT_ON);
	if (err < 0) {
		sd_event_source_unref(source);
		return err;
	}
	*turn = source;
	return 0;
}
