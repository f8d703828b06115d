// SPDX-License-Identifier: GPL-2.0-or-later
#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM_LEAST 4096

static int complain(char *error, int err, const char *fix)
{
	snprintf(error, TEXT_FILE_ERROR_LEN, "%s: %s", strerror(-err), fix);
	return err;
}

static int complain_of_size(char *error, size_t max)
{
	snprintf(error, TEXT_FILE_ERROR_LEN,
		 "it is larger than %zu bytes, which no such file is: name the right one", max);
	return -EFBIG;
}

/* What was said of its size may be old, or, as of files in /proc, nothing. */
static int read_all(int fd, size_t max, size_t room, char **text, size_t *size, char *error)
{
	ssize_t got;
	char *more;

	for (*size = 0;;) {
		if (!*text || *size + 1 == room) {
			room = *text ? 2 * room : room;
			more = realloc(*text, room);
			if (!more)
				return complain(error, -ENOMEM, "free some memory");
			*text = more;
		}
		got = read(fd, *text + *size, room - 1 - *size);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return complain(error, -errno, "name a file that can be read");
		if (!got)
			break;
		*size += (size_t)got;
		if (*size > max)
			return complain_of_size(error, max);
	}
	(*text)[*size] = '\0';
	return 0;
}

int text_file_read(const char *path, size_t max, char **text, size_t *size, char *error)
{
	/* Without waiting: it might be a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;
	struct stat status;

	*text = NULL;
	if (fd < 0)
		return complain(error, -errno, "name a file that can be read");
	if (fstat(fd, &status)) {
		err = complain(error, -errno, "name a file that can be read");
	} else if (!S_ISREG(status.st_mode)) {
		snprintf(error, TEXT_FILE_ERROR_LEN,
			 "it is a directory, a device or a pipe: name a regular file");
		err = -EINVAL;
	} else if ((uintmax_t)status.st_size > max) {
		err = complain_of_size(error, max);
	} else {
		err = read_all(fd, max, (size_t)status.st_size + ROOM_LEAST, text, size, error);
	}
	close(fd);
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}
