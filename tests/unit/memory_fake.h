/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Donors and links without a network: time stands still unless a test moves
 * it, and READs complete when a test says so. Bytes of a READ that is in flight
 * arrive at its completion, as late as they could, or when a test says so.
 */
#ifndef TESTS_UNIT_MEMORY_FAKE_H
#define TESTS_UNIT_MEMORY_FAKE_H

#include "../../userspace/memory/check.h"
#include "../../userspace/memory/reader.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define DONORS 4
#define CHUNKS 256
#define CHUNK_MAX 4096
#define SEGMENT 1024
#define MS 1000000ULL
#define FOREVER (1000000 * MS)

struct fake_link {
	struct fake *fake;
	uint32_t donor;
	bool up;
	bool deaf; /* does not take questions now */
	bool busy; /* says that the reader has too many pins */
	bool abandoned; /* is to go down */
	struct memory_read reads[64]; /* in flight */
	uint32_t flying, depth;
	struct memory_wire_message answers[8]; /* to give */
	uint32_t answer_count;
	uint32_t pins; /* that the reader has */
	bool pinned[100000];
	int chunk_of[100000]; /* by pin */
	uint32_t chunk_pins[CHUNKS];
	uint32_t next_pin;
	uint32_t suspects; /* that it was told of, ever, and the last one */
	uint8_t suspect[MEMORY_DIGEST_LEN];
};

struct fake {
	struct memory_reader *reader;
	uint64_t now, next;
	struct fake_link links[DONORS];
	uint8_t chunks[CHUNKS][CHUNK_MAX];
	uint64_t lengths[CHUNKS];
	uint8_t digests[CHUNKS][MEMORY_DIGEST_LEN];
	bool missing[DONORS][CHUNKS];
	bool lies[DONORS][CHUNKS]; /* has other bytes under its name */
	uint8_t memory[CHUNKS][CHUNK_MAX];
	struct memory_piece pieces[CHUNKS];
	bool checks; /* loads that say nothing have checksums, for check_all() */
	unsigned int seed;
	uint32_t posted; /* READs, ever */
	uint32_t answered; /* digests, ever */
	const uint8_t *log[65536]; /* destinations of the READs in the order of posting */
};

/* Which chunk a READ reads. */
static inline int fake_chunk_at(const struct fake *fake, uint64_t remote)
{
	uint64_t offset = remote - (uintptr_t)fake->chunks;

	assert_true(offset < sizeof(fake->chunks));
	return (int)(offset / CHUNK_MAX);
}

static int fake_resolve(void *arg, uint32_t id, const uint8_t (*digests)[MEMORY_DIGEST_LEN],
			uint32_t count)
{
	struct fake_link *link = arg;
	struct fake *fake = link->fake;
	struct memory_wire_message *answer = &link->answers[link->answer_count];

	assert_true(link->up);
	if (link->deaf)
		return -EAGAIN;
	assert_true(link->answer_count < COUNT(link->answers));
	assert_true(count >= 1 && count <= MEMORY_WIRE_RESOLVE_MAX);
	link->answer_count++;
	memset(answer, 0, sizeof(*answer));
	answer->type = MEMORY_WIRE_LOCATIONS;
	answer->id = id;
	answer->count = count;
	for (uint32_t i = 0; i < count; i++) {
		int chunk = 0;

		while (memcmp(fake->digests[chunk], digests[i], MEMORY_DIGEST_LEN))
			assert_true(++chunk < CHUNKS);
		if (link->busy)
			answer->locations[i].state = MEMORY_WIRE_BUSY;
		if (link->busy || fake->missing[link->donor][chunk])
			continue;
		answer->locations[i] = (struct memory_wire_location){
			.address = (uintptr_t)fake->chunks[chunk],
			.length = fake->lengths[chunk], .rkey = link->donor,
			.pin = link->next_pin, .state = MEMORY_WIRE_PRESENT,
		};
		link->chunk_of[link->next_pin] = chunk;
		link->chunk_pins[chunk]++;
		link->pinned[link->next_pin++] = true;
		link->pins++;
	}
	return 0;
}

static int fake_release(void *arg, const uint32_t *pins, uint32_t count)
{
	struct fake_link *link = arg;

	assert_true(link->up && count <= MEMORY_WIRE_RELEASE_MAX);
	if (link->deaf)
		return -EAGAIN;
	for (uint32_t i = 0; i < count; i++) {
		assert_true(link->pinned[pins[i]]);
		link->pinned[pins[i]] = false;
		link->chunk_pins[link->chunk_of[pins[i]]]--;
		link->pins--;
	}
	for (uint32_t i = 0; i < link->flying; i++)
		assert_true(link->chunk_pins[fake_chunk_at(link->fake, link->reads[i].remote)]);
	return 0;
}

