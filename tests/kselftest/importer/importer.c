// SPDX-License-Identifier: GPL-2.0-only
/*
 * A dma-buf importer for tests: what an RDMA device with peer-to-peer support
 * does with a buffer, done by hand and one step at a time. It reaches the memory
 * by the DMA addresses it was given, which in a guest without an IOMMU are
 * physical addresses.
 *
 * An open file has at most one attachment, guarded by importer->lock.
 */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "importer.h"

struct importer {
	struct mutex lock; /* see above */
	struct dma_buf_attachment *attachment;
	struct sg_table *table;
	enum dma_data_direction direction; /* of the table */
	unsigned int pins;
};

static struct miscdevice device;

static void move_notify(struct dma_buf_attachment *attachment)
{
}

static const struct dma_buf_attach_ops attach_ops = {
	.allow_peer2peer = true,
	.move_notify = move_notify,
};

static int attach(struct importer *importer, int fd)
{
	struct dma_buf_attachment *attachment;
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	attachment = dma_buf_dynamic_attach(dmabuf, device.this_device, &attach_ops, importer);
	if (IS_ERR(attachment)) {
		dma_buf_put(dmabuf);
		return PTR_ERR(attachment);
	}
	importer->attachment = attachment;
	return 0;
}

/* Under the reservation lock. */
static void undo(struct importer *importer)
{
	if (importer->table)
		dma_buf_unmap_attachment(importer->attachment, importer->table,
					 importer->direction);
	importer->table = NULL;
	while (importer->pins) {
		dma_buf_unpin(importer->attachment);
		importer->pins--;
	}
}

static void detach(struct importer *importer)
{
	struct dma_buf *dmabuf;

	if (!importer->attachment)
		return;
	dmabuf = importer->attachment->dmabuf;
	dma_resv_lock(dmabuf->resv, NULL);
	undo(importer);
	dma_resv_unlock(dmabuf->resv);
	dma_buf_detach(dmabuf, importer->attachment);
	dma_buf_put(dmabuf);
	importer->attachment = NULL;
}

static int map(struct importer *importer, u32 direction)
{
	struct sg_table *table;

	if (importer->table)
		return -EBUSY;
	if (direction > DMA_FROM_DEVICE)
		return -EINVAL;
	table = dma_buf_map_attachment(importer->attachment, direction);
	if (IS_ERR(table))
		return PTR_ERR(table);
	importer->table = table;
	importer->direction = direction;
	return 0;
}

static int copy(struct importer *importer, const struct importer_call *arg)
{
	void __user *user = u64_to_user_ptr(arg->data);
	u64 offset = arg->offset, left = arg->value;
	struct scatterlist *sg;
	int i;

	if (!importer->table)
		return -EINVAL;
	for_each_sgtable_dma_sg(importer->table, sg, i) {
		u64 length = sg_dma_len(sg), now;
		void *address;

		if (offset >= length) {
			offset -= length;
			continue;
		}
		now = min(length - offset, left);
		address = phys_to_virt(sg_dma_address(sg)) + offset;
		if (arg->op == IMPORTER_READ ? copy_to_user(user, address, now) :
					       copy_from_user(address, user, now))
			return -EFAULT;
		user += now;
		left -= now;
		offset = 0;
	}
	return left ? -ERANGE : 0;
}

static int run(struct importer *importer, const struct importer_call *arg)
{
	int err = 0;

	dma_resv_lock(importer->attachment->dmabuf->resv, NULL);
	switch (arg->op) {
	case IMPORTER_PIN:
		err = dma_buf_pin(importer->attachment);
		importer->pins += !err;
		break;
	case IMPORTER_UNPIN:
		if (importer->pins) {
			dma_buf_unpin(importer->attachment);
			importer->pins--;
		}
		break;
	case IMPORTER_MAP:
		err = map(importer, arg->value);
		break;
	case IMPORTER_UNMAP:
		if (importer->table)
			dma_buf_unmap_attachment(importer->attachment, importer->table,
						 importer->direction);
		importer->table = NULL;
		break;
	default:
		err = -EINVAL;
	}
	dma_resv_unlock(importer->attachment->dmabuf->resv);
	return err;
}

static long importer_ioctl(struct file *file, unsigned int cmd, unsigned long user)
{
	struct importer *importer = file->private_data;
	struct importer_call arg;
	int err;

	if (cmd != IMPORTER_CALL)
		return -ENOTTY;
	if (copy_from_user(&arg, (void __user *)user, sizeof(arg)))
		return -EFAULT;
	mutex_lock(&importer->lock);
	if (arg.op == IMPORTER_SLEEP) {
		msleep(arg.value);
		err = 0;
	} else if (arg.op == IMPORTER_ATTACH) {
		err = importer->attachment ? -EBUSY : attach(importer, arg.value);
	} else if (!importer->attachment) {
		err = -EINVAL;
	} else if (arg.op == IMPORTER_DETACH) {
		detach(importer);
		err = 0;
	} else if (arg.op == IMPORTER_READ || arg.op == IMPORTER_WRITE) {
		err = copy(importer, &arg);
	} else {
		err = run(importer, &arg);
	}
	mutex_unlock(&importer->lock);
	return err;
}

static int importer_open(struct inode *inode, struct file *file)
{
	struct importer *importer = kzalloc(sizeof(*importer), GFP_KERNEL);

	if (!importer)
		return -ENOMEM;
	mutex_init(&importer->lock);
	file->private_data = importer;
	return 0;
}

static int importer_release(struct inode *inode, struct file *file)
{
	struct importer *importer = file->private_data;

	detach(importer);
	kfree(importer);
	return 0;
}

static const struct file_operations importer_fops = {
	.owner = THIS_MODULE,
	.open = importer_open,
	.release = importer_release,
	.unlocked_ioctl = importer_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "distmind-test-importer",
	.fops = &importer_fops,
};

static int __init importer_init(void)
{
	int err = misc_register(&device);

	if (err)
		return err;
	err = dma_coerce_mask_and_coherent(device.this_device, DMA_BIT_MASK(64));
	if (err)
		misc_deregister(&device);
	return err;
}

static void __exit importer_exit(void)
{
	misc_deregister(&device);
}

module_init(importer_init);
module_exit(importer_exit);

MODULE_DESCRIPTION("DistMind test: a dynamic dma-buf importer");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(DMA_BUF);
