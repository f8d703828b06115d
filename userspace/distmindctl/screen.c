// SPDX-License-Identifier: GPL-2.0-or-later
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "parse.h"

#define HOME	    "\033[H"
#define CLEAR	    "\033[2J"
#define CLEAR_LINE  "\033[K" /* from here on */
#define CLEAR_BELOW "\033[J"
#define WRAP_OFF    "\033[?7l"
#define WRAP_ON	    "\033[?7h"

/* Keys come as they are pressed and are not shown; Ctrl-C remains a signal. */
static void take_keys(struct screen *screen)
{
	struct termios mode = screen->mode;

	mode.c_lflag &= ~(ICANON | ECHO);
	mode.c_cc[VMIN] = 1;
	mode.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
}

int screen_open(struct screen *screen, struct ctl *ctl)
{
	sigset_t set;

	*screen = (struct screen){ .out = ctl->out, .live = ctl->terminal && !ctl->json };
	if (!screen->live)
		return CTL_OK;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCONT);
	screen->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (screen->signals < 0)
		return ctl_fail(ctl, "cannot watch for signals: %s; try it with --once",
				strerror(errno));
	sigprocmask(SIG_BLOCK, &set, &screen->mask);
	screen->keys = !tcgetattr(STDIN_FILENO, &screen->mode);
	if (screen->keys)
		take_keys(screen);
	return CTL_OK;
}

void screen_close(struct screen *screen)
{
	if (!screen->live)
		return;
	if (screen->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->mode);
	/* Signals that were taken for the user's wish are read; what is left acts. */
	sigprocmask(SIG_SETMASK, &screen->mask, NULL);
	close(screen->signals);
}

/* Someone who has stopped us may have changed the terminal meanwhile. */
static bool signal_ends(struct screen *screen)
{
	struct signalfd_siginfo info;

	if (read(screen->signals, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo != SIGCONT)
		return true;
	if (screen->keys)
		take_keys(screen);
	screen->drawn = false;
	return false;
}

static bool key_ends(struct screen *screen)
{
	ssize_t len;
	char key;

	len = read(STDIN_FILENO, &key, sizeof(key));
	if (len == sizeof(key))
		return key == 'q' || key == 'Q';
	if (len < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	/* No more keys, which is no reason to end: signals still do. */
	screen->keys = false;
	return false;
}

bool screen_wait(struct screen *screen, uint64_t time)
{
	struct pollfd fds[2] = { { .fd = screen->signals, .events = POLLIN },
				 { .fd = STDIN_FILENO, .events = POLLIN } };
	struct timespec timeout;
	uint64_t now, left;

	/* At least one look at keys and signals, however late it is. */
	do {
		now = clock_ns();
		left = now < time ? time - now : 0;
		timeout.tv_sec = left / NSEC_PER_SEC;
		timeout.tv_nsec = left % NSEC_PER_SEC;
		fds[1].fd = screen->keys ? STDIN_FILENO : -1;
		if (ppoll(fds, screen->live ? 2 : 0, &timeout, NULL) <= 0)
			continue;
		if (fds[0].revents && signal_ends(screen))
			return false;
		if (fds[1].revents && key_ends(screen))
			return false;
	} while (clock_ns() < time);
	return true;
}

void screen_draw(struct screen *screen, const char *text)
{
	struct winsize size = { 0 };
	unsigned int line = 0;
	const char *end;

	if (ioctl(fileno(screen->out), TIOCGWINSZ, &size) || !size.ws_row)
		size.ws_row = UINT16_MAX;
	/* Over the picture before, rather than on an empty screen: that would flicker. */
	fputs(screen->drawn ? HOME WRAP_OFF : CLEAR HOME WRAP_OFF, screen->out);
	for (; *text && line + 1 < size.ws_row; line++) {
		end = strchrnul(text, '\n');
		fprintf(screen->out, "%.*s" CLEAR_LINE "\n", (int)(end - text), text);
		text = *end ? end + 1 : end;
	}
	fputs(CLEAR_BELOW WRAP_ON, screen->out);
	fflush(screen->out);
	screen->drawn = true;
}
