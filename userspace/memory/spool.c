// SPDX-License-Identifier: GPL-2.0-or-later
#include "spool.h"

#include "check.h"

#include "../common/hex.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NAME_LEN (HEX_LEN(MEMORY_DIGEST_LEN) - 1)
#define PARTIAL ".partial"
#define DAMAGED ".damaged"
#define TRAILER "distmind"
#define COUNTED_TOGETHER 256 /* files */

/* What follows the bytes of a chunk. */
struct trailer {
	char magic[8];
	uint64_t checksum; /* little endian */
};

struct memory_spool {
	int dir;
};

int memory_spool_open(struct memory_spool **result, const char *path)
{
	struct memory_spool *spool = malloc(sizeof(*spool));
	int err;

	if (!spool)
		return -ENOMEM;
	if (mkdir(path, 0700) && errno != EEXIST)
		goto fail;
	spool->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (spool->dir < 0)
		goto fail;
	if (flock(spool->dir, LOCK_EX | LOCK_NB)) {
		err = errno == EWOULDBLOCK ? EBUSY : errno;
		close(spool->dir);
		errno = err;
		goto fail;
	}
	*result = spool;
	return 0;
fail:
	err = -errno;
	free(spool);
	return err;
}

void memory_spool_close(struct memory_spool *spool)
{
	if (!spool)
		return;
	close(spool->dir);
	free(spool);
}

static int write_all(int fd, struct iovec *parts, int count)
{
	ssize_t done;

	while (count) {
		done = writev(fd, parts, count);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		for (; count && (size_t)done >= parts->iov_len; parts++, count--)
			done -= (ssize_t)parts->iov_len;
		if (count) {
			parts->iov_base = (char *)parts->iov_base + done;
			parts->iov_len -= (size_t)done;
		}
	}
	return 0;
}

static void partial_of(const uint8_t *digest, char partial[NAME_LEN + sizeof(PARTIAL)])
{
	hex_format(digest, MEMORY_DIGEST_LEN, partial);
	strcpy(partial + NAME_LEN, PARTIAL);
}

static int write_partial(struct memory_spool *spool, const struct memory_chunk *chunk)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
	struct trailer trailer = { TRAILER, htole64(chunk->checksum) };
	struct iovec parts[] = {
		{ chunk->data, chunk->length },
		{ &trailer, sizeof(trailer) },
	};
	char partial[NAME_LEN + sizeof(PARTIAL)];
	int fd, err;

	partial_of(chunk->digest, partial);
	fd = openat(spool->dir, partial, flags, 0600);
	if (fd < 0)
		return -errno;
	err = write_all(fd, parts, 2);
	if (close(fd) && !err)
		err = -errno;
	return err;
}

static int rename_partial(struct memory_spool *spool, const struct memory_chunk *chunk)
{
	char name[NAME_LEN + 1], partial[NAME_LEN + sizeof(PARTIAL)];

	hex_format(chunk->digest, MEMORY_DIGEST_LEN, name);
	partial_of(chunk->digest, partial);
	return renameat(spool->dir, partial, spool->dir, name) ? -errno : 0;
}

static void fail_all(struct memory_spool_item *stores, size_t count, int err)
{
	for (size_t i = 0; i < count; i++)
		if (!stores[i].err)
			stores[i].err = err;
}

void memory_spool_store(struct memory_spool *spool, struct memory_spool_item *stores, size_t count)
{
	char partial[NAME_LEN + sizeof(PARTIAL)];

	for (size_t i = 0; i < count; i++)
		stores[i].err = write_partial(spool, stores[i].chunk);
	/* One call for the bytes of all of them: fsync() for each would wait for each. */
	if (syncfs(spool->dir))
		fail_all(stores, count, -errno);
	for (size_t i = 0; i < count; i++) {
		if (!stores[i].err)
			stores[i].err = rename_partial(spool, stores[i].chunk);
		if (!stores[i].err)
			continue;
		partial_of(stores[i].chunk->digest, partial);
		unlinkat(spool->dir, partial, 0);
	}
	if (fsync(spool->dir))
		fail_all(stores, count, -errno);
}

