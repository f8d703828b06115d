// SPDX-License-Identifier: GPL-2.0-only
/*
 * dma-bufs of buffers.
 *
 * A dma-buf holds its buffer until it is released. This is a dynamic exporter:
 * it has pin and unpin. Pins are counted, because several importers pin at the
 * same time and the core pins on behalf of those who cannot be moved. What is
 * pinned keeps its place in the heap; map and unmap come with the reservation
 * lock held on all kernels.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "buffer.h"
#include "compat.h"
#include "dmabuf.h"
#include "residency.h"
#include <uapi/linux/distmind.h>

static int dmabuf_pin(struct dma_buf_attachment *attachment)
{
	struct distmind_buffer *buffer = attachment->dmabuf->priv;

	atomic_inc(&buffer->pins);
	return 0;
}

static void dmabuf_unpin(struct dma_buf_attachment *attachment)
{
	struct distmind_buffer *buffer = attachment->dmabuf->priv;

	if (atomic_dec_and_test(&buffer->pins))
		distmind_residency_wake();
}

static struct sg_table *dmabuf_map(struct dma_buf_attachment *attachment,
				   enum dma_data_direction direction)
{
	struct distmind_buffer *buffer = attachment->dmabuf->priv;
	struct sg_table *table;
	int err;

	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table_from_pages(table, buffer->pages, buffer->count, 0,
					distmind_buffer_size(buffer), GFP_KERNEL);
	if (err)
		goto err_free;
	err = dma_map_sgtable(attachment->dev, table, direction, 0);
	if (err)
		goto err_table;
	return table;

err_table:
	sg_free_table(table);
err_free:
	kfree(table);
	return ERR_PTR(err);
}

static void dmabuf_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
			 enum dma_data_direction direction)
{
	dma_unmap_sgtable(attachment->dev, table, direction, 0);
	sg_free_table(table);
	kfree(table);
}

static int dmabuf_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	return distmind_buffer_mmap(dmabuf->priv, vma);
}

static void dmabuf_release(struct dma_buf *dmabuf)
{
	struct distmind_buffer *buffer = dmabuf->priv;

	WARN_ON(atomic_read(&buffer->pins) < 0);
	atomic_dec(&buffer->exports);
	distmind_buffer_put(buffer);
}

static const struct dma_buf_ops dmabuf_ops = {
	.pin = dmabuf_pin,
	.unpin = dmabuf_unpin,
	.map_dma_buf = dmabuf_map,
	.unmap_dma_buf = dmabuf_unmap,
	.mmap = dmabuf_mmap,
	.release = dmabuf_release,
};

/* Returns a descriptor. */
int distmind_dmabuf_export(struct distmind_buffer *buffer, u32 flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	int fd;

	info.ops = &dmabuf_ops;
	info.size = distmind_buffer_size(buffer);
	info.flags = flags & DISTMIND_EXPORT_RDWR ? O_RDWR : O_RDONLY;
	info.priv = buffer;
	distmind_buffer_get(buffer);
	atomic_inc(&buffer->exports);
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		atomic_dec(&buffer->exports);
		distmind_buffer_put(buffer);
		return PTR_ERR(dmabuf);
	}
	fd = dma_buf_fd(dmabuf, flags & DISTMIND_EXPORT_CLOEXEC ? O_CLOEXEC : 0);
	if (fd < 0)
		dma_buf_put(dmabuf);
	return fd;
}

/* The buffer of a descriptor, with a reference. */
struct distmind_buffer *distmind_dmabuf_import(int fd, bool *writable)
{
	struct distmind_buffer *buffer = ERR_PTR(-EINVAL);
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	if (dmabuf->ops == &dmabuf_ops) {
		buffer = dmabuf->priv;
		distmind_buffer_get(buffer);
		*writable = dmabuf->file->f_mode & FMODE_WRITE;
	}
	dma_buf_put(dmabuf);
	return buffer;
}

DISTMIND_IMPORT_NS(DMA_BUF);
