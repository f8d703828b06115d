/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work that takes longer than the loop may be held up: a part of it in each turn, and turns
 * alternate with whatever else there is to do.
 */
#ifndef DISTMINDD_TURN_H
#define DISTMINDD_TURN_H

#include <systemd/sd-event.h>

/* Until *turn is disabled; it is the caller's. 0 or a negative errno. */
int turn_begin(sd_event *loop, sd_event_source **turn, sd_event_time_handler_t work, void *arg);

#endif
