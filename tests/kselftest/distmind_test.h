/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest tests share: nodes, an engine in the test itself, vgpus made
 * over netlink. Tests talk to the module by raw ioctls, so that they prove the
 * ABI and not the library; the library's pool calls stand in for the daemon.
 */
#ifndef DISTMIND_TEST_H
#define DISTMIND_TEST_H

#include <distmind.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MiB (1ULL << 20)
#define PAGE ((uint64_t)sysconf(_SC_PAGESIZE))

/* An ioctl that returns a negative errno. */
static inline int call(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) < 0 ? -errno : 0;
}

static inline int open_node(const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/distmind/%s", name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static inline int open_vgpu(uint32_t id)
{
	char name[32];

	snprintf(name, sizeof(name), "vgpu%u", id);
	return open_node(name);
}

/* An engine file with a gpu of that name; the gpu's number goes to *gpu. */
static inline int engine_start(const char *name, uint64_t heap, uint32_t *gpu)
{
	struct distmind_engine_register reg = { .heap_size = heap, .numa_node = DISTMIND_NUMA_ANY };
	int fd = open_node("engine");
	int err;

	if (fd < 0)
		return fd;
	snprintf(reg.name, sizeof(reg.name), "%s", name);
	strcpy(reg.kind, "test");
	err = call(fd, DISTMIND_IOC_ENGINE_REGISTER, &reg);
	if (err) {
		close(fd);
		return err;
	}
	*gpu = reg.gpu;
	return fd;
}

/* An administrator's vgpu on that gpu, opened. */
static inline int vgpu_start(struct distmind_pool *pool, uint32_t gpu, uint64_t memory,
			     uint32_t *id)
{
	struct distmind_vgpu_record record = {
		.gpu = gpu, .memory = memory, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD
	};
	int err = distmind_pool_vgpu_create(pool, &record);

	if (err)
		return err;
	*id = record.id;
	return open_vgpu(record.id);
}

static inline int buffer_create(int vgpu, uint64_t size, struct distmind_buffer_create *create)
{
	*create = (struct distmind_buffer_create){ .size = size };
	return call(vgpu, DISTMIND_IOC_BUFFER_CREATE, create);
}

static inline int buffer_destroy(int vgpu, uint32_t handle)
{
	struct distmind_handle_destroy destroy = { .handle = handle };

	return call(vgpu, DISTMIND_IOC_BUFFER_DESTROY, &destroy);
}

static inline void *buffer_map(int vgpu, uint64_t offset, uint64_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vgpu, offset);
}

/* A new buffer in memory, or MAP_FAILED. */
static inline void *buffer_new(int vgpu, uint64_t size, uint32_t *handle)
{
	struct distmind_buffer_create create;

	if (buffer_create(vgpu, size, &create))
		return MAP_FAILED;
	*handle = create.handle;
	return buffer_map(vgpu, create.map_offset, size);
}

static inline bool all_bytes(const void *memory, size_t size, unsigned char value)
{
	const unsigned char *p = memory;

	return p[0] == value && !memcmp(p, p + 1, size - 1);
}

/* The exit status of a child, 128 + signal if one killed it. */
static inline int child_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Become somebody without any rights. */
static inline int become_nobody(void)
{
	return setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
}

/* Run code in a child that is nobody, return its exit status. */
#define AS_NOBODY(code) ({                                  \
	pid_t __pid = fork();                               \
	if (!__pid)                                         \
		_exit(become_nobody() ? 99 : (code));       \
	child_status(__pid);                                \
})

/*
 * What is used of a gpu's memory, after up to ten seconds if that is not nothing: what a
 * deleted vgpu had goes by and by.
 */
static inline uint64_t memory_left(struct distmind_pool *pool, uint32_t gpu)
{
	struct distmind_gpu_record record = { 0 };

	for (int i = 0; i < 10000; i++) {
		if (distmind_pool_gpu(pool, gpu, &record))
			return UINT64_MAX;
		if (!record.memory_used)
			break;
		usleep(1000);
	}
	return record.memory_used;
}

#endif /* DISTMIND_TEST_H */
