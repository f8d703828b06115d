// SPDX-License-Identifier: MIT
#include "vgpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Owns its handle and its mapping; borrows the vgpu's descriptor. */
struct distmind_buffer {
	struct distmind_vgpu *vgpu;
	uint64_t size;
	uint64_t map_offset;
	void *address; /* NULL until it is mapped */
	uint32_t handle;
	bool read_only;
};

int distmind_buffer_create(struct distmind_vgpu *vgpu, uint64_t size,
			   enum distmind_buffer_kind kind, struct distmind_buffer **buffer)
{
	struct distmind_buffer_create create = { .size = size, .kind = kind };
	struct distmind_buffer *made;
	int err;

	if (!vgpu->page_size) {
		err = distmind_page_size(vgpu->fd, &vgpu->page_size);
		if (err)
			return err;
	}
	err = distmind_round_up(vgpu->page_size, &create.size);
	if (err)
		return err;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	err = distmind_ioctl(vgpu->fd, DISTMIND_IOC_BUFFER_CREATE, &create);
	if (err) {
		free(made);
		return err;
	}
	made->vgpu = vgpu;
	made->size = create.size;
	made->map_offset = create.map_offset;
	made->handle = create.handle;
	*buffer = made;
	return 0;
}

int distmind_buffer_import(struct distmind_vgpu *vgpu, int fd, struct distmind_buffer **buffer)
{
	struct distmind_buffer_import import = { .fd = fd };
	struct distmind_buffer *made = calloc(1, sizeof(*made));
	int err;

	if (!made)
		return -ENOMEM;
	err = distmind_ioctl(vgpu->fd, DISTMIND_IOC_BUFFER_IMPORT, &import);
	if (err) {
		free(made);
		return err;
	}
	made->vgpu = vgpu;
	made->size = import.size;
	made->map_offset = import.map_offset;
	made->handle = import.handle;
	made->read_only = !(import.access & DISTMIND_EXPORT_RDWR);
	*buffer = made;
	return 0;
}

void distmind_buffer_destroy(struct distmind_buffer *buffer)
{
	struct distmind_handle_destroy destroy = { 0 };

	if (!buffer)
		return;
	if (buffer->address)
		munmap(buffer->address, buffer->size);
	destroy.handle = buffer->handle;
	distmind_ioctl(buffer->vgpu->fd, DISTMIND_IOC_BUFFER_DESTROY, &destroy);
	free(buffer);
}

uint32_t distmind_buffer_handle(const struct distmind_buffer *buffer)
{
	return buffer->handle;
}

uint64_t distmind_buffer_size(const struct distmind_buffer *buffer)
{
	return buffer->size;
}

int distmind_buffer_info(struct distmind_buffer *buffer, struct distmind_buffer_info *info)
{
	memset(info, 0, sizeof(*info));
	info->handle = buffer->handle;
	return distmind_ioctl(buffer->vgpu->fd, DISTMIND_IOC_BUFFER_INFO, info);
}

int distmind_buffer_map(struct distmind_buffer *buffer, void **address)
{
	void *mapped;

	if (!buffer->address) {
		if ((size_t)buffer->size != buffer->size)
			return -ENOMEM;
		mapped = mmap(NULL, buffer->size,
			      buffer->read_only ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED,
			      buffer->vgpu->fd, (off_t)buffer->map_offset);
		if (mapped == MAP_FAILED)
			return -errno;
		buffer->address = mapped;
	}
	*address = buffer->address;
	return 0;
}

static int export_buffer(struct distmind_buffer *buffer, uint32_t flags, uint32_t payer)
{
	struct distmind_buffer_export export = {
		.handle = buffer->handle, .flags = flags, .payer = payer,
	};
	int err;

	err = distmind_ioctl(buffer->vgpu->fd, DISTMIND_IOC_BUFFER_EXPORT, &export);
	return err ? err : export.fd;
}

int distmind_buffer_export(struct distmind_buffer *buffer, uint32_t flags)
{
	return export_buffer(buffer, flags, 0);
}

int distmind_buffer_export_paid(struct distmind_buffer *buffer, uint32_t flags, uint32_t payer)
{
	return export_buffer(buffer, flags | DISTMIND_EXPORT_PAID, payer);
}
