// SPDX-License-Identifier: GPL-2.0-or-later
#include "pacing.h"

#include "../../common/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#define SECOND 1000000000ULL
#define WAKEUP_MAX_NS 80000 /* of lateness that is foreseen; what is more is the host's load */
#define WAKEUP_WEIGHT 8 /* of the average so far, in wakeups */

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Returns when it is over. */
static uint64_t sleep_until(uint64_t then)
{
	struct timespec at = {
		.tv_sec = (time_t)(then / SECOND),
		.tv_nsec = (long)(then % SECOND),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
	return clock_ns();
}

/*
 * A sleep ends later than asked for, by about the time that a wakeup takes: it is
 * asked to end so much earlier, and only what is left is spun. Spinning, and in a
 * guest looking at the clock, takes the processor from the network's software.
 */
static void wait_until(struct pacing *pacing, uint64_t due, uint64_t now)
{
	uint64_t wake = due - pacing->wakeup_ns, late;

	if (now < wake) {
		now = sleep_until(wake);
		late = now - wake < WAKEUP_MAX_NS ? now - wake : WAKEUP_MAX_NS;
		pacing->wakeup_ns += late / WAKEUP_WEIGHT - pacing->wakeup_ns / WAKEUP_WEIGHT;
	}
	for (; now < due; now = clock_ns())
		relax();
}

void pacing_init(struct pacing *pacing)
{
	*pacing = (struct pacing){ .wakeup_ns = WAKEUP_MAX_NS };
	/* By default a thread's timers may be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1UL);
}

/* What is later than the carry is lost. */
static void catch_up(struct pacing *pacing, uint64_t now)
{
	if (pacing->due_ns + PACING_CARRY_NS >= now)
		return;
	pacing->late_ns += now - PACING_CARRY_NS - pacing->due_ns;
	pacing->due_ns = now - PACING_CARRY_NS;
}

void pacing_start(struct pacing *pacing, bool idle, uint64_t launch_ns)
{
	uint64_t now = clock_ns();

	if (idle)
		pacing->due_ns = now;
	else
		catch_up(pacing, now);
	pacing->due_ns += launch_ns;
}

void pacing_block_end(struct pacing *pacing, uint64_t cost_ns)
{
	uint64_t now = clock_ns();

	pacing->due_ns += cost_ns;
	catch_up(pacing, now);
	wait_until(pacing, pacing->due_ns, now);
}
