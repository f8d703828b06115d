// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/memory/check.h"
#include "../../userspace/memory/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEN 50000

struct bed {
	char path[64];
	struct memory_spool *spool;
	struct memory_arena *arena;
	char reports[1024];
};

static int setup(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	assert_non_null(bed);
	strcpy(bed->path, "/tmp/memory_spool.XXXXXX");
	assert_non_null(mkdtemp(bed->path));
	assert_int_equal(memory_spool_open(&bed->spool, bed->path), 0);
	assert_int_equal(memory_arena_create(&bed->arena, 1 << 20), 0);
	*state = bed;
	return 0;
}

static int teardown(void **state)
{
	struct bed *bed = *state;
	DIR *dir = opendir(bed->path);
	struct dirent *entry;

	while ((entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	memory_spool_close(bed->spool);
	rmdir(bed->path);
	memory_arena_destroy(bed->arena);
	free(bed);
	return 0;
}

static void store(struct bed *bed, uint8_t byte, uint8_t *digest)
{
	static uint8_t data[LEN];
	struct memory_chunk chunk = { .data = data, .length = LEN };
	struct memory_spool_item item = { .chunk = &chunk };

	memset(data, byte, LEN);
	assert_true(EVP_Digest(data, LEN, digest, NULL, EVP_sha256(), NULL));
	memcpy(chunk.digest, digest, MEMORY_DIGEST_LEN);
	chunk.checksum = chunk_checksum(data, LEN);
	memory_spool_store(bed->spool, &item, 1);
	assert_int_equal(item.err, 0);
}

static void file_of(struct bed *bed, const uint8_t *digest, const char *suffix, char path[256])
{
	int at = sprintf(path, "%s/", bed->path);

	for (int i = 0; i < MEMORY_DIGEST_LEN; i++)
		at += sprintf(path + at, "%02x", digest[i]);
	strcpy(path + at, suffix);
}

/* What came of all files. */
struct restored {
	uint64_t chunks, bytes, skipped;
};

static void restore(struct bed *bed, struct restored *result)
{
	struct memory_spool_restored file;
	struct memory_spool_scan *scan;

	*result = (struct restored){ 0 };
	bed->reports[0] = '\0';
	assert_int_equal(memory_spool_scan_open(bed->spool, &scan), 0);
	while (memory_spool_scan_step(scan, bed->arena, &file) > 0) {
		if (!file.err) {
			result->chunks++;
			result->bytes += file.length;
			continue;
		}
		result->skipped++;
		strcat(bed->reports, file.name);
		strcat(bed->reports, ": ");
		strcat(bed->reports, memory_spool_reason(file.err));
		strcat(bed->reports, "\n");
	}
	memory_spool_scan_close(scan);
}

static void what_was_stored_comes_back(void **state)
{
	struct bed *bed = *state;
	uint8_t digests[3][MEMORY_DIGEST_LEN];
	struct restored result;
	struct memory_chunk *chunk;

	for (int i = 0; i < 3; i++)
		store(bed, i + 1, digests[i]);
	memory_spool_close(bed->spool);
	assert_int_equal(memory_spool_open(&bed->spool, bed->path), 0);
	restore(bed, &result);
	assert_int_equal(result.chunks, 3);
	assert_int_equal(result.bytes, 3 * LEN);
	assert_int_equal(result.skipped, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(memory_arena_pin(bed->arena, digests[i], &chunk), 0);
		assert_int_equal(chunk->length, LEN);
		assert_int_equal(chunk->data[LEN - 1], i + 1);
		memory_arena_unpin(bed->arena, chunk);
	}
}

static void what_was_removed_does_not(void **state)
{
	struct bed *bed = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct restored result;

	store(bed, 9, digest);
	assert_int_equal(memory_spool_remove(bed->spool, digest), 0);
	assert_int_equal(memory_spool_remove(bed->spool, digest), -ENOENT);
	restore(bed, &result);
	assert_int_equal(result.chunks, 0);
}

static void a_damaged_file_is_reported_and_put_aside(void **state)
{
	struct bed *bed = *state;
	uint8_t digests[4][MEMORY_DIGEST_LEN];
	struct restored result;
	struct memory_chunk *chunk;
	char path[256];
	int fd;

	for (int i = 0; i < 4; i++)
		store(bed, i + 1, digests[i]);
	file_of(bed, digests[0], "", path);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, 30000), 1);
	close(fd);
	file_of(bed, digests[1], "", path);
	assert_int_equal(truncate(path, LEN + 15), 0);
	file_of(bed, digests[2], "", path);
	assert_int_equal(truncate(path, 0), 0);
	restore(bed, &result);
	assert_int_equal(result.chunks, 1);
	assert_int_equal(result.skipped, 3);
	assert_contains(bed->reports, strrchr(path, '/') + 1);
	assert_contains(bed->reports, "damaged");
	assert_int_equal(memory_arena_pin(bed->arena, digests[0], &chunk), -ENOENT);
	assert_int_equal(memory_arena_pin(bed->arena, digests[3], &chunk), 0);
	memory_arena_unpin(bed->arena, chunk);
	for (int i = 0; i < 3; i++) {
		file_of(bed, digests[i], ".damaged", path);
		assert_int_equal(access(path, F_OK), 0);
	}
	/* They are told of once, and a good copy can take their place. */
	store(bed, 1, digests[0]);
	restore(bed, &result);
	assert_int_equal(result.chunks, 1);
	assert_int_equal(memory_arena_pin(bed->arena, digests[0], &chunk), 0);
	memory_arena_unpin(bed->arena, chunk);
}

