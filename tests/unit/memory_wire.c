// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/memory/wire.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message on the heap of exactly its length, so that ASan sees a byte too far. */
static const char *decode(const uint8_t *bytes, size_t len, struct memory_wire_message *message)
{
	uint8_t *exact = malloc(len ? len : 1);
	const char *wrong;

	assert_non_null(exact);
	memcpy(exact, bytes, len);
	wrong = memory_wire_decode(exact, len, message);
	free(exact);
	return wrong;
}

static struct memory_wire_message hello(void)
{
	struct memory_wire_message message = { .type = MEMORY_WIRE_HELLO, .id = 7 };

	memset(message.hello.donor, 0xAB, MEMORY_DONOR_ID_LEN);
	message.hello.arena_size = 1ULL << 40;
	message.hello.pins = 4096;
	return message;
}

static struct memory_wire_message resolve(uint32_t count)
{
	struct memory_wire_message message = {
		.type = MEMORY_WIRE_RESOLVE, .id = 8, .count = count,
	};

	for (uint32_t i = 0; i < count; i++)
		memset(message.digests[i], i + 1, MEMORY_DIGEST_LEN);
	return message;
}

static struct memory_wire_message locations(uint32_t count)
{
	struct memory_wire_message message = {
		.type = MEMORY_WIRE_LOCATIONS, .id = 9, .count = count,
	};

	for (uint32_t i = 0; i < count; i++) {
		if (i % 3 == 2)
			message.locations[i].state = MEMORY_WIRE_MISSING;
		else
			message.locations[i] = (struct memory_wire_location){
				.address = 0x7f0000000000 + i, .length = 4096 + i, .rkey = i * 7,
				.pin = i, .state = MEMORY_WIRE_PRESENT,
			};
	}
	return message;
}

static struct memory_wire_message release(uint32_t count)
{
	struct memory_wire_message message = {
		.type = MEMORY_WIRE_RELEASE, .id = 10, .count = count,
	};

	for (uint32_t i = 0; i < count; i++)
		message.pins[i] = i * 3;
	return message;
}

static void assert_survives(const struct memory_wire_message *message)
{
	uint8_t bytes[MEMORY_WIRE_MAX], again[MEMORY_WIRE_MAX];
	struct memory_wire_message decoded;
	size_t len = memory_wire_encode(message, bytes);

	assert_true(len <= MEMORY_WIRE_MAX);
	assert_null(decode(bytes, len, &decoded));
	assert_int_equal(decoded.type, message->type);
	assert_int_equal(decoded.id, message->id);
	assert_int_equal(decoded.count, message->count);
	assert_int_equal(memory_wire_encode(&decoded, again), len);
	assert_memory_equal(bytes, again, len);
}

static void every_message_survives_the_wire(void **state)
{
	struct memory_wire_message message = hello();

	(void)state;
	assert_survives(&message);
	for (uint32_t count = 1; count <= MEMORY_WIRE_RESOLVE_MAX; count++) {
		message = resolve(count);
		assert_survives(&message);
		message = locations(count);
		assert_survives(&message);
	}
	message = release(1);
	assert_survives(&message);
	message = release(MEMORY_WIRE_RELEASE_MAX);
	assert_survives(&message);
	for (uint32_t count = 1; count <= MEMORY_WIRE_RESOLVE_MAX; count += 21) {
		message = resolve(count);
		message.type = MEMORY_WIRE_SUSPECT;
		assert_survives(&message);
	}
}

static void the_fields_of_a_location_arrive(void **state)
{
	uint8_t bytes[MEMORY_WIRE_MAX];
	struct memory_wire_message message = locations(3), decoded;
	size_t len = memory_wire_encode(&message, bytes);

	(void)state;
	assert_null(decode(bytes, len, &decoded));
	assert_int_equal(decoded.locations[1].address, 0x7f0000000001);
	assert_int_equal(decoded.locations[1].length, 4097);
	assert_int_equal(decoded.locations[1].rkey, 7);
	assert_int_equal(decoded.locations[1].pin, 1);
	assert_int_equal(decoded.locations[2].state, MEMORY_WIRE_MISSING);
}

