// SPDX-License-Identifier: GPL-2.0-or-later
#include "wire.h"

#include <endian.h>
#include <string.h>

#define HEADER_LEN 16
#define HELLO_LEN (HEADER_LEN + 32)
#define ENTRIES_AT (HEADER_LEN + 8)
#define LOCATION_LEN 32

static void put16(uint8_t *at, uint16_t value)
{
	value = htole16(value);
	memcpy(at, &value, sizeof(value));
}

static void put32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
}

static uint16_t get16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static size_t entry_len(uint32_t type)
{
	switch (type) {
	case MEMORY_WIRE_RESOLVE:
	case MEMORY_WIRE_SUSPECT:
		return MEMORY_DIGEST_LEN;
	case MEMORY_WIRE_LOCATIONS:
		return LOCATION_LEN;
	default:
		return sizeof(uint32_t);
	}
}

static void encode_location(uint8_t *at, const struct memory_wire_location *location)
{
	put64(at, location->address);
	put64(at + 8, location->length);
	put32(at + 16, location->rkey);
	put32(at + 20, location->pin);
	put32(at + 24, location->state);
	put32(at + 28, 0);
}

static size_t encode_entries(const struct memory_wire_message *message, uint8_t *bytes)
{
	size_t each = entry_len(message->type);

	put32(bytes + HEADER_LEN, message->count);
	put32(bytes + HEADER_LEN + 4, 0);
	bytes += ENTRIES_AT;
	for (uint32_t i = 0; i < message->count; i++, bytes += each) {
		if (message->type == MEMORY_WIRE_RESOLVE || message->type == MEMORY_WIRE_SUSPECT)
			memcpy(bytes, message->digests[i], MEMORY_DIGEST_LEN);
		else if (message->type == MEMORY_WIRE_LOCATIONS)
			encode_location(bytes, &message->locations[i]);
		else
			put32(bytes, message->pins[i]);
	}
	return ENTRIES_AT + message->count * each;
}

size_t memory_wire_encode(const struct memory_wire_message *message,
			  uint8_t bytes[MEMORY_WIRE_MAX])
{
	size_t len = HELLO_LEN;

	if (message->type == MEMORY_WIRE_HELLO) {
		memcpy(bytes + HEADER_LEN, message->hello.donor, MEMORY_DONOR_ID_LEN);
		put64(bytes + HEADER_LEN + 16, message->hello.arena_size);
		put32(bytes + HEADER_LEN + 24, message->hello.pins);
		put32(bytes + HEADER_LEN + 28, 0);
	} else {
		len = encode_entries(message, bytes);
	}
	put32(bytes, MEMORY_WIRE_MAGIC);
	put16(bytes + 4, MEMORY_WIRE_VERSION);
	put16(bytes + 6, message->type);
	put32(bytes + 8, len);
	put32(bytes + 12, message->id);
	return len;
}

static const char *decode_hello(const uint8_t *bytes, size_t len,
				struct memory_wire_message *message)
{
	if (len != HELLO_LEN)
		return "HELLO: wrong length";
	memcpy(message->hello.donor, bytes + HEADER_LEN, MEMORY_DONOR_ID_LEN);
	message->hello.arena_size = get64(bytes + HEADER_LEN + 16);
	message->hello.pins = get32(bytes + HEADER_LEN + 24);
	message->count = 0;
	if (!message->hello.arena_size)
		return "HELLO: an arena of no size";
	if (!message->hello.pins)
		return "HELLO: no pins allowed";
	if (get32(bytes + HEADER_LEN + 28))
		return "HELLO: reserved field is not zero";
	return NULL;
}

static const char *decode_location(const uint8_t *at, struct memory_wire_location *location)
{
	location->address = get64(at);
	location->length = get64(at + 8);
	location->rkey = get32(at + 16);
	location->pin = get32(at + 20);
	location->state = get32(at + 24);
	if (get32(at + 28))
		return "LOCATIONS: reserved field is not zero";
	switch (location->state) {
	case MEMORY_WIRE_PRESENT:
		if (!location->length)
			return "LOCATIONS: a chunk of no length";
		if (location->address + location->length < location->address)
			return "LOCATIONS: a chunk beyond the end of memory";
		return NULL;
	case MEMORY_WIRE_MISSING:
	case MEMORY_WIRE_BUSY:
		if (location->address || location->length || location->rkey || location->pin)
			return "LOCATIONS: an absent chunk has an address";
		return NULL;
	default:
		return "LOCATIONS: unknown state";
	}
}

static const char *decode_entries(const uint8_t *bytes, size_t len,
				  struct memory_wire_message *message)
{
	uint32_t max = message->type == MEMORY_WIRE_RELEASE ? MEMORY_WIRE_RELEASE_MAX :
							      MEMORY_WIRE_RESOLVE_MAX;
	size_t each = entry_len(message->type);
	const char *wrong;

	if (len < ENTRIES_AT)
		return "message is too short for its count";
	message->count = get32(bytes + HEADER_LEN);
	if (!message->count || message->count > max)
		return "count is zero or too large";
	if (len != ENTRIES_AT + message->count * each)
		return "length does not fit the count";
	if (get32(bytes + HEADER_LEN + 4))
		return "reserved field is not zero";
	bytes += ENTRIES_AT;
	for (uint32_t i = 0; i < message->count; i++, bytes += each) {
		if (message->type == MEMORY_WIRE_RESOLVE || message->type == MEMORY_WIRE_SUSPECT) {
			memcpy(message->digests[i], bytes, MEMORY_DIGEST_LEN);
		} else if (message->type == MEMORY_WIRE_LOCATIONS) {
			wrong = decode_location(bytes, &message->locations[i]);
			if (wrong)
				return wrong;
		} else {
			message->pins[i] = get32(bytes);
		}
	}
	return NULL;
}

const char *memory_wire_decode(const uint8_t *bytes, size_t len,
			       struct memory_wire_message *message)
{
	if (len < HEADER_LEN || len > MEMORY_WIRE_MAX)
		return "message is too short or too long";
	if (get32(bytes) != MEMORY_WIRE_MAGIC)
		return "not a message of the memory pool";
	if (get16(bytes + 4) != MEMORY_WIRE_VERSION)
		return "another version of the protocol: run the same release on both hosts";
	if (get32(bytes + 8) != len)
		return "length is not what was received";
	message->type = get16(bytes + 6);
	message->id = get32(bytes + 12);
	switch (message->type) {
	case MEMORY_WIRE_HELLO:
		return decode_hello(bytes, len, message);
	case MEMORY_WIRE_RESOLVE:
	case MEMORY_WIRE_LOCATIONS:
	case MEMORY_WIRE_RELEASE:
	case MEMORY_WIRE_SUSPECT:
		return decode_entries(bytes, len, message);
	default:
		return "unknown type of message";
	}
}
