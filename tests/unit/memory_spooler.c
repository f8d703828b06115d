// SPDX-License-Identifier: GPL-2.0-or-later
/* The thread that writes to the spool, on a disk that hangs, fails, or loses its process. */
#include "disk_fake.h"

#include "../../userspace/memory/spooler.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define CHUNKS 3
#define LEN 50000
#define SYNCS 2 /* of a store: its file, and its name */

struct bed {
	char path[64];
	struct memory_spool *spool;
	struct memory_spooler *spooler;
	struct memory_arena *arena;
	struct memory_chunk *chunks[CHUNKS]; /* pinned */
	struct result {
		unsigned int order; /* 0: has not come */
		int err;
	} results[CHUNKS];
	unsigned int count; /* of results */
};

static struct bed bed;

static void open_spooler(void)
{
	assert_int_equal(memory_spool_open(&bed.spool, bed.path), 0);
	assert_int_equal(memory_spooler_open(&bed.spooler, bed.spool), 0);
}

static void close_spooler(void)
{
	memory_spooler_close(bed.spooler);
	memory_spool_close(bed.spool);
	bed.spooler = NULL;
	bed.spool = NULL;
}

static void make_chunks(void)
{
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct memory_chunk *chunk;

	assert_int_equal(memory_arena_create(&bed.arena, 1 << 20), 0);
	for (int i = 0; i < CHUNKS; i++) {
		assert_int_equal(memory_arena_allocate(bed.arena, LEN, &chunk), 0);
		memset(chunk->data, i + 1, LEN);
		assert_true(EVP_Digest(chunk->data, LEN, digest, NULL, EVP_sha256(), NULL));
		assert_int_equal(memory_arena_seal(bed.arena, chunk, digest), 0);
		assert_int_equal(memory_arena_pin(bed.arena, digest, &bed.chunks[i]), 0);
	}
}

static int setup(void **state)
{
	(void)state;
	bed = (struct bed){ .path = "/tmp/memory_spooler.XXXXXX" };
	disk_reset();
	assert_non_null(mkdtemp(bed.path));
	make_chunks();
	open_spooler();
	return 0;
}

