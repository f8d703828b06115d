/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time as an emulated device spends it. One per lane, used by the lane's thread:
 *
 *   pacing_init(&pacing);
 *   pacing_start(&pacing, idle, profile_launch_cost(profile));   for each job, or its resumption
 *   pacing_block_end(&pacing, cost of the block);          after each block
 *
 * pacing_block_end returns when the device would be done with the block. A
 * block that really took longer than that is late; a little of what is lost so is
 * made up for by the next blocks, so that a hiccup of the host does not change
 * the rate. A device that has been idle begins a job now; one that had it waiting
 * began when it was done with the job before, whenever the host noticed.
 */
#ifndef ENGINE_CPU_PACING_H
#define ENGINE_CPU_PACING_H

#include <stdbool.h>
#include <stdint.h>

#define PACING_CARRY_NS 10000000 /* of lateness, at most, that is made up for */

struct pacing {
	uint64_t due_ns;  /* CLOCK_MONOTONIC: the device is busy until then */
	uint64_t late_ns; /* lost for good: the profile is faster than this machine */
	uint64_t wakeup_ns; /* by which sleeps end late, on average */
};

void pacing_init(struct pacing *pacing);
void pacing_start(struct pacing *pacing, bool idle, uint64_t launch_ns);
void pacing_block_end(struct pacing *pacing, uint64_t cost_ns);

#endif
