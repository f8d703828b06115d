// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/distmind/control, open to everyone: asks what the module can do, and for
 * vgpus. An open file has no state but whose it is.
 */
#include <linux/err.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "account.h"
#include "ioctl.h"
#include "node.h"
#include "claim.h"

static int control_open(struct inode *inode, struct file *file)
{
	struct distmind_account *account = distmind_account_find();
	int err;

	if (IS_ERR(account))
		return PTR_ERR(account);
	err = distmind_account_charge(account, DISTMIND_LIMIT_FILE, 1);
	if (err) {
		distmind_account_put(account);
		return err;
	}
	file->private_data = account;
	return nonseekable_open(inode, file);
}

static int control_close(struct inode *inode, struct file *file)
{
	distmind_account_uncharge(file->private_data, DISTMIND_LIMIT_FILE, 1);
	distmind_account_put(file->private_data);
	return 0;
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

#ifdef CONFIG_PROC_FS
/* What the user has of everything that is counted. */
static void control_show_fdinfo(struct seq_file *m, struct file *file)
{
	distmind_account_show(file->private_data, m);
}
#endif

const struct file_operations distmind_control_fops = {
	.owner = THIS_MODULE,
	.open = control_open,
	.release = control_close,
#ifdef CONFIG_PROC_FS
	.show_fdinfo = control_show_fdinfo,
#endif
	.unlocked_ioctl = control_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};
