/* SPDX-License-Identifier: MIT */
#ifndef LIBDISTMIND_VGPU_H
#define LIBDISTMIND_VGPU_H

#include "distmind.h"

#define DISTMIND_DIR	 "/dev/distmind/"
#define DISTMIND_CONTROL DISTMIND_DIR "control"
#define DISTMIND_ENGINE	 DISTMIND_DIR "engine"

/* Owns fd. Buffers point to their vgpu and must be gone before it. */
struct distmind_vgpu {
	int fd;
	uint32_t page_size; /* 0 until it has been asked for */
};

/* ioctl() that gives a negative errno. */
int distmind_ioctl(int fd, unsigned long request, void *arg);

/* Opens a node; -ENOENT also when the module is there and the node is not. */
int distmind_open(const char *path);

/* Rounds *size up to whole pages. -EINVAL: too large. */
int distmind_round_up(uint32_t page_size, __u64 *size);
int distmind_page_size(int fd, uint32_t *page_size);

#endif
