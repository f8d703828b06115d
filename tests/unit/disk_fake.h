/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsync(), syncfs(), readv() and fdopendir() in the place of libc's, which hang and fail when a
 * test says so. The thread of the test is never held up: it would wait for itself. Included by the one
 * file of a test program.
 */
#ifndef TESTS_UNIT_DISK_FAKE_H
#define TESTS_UNIT_DISK_FAKE_H

#include "unit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DISK_WAIT_S 20

static struct disk_fake {
	pthread_mutex_t lock; /* everything below */
	pthread_cond_t changed;
	pthread_t test;
	bool hangs;
	unsigned int allowed; /* calls that may end although it hangs */
	unsigned int begun;
	int failure; /* errno of the next call; 0: none */
	bool always; /* and of all after it */
	bool reads_hang;
	unsigned int reads_allowed, reads_begun;
	unsigned int unlisted; /* directories that cannot be read, of the next ones */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static inline int disk_sync(long call, int fd)
{
	int failure;

	pthread_mutex_lock(&disk.lock);
	if (pthread_equal(pthread_self(), disk.test)) {
		pthread_mutex_unlock(&disk.lock);
		return (int)syscall(call, fd);
	}
	disk.begun++;
	pthread_cond_broadcast(&disk.changed);
	while (disk.hangs && !disk.allowed)
		pthread_cond_wait(&disk.changed, &disk.lock);
	disk.allowed -= disk.allowed > 0;
	failure = disk.failure;
	if (!disk.always)
		disk.failure = 0;
	pthread_mutex_unlock(&disk.lock);
	if (!failure)
		return (int)syscall(call, fd);
	errno = failure;
	return -1;
}

int fsync(int fd)
{
	return disk_sync(SYS_fsync, fd);
}

int syncfs(int fd)
{
	return disk_sync(SYS_syncfs, fd);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
	pthread_mutex_lock(&disk.lock);
	if (!pthread_equal(pthread_self(), disk.test)) {
		disk.reads_begun++;
		pthread_cond_broadcast(&disk.changed);
		while (disk.reads_hang && !disk.reads_allowed)
			pthread_cond_wait(&disk.changed, &disk.lock);
		disk.reads_allowed -= disk.reads_allowed > 0;
	}
	pthread_mutex_unlock(&disk.lock);
	return syscall(SYS_readv, fd, parts, count);
}

DIR *fdopendir(int fd)
{
	DIR *(*real)(int fd) = (DIR *(*)(int fd))dlsym(RTLD_NEXT, "fdopendir");
	bool fails;

	pthread_mutex_lock(&disk.lock);
	fails = disk.unlisted;
	disk.unlisted -= fails;
	pthread_mutex_unlock(&disk.lock);
	errno = EIO;
	return fails ? NULL : real(fd);
}

static inline void disk_fail_lists(unsigned int count)
{
	pthread_mutex_lock(&disk.lock);
	disk.unlisted = count;
	pthread_mutex_unlock(&disk.lock);
}

/* Reads from files, not the rest: so many end, all others hang. */
static inline void disk_hang_reads(unsigned int allowed)
{
	pthread_mutex_lock(&disk.lock);
	disk.test = pthread_self();
	disk.reads_hang = true;
	disk.reads_allowed = allowed;
	disk.reads_begun = 0;
	pthread_mutex_unlock(&disk.lock);
}

/* So many have begun since. */
static inline void disk_wait_reads(unsigned int begun)
{
	pthread_mutex_lock(&disk.lock);
	while (disk.reads_begun < begun)
		pthread_cond_wait(&disk.changed, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
}

static inline void disk_allow_reads(void)
{
	pthread_mutex_lock(&disk.lock);
	disk.reads_hang = false;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

static inline void disk_set(bool hangs, unsigned int allowed, int failure)
{
	pthread_mutex_lock(&disk.lock);
	disk.test = pthread_self();
	disk.hangs = hangs;
	disk.allowed = allowed;
	disk.failure = failure;
	disk.always = false;
	disk.begun = 0;
	disk.reads_hang = false;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

static inline void disk_reset(void)
{
	disk_set(false, 0, 0);
}

/* From the next call on; as many as are allowed end nevertheless. */
static inline void disk_hang(unsigned int allowed)
{
	disk_set(true, allowed, 0);
}

static inline void disk_fail(int failure)
{
	disk_set(false, 0, failure);
}

/* Until it is reset. */
static inline void disk_fail_always(int failure)
{
	disk_set(false, 0, failure);
	pthread_mutex_lock(&disk.lock);
	disk.always = true;
	pthread_mutex_unlock(&disk.lock);
}

/* Calls since it was last set that end or hang. */
static inline unsigned int disk_begun(void)
{
	unsigned int begun;

	pthread_mutex_lock(&disk.lock);
	begun = disk.begun;
	pthread_mutex_unlock(&disk.lock);
	return begun;
}

static inline void disk_allow(unsigned int more)
{
	pthread_mutex_lock(&disk.lock);
	disk.allowed += more;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

static inline void disk_wait(unsigned int begun)
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += DISK_WAIT_S;
	pthread_mutex_lock(&disk.lock);
	while (disk.begun < begun && !err)
		err = pthread_cond_timedwait(&disk.changed, &disk.lock, &end);
	pthread_mutex_unlock(&disk.lock);
	assert_int_equal(err, 0);
}

#endif
