// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device nodes: /dev/distmind/control and /dev/distmind/engine live as long
 * as the module; the struct device of each vgpu is part of the vgpu, whose file
 * says how long it lives.
 *
 * Also here: inodes without a name, each with an address space of its own, so
 * that the mappings of one heap can be found and taken away.
 */
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>

#include "compat.h"
#include "node.h"

#define DISTMIND_FS_MAGIC 0x44697374 /* "Dist" */

enum { MINOR_CONTROL, MINOR_ENGINE, MINOR_VGPU };

static dev_t first;
static struct cdev control_cdev, engine_cdev;
static struct vfsmount *mount;

static char *node_path(devnode_device *dev, umode_t *mode)
{
	if (mode)
		*mode = MINOR(dev->devt) - MINOR(first) == MINOR_CONTROL ? 0666 : 0600;
	return kasprintf(GFP_KERNEL, "distmind/%s", dev_name(dev));
}

static struct class distmind_class = {
	.name = "distmind",
	.devnode = node_path,
};

static int init_fs_context(struct fs_context *fc)
{
	return init_pseudo(fc, DISTMIND_FS_MAGIC) ? 0 : -ENOMEM;
}

/*
 * Without an owner: the module mounts it for itself and unmounts it on exit, so
 * the mount must not be what keeps the module from unloading.
 */
static struct file_system_type distmind_fs = {
	.name = "distmind",
	.init_fs_context = init_fs_context,
	.kill_sb = kill_anon_super,
};

/* Released with iput(). */
struct inode *distmind_node_alloc_inode(void)
{
	return alloc_anon_inode(mount->mnt_sb);
}

void distmind_node_init_vgpu(struct device *dev, struct cdev *cdev, const struct device_type *type)
{
	device_initialize(dev);
	dev->class = &distmind_class;
	dev->type = type;
	cdev_init(cdev, &distmind_client_fops);
	cdev->owner = THIS_MODULE;
}

int distmind_node_add_vgpu(struct device *dev, struct cdev *cdev, u32 id)
{
	int err;

	dev->devt = MKDEV(MAJOR(first), MINOR(first) + MINOR_VGPU + id);
	err = dev_set_name(dev, "vgpu%u", id);
	if (err)
		return err;
	return cdev_device_add(cdev, dev);
}

static int __init add_node(struct cdev *cdev, const struct file_operations *fops, int minor,
			   const char *name)
{
	dev_t devt = MKDEV(MAJOR(first), MINOR(first) + minor);
	struct device *dev;
	int err;

	cdev_init(cdev, fops);
	cdev->owner = THIS_MODULE;
	err = cdev_add(cdev, devt, 1);
	if (err)
		return err;
	dev = device_create(&distmind_class, NULL, devt, NULL, "%s", name);
	if (IS_ERR(dev)) {
		cdev_del(cdev);
		return PTR_ERR(dev);
	}
	return 0;
}

static void del_node(struct cdev *cdev)
{
	device_destroy(&distmind_class, cdev->dev);
	cdev_del(cdev);
}

/* What vgpus need. */
int __init distmind_node_init(void)
{
	int err;

	mount = kern_mount(&distmind_fs);
	if (IS_ERR(mount))
		return PTR_ERR(mount);
	err = alloc_chrdev_region(&first, 0, MINOR_VGPU + DISTMIND_VGPU_MAX, "distmind");
	if (err)
		goto err_unmount;
	err = class_register(&distmind_class);
	if (err)
		goto err_region;
	return 0;

err_region:
	unregister_chrdev_region(first, MINOR_VGPU + DISTMIND_VGPU_MAX);
err_unmount:
	kern_unmount(mount);
	return err;
}

void distmind_node_exit(void)
{
	class_unregister(&distmind_class);
	unregister_chrdev_region(first, MINOR_VGPU + DISTMIND_VGPU_MAX);
	kern_unmount(mount);
}

/* The way in for everyone: when all else is ready. */
int __init distmind_node_publish(void)
{
	int err;

	err = add_node(&control_cdev, &distmind_control_fops, MINOR_CONTROL, "control");
	if (err)
		return err;
	err = add_node(&engine_cdev, &distmind_engine_fops, MINOR_ENGINE, "engine");
	if (err)
		del_node(&control_cdev);
	return err;
}

void distmind_node_withdraw(void)
{
	del_node(&engine_cdev);
	del_node(&control_cdev);
}
