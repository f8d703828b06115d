// SPDX-License-Identifier: GPL-2.0-or-later
#include <fcntl.h>
#include <linux/capability.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctl.h"

static bool is_admin(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[CAP_TO_INDEX(CAP_NET_ADMIN)].effective & CAP_TO_MASK(CAP_NET_ADMIN);
}

static bool wants_colour(void)
{
	const char *no_color = getenv("NO_COLOR");

	return !no_color || !*no_color;
}

/*
 * What is opened instead of a standard stream that is closed would be taken for it: a file that
 * is written, a socket. These fail as a closed one does.
 */
static void fill_streams(void)
{
	static const int modes[] = { O_WRONLY, O_RDONLY, O_RDONLY };

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
			_exit(CTL_FAILED);
}

int main(int argc, char **argv)
{
	bool terminal = isatty(STDOUT_FILENO);
	struct ctl ctl = {
		.out = stdout,
		.err = stderr,
		.colour = terminal && wants_colour(),
		.terminal = terminal,
		.admin = is_admin(),
	};
	int ret;

	fill_streams();
	/* For the width of characters in tables; numbers stay as they are. */
	setlocale(LC_CTYPE, "");
	ret = ctl_main(&ctl, argc, argv);
	ctl_close(&ctl);
	return ret;
}
