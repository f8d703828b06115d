// SPDX-License-Identifier: GPL-2.0-or-later
#include "turn.h"

int turn_begin(sd_event *loop, sd_event_source **turn, sd_event_handler_t work, void *arg)
{
	sd_event_source *source;
	int err;

	err = sd_event_add_defer(loop, &source, work, arg);
	if (err < 0)
		return err;
	/*
	 * Of one priority sd-event takes what has been pending for longest, and a defer source
	 * is pending all the time: nothing else would have a turn until all is done.
	 */
	err = sd_event_source_set_priority(source, SD_EVENT_PRIORITY_NORMAL + 1);
	if (err >= 0)
		err = sd_event_source_set_enabled(source, SD_EVENT_ON);
	if (err < 0) {
		sd_event_source_unref(source);
		return err;
	}
	*turn = source;
	return 0;
}
