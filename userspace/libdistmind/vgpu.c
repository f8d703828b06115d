// SPDX-License-Identifier: MIT
#include "vgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TIMEOUT_DEFAULT_MS 30000

int distmind_ioctl(int fd, unsigned long claim, void *arg)
{
	return ioctl(fd, claim, arg) < 0 ? -errno : 0;
}

int distmind_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int distmind_page_size(int fd, uint32_t *page_size)
{
	struct distmind_query query = { 0 };
	int err = distmind_ioctl(fd, DISTMIND_IOC_QUERY, &query);

	if (err)
		return err;
	if (!query.page_size || query.page_size & (query.page_size - 1))
		return -EPROTO;
	*page_size = query.page_size;
	return 0;
}

int distmind_round_up(uint32_t page_size, __u64 *size)
{
	__u64 mask = page_size - 1;

	if (*size > UINT64_MAX - mask)
		return -EINVAL;
	*size = (*size + mask) & ~mask;
	return 0;
}

int distmind_query(struct distmind_query *query)
{
	int fd, err;

	fd = distmind_open(DISTMIND_CONTROL);
	if (fd < 0)
		return fd == -ENXIO || fd == -ENODEV ? -ENOENT : fd;
	memset(query, 0, sizeof(*query));
	err = distmind_ioctl(fd, DISTMIND_IOC_QUERY, query);
	close(fd);
	return err;
}

/* Callers may print the reason of any failure, so every failure has one. */
static int refuse(char *reason, int err, const char *text)
{
	if (reason)
		snprintf(reason, DISTMIND_REASON_LEN, "%s", text);
	return err;
}

static int copy_name(char *to, const char *from)
{
	size_t len = from ? strlen(from) : 0;

	if (len >= DISTMIND_NAME_LEN)
		return -EINVAL;
	memcpy(to, from ? from : "", len + 1);
	return 0;
}

static void free_vgpus(struct distmind_vgpu **vgpus, uint32_t count)
{
	while (count--) {
		free(vgpus[count]);
		vgpus[count] = NULL;
	}
}

/* Before the claim, so that nothing that was granted can be lost for want of memory. */
static int alloc_vgpus(struct distmind_vgpu **vgpus, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		vgpus[i] = calloc(1, sizeof(*vgpus[i]));
		if (!vgpus[i]) {
			free_vgpus(vgpus, i);
			return -ENOMEM;
		}
	}
	return 0;
}

static int acquire_from(int control, struct distmind_acquire *acquire,
			struct distmind_vgpu **vgpus, char *reason)
{
	int32_t fds[DISTMIND_ACQUIRE_MAX];
	uint32_t page_size;
	int err;

	err = distmind_page_size(control, &page_size);
	if (!err)
		err = distmind_round_up(page_size, &acquire->memory);
	if (err)
		return refuse(reason, err, strerror(-err));
	err = alloc_vgpus(vgpus, acquire->count);
	if (err)
		return refuse(reason, err, strerror(-err));

	acquire->fds = (uintptr_t)fds;
	err = distmind_ioctl(control, DISTMIND_IOC_ACQUIRE, acquire);
	if (err) {
		free_vgpus(vgpus, acquire->count);
		acquire->reason[DISTMIND_REASON_LEN - 1] = '\0';
		return refuse(reason, err, *acquire->reason ? acquire->reason : strerror(-err));
	}
	for (uint32_t i = 0; i < acquire->count; i++) {
		vgpus[i]->fd = fds[i];
		vgpus[i]->page_size = page_size;
	}
	return 0;
}

int distmind_acquire(const struct distmind_claim *claim, struct distmind_vgpu **vgpus,
		     char *reason)
{
	struct distmind_acquire acquire = {
		.memory = claim->memory,
		.objective_ns = claim->objective_ns,
		.share = claim->share ? claim->share : DISTMIND_SHARE_WHOLE,
		.sched_class = claim->sched_class,
		.count = claim->count ? claim->count : 1,
		.flags = (claim->same_box ? DISTMIND_ACQUIRE_SAME_BOX : 0) |
			 (claim->capped ? DISTMIND_ACQUIRE_CAPPED : 0),
		.timeout_ms = claim->timeout_ms ? claim->timeout_ms : TIMEOUT_DEFAULT_MS,
	};
	int control, err;

	if (reason)
		*reason = '\0';
	if (acquire.count > DISTMIND_ACQUIRE_MAX)
		return refuse(reason, -EINVAL, "too many vgpus in one claim");
	if (copy_name(acquire.name, claim->name))
		return refuse(reason, -EINVAL, "the name is too long");
	if (copy_name(acquire.kind, claim->kind))
		return refuse(reason, -EINVAL, "the name of the gpu kind is too long");

	control = distmind_open(DISTMIND_CONTROL);
	if (control == -ENOENT || control == -ENXIO || control == -ENODEV)
		return refuse(reason, -ENOENT,
			      "the distmind module is not loaded: modprobe distmind");
	if (control < 0)
		return refuse(reason, control, strerror(-control));
	err = acquire_from(control, &acquire, vgpus, reason);
	close(control);
	return err;
}

int distmind_vgpu_from_fd(int fd, struct distmind_vgpu **vgpu)
{
	struct distmind_vgpu_info info = { 0 };
	struct distmind_vgpu *made;
	int err;

	/* A parked, lost or deleted vgpu is still a vgpu. */
	err = distmind_ioctl(fd, DISTMIND_IOC_VGPU_INFO, &info);
	if (err && err != -ENODEV)
		return err;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->fd = fd;
	*vgpu = made;
	return 0;
}

int distmind_vgpu_open(const char *path, struct distmind_vgpu **vgpu)
{
	int fd, err;

	fd = distmind_open(path);
	if (fd < 0)
		return fd;
	err = distmind_vgpu_from_fd(fd, vgpu);
	if (err)
		close(fd);
	return err;
}

/* The index-th number of a list such as "3,4,5". */
static int nth_descriptor(const char *list, unsigned int index)
{
	char *end;
	long fd;

	for (;; list = end + 1) {
		errno = 0;
		fd = strtol(list, &end, 10);
		if (errno || end == list || (*end && *end != ',') || fd < 0 || fd > INT_MAX)
			return -EINVAL;
		if (!index--)
			return (int)fd;
		if (!*end)
			return -ENOENT;
	}
}

int distmind_vgpu_inherited(unsigned int index, struct distmind_vgpu **vgpu)
{
	const char *list = getenv(DISTMIND_ENV_FDS);
	int fd, err;

	if (!list || !*list)
		return -ENOENT;
	fd = nth_descriptor(list, index);
	if (fd < 0)
		return fd;
	/*
	 * A copy: the original stays as it is for children that this process
	 * starts and for whoever else in it asks for the same vgpu.
	 */
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = distmind_vgpu_from_fd(fd, vgpu);
	if (err)
		close(fd);
	return err;
}

void distmind_vgpu_close(struct distmind_vgpu *vgpu)
{
	if (!vgpu)
		return;
	close(vgpu->fd);
	free(vgpu);
}

int distmind_vgpu_fd(const struct distmind_vgpu *vgpu)
{
	return vgpu->fd;
}

int distmind_vgpu_info(struct distmind_vgpu *vgpu, struct distmind_vgpu_info *info)
{
	memset(info, 0, sizeof(*info));
	return distmind_ioctl(vgpu->fd, DISTMIND_IOC_VGPU_INFO, info);
}
