/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of an example, from a table. */
#ifndef EXAMPLES_NET_OPTIONS_H
#define EXAMPLES_NET_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Where the value of an option goes says what it is; only a flag has none. */
struct net_option {
	const char *name;
	bool *flag;
	const char **text;
	double *real;
	uint32_t *count;
	double min; /* of a real or count */
};

/*
 * Takes the options of the table, which ends with a NULL name. --help, and with a message
 * whatever is wrong, ends the program. Examples have no other arguments.
 */
void net_options(int argc, char **argv, const struct net_option *options, const char *usage);

#endif