static void the_bytes_are_those_of_the_specification(void **state)
{
	static const uint8_t expected[] = {
		'D', 'M', 'M', 'P', 2, 0, 4, 0, 28, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0,
	};
	uint8_t bytes[MEMORY_WIRE_MAX];
	struct memory_wire_message message = release(1);

	(void)state;
	assert_int_equal(memory_wire_encode(&message, bytes), sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
}

static void every_truncation_and_extension_is_refused(void **state)
{
	const struct memory_wire_message messages[] = {
		hello(), resolve(3), locations(3), release(3),
	};
	uint8_t bytes[MEMORY_WIRE_MAX + 8] = { 0 };
	struct memory_wire_message decoded;
	size_t len;

	(void)state;
	for (size_t i = 0; i < COUNT(messages); i++) {
		len = memory_wire_encode(&messages[i], bytes);
		for (size_t cut = 0; cut < len; cut++)
			assert_non_null(decode(bytes, cut, &decoded));
		for (size_t more = 1; more <= 8; more++) {
			memset(bytes + len, 0, more);
			assert_non_null(decode(bytes, len + more, &decoded));
		}
	}
}

static void refuse(const struct memory_wire_message *message, size_t at, uint8_t value,
		   const char *why)
{
	uint8_t bytes[MEMORY_WIRE_MAX];
	struct memory_wire_message decoded;
	size_t len = memory_wire_encode(message, bytes);
	const char *wrong;

	bytes[at] = value;
	wrong = decode(bytes, len, &decoded);
	assert_non_null(wrong);
	assert_contains(wrong, why);
}

static void every_wrong_field_is_refused_by_name(void **state)
{
	struct memory_wire_message say = hello(), ask = resolve(2), answer = locations(3),
				   end = release(2);

	(void)state;
	refuse(&say, 0, 'X', "not a message");
	refuse(&say, 4, 1, "version");
	refuse(&say, 6, 0, "unknown type");
	refuse(&say, 6, 99, "unknown type");
	refuse(&say, 8, 1, "length");
	refuse(&say, 44, 1, "reserved");
	refuse(&ask, 16, 0, "count");
	refuse(&ask, 16, 3, "length does not fit");
	refuse(&ask, 17, 0xff, "count");
	refuse(&ask, 20, 1, "reserved");
	refuse(&end, 20, 1, "reserved");
	refuse(&answer, 24 + 28, 1, "reserved");
	refuse(&answer, 24 + 24, 9, "unknown state");
	refuse(&answer, 24 + 24, MEMORY_WIRE_MISSING, "absent");
	say.hello.pins = 0;
	refuse(&say, 12, 0, "pins");
	say = hello();
	say.hello.arena_size = 0;
	refuse(&say, 12, 0, "size");
	answer.locations[0].length = UINT64_MAX;
	refuse(&answer, 12, 0, "beyond the end");
	answer.locations[0].length = 0;
	refuse(&answer, 12, 0, "no length");
}

/* What decodes encodes to the same bytes: nothing in a message goes unseen. */
static void random_changes_are_refused_or_understood(void **state)
{
	const struct memory_wire_message messages[] = {
		hello(), resolve(3), locations(3), release(3),
	};
	uint8_t bytes[MEMORY_WIRE_MAX], again[MEMORY_WIRE_MAX];
	struct memory_wire_message decoded;
	unsigned int seed = 1;
	size_t len;

	(void)state;
	for (int round = 0; round < 40000; round++) {
		len = memory_wire_encode(&messages[round % COUNT(messages)], bytes);
		for (int flips = 1 + rand_r(&seed) % 3; flips; flips--)
			bytes[rand_r(&seed) % len] ^= 1 << rand_r(&seed) % 8;
		if (decode(bytes, len, &decoded))
			continue;
		assert_int_equal(memory_wire_encode(&decoded, again), len);
		assert_memory_equal(bytes, again, len);
	}
}

/* Run from the top of the tree, as all tests are. */
static void the_kept_corpus_is_refused_or_understood(void **state)
{
	static const char path[] = "tests/fuzz/corpus/wire";
	uint8_t bytes[2 * MEMORY_WIRE_MAX], again[MEMORY_WIRE_MAX];
	struct memory_wire_message message;
	struct dirent *entry;
	char name[512];
	int understood = 0;
	DIR *dir = opendir(path);
	size_t len;
	FILE *file;

	(void)state;
	if (!dir)
		skip();
	while ((entry = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		file = entry->d_type == DT_REG ? fopen(name, "r") : NULL;
		if (!file)
			continue;
		len = fread(bytes, 1, sizeof(bytes), file);
		fclose(file);
		if (decode(bytes, len, &message))
			continue;
		understood++;
		assert_int_equal(memory_wire_encode(&message, again), len);
		assert_memory_equal(bytes, again, len);
	}
	closedir(dir);
	assert_true(understood >= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_survives_the_wire),
		cmocka_unit_test(the_fields_of_a_location_arrive),
		cmocka_unit_test(the_bytes_are_those_of_the_specification),
		cmocka_unit_test(every_truncation_and_extension_is_refused),
		cmocka_unit_test(every_wrong_field_is_refused_by_name),
		cmocka_unit_test(random_changes_are_refused_or_understood),
		cmocka_unit_test(the_kept_corpus_is_refused_or_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
