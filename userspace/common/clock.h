/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time since some moment of the past, which nobody sets: for durations and deadlines.
 */
#ifndef DISTMIND_COMMON_CLOCK_H
#define DISTMIND_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_us(void)
{
	return clock_ns() / 1000;
}

static inline uint64_t clock_ms(void)
{
	return clock_ns() / 1000000;
}

#endif
