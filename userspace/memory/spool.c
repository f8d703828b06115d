// SPDX-License-Identifier: GPL-2.0-or-later
#include "spool.h"

#include "../common/hex.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_LEN (HEX_LEN(MEMORY_DIGEST_LEN) - 1)
#define PARTIAL ".partial"

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

static int write_all(int fd, const uint8_t *data, uint64_t length)
{
	ssize_t done;

	while (length) {
		done = write(fd, data, length);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		data += done;
		length -= done;
	}
	return 0;
}

int memory_spool_store(struct memory_spool *spool, const uint8_t digest[MEMORY_DIGEST_LEN],
		       const void *data, uint64_t length)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
	char name[NAME_LEN + 1], partial[NAME_LEN + sizeof(PARTIAL)];
	int fd, err;

	hex_format(digest, MEMORY_DIGEST_LEN, name);
	snprintf(partial, sizeof(partial), "%s" PARTIAL, name);
	fd = openat(spool->dir, partial, flags, 0600);
	if (fd < 0)
		return -errno;
	err = write_all(fd, data, length);
	if (!err && fsync(fd))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(spool->dir, partial, spool->dir, name))
		err = -errno;
	if (err) {
		unlinkat(spool->dir, partial, 0);
		return err;
	}
	return fsync(spool->dir) ? -errno : 0;
}

int memory_spool_remove(struct memory_spool *spool, const uint8_t digest[MEMORY_DIGEST_LEN])
{
	char name[NAME_LEN + 1];

	hex_format(digest, MEMORY_DIGEST_LEN, name);
	return unlinkat(spool->dir, name, 0) ? -errno : 0;
}

/* The file may be shorter by now than it was said to be: its digest will tell. */
static int read_all(int fd, uint8_t *data, uint64_t length)
{
	ssize_t done;

	while (length) {
		done = read(fd, data, length);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		if (!done)
			return -EBADMSG;
		data += done;
		length -= done;
	}
	return 0;
}

static int restore_file(int fd, struct memory_arena *arena, const uint8_t *digest,
			struct memory_spool_result *result)
{
	struct memory_chunk *chunk;
	struct stat stat;
	uint64_t length;
	int err;

	if (fstat(fd, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode) || !stat.st_size)
		return -EBADMSG;
	length = stat.st_size;
	err = memory_arena_allocate(arena, length, &chunk);
	if (err)
		return err;
	err = read_all(fd, chunk->data, length);
	if (!err)
		err = memory_arena_seal(arena, chunk, digest);
	if (err) {
		memory_arena_abandon(arena, chunk);
		return err;
	}
	result->chunks++;
	result->bytes += length;
	return 0;
}

static const char *reason_of(int err)
{
	switch (err) {
	case -EINVAL:
		return "not the name of a chunk";
	case -EBADMSG:
		return "damaged: its bytes are not those of its name; push the model again";
	case -ENOSPC:
		return "does not fit into the donor's memory; give it more";
	default:
		return strerror(-err);
	}
}

static int restore_name(struct memory_spool *spool, struct memory_arena *arena, const char *name,
			struct memory_spool_result *result)
{
	uint8_t digest[MEMORY_DIGEST_LEN];
	int fd, err;

	if (!hex_parse(name, digest, MEMORY_DIGEST_LEN))
		return -EINVAL;
	/* A name that is a fifo must not stop the daemon. */
	fd = openat(spool->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	err = restore_file(fd, arena, digest, result);
	close(fd);
	/* The arena has it already: nothing to do. */
	return err == -EEXIST ? 0 : err;
}

int memory_spool_restore(struct memory_spool *spool, struct memory_arena *arena,
			 void (*report)(void *arg, const char *file, const char *reason),
			 void *arg, struct memory_spool_result *result)
{
	struct dirent *entry;
	size_t len;
	DIR *dir;
	int fd, err;

	memset(result, 0, sizeof(*result));
	fd = openat(spool->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		err = -errno;
		close(fd);
		return err;
	}
	while ((entry = readdir(dir))) {
		len = strlen(entry->d_name);
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (len == NAME_LEN + strlen(PARTIAL) &&
		    !strcmp(entry->d_name + NAME_LEN, PARTIAL)) {
			unlinkat(spool->dir, entry->d_name, 0);
			continue;
		}
		err = restore_name(spool, arena, entry->d_name, result);
		if (!err)
			continue;
		result->skipped++;
		report(arg, entry->d_name, reason_of(err));
	}
	closedir(dir);
	return 0;
}
