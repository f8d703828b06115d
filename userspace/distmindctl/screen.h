/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A terminal that shows one picture after another, until somebody has enough
 * of it. When the output is none, pictures just follow each other.
 */
#ifndef DISTMINDCTL_SCREEN_H
#define DISTMINDCTL_SCREEN_H

#include <signal.h>
#include <termios.h>

#include "ctl.h"

struct screen {
	FILE *out;
	bool live;	/* a picture takes the place of the one before */

	/* What follows belongs to screen.c. */
	bool drawn;
	bool keys;	/* stdin is a terminal too, whose keys are read as they come */
	int signals;	/* signalfd, while live */
	sigset_t mask;
	struct termios mode;
};

/* An exit code. Only JSON makes no use of a terminal. */
int screen_open(struct screen *screen, struct ctl *ctl);
/* The terminal is as it was before. */
void screen_close(struct screen *screen);

/* Returns true if time has come, false if whoever watches wants to end. */
bool screen_wait(struct screen *screen, uint64_t time);

/* Only when live. text is cut at the end of the screen. */
void screen_draw(struct screen *screen, const char *text);

#endif /* DISTMINDCTL_SCREEN_H */
