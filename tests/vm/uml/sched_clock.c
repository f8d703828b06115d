// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Goes into the User-Mode Linux kernel, which has no sched_clock() of its own. The
 * generic one counts jiffies, 10 ms each: the scheduler then charges all of them to
 * whoever runs at the tick, and tasks that have used nothing wait for tens of
 * milliseconds. The host's clock is at hand.
 */
#include <linux/sched/clock.h>
#include <os.h>

unsigned long long notrace sched_clock(void)
{
	static unsigned long long begin;

	/* The first call is before there is anything that could race with it. */
	if (!begin)
		begin = os_nsecs();
	return os_nsecs() - begin;
}
