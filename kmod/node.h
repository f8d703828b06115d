/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_NODE_H
#define _DISTMIND_NODE_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>

/* How many vgpus there can be at a time: the minors that they get. */
#define DISTMIND_VGPU_MAX 65536

void distmind_node_init_vgpu(struct device *dev, struct cdev *cdev, const struct device_type *type);
int distmind_node_add_vgpu(struct device *dev, struct cdev *cdev, u32 id);

struct inode *distmind_node_alloc_inode(void);

int distmind_node_init(void);
int distmind_node_publish(void);
void distmind_node_withdraw(void);
void distmind_node_exit(void);

extern const struct file_operations distmind_control_fops;
extern const struct file_operations distmind_engine_fops;
extern const struct file_operations distmind_client_fops;

#endif /* _DISTMIND_NODE_H */
