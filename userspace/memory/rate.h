/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How fast reads are: the latencies of the most recent ones as a distribution,
 * and the bandwidth while there was something to read. Constant cost for each
 * read, no lock: its owner has one.
 */
#ifndef DISTMIND_MEMORY_RATE_H
#define DISTMIND_MEMORY_RATE_H

#include <stdint.h>

#define MEMORY_RATE_WINDOW 512
/* Eight classes to each power of two: 12.5 % is the error of a quantile. */
#define MEMORY_RATE_CLASSES (48 * 8)

struct memory_rate {
	uint16_t recent[MEMORY_RATE_WINDOW]; /* classes, a ring */
	uint16_t classes[MEMORY_RATE_CLASSES];
	uint64_t samples; /* ever */
	uint64_t p99;	  /* as of some samples ago */
	uint64_t p99_at;
	uint64_t bandwidth; /* bytes per second, smoothed; 0: not known yet */
	uint64_t bytes;	    /* since the last step of smoothing */
	uint64_t busy_ns;
	uint64_t since; /* when work began or was last counted; 0: idle */
};

void memory_rate_sample(struct memory_rate *rate, uint64_t latency_ns);
/* 0: too few samples to say. Never below the true one of the window. */
uint64_t memory_rate_quantile(const struct memory_rate *rate, unsigned int permille);
/* The same for 990, at the cost of being a few samples old. */
uint64_t memory_rate_p99(struct memory_rate *rate);

/* Reads are outstanding from begin to end; done counts bytes between them. */
void memory_rate_begin(struct memory_rate *rate, uint64_t now);
void memory_rate_done(struct memory_rate *rate, uint64_t bytes, uint64_t now);
void memory_rate_end(struct memory_rate *rate);

#endif
