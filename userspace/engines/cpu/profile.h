/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device that an engine pretends to be, from a file such as
 *
 *   [compute]
 *   gflops = 100       floating-point operations, 10^9 per second
 *   execute = yes      no: time passes, but nothing is computed
 *
 *   [memory]
 *   gbps = 50          what computing reads and writes, 10^9 bytes per second
 *
 *   [copy]
 *   gbps = 12.5        copy and fill
 *
 *   [launch]
 *   us = 5             each start or resumption of a job
 *
 * What is not given is as fast as the machine.
 */
#ifndef ENGINE_CPU_PROFILE_H
#define ENGINE_CPU_PROFILE_H

#include "../../common/ini_file.h"
#include "ops.h"

#define PROFILE_ERROR_LEN INI_FILE_ERROR_LEN

struct profile {
	double gflops;	    /* of these, 0: no limit */
	double memory_gbps;
	double copy_gbps;
	double launch_us;
	bool execute;
};

/* As fast as the machine is. */
void profile_default(struct profile *profile);

/*
 * On failure profile is untouched and error, which has room for
 * PROFILE_ERROR_LEN, says "file:line: what: the fix". -EINVAL: it is wrong.
 */
int profile_read(const char *path, struct profile *profile, char *error);

/* Does anything take longer than it does by itself? */
bool profile_is_paced(const struct profile *profile);

/* Nanoseconds that the device takes for it: computing and memory overlap. */
uint64_t profile_cost(const struct profile *profile, const struct op_work *work);
uint64_t profile_launch_cost(const struct profile *profile);

/* Nanoseconds of so many blocks of a call, or how op_run would fail. */
int64_t op_cost(const struct profile *profile, const struct op_call *call, uint64_t first,
		uint64_t count);

#endif
