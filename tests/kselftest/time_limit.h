/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long a test may take. The harness ends one that takes longer by alarm(). With KASAN and
 * lockdep in an emulated processor everything takes ten times as long, as the suite knows too.
 * Included before everything else, by kselftest.mk: the call is in the harness.
 */
#ifndef DISTMIND_TIME_LIMIT_H
#define DISTMIND_TIME_LIMIT_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline unsigned int time_limit(unsigned int seconds)
{
	const char *guest = getenv("DISTMIND_GUEST");

	return guest && !strcmp(guest, "smp") ? 10 * seconds : seconds;
}

#define alarm(seconds) alarm(time_limit(seconds))

#endif /* DISTMIND_TIME_LIMIT_H */
