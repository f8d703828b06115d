/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One daemon per host: two of them would promise the same memory twice. */
#ifndef DISTMINDD_LOCK_H
#define DISTMINDD_LOCK_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Returns a descriptor that holds the lock, with holder's id written into the
 * file. On failure error says why, and who holds it. -EBUSY: another daemon.
 */
int lock_take(char *error, size_t room);
/* After a fork: the file names the process that called last. */
void lock_sign(int fd);

#endif
