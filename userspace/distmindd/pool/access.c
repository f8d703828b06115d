// SPDX-License-Identifier: GPL-2.0-or-later
#include "access.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

int access_user_open(struct access_user *user, int socket)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	*user = (struct access_user){ 0 };
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return -errno;
	user->uid = peer.uid;
	user->gid = peer.gid;
	len = 0;
	if (!getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) || errno != ERANGE)
		return 0;
	user->groups = malloc(len);
	if (!user->groups)
		return -ENOMEM;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, user->groups, &len)) {
		access_user_close(user);
		return -errno;
	}
	user->group_count = len / sizeof(*user->groups);
	return 0;
}

void access_user_close(struct access_user *user)
{
	free(user->groups);
	user->groups = NULL;
	user->group_count = 0;
}

static bool is_in(const struct access_user *user, uint32_t gid)
{
	bool in = user->gid == gid;

	for (size_t i = 0; i < user->group_count; i++)
		in |= user->groups[i] == gid;
	return in;
}

/* As of files: the owner is not asked what the group may do, nor the group what others may. */
bool access_allows(const struct access_user *user, const struct catalog_access *access,
		   enum access_right right)
{
	unsigned int shift = 0;

	if (!user->uid)
		return true;
	if (user->uid == access->uid)
		shift = 6;
	else if (is_in(user, access->gid))
		shift = 3;
	return access->mode >> shift & right;
}
