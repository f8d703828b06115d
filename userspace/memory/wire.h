/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a reader and a donor say to each other over a reliable connection, one
 * message in one SEND. Data never travels this way: it is READ.
 *
 *   donor  -> reader  HELLO      who I am and what I allow; the first message, and
 *                                again when the reader has been silent for long: it
 *                                needs no answer, only a connection
 *   reader -> donor   RESOLVE    where are these chunks? pin them
 *   donor  -> reader  LOCATIONS  the answer, with the id of the question
 *   reader -> donor   RELEASE    these pins are not needed any more
 *   reader -> donor   SUSPECT    what I read of these chunks was damaged: look at yours
 *
 * Little endian. Every message begins with
 *
 *   u32 magic   u16 version   u16 type   u32 length of all   u32 id
 *
 * and its length is exactly what its type and count say. Fields marked zero are
 * refused when they are not, so that a later version can use them.
 *
 *   HELLO      u8 donor[16]  u64 arena size  u32 pins allowed  u32 zero
 *   RESOLVE    u32 count     u32 zero  { u8 sha256[32] } * count
 *   LOCATIONS  u32 count     u32 zero  { u64 address  u64 length  u32 rkey
 *                                        u32 pin  u32 state  u32 zero } * count
 *   RELEASE    u32 count     u32 zero  { u32 pin } * count
 *   SUSPECT    u32 count     u32 zero  { u8 sha256[32] } * count
 *
 * Decoding trusts nothing and allocates nothing.
 */
#ifndef DISTMIND_MEMORY_WIRE_H
#define DISTMIND_MEMORY_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define MEMORY_DIGEST_LEN 32
#define MEMORY_DONOR_ID_LEN 16

#define MEMORY_WIRE_MAGIC 0x504d4d44u /* "DMMP" */
#define MEMORY_WIRE_VERSION 2
#define MEMORY_WIRE_RESOLVE_MAX 64
#define MEMORY_WIRE_RELEASE_MAX 512
/* The longest message: LOCATIONS and RELEASE are equally long when full. */
#define MEMORY_WIRE_MAX (16 + 8 + MEMORY_WIRE_RESOLVE_MAX * 32)

enum memory_wire_type {
	MEMORY_WIRE_HELLO = 1,
	MEMORY_WIRE_RESOLVE,
	MEMORY_WIRE_LOCATIONS,
	MEMORY_WIRE_RELEASE,
	MEMORY_WIRE_SUSPECT,
};

enum memory_wire_state {
	MEMORY_WIRE_MISSING, /* all other fields are zero */
	MEMORY_WIRE_PRESENT,
	MEMORY_WIRE_BUSY, /* the reader holds all the pins that it may have; others are zero */
};

struct memory_wire_location {
	uint64_t address;
	uint64_t length;
	uint32_t rkey;
	uint32_t pin;
	uint32_t state; /* enum memory_wire_state */
};

struct memory_wire_message {
	uint32_t type; /* enum memory_wire_type */
	uint32_t id;
	uint32_t count; /* of all but HELLO */
	union {
		struct {
			uint8_t donor[MEMORY_DONOR_ID_LEN];
			uint64_t arena_size;
			uint32_t pins;
		} hello;
		uint8_t digests[MEMORY_WIRE_RESOLVE_MAX][MEMORY_DIGEST_LEN];
		struct memory_wire_location locations[MEMORY_WIRE_RESOLVE_MAX];
		uint32_t pins[MEMORY_WIRE_RELEASE_MAX];
	};
};

/* The length; the message is one of ours, so it is not checked. */
size_t memory_wire_encode(const struct memory_wire_message *message,
			  uint8_t bytes[MEMORY_WIRE_MAX]);

/* NULL, or what is wrong with the bytes; the message is then of no use. */
const char *memory_wire_decode(const uint8_t *bytes, size_t len,
			       struct memory_wire_message *message);

#endif
