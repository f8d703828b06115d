/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The checksum of a chunk, XXH3 of 64 bits. libxxhash is built for the oldest processor of an
 * architecture; on x86 it has, beside that, the same function for AVX2 and AVX-512, six times as
 * fast, and chooses when it is first called.
 */
#ifndef DISTMIND_COMMON_CHECKSUM_H
#define DISTMIND_COMMON_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif

static inline uint64_t chunk_checksum(const void *data, size_t size)
{
	return XXH3_64bits(data, size);
}

#endif