static int fake_read(void *arg, const struct memory_read *reads, uint32_t count)
{
	struct fake_link *link = arg;

	assert_true(link->up);
	for (uint32_t i = 0; i < count; i++) {
		assert_true(link->flying < link->depth);
		assert_int_equal(reads[i].rkey, link->donor);
		assert_true(reads[i].length && reads[i].length <= SEGMENT);
		link->fake->log[link->fake->posted++ % COUNT(link->fake->log)] =
			(const uint8_t *)(uintptr_t)reads[i].local;
		link->reads[link->flying++] = reads[i];
	}
	return 0;
}

static int fake_suspect(void *arg, const uint8_t (*digests)[MEMORY_DIGEST_LEN], uint32_t count)
{
	struct fake_link *link = arg;

	assert_true(link->up && count);
	if (link->deaf)
		return -EAGAIN;
	memcpy(link->suspect, digests[count - 1], MEMORY_DIGEST_LEN);
	link->suspects += count;
	return 0;
}

static void fake_abandon(void *arg, const char *reason)
{
	struct fake_link *link = arg;

	assert_true(link->up && *reason);
	link->abandoned = true;
}

static const struct memory_reader_ops fake_ops = {
	.resolve = fake_resolve,
	.release = fake_release,
	.suspect = fake_suspect,
	.read = fake_read,
	.abandon = fake_abandon,
};

static inline void fake_run(struct fake *fake)
{
	fake->next = memory_reader_run(fake->reader, fake->now);
}

static inline void fake_up(struct fake *fake, uint32_t donor, uint32_t depth, uint32_t pins)
{
	struct fake_link *link = &fake->links[donor];

	link->up = true;
	link->depth = depth;
	link->pins = link->next_pin = 0;
	memset(link->pinned, 0, sizeof(link->pinned));
	memset(link->chunk_pins, 0, sizeof(link->chunk_pins));
	assert_int_equal(memory_reader_link_up(fake->reader, donor, link,
					       &(struct memory_link_limits){ depth, pins }), 0);
	fake_run(fake);
}

static inline void fake_down(struct fake *fake, uint32_t donor)
{
	struct fake_link *link = &fake->links[donor];

	link->up = link->abandoned = false;
	link->flying = link->answer_count = link->pins = 0;
	memory_reader_link_down(fake->reader, donor, "the cable was pulled", fake->now);
	fake_run(fake);
}

/* Gives the oldest answer. */
static inline bool fake_answer(struct fake *fake, uint32_t donor)
{
	struct fake_link *link = &fake->links[donor];
	struct memory_wire_message answer;

	if (!link->answer_count)
		return false;
	answer = link->answers[0];
	memmove(link->answers, link->answers + 1, --link->answer_count * sizeof(answer));
	fake->answered += answer.count;
	assert_null(memory_reader_located(fake->reader, donor, &answer, fake->now));
	fake_run(fake);
	return true;
}

/* The first bytes of a READ that is in flight come, which is not known to anybody. */
static inline void fake_arrive(struct fake *fake, uint32_t donor, uint32_t which, uint32_t length)
{
	const struct memory_read *read = &fake->links[donor].reads[which];
	uint8_t *local = (void *)(uintptr_t)read->local;

	assert_true(which < fake->links[donor].flying && length <= read->length);
	memcpy(local, (void *)(uintptr_t)read->remote, length);
	if (length && fake->lies[donor][fake_chunk_at(fake, read->remote)])
		local[0] ^= 1;
}

/* Completes the oldest READ. */
static inline bool fake_land(struct fake *fake, uint32_t donor)
{
	struct fake_link *link = &fake->links[donor];
	struct memory_read *read = &link->reads[0];

	if (!link->flying)
		return false;
	fake_arrive(fake, donor, 0, read->length);
	memmove(link->reads, link->reads + 1, --link->flying * sizeof(*read));
	memory_reader_read_done(fake->reader, donor, 1, fake->now);
	fake_run(fake);
	return true;
}

/* Until nothing happens any more; a READ takes a millisecond. */
static inline void fake_finish(struct fake *fake)
{
	bool busy;

	do {
		busy = false;
		for (uint32_t i = 0; i < DONORS; i++)
			while (fake_answer(fake, i))
				busy = true;
		fake->now += MS;
		for (uint32_t i = 0; i < DONORS; i++)
			busy |= fake_land(fake, i);
	} while (busy);
}

