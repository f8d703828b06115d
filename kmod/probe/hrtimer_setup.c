// SPDX-License-Identifier: GPL-2.0-only
/* 6.13: hrtimer_setup() takes the function; since 6.15 there is no hrtimer_init(). */
#include <linux/hrtimer.h>

void probe(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *));
void probe(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}
