// SPDX-License-Identifier: GPL-2.0-or-later
#include "latency.h"

uint64_t latency_bucket_ns(unsigned int i)
{
	return 1000ULL << i;
}

uint64_t latency_percentile(const uint64_t *buckets, unsigned int count, unsigned int percent)
{
	uint64_t begin = 0, total = 0;
	double rank, below = 0;
	unsigned int i;

	for (i = 0; i < count; i++)
		total += buckets[i];
	if (!total)
		return 0;
	rank = (double)total * percent / 100;
	for (i = 0; i < count - 1; i++) {
		if (buckets[i] && below + buckets[i] >= rank)
			return begin + (rank - below) / buckets[i] * (latency_bucket_ns(i) - begin);
		below += buckets[i];
		begin = latency_bucket_ns(i);
	}
	return begin;
}
