// SPDX-License-Identifier: GPL-2.0-only
/*
 * dma-bufs of buffers.
 *
 * A dma-buf holds its buffer until it is released, and counts until then for who has
 * exported it, be that who made the buffer or somebody it was handed to, or for who was
 * named to pay for it; a device's attachment to it counts for who has the device attach.
 * What is paid for the buffer (payment.c) it holds as well. This is a dynamic exporter: it
 * has pin and unpin. Pins are counted, because several importers pin at the same time and
 * the core pins on behalf of those who cannot be moved; see pin.c for what that means. Map
 * and unmap come with the reservation lock of the dma-buf held on all kernels.
 *
 * What was exported read-only is mapped for devices to read only: a device that was
 * told otherwise could write.
 *
 * A buffer knows all mappings of it by devices, of whichever dma-buf, so that access by
 * the processor can be made to see what they wrote. buffer->mappings_lock guards the
 * list; it nests inside the reservation lock.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "account.h"
#include "buffer.h"
#include "compat.h"
#include "dmabuf.h"
#include "payment.h"
#include "pin.h"
#include <uapi/linux/distmind.h>

/**
 * struct mapping - a buffer, as a device sees it
 * @in_buffer: in the buffer's list
 * @device: which; the attachment keeps it
 * @direction: what it may do
 * @table: where
 */
struct mapping {
	struct list_head in_buffer;
	struct device *device;
	enum dma_data_direction direction;
	struct sg_table table;
};

/**
 * struct export - what a dma-buf is of
 * @buffer: held
 * @payment: who pays for it, or NULL; held
 * @account: for whom it counts; held
 */
struct export {
	struct distmind_buffer *buffer;
	struct distmind_payment *payment;
	struct distmind_account *account;
};

static struct distmind_buffer *buffer_of(const struct dma_buf *dmabuf)
{
	return ((struct export *)dmabuf->priv)->buffer;
}

static bool is_writable(const struct dma_buf *dmabuf)
{
	return dmabuf->file->f_mode & FMODE_WRITE;
}

static int dmabuf_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct distmind_account *account = distmind_account_find();
	int err;

	if (IS_ERR(account))
		return PTR_ERR(account);
	err = distmind_account_charge(account, DISTMIND_LIMIT_ATTACHMENT, 1);
	if (err)
		distmind_account_put(account);
	else
		attachment->priv = account;
	return err;
}

static void dmabuf_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	distmind_account_uncharge(attachment->priv, DISTMIND_LIMIT_ATTACHMENT, 1);
	distmind_account_put(attachment->priv);
}

static int dmabuf_pin(struct dma_buf_attachment *attachment)
{
	return distmind_pin_add(buffer_of(attachment->dmabuf), dev_name(attachment->dev));
}

static void dmabuf_unpin(struct dma_buf_attachment *attachment)
{
	distmind_pin_del(buffer_of(attachment->dmabuf));
}

static struct sg_table *dmabuf_map(struct dma_buf_attachment *attachment,
				   enum dma_data_direction direction)
{
	struct distmind_buffer *buffer = buffer_of(attachment->dmabuf);
	struct mapping *mapping;
	int err;

	if (direction != DMA_TO_DEVICE && !is_writable(attachment->dmabuf))
		return ERR_PTR(-EACCES);
	mapping = kzalloc(sizeof(*mapping), GFP_KERNEL_ACCOUNT);
	if (!mapping)
		return ERR_PTR(-ENOMEM);
	mapping->device = attachment->dev;
	mapping->direction = direction;
	err = sg_alloc_table_from_pages(&mapping->table, buffer->pages, buffer->count, 0,
					distmind_buffer_size(buffer), GFP_KERNEL_ACCOUNT);
	if (err)
		goto err_free;
	err = dma_map_sgtable(attachment->dev, &mapping->table, direction, 0);
	if (err)
		goto err_table;
	mutex_lock(&buffer->mappings_lock);
	list_add_tail(&mapping->in_buffer, &buffer->mappings);
	mutex_unlock(&buffer->mappings_lock);
	return &mapping->table;

err_table:
	sg_free_table(&mapping->table);
err_free:
	kfree(mapping);
	return ERR_PTR(err);
}

static void dmabuf_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
			 enum dma_data_direction direction)
{
	struct distmind_buffer *buffer = buffer_of(attachment->dmabuf);
	struct mapping *mapping = container_of(table, struct mapping, table);

	mutex_lock(&buffer->mappings_lock);
	list_del(&mapping->in_buffer);
	mutex_unlock(&buffer->mappings_lock);
	dma_unmap_sgtable(attachment->dev, table, direction, 0);
	sg_free_table(table);
	kfree(mapping);
}