/* What the owner does without the lock. */
static inline bool check_all(struct fake *fake)
{
	struct memory_reader_check checks[MEMORY_CHECKS_MAX], *check;
	uint32_t count;
	bool any = false;

	while ((count = memory_reader_to_check(fake->reader, checks))) {
		for (check = checks; check < checks + count; check++) {
			if (check->kind == MEMORY_CHECK_DIGEST)
				check->good = memory_digest_matches(check->data, check->length,
								    check->digest);
			else
				check->good = chunk_checksum(check->data, check->length) ==
					      check->checksum;
			memory_reader_checked(fake->reader, check, fake->now);
		}
		fake_run(fake);
		any = true;
	}
	return any;
}

/* Its first bytes are all that there is of it. */
static inline void fake_resize(struct fake *fake, uint32_t chunk, uint64_t length)
{
	fake->lengths[chunk] = length;
	EVP_Digest(fake->chunks[chunk], length, fake->digests[chunk], NULL, EVP_sha256(), NULL);
}

/* Donors are not connected. */
static inline struct fake *fake_create(void)
{
	struct fake *fake = calloc(1, sizeof(*fake));

	assert_non_null(fake);
	fake->reader = memory_reader_create(&fake_ops, SEGMENT);
	fake->seed = 1;
	fake->now = 1000 * MS;
	for (uint32_t i = 0; i < DONORS; i++) {
		char name[] = "host0";

		name[4] += i;
		assert_int_equal(memory_reader_donor_add(fake->reader, name), i);
		fake->links[i].fake = fake;
		fake->links[i].donor = i;
	}
	for (int i = 0; i < CHUNKS; i++) {
		uint64_t length = 1 + rand_r(&fake->seed) % CHUNK_MAX;

		for (int b = 0; b < CHUNK_MAX; b++)
			fake->chunks[i][b] = rand_r(&fake->seed);
		fake_resize(fake, i, length);
	}
	return fake;
}

static inline void fake_destroy(struct fake *fake)
{
	for (uint32_t i = 0; i < DONORS; i++)
		if (fake->links[i].up)
			fake_down(fake, i);
	memory_reader_destroy(fake->reader);
	free(fake);
}

/* Chunks from first on, per_group to each; donors are digits, the preferred one first. */
static inline struct memory_load *fake_load(struct fake *fake, uint32_t first, uint32_t count,
					    uint32_t per_group, const char *const *donors,
					    uint32_t kinds, struct memory_load_request request)
{
	char reason[MEMORY_REASON_LEN];
	struct memory_load *load;

	for (uint32_t i = 0; i < count; i++) {
		struct memory_piece *piece = &fake->pieces[i];
		const char *digits = donors[i % kinds];

		memset(piece, 0, sizeof(*piece));
		memcpy(piece->digest, fake->digests[first + i], MEMORY_DIGEST_LEN);
		piece->length = fake->lengths[first + i];
		piece->checksum = chunk_checksum(fake->chunks[first + i], piece->length);
		piece->address = (uintptr_t)fake->memory[first + i];
		piece->group = i / per_group;
		while (*digits)
			piece->donors[piece->donor_count++] = *digits++ - '0';
	}
	if (!fake->checks && request.check == MEMORY_CHECK_CHECKSUM)
		request.check = MEMORY_CHECK_NOTHING;
	request.pieces = fake->pieces;
	request.piece_count = count;
	request.group_count = (count + per_group - 1) / per_group;
	if (!request.deadline_ns)
		request.deadline_ns = FOREVER;
	load = memory_reader_submit(fake->reader, &request, fake->now, reason);
	if (!load)
		fail_msg("%s", reason);
	fake_run(fake);
	return load;
}

static inline bool fake_arrived(const struct fake *fake, uint32_t chunk)
{
	return !memcmp(fake->memory[chunk], fake->chunks[chunk], fake->lengths[chunk]);
}

static inline void assert_arrived(const struct fake *fake, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		assert_true(fake_arrived(fake, i));
}

/*
 * A bed for tests of it
 */

/* Donors of the chunks of a load, in turns. */
static const char *const one[] = { "0" };
static const char *const spread[] = { "0", "1", "2", "3" };
static const char *const mirrored[] = { "01", "10" };
static const struct memory_load_request verified = { .check = MEMORY_CHECK_DIGEST };

static inline int setup(void **state)
{
	*state = fake_create();
	return 0;
}

static inline int teardown(void **state)
{
	fake_destroy(*state);
	return 0;
}

#define WITH_FAKE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static inline void connect_all(struct fake *fake)
{
	for (uint32_t i = 0; i < DONORS; i++)
		fake_up(fake, i, 4, 64);
}

#endif
