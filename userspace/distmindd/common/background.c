// SPDX-License-Identifier: GPL-2.0-or-later
#include "background.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static ssize_t read_byte(int fd)
{
	ssize_t len;
	char byte;

	do
		len = read(fd, &byte, 1);
	while (len < 0 && errno == EINTR);
	return len;
}

/* The child said why on stderr; all that is left to pass on is the code. */
_Noreturn static void wait_for(pid_t child, int ready)
{
	int status;

	if (read_byte(ready) == 1)
		_exit(EXIT_SUCCESS);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			_exit(EXIT_FAILURE);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
}

int background_start(void)
{
	int fds[2], err;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child < 0) {
		err = -errno;
		close(fds[0]);
		close(fds[1]);
		return err;
	}
	if (child) {
		close(fds[1]);
		wait_for(child, fds[0]);
	}
	close(fds[0]);
	setsid();
	return fds[1];
}

void background_ready(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char byte = 0;

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	if (chdir("/"))
		return;
	/* A parent that is gone needs no news. */
	if (write(fd, &byte, 1) < 0)
		return;
	close(fd);
}
