// SPDX-License-Identifier: GPL-2.0-or-later
#include "lock.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The directory is what systemd makes for the unit, so both ways meet there. */
#define LOCK_DIR "/run/distmind"
#define LOCK_NAME "distmindd.lock"

static void read_holder(int fd, char *buf, size_t room)
{
	ssize_t len = pread(fd, buf, room - 1, 0);

	buf[len > 0 ? len : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	if (!buf[0])
		snprintf(buf, room, "unknown");
}

static const char *hint(int err)
{
	return err == -EACCES || err == -EPERM ? ": run it as root" : "";
}

int lock_take(char *error, size_t room)
{
	const char *dir = getenv("RUNTIME_DIRECTORY");
	char path[256], holder[32];
	int fd, err;

	if (!dir || strchr(dir, ':'))
		dir = LOCK_DIR;
	if (mkdir(dir, 0755) && errno != EEXIST) {
		err = -errno;
		snprintf(error, room, "cannot create %s: %s%s", dir, strerror(-err), hint(err));
		return err;
	}
	snprintf(path, sizeof(path), "%s/%s", dir, LOCK_NAME);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0) {
		err = -errno;
		snprintf(error, room, "cannot open %s: %s%s", path, strerror(-err), hint(err));
		return err;
	}
	err = flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
	/* A kernel without CONFIG_FILE_LOCKING: rather unguarded than not at all. */
	if (err == -ENOSYS) {
		log_warning("no-locks", LOG_S("reason", "the kernel has no file locks, so a second "
							"distmindd would not be noticed"));
	} else if (err == -EWOULDBLOCK) {
		read_holder(fd, holder, sizeof(holder));
		snprintf(error, room,
			 "another distmindd runs already, process %s holds %s: stop it first",
			 holder, path);
		close(fd);
		return -EBUSY;
	} else if (err) {
		snprintf(error, room, "cannot lock %s: %s", path, strerror(-err));
		close(fd);
		return err;
	}
	lock_sign(fd);
	return fd;
}

void lock_sign(int fd)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

	/* Only for the message of the one who comes too late. */
	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)len, 0) != len)
		return;
}
