/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lanes: threads that fetch jobs, run them and hand them back. */
#ifndef ENGINE_CPU_LANE_H
#define ENGINE_CPU_LANE_H

#include "../../libdistmind/distmind.h"
#include "profile.h"

#include <stdint.h>

/*
 * Starts a thread for each of the engine's lanes. They end with the process:
 * there is nothing to hand over, a job that is lost with its engine fails.
 */
int lanes_start(struct distmind_engine *engine, uint64_t heap_size, uint32_t count,
		const struct profile *profile);

#endif
