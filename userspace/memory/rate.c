// SPDX-License-Identifier: GPL-2.0-or-later
#include "rate.h"

#define FINE_BITS 3
#define FINE_MASK ((1 << FINE_BITS) - 1)
#define SAMPLES_MIN 32
#define P99_EVERY 16
#define STEP_NS 10000000ULL
#define NS_PER_S 1000000000ULL

static unsigned int class_of(uint64_t ns)
{
	unsigned int log, class;

	if (ns < 1 << FINE_BITS)
		return ns;
	log = 63 - __builtin_clzll(ns);
	class = (log - FINE_BITS + 1) << FINE_BITS | ((ns >> (log - FINE_BITS)) & FINE_MASK);
	return class < MEMORY_RATE_CLASSES ? class : MEMORY_RATE_CLASSES - 1;
}

/* The first value that belongs to the next class. */
static uint64_t class_end(unsigned int class)
{
	unsigned int log = class >> FINE_BITS, fine = class & FINE_MASK;

	if (!log)
		return class + 1;
	return ((uint64_t)(1 << FINE_BITS) + fine + 1) << (log - 1);
}

void memory_rate_sample(struct memory_rate *rate, uint64_t latency_ns)
{
	uint16_t *recent = &rate->recent[rate->samples % MEMORY_RATE_WINDOW];

	if (rate->samples >= MEMORY_RATE_WINDOW)
		rate->classes[*recent]--;
	*recent = class_of(latency_ns);
	rate->classes[*recent]++;
	rate->samples++;
}

uint64_t memory_rate_quantile(const struct memory_rate *rate, unsigned int permille)
{
	uint64_t count = rate->samples, above = 0;

	if (count < SAMPLES_MIN)
		return 0;
	if (count > MEMORY_RATE_WINDOW)
		count = MEMORY_RATE_WINDOW;
	for (unsigned int class = MEMORY_RATE_CLASSES; class--;) {
		above += rate->classes[class];
		if (above * 1000 > count * (1000 - permille))
			return class_end(class);
	}
	return 0;
}

uint64_t memory_rate_p99(struct memory_rate *rate)
{
	if (!rate->p99 || rate->samples - rate->p99_at >= P99_EVERY) {
		rate->p99 = memory_rate_quantile(rate, 990);
		rate->p99_at = rate->samples;
	}
	return rate->p99;
}

void memory_rate_begin(struct memory_rate *rate, uint64_t now)
{
	rate->since = now;
}

void memory_rate_done(struct memory_rate *rate, uint64_t bytes, uint64_t now)
{
	uint64_t current;

	rate->bytes += bytes;
	rate->busy_ns += now - rate->since;
	rate->since = now;
	if (rate->busy_ns < STEP_NS)
		return;
	current = (double)rate->bytes * NS_PER_S / rate->busy_ns;
	rate->bandwidth = rate->bandwidth ? (3 * rate->bandwidth + current) / 4 : current;
	rate->bytes = 0;
	rate->busy_ns = 0;
}

void memory_rate_end(struct memory_rate *rate)
{
	rate->since = 0;
}