static void a_checksum_that_is_damaged_is_found_too(void **state)
{
	struct bed *bed = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct restored result;
	char path[256];
	int fd;

	for (off_t at = LEN; at < LEN + 16; at += 5) {
		store(bed, 1, digest);
		file_of(bed, digest, "", path);
		fd = open(path, O_WRONLY);
		assert_int_equal(pwrite(fd, "x", 1, at), 1);
		close(fd);
		restore(bed, &result);
		assert_int_equal(result.chunks, 0);
		assert_int_equal(result.skipped, 1);
	}
}

static void an_interrupted_store_leaves_nothing(void **state)
{
	struct bed *bed = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct restored result;
	char path[256], partial[256];

	store(bed, 5, digest);
	file_of(bed, digest, "", path);
	file_of(bed, digest, ".partial", partial);
	assert_int_equal(rename(path, partial), 0);
	restore(bed, &result);
	assert_int_equal(result.chunks, 0);
	assert_int_equal(result.skipped, 0);
	assert_int_equal(access(partial, F_OK), -1);
}

static void what_does_not_fit_is_reported_and_kept(void **state)
{
	struct bed *bed = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct restored result;
	char path[256];

	for (int i = 0; i < 25; i++)
		store(bed, i + 1, digest);
	restore(bed, &result);
	assert_int_equal(result.chunks, (1 << 20) / (13 * 4096));
	assert_int_equal(result.skipped, 25 - result.chunks);
	assert_contains(bed->reports, "give it more");
	file_of(bed, digest, "", path);
	assert_int_equal(access(path, F_OK), 0);
}

static void strange_names_and_kinds_are_reported(void **state)
{
	struct bed *bed = *state;
	uint8_t digest[MEMORY_DIGEST_LEN] = { 1 };
	struct restored result;
	char path[256];

	file_of(bed, digest, "", path);
	assert_int_equal(mkfifo(path, 0600), 0);
	digest[0] = 2;
	file_of(bed, digest, "", path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	snprintf(path, sizeof(path), "%s/README", bed->path);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	restore(bed, &result);
	assert_int_equal(result.chunks, 0);
	assert_int_equal(result.skipped, 3);
	assert_contains(bed->reports, "README: not the name of a chunk");
}

static void two_donors_cannot_share_a_directory(void **state)
{
	struct bed *bed = *state;
	struct memory_spool *second;

	assert_int_equal(memory_spool_open(&second, bed->path), -EBUSY);
	assert_int_equal(memory_spool_open(&second, "/proc/none/spool"), -ENOENT);
}

static void files_are_for_the_owner_alone(void **state)
{
	struct bed *bed = *state;
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct stat stat_buf;
	char path[256];

	store(bed, 6, digest);
	file_of(bed, digest, "", path);
	assert_int_equal(stat(path, &stat_buf), 0);
	assert_int_equal(stat_buf.st_mode & 0777, 0600);
}

#define WITH_SPOOL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SPOOL(what_was_stored_comes_back),
		WITH_SPOOL(what_was_removed_does_not),
		WITH_SPOOL(a_damaged_file_is_reported_and_put_aside),
		WITH_SPOOL(a_checksum_that_is_damaged_is_found_too),
		WITH_SPOOL(an_interrupted_store_leaves_nothing),
		WITH_SPOOL(what_does_not_fit_is_reported_and_kept),
		WITH_SPOOL(strange_names_and_kinds_are_reported),
		WITH_SPOOL(two_donors_cannot_share_a_directory),
		WITH_SPOOL(files_are_for_the_owner_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
