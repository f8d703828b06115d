/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Latencies that the kernel has counted in buckets, as struct distmind_gpu_record has them. */
#ifndef DISTMINDCTL_LATENCY_H
#define DISTMINDCTL_LATENCY_H

#include <stdint.h>

/* What is in bucket i is shorter than this, and not shorter than bucket i - 1's. */
uint64_t latency_bucket_ns(unsigned int i);

/*
 * An estimate of what percent of the latencies stay below, which takes them as
 * evenly spread over their bucket. The last bucket has no end: its beginning.
 * 0: there are none.
 */
uint64_t latency_percentile(const uint64_t *buckets, unsigned int count, unsigned int percent);

#endif /* DISTMINDCTL_LATENCY_H */
