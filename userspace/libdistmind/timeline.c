// SPDX-License-Identifier: MIT
#include "handle.h"
#include "vgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Owns its handle, a descriptor of it and the mapping of its page. */
struct distmind_timeline {
	struct distmind_vgpu *vgpu;
	const struct distmind_timeline_page *page;
	int fd;
	uint32_t handle;
};

static int destroy_handle(struct distmind_vgpu *vgpu, uint32_t handle)
{
	struct distmind_handle_destroy destroy = { .handle = handle };

	return distmind_ioctl(vgpu->fd, DISTMIND_IOC_TIMELINE_DESTROY, &destroy);
}

/* A descriptor, or a negative errno. */
static int export_handle(struct distmind_vgpu *vgpu, uint32_t handle, uint32_t flags)
{
	struct distmind_timeline_export export = { .handle = handle, .flags = flags };
	int err = distmind_ioctl(vgpu->fd, DISTMIND_IOC_TIMELINE_EXPORT, &export);

	return err ? err : export.fd;
}

/* Makes the object around a handle and a descriptor; on failure both are gone. */
static int wrap(struct distmind_vgpu *vgpu, uint32_t handle, int fd,
		struct distmind_timeline **timeline)
{
	struct distmind_timeline *made = calloc(1, sizeof(*made));
	void *page;
	int err = -ENOMEM;

	if (!made)
		goto err_close;
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		err = -errno;
		goto err_close;
	}
	made->vgpu = vgpu;
	made->page = page;
	made->fd = fd;
	made->handle = handle;
	*timeline = made;
	return 0;

err_close:
	free(made);
	close(fd);
	destroy_handle(vgpu, handle);
	return err;
}

int distmind_timeline_create(struct distmind_vgpu *vgpu, uint64_t value,
			     struct distmind_timeline **timeline)
{
	struct distmind_timeline_create create = { .value = value };
	int err = distmind_ioctl(vgpu->fd, DISTMIND_IOC_TIMELINE_CREATE, &create);
	int fd;

	if (err)
		return err;
	fd = export_handle(vgpu, create.handle, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	if (fd < 0) {
		destroy_handle(vgpu, create.handle);
		return fd;
	}
	return wrap(vgpu, create.handle, fd, timeline);
}

int distmind_timeline_import(struct distmind_vgpu *vgpu, int fd,
			     struct distmind_timeline **timeline)
{
	struct distmind_timeline_import import = { .fd = fd };
	int err = distmind_ioctl(vgpu->fd, DISTMIND_IOC_TIMELINE_IMPORT, &import);
	int own;

	if (err)
		return err;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0) {
		err = -errno;
		destroy_handle(vgpu, import.handle);
		return err;
	}
	return wrap(vgpu, import.handle, own, timeline);
}

int distmind_timeline_export(struct distmind_timeline *timeline, uint32_t flags)
{
	return export_handle(timeline->vgpu, timeline->handle, flags);
}

void distmind_timeline_destroy(struct distmind_timeline *timeline)
{
	if (!timeline)
		return;
	munmap((void *)timeline->page, (size_t)sysconf(_SC_PAGESIZE));
	close(timeline->fd);
	destroy_handle(timeline->vgpu, timeline->handle);
	free(timeline);
}

int distmind_timeline_fd(const struct distmind_timeline *timeline)
{
	return timeline->fd;
}

uint32_t distmind_timeline_handle(const struct distmind_timeline *timeline)
{
	return timeline->handle;
}

uint64_t distmind_timeline_value(const struct distmind_timeline *timeline)
{
	/* Whatever was done before the signal is seen after this. */
	return __atomic_load_n(&timeline->page->value, __ATOMIC_ACQUIRE);
}

int distmind_timeline_status(const struct distmind_timeline *timeline, uint64_t value)
{
	if (distmind_timeline_value(timeline) < value)
		return -EAGAIN;
	if (value < __atomic_load_n(&timeline->page->failed_value, __ATOMIC_RELAXED))
		return 0;
	return __atomic_load_n(&timeline->page->error, __ATOMIC_RELAXED);
}

int distmind_timeline_wait(struct distmind_timeline *timeline, uint64_t value,
			   uint32_t timeout_ms)
{
	struct distmind_timeline_wait wait = { .value = value, .timeout_ms = timeout_ms };
	int err = distmind_timeline_status(timeline, value);

	return err == -EAGAIN ? distmind_ioctl(timeline->fd, DISTMIND_IOC_TIMELINE_WAIT, &wait) :
				err;
}

int distmind_timeline_signal(struct distmind_timeline *timeline, uint64_t value)
{
	struct distmind_timeline_signal signal = { .value = value };

	return distmind_ioctl(timeline->fd, DISTMIND_IOC_TIMELINE_SIGNAL, &signal);
}

int distmind_timeline_fail(struct distmind_timeline *timeline, uint64_t value, int error)
{
	struct distmind_timeline_fail fail = { .value = value, .error = error };

	return distmind_ioctl(timeline->fd, DISTMIND_IOC_TIMELINE_FAIL, &fail);
}

int distmind_timeline_watch(struct distmind_timeline *timeline, uint64_t value, int eventfd)
{
	struct distmind_timeline_watch watch = { .value = value, .eventfd = eventfd };

	return distmind_ioctl(timeline->fd, DISTMIND_IOC_TIMELINE_WATCH, &watch);
}

int distmind_timeline_poll(struct distmind_timeline *timeline, uint64_t value)
{
	struct distmind_timeline_signal from = { .value = value };

	return distmind_ioctl(timeline->fd, DISTMIND_IOC_TIMELINE_POLL, &from);
}
