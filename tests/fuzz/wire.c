// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages of the memory pool: whatever bytes a peer sends, decoding stays
 * inside of them, and what decodes encodes to the same bytes.
 */
#include "../../userspace/memory/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct memory_wire_message message;
	uint8_t bytes[MEMORY_WIRE_MAX];

	if (memory_wire_decode(data, size, &message))
		return 0;
	if (memory_wire_encode(&message, bytes) != size || memcmp(bytes, data, size))
		abort();
	return 0;
}