int memory_spool_probe(struct memory_spool *spool, uint64_t length)
{
	struct memory_chunk chunk = { .data = calloc(1, length + 1), .length = length };
	char partial[NAME_LEN + sizeof(PARTIAL)];
	int err = chunk.data ? write_partial(spool, &chunk) : -ENOMEM;

	if (!err && syncfs(spool->dir))
		err = -errno;
	partial_of(chunk.digest, partial);
	unlinkat(spool->dir, partial, 0);
	free(chunk.data);
	return err;
}

int memory_spool_remove(struct memory_spool *spool, const uint8_t digest[MEMORY_DIGEST_LEN])
{
	char name[NAME_LEN + 1];

	hex_format(digest, MEMORY_DIGEST_LEN, name);
	return unlinkat(spool->dir, name, 0) ? -errno : 0;
}

/* The file may be shorter by now than it was said to be. */
static int read_all(int fd, struct iovec *parts, int count)
{
	ssize_t done;

	while (count) {
		done = readv(fd, parts, count);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		if (!done)
			return -EBADMSG;
		for (; count && (size_t)done >= parts->iov_len; parts++, count--)
			done -= (ssize_t)parts->iov_len;
		if (count) {
			parts->iov_base = (char *)parts->iov_base + done;
			parts->iov_len -= (size_t)done;
		}
	}
	return 0;
}

typedef int (*allocate_chunk)(struct memory_arena *arena, uint64_t length,
			      struct memory_chunk **chunk);

static int read_chunk(int fd, struct memory_arena *arena, allocate_chunk allocate,
		      struct memory_spool_restored *restored)
{
	struct memory_chunk *chunk;
	struct trailer trailer;
	struct iovec parts[2];
	struct stat stat;
	uint64_t actual;
	int err;

	if (fstat(fd, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode) || stat.st_size <= (off_t)sizeof(trailer))
		return -EBADMSG;
	restored->length = (uint64_t)stat.st_size - sizeof(trailer);
	err = allocate(arena, restored->length, &chunk);
	if (err)
		return err;
	parts[0] = (struct iovec){ chunk->data, chunk->length };
	parts[1] = (struct iovec){ &trailer, sizeof(trailer) };
	err = read_all(fd, parts, 2);
	if (!err) {
		actual = chunk_checksum(chunk->data, chunk->length);
		err = -EBADMSG;
		if (!memcmp(trailer.magic, TRAILER, sizeof(trailer.magic)) &&
		    le64toh(trailer.checksum) == actual)
			err = memory_arena_seal(arena, chunk, restored->digest, actual);
	}
	if (err)
		memory_arena_abandon(arena, chunk);
	return err;
}

static bool is_here(struct memory_arena *arena, const uint8_t *digest)
{
	struct memory_chunk *chunk;

	if (memory_arena_pin(arena, digest, &chunk))
		return false;
	memory_arena_unpin(arena, chunk);
	return true;
}

