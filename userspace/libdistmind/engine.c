// SPDX-License-Identifier: MIT
#include "vgpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Owns fd, which is the gpu's life, and the mapping of its heap. */
struct distmind_engine {
	int fd;
	uint32_t gpu;
	uint64_t heap_size;
	void *heap;
	uint32_t lanes;
	uint32_t capabilities;
	size_t page_size;
	char *pages; /* a control page for each lane, or NULL */
};

static int register_gpu(struct distmind_engine *engine,
			const struct distmind_engine_params *params)
{
	struct distmind_engine_register reg = {
		.heap_size = params->memory,
		.numa_node = params->numa_node,
		.box = params->box,
		.compute_lanes = params->compute_lanes,
		.copy_lanes = params->copy_lanes,
		.capabilities = params->capabilities,
	};
	uint32_t page_size;
	int err;

	if (!params->name || strlen(params->name) >= sizeof(reg.name) || !params->kind ||
	    strlen(params->kind) >= sizeof(reg.kind))
		return -EINVAL;
	strcpy(reg.name, params->name);
	strcpy(reg.kind, params->kind);

	err = distmind_page_size(engine->fd, &page_size);
	if (!err)
		err = distmind_round_up(page_size, &reg.heap_size);
	if (!err)
		err = distmind_ioctl(engine->fd, DISTMIND_IOC_ENGINE_REGISTER, &reg);
	if (err)
		return err;
	engine->gpu = reg.gpu;
	engine->heap_size = reg.heap_size;
	engine->lanes = reg.compute_lanes + reg.copy_lanes;
	engine->page_size = page_size;
	engine->capabilities = reg.capabilities;
	return 0;
}

int distmind_engine_register(const struct distmind_engine_params *params,
			     struct distmind_engine **engine)
{
	struct distmind_engine *made;
	int err;

	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->fd = distmind_open(DISTMIND_ENGINE);
	if (made->fd < 0) {
		err = made->fd == -ENXIO || made->fd == -ENODEV ? -ENOENT : made->fd;
		goto err_free;
	}
	err = register_gpu(made, params);
	if (err)
		goto err_close;
	made->heap = mmap(NULL, made->heap_size, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd, 0);
	if (made->heap == MAP_FAILED) {
		err = -errno;
		goto err_close;
	}
	if (made->lanes) {
		made->pages = mmap(NULL, made->lanes * made->page_size, PROT_READ, MAP_SHARED,
				   made->fd, (off_t)DISTMIND_LANE_MAP_OFFSET);
		if (made->pages == MAP_FAILED) {
			err = -errno;
			goto err_heap;
		}
	}
	*engine = made;
	return 0;

err_heap:
	munmap(made->heap, made->heap_size);
err_close:
	close(made->fd);
err_free:
	free(made);
	return err;
}

void distmind_engine_close(struct distmind_engine *engine)
{
	if (!engine)
		return;
	/* A mapping holds the file, and the file is the gpu. */
	munmap(engine->heap, engine->heap_size);
	if (engine->pages)
		munmap(engine->pages, engine->lanes * engine->page_size);
	close(engine->fd);
	free(engine);
}

int distmind_engine_fd(const struct distmind_engine *engine)
{
	return engine->fd;
}

uint32_t distmind_engine_gpu(const struct distmind_engine *engine)
{
	return engine->gpu;
}

uint32_t distmind_engine_capabilities(const struct distmind_engine *engine)
{
	return engine->capabilities;
}

void *distmind_engine_heap(const struct distmind_engine *engine)
{
	return engine->heap;
}

int distmind_engine_exchange(struct distmind_engine *engine,
			     struct distmind_engine_exchange *exchange)
{
	return distmind_ioctl(engine->fd, DISTMIND_IOC_ENGINE_EXCHANGE, exchange);
}

const struct distmind_lane_page *distmind_engine_lane(const struct distmind_engine *engine,
						      uint32_t lane)
{
	if (lane >= engine->lanes)
		return NULL;
	return (const struct distmind_lane_page *)(engine->pages + lane * engine->page_size);
}
