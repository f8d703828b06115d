/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Are the bytes of a chunk what they were? The digest, SHA-256, is what a chunk is known by:
 * it is checked when bytes arrive, and when somebody asks for it. The checksum, XXH3 of 64
 * bits, is checked whenever bytes were moved: it is more than ten times as fast, and finds
 * all but one of 2^64 accidents.
 */
#ifndef DISTMIND_MEMORY_CHECK_H
#define DISTMIND_MEMORY_CHECK_H

#include "../common/checksum.h"
#include "wire.h"

#include <stdbool.h>
#include <stdint.h>

/* Also false if libcrypto has no SHA-256. */
bool memory_digest_matches(const void *data, uint64_t length,
			   const uint8_t digest[MEMORY_DIGEST_LEN]);

#endif
