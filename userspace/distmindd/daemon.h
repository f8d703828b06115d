/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DISTMINDD_DAEMON_H
#define DISTMINDD_DAEMON_H

#include "common/config.h"

struct daemon_options {
	const char *config_path;
	bool config_optional; /* no file: the defaults */
	void (*ready)(void *arg);
	void *arg;
};

/* Reads the configuration; says on stderr or in the log what is wrong. */
int daemon_configure(const struct daemon_options *options, struct config *config);

/*
 * Runs until a signal ends it; ready() is called when claims are answered.
 * Returns 0 or a negative errno, which has been logged: -ENOENT the module is
 * not loaded, -EPERM it may not.
 */
int daemon_run(const struct daemon_options *options, const struct config *config);

#endif
