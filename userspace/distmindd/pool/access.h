/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who may do what with a model. It has an owner, a group and a mode, as a file has: whoever
 * may read it can look at it, load and verify it; whoever may write to it can delete it and
 * say how many replicas it has. Its owner decides on the mode, root on all of it. That it is
 * there, and whose it is, everybody can see: names are shared by all.
 */
#ifndef DISTMINDD_ACCESS_H
#define DISTMINDD_ACCESS_H

#include "../../catalog/catalog.h"

#include <stdbool.h>
#include <sys/types.h>

enum access_right {
	ACCESS_READ = 04,
	ACCESS_WRITE = 02,
};

/* Somebody, as the kernel knows him. */
struct access_user {
	uint32_t uid;
	gid_t gid;
	gid_t *groups; /* beside it; owned */
	size_t group_count;
};

/* Whoever is at the other end of a socket. -ENOMEM and others. */
int access_user_open(struct access_user *user, int socket);
void access_user_close(struct access_user *user);

bool access_allows(const struct access_user *user, const struct catalog_access *access,
		   enum access_right right);

#endif