static void empty_directory(void)
{
	DIR *dir = opendir(bed.path);
	struct dirent *entry;

	while ((entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

static int teardown(void **state)
{
	(void)state;
	disk_reset();
	close_spooler();
	for (int i = 0; i < CHUNKS; i++)
		memory_arena_unpin(bed.arena, bed.chunks[i]);
	memory_arena_destroy(bed.arena);
	empty_directory();
	return rmdir(bed.path);
}

static void stored(void *arg, int err)
{
	struct result *result = arg;

	assert_int_equal(result->order, 0);
	*result = (struct result){ .order = ++bed.count, .err = err };
}

static void store(int chunk)
{
	assert_int_equal(memory_spooler_store(bed.spooler, bed.chunks[chunk], stored,
					      &bed.results[chunk]),
			 0);
}

static void store_all(void)
{
	for (int i = 0; i < CHUNKS; i++)
		store(i);
}

static void dispatch_until(unsigned int count)
{
	struct pollfd fd = { .fd = memory_spooler_fd(bed.spooler), .events = POLLIN };

	while (bed.count < count) {
		assert_int_equal(poll(&fd, 1, DISK_WAIT_S * 1000), 1);
		memory_spooler_dispatch(bed.spooler);
	}
	assert_int_equal(bed.count, count);
}

static bool is_there(int chunk, const char *suffix)
{
	char path[256];
	int at = sprintf(path, "%s/", bed.path);

	for (int i = 0; i < MEMORY_DIGEST_LEN; i++)
		at += sprintf(path + at, "%02x", bed.chunks[chunk]->digest[i]);
	strcpy(path + at, suffix);
	return !access(path, F_OK);
}

static void no_report(void *arg, const char *file, const char *reason)
{
	(void)arg;
	fail_msg("%s: %s", file, reason);
}

/* What the next donor finds: whole chunks, or it is a failure. */
static uint64_t restored(void)
{
	struct memory_spool_result result;
	struct memory_spool *spool;
	struct memory_arena *arena;

	assert_int_equal(memory_arena_create(&arena, 1 << 20), 0);
	assert_int_equal(memory_spool_open(&spool, bed.path), 0);
	assert_int_equal(memory_spool_restore(spool, arena, no_report, NULL, &result), 0);
	assert_int_equal(result.bytes, result.chunks * LEN);
	memory_spool_close(spool);
	memory_arena_destroy(arena);
	return result.chunks;
}

static void results_come_in_the_order_of_the_calls(void **state)
{
	(void)state;
	disk_hang(0);
	store_all();
	disk_wait(1);
	memory_spooler_dispatch(bed.spooler);
	assert_int_equal(bed.count, 0);
	/* The first is over when the second has begun. */
	disk_allow(SYNCS);
	disk_wait(SYNCS + 1);
	dispatch_until(1);
	assert_int_equal(bed.results[0].order, 1);
	disk_reset();
	dispatch_until(CHUNKS);
	for (unsigned int i = 0; i < CHUNKS; i++) {
		assert_int_equal(bed.results[i].order, i + 1);
		assert_int_equal(bed.results[i].err, 0);
		assert_true(is_there((int)i, ""));
	}
}

static void a_chunk_is_stored_when_its_name_is_on_disk_too(void **state)
{
	(void)state;
	disk_hang(0);
	store(0);
	disk_wait(1);
	assert_true(is_there(0, ".partial"));
	assert_false(is_there(0, ""));
	disk_allow(1);
	disk_wait(2);
	assert_true(is_there(0, ""));
	memory_spooler_dispatch(bed.spooler);
	assert_int_equal(bed.count, 0);
	disk_allow(1);
	dispatch_until(1);
	assert_int_equal(bed.results[0].err, 0);
}

static void a_full_disk_is_told_and_leaves_nothing(void **state)
{
	(void)state;
	disk_fail(ENOSPC);
	store_all();
	dispatch_until(CHUNKS);
	assert_int_equal(bed.results[0].err, -ENOSPC);
	assert_false(is_there(0, "") || is_there(0, ".partial"));
	/* What comes after it has its own fate. */
	assert_int_equal(bed.results[1].err, 0);
	assert_int_equal(bed.results[2].err, 0);
	assert_true(is_there(1, "") && is_there(2, ""));
}

static void a_removal_follows_the_store_that_it_is_about(void **state)
{
	(void)state;
	disk_hang(0);
	store(0);
	memory_spooler_remove(bed.spooler, bed.chunks[0]->digest);
	store(1);
	disk_allow(SYNCS);
	disk_wait(SYNCS + 1);
	/* The second store has begun: the removal is over. */
	assert_false(is_there(0, ""));
	disk_reset();
	dispatch_until(2);
	assert_true(is_there(1, ""));
}

static void a_stop_finishes_what_is_under_way_and_drops_the_rest(void **state)
{
	(void)state;
	disk_hang(0);
	store_all();
	disk_wait(1);
	memory_spooler_stop(bed.spooler);
	disk_reset();
	close_spooler();
	assert_int_equal(bed.count, 0);
	assert_true(is_there(0, ""));
	assert_int_equal(restored(), 1);
}

/* Stores until a sync hangs, says so, and waits for its end. */
_Noreturn static void be_killed(unsigned int syncs, int said)
{
	disk_hang(syncs);
	/* An arena is not inherited. */
	make_chunks();
	open_spooler();
	store_all();
	disk_wait(syncs + 1);
	if (write(said, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void a_killed_donor_leaves_whole_chunks(void **state)
{
	int said[2], status;
	pid_t child;
	char byte;

	(void)state;
	for (unsigned int syncs = 0; syncs < CHUNKS * SYNCS; syncs++) {
		close_spooler();
		empty_directory();
		assert_int_equal(pipe(said), 0);
		child = fork();
		assert_true(child >= 0);
		if (!child)
			be_killed(syncs, said[1]);
		close(said[1]);
		assert_int_equal(read(said[0], &byte, 1), 1);
		close(said[0]);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		/* All that was told to be stored, and one whose name was being synced. */
		assert_int_equal(restored(), (syncs + 1) / SYNCS);
		for (int i = 0; i < CHUNKS; i++)
			assert_false(is_there(i, ".partial"));
	}
}

#define WITH_SPOOLER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SPOOLER(results_come_in_the_order_of_the_calls),
		WITH_SPOOLER(a_chunk_is_stored_when_its_name_is_on_disk_too),
		WITH_SPOOLER(a_full_disk_is_told_and_leaves_nothing),
		WITH_SPOOLER(a_removal_follows_the_store_that_it_is_about),
		WITH_SPOOLER(a_stop_finishes_what_is_under_way_and_drops_the_rest),
		WITH_SPOOLER(a_killed_donor_leaves_whole_chunks),
	};

	return cmocka_run_group_tests_name("memory_spooler", tests, NULL, NULL);
}
