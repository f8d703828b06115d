// SPDX-License-Identifier: GPL-2.0-or-later
/* The thread that writes to the spool, on a disk that hangs, fails, or loses its process. */
#include "disk_fake.h"

#include "../../userspace/memory/check.h"
#include "../../userspace/memory/spooler.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define CHUNKS 3
#define LEN 50000
#define SYNCS 2 /* of stores that wait together: their bytes, and their names */

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
	struct memory_arena *second; /* of the next donor, restored into */
	unsigned int restored, damaged;
	uint64_t files, aside, needed; /* as counted before that */
	bool restore_ended;
	bool over; /* whoever dispatches has no more time */
};

static struct bed bed;

static void on_counted(void *arg, const struct memory_spool_count *count)
{
	assert_ptr_equal(arg, &bed);
	assert_int_equal(bed.restored + bed.damaged, 0);
	bed.files = count->files;
	bed.aside = count->damaged;
	bed.needed = count->bytes;
}

static void on_restored(void *arg, const struct memory_spool_restored *file)
{
	assert_ptr_equal(arg, &bed);
	bed.restored += !file->err;
	bed.damaged += file->err == -EBADMSG;
}

static void on_restore_ended(void *arg, int err)
{
	assert_ptr_equal(arg, &bed);
	assert_int_equal(err, 0);
	bed.restore_ended = true;
}

static bool is_over(void)
{
	return bed.over;
}

