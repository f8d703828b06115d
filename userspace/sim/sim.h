/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * distmind-sim: the libraries that decide, run on traces instead of a pool. Each
 * subcommand is one function, called with argv[0] its own name; it writes its
 * results to stdout, complaints to stderr, and returns the exit code: 0, 1 for
 * what went wrong, 2 for a command line that cannot be understood.
 */
#ifndef DISTMIND_SIM_H
#define DISTMIND_SIM_H

enum {
	SIM_OK = 0,
	SIM_FAILED = 1,
	SIM_USAGE = 2,
};

int sim_place(int argc, char **argv);
int sim_serve(int argc, char **argv);
int sim_group(int argc, char **argv);

#endif
