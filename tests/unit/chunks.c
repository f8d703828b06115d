// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Chunks that are freed while they are on their way to the disk, and what then becomes of
 * others with the same bytes; and chunks that other hosts say are damaged.
 */
#include "../../userspace/common/checksum.h"
#include "disk_fake.h"
#include "service_bed.h"

/* What somebody who waits was told. */
struct told {
	struct chunks_wait wait;
	bool told;
	int err;
};

static void on_kept(void *arg, uint32_t which, int err)
{
	struct told *told = arg;

	(void)which;
	told->told = true;
	told->err = err;
}

static int setup_spool(void **state)
{
	disk_reset();
	setup(state);
	use_spool();
	/* A restore would find what these tests store. */
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED &&
		   !bed.models->chunks.restore.under_way);
	return 0;
}

static int teardown_spool(void **state)
{
	disk_reset();
	return teardown(state);
}

static const uint8_t bytes[70000] = { 1, 2, 3 };

static struct model_digest digest_of_bytes(void)
{
	struct model_digest digest;

	assert_int_equal(model_digest_make(bytes, sizeof(bytes), &digest), 0);
	return digest;
}

static void add(struct told *told)
{
	struct model_digest digest = digest_of_bytes();
	int fd = message_memfd(bytes, sizeof(bytes));
	struct chunks_bytes said = {
		.checksum = chunk_checksum(bytes, sizeof(bytes)),
		.source = chunks_source_create(fd),
	};

	close(fd);
	assert_non_null(said.source);
	memcpy(said.digest, digest.bytes, sizeof(said.digest));
	*told = (struct told){ .wait.kept = on_kept, .wait.arg = told };
	assert_int_equal(chunks_add(&bed.models->chunks, &said, sizeof(bytes), &told->wait, 0),
			 CHUNKS_PENDING);
	chunks_source_put(&bed.models->chunks, said.source);
}

static void give_up(void)
{
	struct model_digest digest = digest_of_bytes();

	chunks_free(&bed.models->chunks, digest.bytes);
}

/* Added, and freed when the disk has begun with it and goes no further. */
static void add_and_give_up(struct told *told)
{
	disk_hang(0);
	add(told);
	wait_until(disk_begun());
	give_up();
}

/* In memory, on disk, and the catalog knows. */
static bool is_here(void)
{
	struct model_digest digest = digest_of_bytes();
	char text[MODEL_DIGEST_TEXT_LEN], path[sizeof(bed.config.spool) + sizeof(text)];

	model_digest_format(&digest, text);
	snprintf(path, sizeof(path), "%s/%s", bed.config.spool, text);
	return chunks_have(&bed.models->chunks, digest.bytes) &&
	       catalog_holds(bed.models->catalog, digest.bytes) && !access(path, F_OK);
}

static void what_was_freed_is_not_said_to_be_here(void **state)
{
	struct model_digest digest = digest_of_bytes();
	struct told told;

	(void)state;
	add_and_give_up(&told);
	disk_reset();
	wait_until(told.told);
	assert_int_equal(told.err, -ECANCELED);
	assert_false(catalog_holds(bed.models->catalog, digest.bytes));
}

static void what_is_added_again_is_stored_again(void **state)
{
	struct told first, second, third;

	(void)state;
	add_and_give_up(&first);
	add(&second);
	add(&third);
	/* As far as the first one's file and its name. */
	disk_allow(2);
	wait_until(first.told);
	assert_int_equal(first.err, -ECANCELED);
	assert_false(second.told || third.told);
	disk_reset();
	wait_until(second.told && third.told);
	assert_int_equal(second.err, 0);
	assert_int_equal(third.err, 0);
	assert_true(is_here());
}

static void a_store_that_fails_does_not_take_another_along(void **state)
{
	struct told first, second;

	(void)state;
	add_and_give_up(&first);
	add(&second);
	disk_fail(ENOSPC);
	wait_until(first.told && second.told);
	assert_int_equal(second.err, 0);
	assert_true(is_here());
}