static int restore(struct memory_spool *spool, struct memory_arena *arena,
		   allocate_chunk allocate, struct memory_spool_restored *restored)
{
	char aside[NAME_LEN + sizeof(DAMAGED)];
	int fd, err;

	if (!hex_parse(restored->name, restored->digest, MEMORY_DIGEST_LEN))
		return -EINVAL;
	if (is_here(arena, restored->digest))
		return -EEXIST;
	/* A name that is a fifo must not stop the daemon. */
	fd = openat(spool->dir, restored->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	err = read_chunk(fd, arena, allocate, restored);
	close(fd);
	if (err != -EBADMSG)
		return err;
	snprintf(aside, sizeof(aside), "%.*s" DAMAGED, NAME_LEN, restored->name);
	renameat(spool->dir, restored->name, spool->dir, aside);
	return err;
}

void memory_spool_reload(struct memory_spool *spool, struct memory_arena *arena,
			 const uint8_t digest[MEMORY_DIGEST_LEN],
			 struct memory_spool_restored *restored)
{
	*restored = (struct memory_spool_restored){ 0 };
	hex_format(digest, MEMORY_DIGEST_LEN, restored->name);
	restored->err = restore(spool, arena, memory_arena_allocate, restored);
}

const char *memory_spool_reason(int err)
{
	switch (err) {
	case -EINVAL:
		return "not the name of a chunk";
	case -EBADMSG:
		return "damaged: its bytes are not what was stored; it was put aside";
	case -ENOSPC:
		return "does not fit into the donor's memory; give it more";
	default:
		return strerror(-err);
	}
}

struct memory_spool_scan {
	struct memory_spool *spool;
	DIR *dir;
};

int memory_spool_scan_open(struct memory_spool *spool, struct memory_spool_scan **result)
{
	struct memory_spool_scan *scan = malloc(sizeof(*scan));
	int fd, err;

	if (!scan)
		return -ENOMEM;
	scan->spool = spool;
	fd = openat(spool->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scan->dir = fd < 0 ? NULL : fdopendir(fd);
	if (scan->dir) {
		*result = scan;
		return 0;
	}
	err = -errno;
	if (fd >= 0)
		close(fd);
	free(scan);
	return err;
}

static bool has_suffix(const char *name, const char *suffix)
{
	return strlen(name) == NAME_LEN + strlen(suffix) && !strcmp(name + NAME_LEN, suffix);
}

static bool is_own(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* NULL: there is none, and errno is 0, or it is not. */
static struct dirent *next_entry(struct memory_spool_scan *scan)
{
	errno = 0;
	return readdir(scan->dir);
}

/* What it needs of the arena, if it is a chunk that is not in there. */
static uint64_t needed_by(const struct memory_spool_scan *scan, struct memory_arena *arena,
			  const char *name)
{
	uint8_t digest[MEMORY_DIGEST_LEN];
	struct stat stat;

	if (!hex_parse(name, digest, MEMORY_DIGEST_LEN) || is_here(arena, digest) ||
	    fstatat(scan->spool->dir, name, &stat, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(stat.st_mode) || stat.st_size <= (off_t)sizeof(struct trailer))
		return 0;
	return memory_arena_needs((uint64_t)stat.st_size - sizeof(struct trailer));
}

int memory_spool_scan_count(struct memory_spool_scan *scan, struct memory_arena *arena,
			    struct memory_spool_count *count)
{
	const struct dirent *entry;

	for (int i = 0; i < COUNTED_TOGETHER; i++) {
		entry = next_entry(scan);
		if (!entry && errno)
			return -errno;
		if (!entry) {
			rewinddir(scan->dir);
			return 0;
		}
		if (has_suffix(entry->d_name, DAMAGED)) {
			count->damaged++;
		} else if (!is_own(entry->d_name) && !has_suffix(entry->d_name, PARTIAL)) {
			count->files++;
			count->bytes += needed_by(scan, arena, entry->d_name);
		}
	}
	return 1;
}

int memory_spool_scan_step(struct memory_spool_scan *scan, struct memory_arena *arena,
			   struct memory_spool_restored *restored)
{
	const struct dirent *entry;

	while ((entry = next_entry(scan))) {
		if (is_own(entry->d_name) || has_suffix(entry->d_name, DAMAGED))
			continue;
		if (has_suffix(entry->d_name, PARTIAL)) {
			unlinkat(scan->spool->dir, entry->d_name, 0);
			continue;
		}
		*restored = (struct memory_spool_restored){ 0 };
		snprintf(restored->name, sizeof(restored->name), "%s", entry->d_name);
		restored->err = restore(scan->spool, arena, memory_arena_allocate_reserved,
					restored);
		return 1;
	}
	return -errno;
}

void memory_spool_scan_close(struct memory_spool_scan *scan)
{
	if (!scan)
		return;
	closedir(scan->dir);
	free(scan);
}