static void open_spooler(void)
{
	static const struct memory_spooler_ops ops = {
		.counted = on_counted, .restored = on_restored, .restore_ended = on_restore_ended,
		.over = is_over,
	};

	bed.restore_ended = false;
	assert_int_equal(memory_spool_open(&bed.spool, bed.path), 0);
	assert_int_equal(memory_spooler_open(&bed.spooler, bed.spool, bed.second, &ops, &bed), 0);
	assert_int_equal(memory_spooler_restore(bed.spooler), 0);
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
		assert_int_equal(memory_arena_seal(bed.arena, chunk, digest,
						   chunk_checksum(chunk->data, LEN)),
				 0);
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
	assert_int_equal(memory_arena_create(&bed.second, 1 << 20), 0);
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
	memory_arena_destroy(bed.second);
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

static void dispatch_until(unsigned int count)
{
	struct pollfd fd = { .fd = memory_spooler_fd(bed.spooler), .events = POLLIN };

	while (bed.count < count) {
		assert_int_equal(poll(&fd, 1, DISK_WAIT_S * 1000), 1);
		memory_spooler_dispatch(bed.spooler);
	}
	assert_int_equal(bed.count, count);
}

static void dispatch_until_restored(void)
{
	struct pollfd fd = { .fd = memory_spooler_fd(bed.spooler), .events = POLLIN };

	while (!bed.restore_ended) {
		assert_int_equal(poll(&fd, 1, DISK_WAIT_S * 1000), 1);
		memory_spooler_dispatch(bed.spooler);
	}
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

/* What the next donor finds: whole chunks, or it is a failure. */
static uint64_t restored(void)
{
	struct memory_spool_restored file;
	struct memory_spool_scan *scan;
	struct memory_spool *spool;
	struct memory_arena *arena;
	uint64_t count = 0;

	assert_int_equal(memory_arena_create(&arena, 1 << 20), 0);
	assert_int_equal(memory_spool_open(&spool, bed.path), 0);
	assert_int_equal(memory_spool_scan_open(spool, &scan), 0);
	while (memory_spool_scan_step(scan, arena, &file) > 0) {
		assert_int_equal(file.err, 0);
		assert_int_equal(file.length, LEN);
		count++;
	}
	memory_spool_scan_close(scan);
	memory_spool_close(spool);
	memory_arena_destroy(arena);
	return count;
}

/* The first is under way, the others wait for it. */
static void store_all_behind_the_first(void)
{
	store(0);
	disk_wait(1);
	store(1);
	store(2);
}

static void results_come_in_the_order_of_the_calls(void **state)
{
	(void)state;
	disk_hang(0);
	store_all_behind_the_first();
	memory_spooler_dispatch(bed.spooler);
	assert_int_equal(bed.count, 0);
	/* The first is over when the others have begun. */
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

/* However much there is to tell: the rest is for the next call, which is asked for. */
static void a_dispatch_ends_when_it_has_taken_long_enough(void **state)
{
	struct pollfd fd = { .events = POLLIN };
	unsigned int before;

	(void)state;
	dispatch_until_restored();
	bed.over = true;
	store_all_behind_the_first();
	fd.fd = memory_spooler_fd(bed.spooler);
	while (bed.count < CHUNKS) {
		before = bed.count;
		assert_int_equal(poll(&fd, 1, DISK_WAIT_S * 1000), 1);
		memory_spooler_dispatch(bed.spooler);
		assert_in_range(bed.count, before, before + 1);
	}
}

static void stores_that_wait_are_synced_together(void **state)
{
	(void)state;
	disk_hang(0);
	store_all_behind_the_first();
	disk_allow(1000);
	dispatch_until(CHUNKS);
	assert_int_equal(disk_begun(), 2 * SYNCS);
	for (int i = 0; i < CHUNKS; i++)
		assert_true(!bed.results[i].err && is_there(i, ""));
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
	store(0);
	dispatch_until(1);
	assert_int_equal(bed.results[0].err, -ENOSPC);
	assert_false(is_there(0, "") || is_there(0, ".partial"));
	/* What comes after it has its own fate. */
	store(1);
	store(2);
	dispatch_until(CHUNKS);
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
	store_all_behind_the_first();
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
	disk_hang(0);
	/* An arena is not inherited. */
	make_chunks();
	assert_int_equal(memory_arena_create(&bed.second, 1 << 20), 0);
	open_spooler();
	store_all_behind_the_first();
	disk_allow(syncs);
	disk_wait(syncs + 1);
	if (write(said, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void a_killed_donor_leaves_whole_chunks(void **state)
{
	/* All that was told to be stored, and what had its name, which was being synced. */
	static const uint64_t whole[2 * SYNCS] = { 0, 1, 1, CHUNKS };
	int said[2], status;
	pid_t child;
	char byte;

	(void)state;
	for (unsigned int syncs = 0; syncs < COUNT(whole); syncs++) {
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
		assert_int_equal(restored(), whole[syncs]);
		for (int i = 0; i < CHUNKS; i++)
			assert_false(is_there(i, ".partial"));
	}
}

/* Stored, with one of them damaged, and opened again. */
static void what_is_stored_before_is_restored_by_and_by(void **state)
{
	char path[256];
	int at = sprintf(path, "%s/", bed.path), fd;

	(void)state;
	dispatch_until_restored();
	for (int i = 0; i < CHUNKS; i++)
		store(i);
	dispatch_until(CHUNKS);
	close_spooler();
	for (int i = 0; i < MEMORY_DIGEST_LEN; i++)
		at += sprintf(path + at, "%02x", bed.chunks[1]->digest[i]);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, 100), 1);
	close(fd);
	disk_hang_reads(0);
	open_spooler();
	/* It can be asked for something meanwhile. */
	memory_spooler_remove(bed.spooler, bed.chunks[2]->digest);
	memory_spooler_dispatch(bed.spooler);
	assert_int_equal(bed.restored, 0);
	disk_allow_reads();
	dispatch_until_restored();
	assert_int_equal(bed.damaged, 1);
	assert_true(bed.restored >= 1 && bed.restored <= 2);
	/* Counted before or after the one that was removed. */
	assert_in_range(bed.files, CHUNKS - 1, CHUNKS);
	assert_int_equal(bed.aside, 0);
	assert_true(is_there(1, ".damaged") && !is_there(2, ""));
}

static uint64_t reserved_bytes(void)
{
	struct memory_arena_stats stats;

	memory_arena_stats(bed.second, &stats);
	return stats.reserved;
}

static void the_memory_of_what_is_restored_is_nobody_elses(void **state)
{
	const uint64_t each = memory_arena_needs(LEN);
	struct memory_arena_stats stats;
	struct memory_chunk *chunk;

	(void)state;
	dispatch_until_restored();
	for (int i = 0; i < CHUNKS; i++)
		store(i);
	dispatch_until(CHUNKS);
	close_spooler();
	disk_hang_reads(1);
	open_spooler();
	while (!bed.files)
		memory_spooler_dispatch(bed.spooler);
	assert_int_equal(bed.needed, CHUNKS * each);
	/* One is read, and the next one has its memory. */
	disk_wait_reads(2);
	assert_int_equal(reserved_bytes(), (CHUNKS - 2) * each);
	memory_arena_stats(bed.second, &stats);
	assert_int_equal(stats.longest, stats.size - CHUNKS * each);
	assert_int_equal(memory_arena_allocate(bed.second, stats.longest + 1, &chunk), -ENOSPC);
	assert_int_equal(memory_arena_allocate(bed.second, stats.longest, &chunk), 0);
	disk_allow_reads();
	dispatch_until_restored();
	assert_int_equal(bed.restored, CHUNKS);
	assert_int_equal(reserved_bytes(), 0);
	memory_arena_abandon(bed.second, chunk);
}

/* What is freed in memory, and its removal from the disk asked for, is not brought back. */
static void what_is_restored_again_is_not_what_was_removed(void **state)
{
	(void)state;
	dispatch_until_restored();
	disk_hang(0);
	store(0);
	disk_wait(1);
	store(1);
	memory_spooler_remove(bed.spooler, bed.chunks[0]->digest);
	bed.restore_ended = false;
	assert_int_equal(memory_spooler_restore(bed.spooler), 0);
	/* Until it is known how much it needs. */
	assert_int_equal(reserved_bytes(), 1 << 20);
	disk_reset();
	dispatch_until_restored();
	assert_int_equal(bed.restored, 1);
	assert_false(is_there(0, ""));
}

#define WITH_SPOOLER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SPOOLER(results_come_in_the_order_of_the_calls),
		WITH_SPOOLER(a_dispatch_ends_when_it_has_taken_long_enough),
		WITH_SPOOLER(stores_that_wait_are_synced_together),
		WITH_SPOOLER(a_chunk_is_stored_when_its_name_is_on_disk_too),
		WITH_SPOOLER(a_full_disk_is_told_and_leaves_nothing),
		WITH_SPOOLER(a_removal_follows_the_store_that_it_is_about),
		WITH_SPOOLER(a_stop_finishes_what_is_under_way_and_drops_the_rest),
		WITH_SPOOLER(a_killed_donor_leaves_whole_chunks),
		WITH_SPOOLER(what_is_stored_before_is_restored_by_and_by),
		WITH_SPOOLER(the_memory_of_what_is_restored_is_nobody_elses),
		WITH_SPOOLER(what_is_restored_again_is_not_what_was_removed),
	};

	return cmocka_run_group_tests_name("memory_spooler", tests, NULL, NULL);
}
