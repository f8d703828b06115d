// SPDX-License-Identifier: GPL-2.0-or-later
#include "pacing.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#define SECOND 1000000000ULL
/* A sleep ends late by about the time that a wakeup takes: the rest is spun. */
#define SPIN_NS 80000

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void wait_until(uint64_t due)
{
	uint64_t now = now_ns();

	if (now + SPIN_NS < due) {
		uint64_t wake = due - SPIN_NS;
		struct timespec at = {
			.tv_sec = (time_t)(wake / SECOND),
			.tv_nsec = (long)(wake % SECOND),
		};

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			;
	}
	while (now_ns() < due)
		relax();
}

void pacing_init(struct pacing *pacing)
{
	*pacing = (struct pacing){ 0 };
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
	uint64_t now = now_ns();

	if (idle)
		pacing->due_ns = now;
	else
		catch_up(pacing, now);
	pacing->due_ns += launch_ns;
}

void pacing_block_end(struct pacing *pacing, uint64_t cost_ns)
{
	pacing->due_ns += cost_ns;
	catch_up(pacing, now_ns());
	wait_until(pacing->due_ns);
}
