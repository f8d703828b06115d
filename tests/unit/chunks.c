// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Chunks that are freed while they are on their way to the disk, and what then becomes of
 * others with the same bytes.
 */
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
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
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
		.checksum = model_checksum(bytes, sizeof(bytes)),
		.source = chunks_source_create(fd),
	};

	close(fd);
	assert_non_null(said.source);
	memcpy(said.digest, digest.bytes, sizeof(said.digest));
	*told = (struct told){ .wait.kept = on_kept, .wait.arg = told };
	assert_int_equal(chunks_add(&bed.models->chunks, &said, sizeof(bytes), &told->wait, 0),
			 CHUNKS_PENDING);
	chunks_source_put(said.source);
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

#define CHUNKS_TEST(name) cmocka_unit_test_setup_teardown(name, setup_spool, teardown_spool)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHUNKS_TEST(what_was_freed_is_not_said_to_be_here),
		CHUNKS_TEST(what_is_added_again_is_stored_again),
		CHUNKS_TEST(a_store_that_fails_does_not_take_another_along),
	};

	return cmocka_run_group_tests_name("chunks", tests, NULL, NULL);
}
