/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bytes as text, for JSON, which has no bytes and no 64-bit numbers that all agree on. */
#ifndef CATALOG_ENCODE_H
#define CATALOG_ENCODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JSON string; NULL: no memory. */
json_t *catalog_base64(const void *bytes, size_t size);
/* Allocated, followed by a NUL that does not count; NULL: not base64, or no memory. */
void *catalog_base64_decode(const json_t *text, size_t *size);

/* A decimal string or an integer; absent, as protobuf's JSON does with zero: 0. */
bool catalog_json_u64(const json_t *object, const char *name, uint64_t *number);

#endif
