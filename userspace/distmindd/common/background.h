/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Into the background, but not before it works: the process that was started
 * waits until its child is ready, and ends with the child's fate.
 */
#ifndef DISTMINDD_BACKGROUND_H
#define DISTMINDD_BACKGROUND_H

/*
 * Returns in the child, with a descriptor for background_ready(), or a negative
 * errno in the parent. The child's complaints go to stderr until it is ready.
 */
int background_start(void);
/* Lets the parent go, and lets go of the terminal. */
void background_ready(int fd);

#endif
