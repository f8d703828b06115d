/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads beside that of an event loop: signals are for the loop's, but for those that say that
 * the thread itself has failed.
 */
#ifndef DISTMIND_COMMON_THREAD_H
#define DISTMIND_COMMON_THREAD_H

#include <pthread.h>
#include <signal.h>

/* A negative errno on failure. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

#endif
