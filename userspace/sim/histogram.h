/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Durations, counted in bins that are at most 0.4 % wide: percentiles of any
 * number of requests in a fixed amount of memory. A request that is never
 * answered counts as one that takes for ever, so refusing cannot improve a
 * percentile.
 */
#ifndef DISTMIND_SIM_HISTOGRAM_H
#define DISTMIND_SIM_HISTOGRAM_H

#include <math.h>
#include <stdint.h>

#define SIM_HISTOGRAM_BITS 8
#define SIM_HISTOGRAM_BINS ((64 - SIM_HISTOGRAM_BITS + 1) << SIM_HISTOGRAM_BITS)

struct sim_histogram {
	uint64_t bins[SIM_HISTOGRAM_BINS];
	uint64_t count;
	uint64_t never;
	double sum_ns;
	uint64_t most_ns;
};

static inline uint32_t sim_histogram_bin(uint64_t ns)
{
	unsigned int shift;

	if (ns < 1 << SIM_HISTOGRAM_BITS)
		return (uint32_t)ns;
	shift = 63 - SIM_HISTOGRAM_BITS - (unsigned int)__builtin_clzll(ns);
	return ((shift + 1) << SIM_HISTOGRAM_BITS) +
	       (uint32_t)((ns >> shift) - (1 << SIM_HISTOGRAM_BITS));
}

/* The least duration of a bin. */
static inline uint64_t sim_histogram_floor(uint32_t bin)
{
	unsigned int shift = bin >> SIM_HISTOGRAM_BITS;
	uint64_t rest = bin & ((1 << SIM_HISTOGRAM_BITS) - 1);

	return shift ? (rest + (1 << SIM_HISTOGRAM_BITS)) << (shift - 1) : rest;
}

static inline void sim_histogram_add(struct sim_histogram *histogram, uint64_t ns)
{
	histogram->bins[sim_histogram_bin(ns)]++;
	histogram->count++;
	histogram->sum_ns += (double)ns;
	if (ns > histogram->most_ns)
		histogram->most_ns = ns;
}

/* In seconds, the middle of its bin; infinite where it falls on the unanswered. */
static inline double sim_histogram_quantile(const struct sim_histogram *histogram, double quantile)
{
	double rank = ceil(quantile * (double)(histogram->count + histogram->never));
	uint64_t seen = 0;

	for (uint32_t i = 0; i < SIM_HISTOGRAM_BINS; i++) {
		seen += histogram->bins[i];
		if (seen && (double)seen >= rank)
			return ((double)sim_histogram_floor(i) +
				(double)sim_histogram_floor(i + 1)) / 2e9;
	}
	return INFINITY;
}

#endif
