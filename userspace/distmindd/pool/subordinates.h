/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subordinate uids: /etc/subuid gives users thousands of uids for user namespaces of their own, and
 * each of them looks like another user from here. For limits, and for who waits for whose errands,
 * they count as the user that they belong to, as they do in the kernel; for rights they never do:
 * who may do what goes by the uid.
 *
 * Root's own count each for itself: root's containers are not one user. The file is read by the
 * loop, again when it has changed, and names are looked up in /etc/passwd and nowhere else, for a
 * name service could keep everybody waiting. All uids of a line whose user is not found there
 * count as the first of them.
 */
#ifndef DISTMINDD_SUBORDINATES_H
#define DISTMINDD_SUBORDINATES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define SUBORDINATES_PATH "/etc/subuid"
#define SUBORDINATES_USERS "/etc/passwd"

struct subordinates {
	const char *path, *users; /* the two files */
	struct stat seen; /* of the first, when it was read */
	struct subordinate_range *ranges; /* owned */
	size_t count;
};

void subordinates_init(struct subordinates *subordinates, const char *path, const char *users);
void subordinates_clear(struct subordinates *subordinates);

/* As whom a user counts; mostly himself. */
uint32_t subordinates_owner(struct subordinates *subordinates, uint32_t uid);

#endif