/*
 * What other hosts say is damaged
 */

static void add_and_wait(void)
{
	struct told told;

	add(&told);
	wait_until(told.told);
	assert_true(is_here());
}

/* The loop has other things to do than to hash what somebody says is damaged. */
static void a_complaint_is_looked_into_outside_of_the_loop(void **state)
{
	struct chunks *chunks = &bed.models->chunks;
	struct model_digest digest = digest_of_bytes();
	struct memory_chunk *chunk;

	(void)state;
	add_and_wait();
	assert_int_equal(memory_arena_pin(chunks->arena, digest.bytes, &chunk), 0);
	chunk->data[7] ^= 1;
	chunks_examine(chunks, digest.bytes);
	assert_int_equal(chunks->damaged, 0);
	assert_true(chunks_have(chunks, digest.bytes));
	wait_until(chunks->damaged);
	memory_arena_unpin(chunks->arena, chunk);
	/* There is a good copy on the disk. */
	wait_until(is_here());
	assert_int_equal(chunks->damaged, 1);
}

static void a_complaint_that_is_repeated_is_looked_into_once(void **state)
{
	struct chunks *chunks = &bed.models->chunks;
	struct model_digest digest = digest_of_bytes(), unknown = digest;

	(void)state;
	add_and_wait();
	unknown.bytes[0] ^= 1;
	for (int i = 0; i < 1000; i++) {
		chunks_examine(chunks, digest.bytes);
		chunks_examine(chunks, unknown.bytes);
		assert_int_equal(chunks->examination.count, 1);
	}
	wait_until(!chunks->examination.count);
	assert_true(is_here());
	assert_int_equal(chunks->damaged, 0);
}

/* It is freed and comes anew, while a thread finds the old one damaged. */
static void a_complaint_does_not_hit_what_came_after(void **state)
{
	struct chunks *chunks = &bed.models->chunks;
	struct model_digest digest = digest_of_bytes();
	struct memory_chunk *chunk;

	(void)state;
	add_and_wait();
	assert_int_equal(memory_arena_pin(chunks->arena, digest.bytes, &chunk), 0);
	chunk->data[7] ^= 1;
	memory_arena_unpin(chunks->arena, chunk);
	chunks_examine(chunks, digest.bytes);
	memory_arena_free(chunks->arena, digest.bytes);
	assert_int_equal(memory_arena_allocate(chunks->arena, sizeof(bytes), &chunk), 0);
	memcpy(chunk->data, bytes, sizeof(bytes));
	assert_int_equal(memory_arena_seal(chunks->arena, chunk, digest.bytes,
					   chunk_checksum(bytes, sizeof(bytes))),
			 0);
	wait_until(!chunks->examination.count);
	assert_int_equal(chunks->damaged, 0);
	assert_true(is_here());
}

static void who_stops_does_not_wait_for_complaints(void **state)
{
	struct model_digest digest = digest_of_bytes();

	(void)state;
	add_and_wait();
	/* Teardown finds it pinned if it is forgotten. */
	chunks_examine(&bed.models->chunks, digest.bytes);
}

#define CHUNKS_TEST(name) cmocka_unit_test_setup_teardown(name, setup_spool, teardown_spool)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHUNKS_TEST(what_was_freed_is_not_said_to_be_here),
		CHUNKS_TEST(what_is_added_again_is_stored_again),
		CHUNKS_TEST(a_store_that_fails_does_not_take_another_along),
		CHUNKS_TEST(a_complaint_is_looked_into_outside_of_the_loop),
		CHUNKS_TEST(a_complaint_that_is_repeated_is_looked_into_once),
		CHUNKS_TEST(a_complaint_does_not_hit_what_came_after),
		CHUNKS_TEST(who_stops_does_not_wait_for_complaints),
	};

	return cmocka_run_group_tests_name("chunks", tests, NULL, NULL);
}
