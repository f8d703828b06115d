/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_IOCTL_H
#define _DISTMIND_IOCTL_H

#include <linux/errno.h>
#include <linux/fs.h>
#include <uapi/linux/distmind.h>

/**
 * struct distmind_ioctl - one call of a device node
 * @cmd: its number, which encodes the size of its structure's first version
 * @size: size of the structure that this module knows
 * @call: gets the structure, which is copied back to the caller if it returns
 *	0; @user is where it came from, for what must be written earlier
 */
struct distmind_ioctl {
	unsigned int cmd;
	size_t size;
	int (*call)(struct file *file, void *arg, void __user *user);
};

#define DISTMIND_IOCTL(nr, type, func) \
	{ .cmd = (nr), .size = sizeof(struct type), .call = (func) }
/* Of a structure that has grown by @member and what follows it. */
#define DISTMIND_IOCTL_GROWN(nr, type, member, func) \
	{ .cmd = ((nr) & ~IOCSIZE_MASK) | offsetof(struct type, member) << IOCSIZE_SHIFT, \
	  .size = sizeof(struct type), .call = (func) }

long distmind_ioctl_dispatch(struct file *file, unsigned int cmd, unsigned long arg,
			     const struct distmind_ioctl *table, size_t count);

/*
 * Whether somebody may be told so by a call's return value. From ERESTARTSYS on they
 * are the kernel's own, and on the way to user space orders to do the call once more.
 */
static inline bool distmind_ioctl_is_error(int error)
{
	return error < 0 && error > -ERESTARTSYS;
}

int distmind_ioctl_query(struct file *file, void *arg, void __user *user);
bool distmind_ioctl_name_valid(const char name[DISTMIND_NAME_LEN]);

#endif /* _DISTMIND_IOCTL_H */
