/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random numbers that are the same everywhere for the same seed: xoshiro256**
 * of Blackman and Vigna, seeded by splitmix64.
 */
#ifndef DISTMIND_SIM_RANDOM_H
#define DISTMIND_SIM_RANDOM_H

#include <math.h>
#include <stdint.h>

struct sim_random {
	uint64_t state[4];
};

static inline void sim_random_seed(struct sim_random *random, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t x = seed += 0x9e3779b97f4a7c15ULL;

		x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
		x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
		random->state[i] = x ^ (x >> 31);
	}
}

static inline uint64_t sim_random_rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static inline uint64_t sim_random_next(struct sim_random *random)
{
	uint64_t *s = random->state;
	uint64_t result = sim_random_rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = sim_random_rotate(s[3], 45);
	return result;
}

/* In (0, 1]. */
static inline double sim_random_unit(struct sim_random *random)
{
	return (double)((sim_random_next(random) >> 11) + 1) * 0x1p-53;
}

static inline double sim_random_exponential(struct sim_random *random, double mean)
{
	return -log(sim_random_unit(random)) * mean;
}

#endif