/*
 * The direction is a device's: from it is what the processor reads. Each mapping is
 * synchronised in the direction in which it was made.
 */
static int dmabuf_begin_cpu_access(struct dma_buf *dmabuf, enum dma_data_direction direction)
{
	struct distmind_buffer *buffer = buffer_of(dmabuf);
	struct mapping *mapping;

	if (direction != DMA_FROM_DEVICE && !is_writable(dmabuf))
		return -EACCES;
	if (mutex_lock_killable(&buffer->mappings_lock))
		return -EINTR;
	list_for_each_entry(mapping, &buffer->mappings, in_buffer)
		dma_sync_sgtable_for_cpu(mapping->device, &mapping->table, mapping->direction);
	mutex_unlock(&buffer->mappings_lock);
	return 0;
}

static int dmabuf_end_cpu_access(struct dma_buf *dmabuf, enum dma_data_direction direction)
{
	struct distmind_buffer *buffer = buffer_of(dmabuf);
	struct mapping *mapping;

	if (mutex_lock_killable(&buffer->mappings_lock))
		return -EINTR;
	list_for_each_entry(mapping, &buffer->mappings, in_buffer)
		dma_sync_sgtable_for_device(mapping->device, &mapping->table,
					    mapping->direction);
	mutex_unlock(&buffer->mappings_lock);
	return 0;
}

static int dmabuf_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	const struct export *export = dmabuf->priv;

	return distmind_buffer_mmap(export->buffer, export->payment, vma);
}

static void export_free(struct export *export)
{
	atomic_dec(&export->buffer->exports);
	distmind_payment_put(export->payment);
	distmind_buffer_put(export->buffer);
	distmind_account_uncharge(export->account, DISTMIND_LIMIT_EXPORT, 1);
	distmind_account_put(export->account);
	kfree(export);
}

static struct export *export_create(struct distmind_account *account,
				    struct distmind_buffer *buffer,
				    struct distmind_payment *payment)
{
	struct export *export;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_EXPORT, 1);
	if (err)
		return ERR_PTR(err);
	export = kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT);
	if (!export) {
		distmind_account_uncharge(account, DISTMIND_LIMIT_EXPORT, 1);
		return ERR_PTR(-ENOMEM);
	}
	distmind_account_get(account);
	export->account = account;
	distmind_buffer_get(buffer);
	export->buffer = buffer;
	export->payment = distmind_payment_get(payment);
	atomic_inc(&buffer->exports);
	return export;
}

static void dmabuf_release(struct dma_buf *dmabuf)
{
	export_free(dmabuf->priv);
}

static const struct dma_buf_ops dmabuf_ops = {
	.attach = dmabuf_attach,
	.detach = dmabuf_detach,
	.pin = dmabuf_pin,
	.unpin = dmabuf_unpin,
	.map_dma_buf = dmabuf_map,
	.unmap_dma_buf = dmabuf_unmap,
	.begin_cpu_access = dmabuf_begin_cpu_access,
	.end_cpu_access = dmabuf_end_cpu_access,
	.mmap = dmabuf_mmap,
	.release = dmabuf_release,
};

/* Returns a descriptor, which counts for @account; @payment may be NULL. */
int distmind_dmabuf_export(struct distmind_account *account, struct distmind_buffer *buffer,
			   struct distmind_payment *payment, u32 flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	struct export *export;
	int fd;

	export = export_create(account, buffer, payment);
	if (IS_ERR(export))
		return PTR_ERR(export);
	info.ops = &dmabuf_ops;
	info.size = distmind_buffer_size(buffer);
	info.flags = flags & DISTMIND_EXPORT_RDWR ? O_RDWR : O_RDONLY;
	info.priv = export;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		export_free(export);
		return PTR_ERR(dmabuf);
	}
	fd = dma_buf_fd(dmabuf, flags & DISTMIND_EXPORT_CLOEXEC ? O_CLOEXEC : 0);
	if (fd < 0)
		dma_buf_put(dmabuf);
	return fd;
}

/* The buffer of a descriptor, and who pays for it, or NULL; with references. */
struct distmind_buffer *distmind_dmabuf_import(int fd, bool *writable,
					       struct distmind_payment **payment)
{
	struct distmind_buffer *buffer = ERR_PTR(-EINVAL);
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	if (dmabuf->ops == &dmabuf_ops) {
		const struct export *export = dmabuf->priv;

		buffer = export->buffer;
		distmind_buffer_get(buffer);
		*payment = distmind_payment_get(export->payment);
		*writable = is_writable(dmabuf);
	}
	dma_buf_put(dmabuf);
	return buffer;
}

DISTMIND_IMPORT_NS(DMA_BUF);
