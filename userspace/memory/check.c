// SPDX-License-Identifier: GPL-2.0-or-later
#include "check.h"

#include <openssl/evp.h>
#include <string.h>

bool memory_digest_matches(const void *data, uint64_t length,
			   const uint8_t digest[MEMORY_DIGEST_LEN])
{
	uint8_t actual[MEMORY_DIGEST_LEN];

	return EVP_Digest(data, length, actual, NULL, EVP_sha256(), NULL) &&
	       !memcmp(actual, digest, MEMORY_DIGEST_LEN);
}
