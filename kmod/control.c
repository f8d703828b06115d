// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/distmind/control, open to everyone: asks what the module can do, and for
 * vgpus. An open file has no state.
 */
#include <linux/module.h>
#include <linux/uaccess.h>

#include "ioctl.h"
#include "node.h"
#include "claim.h"

static int control_open(struct inode *inode, struct file *file)
{
	return nonseekable_open(inode, file);
}

/* The reason of a refusal reaches the caller although the call fails. */
static int acquire(struct file *file, void *arg, void __user *user)
{
	struct distmind_acquire __user *where = user;
	struct distmind_acquire *acquire = arg;
	int err = distmind_claim_acquire(acquire);

	if (err && copy_to_user(where->reason, acquire->reason, sizeof(acquire->reason)))
		return -EFAULT;
	return err;
}

static const struct distmind_ioctl ioctls[] = {
	DISTMIND_IOCTL(DISTMIND_IOC_QUERY, distmind_query, distmind_ioctl_query),
	DISTMIND_IOCTL(DISTMIND_IOC_ACQUIRE, distmind_acquire, acquire),
};

static long control_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return distmind_ioctl_dispatch(file, cmd, arg, ioctls, ARRAY_SIZE(ioctls));
}

const struct file_operations distmind_control_fops = {
	.owner = THIS_MODULE,
	.open = control_open,
	.unlocked_ioctl = control_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};
