// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * buffer.copy     memcpy within a mapped buffer, against anonymous memory
 * buffer.create   create, map, touch, unmap, destroy 2 MiB, against a memfd
 */
#include <distmind.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define COPY   (32UL << 20)
#define CREATE (2UL << 20)
#define BATCH  20

struct places {
	struct distmind_vgpu *vgpu;
	char *buffer;
	char *anonymous;
};

static double copy(char *memory)
{
	double begin = bench_now();

	memcpy(memory, memory + COPY, COPY);
	memcpy(memory + COPY, memory, COPY);
	return bench_now() - begin;
}

static double copy_ours(void *arg)
{
	return copy(((struct places *)arg)->buffer);
}

static double copy_theirs(void *arg)
{
	return copy(((struct places *)arg)->anonymous);
}

static void touch(char *memory)
{
	for (size_t i = 0; i < CREATE; i += 4096)
		memory[i] = 1;
}

static double create_ours(void *arg)
{
	struct distmind_vgpu *vgpu = ((struct places *)arg)->vgpu;
	double begin = bench_now();

	for (int i = 0; i < BATCH; i++) {
		struct distmind_buffer *buffer;
		void *memory;

		if (distmind_buffer_create(vgpu, CREATE, DISTMIND_BUFFER_DATA, &buffer) ||
		    distmind_buffer_map(buffer, &memory))
			bench_die("cannot create a buffer");
		touch(memory);
		distmind_buffer_destroy(buffer);
	}
	return bench_now() - begin;
}

static double create_theirs(void *arg)
{
	double begin = bench_now();

	(void)arg;
	for (int i = 0; i < BATCH; i++) {
		int fd = memfd_create("bench", MFD_CLOEXEC);
		char *memory;

		if (fd < 0 || ftruncate(fd, CREATE))
			bench_die("cannot create a memfd");
		memory = mmap(NULL, CREATE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (memory == MAP_FAILED)
			bench_die("cannot map a memfd");
		touch(memory);
		munmap(memory, CREATE);
		close(fd);
	}
	return bench_now() - begin;
}

int main(void)
{
	struct distmind_engine *engine = bench_engine(256UL << 20);
	struct distmind_buffer *buffer;
	struct places places = { .vgpu = bench_vgpu(engine, 256UL << 20) };
	void *memory;

	if (distmind_buffer_create(places.vgpu, 2 * COPY, DISTMIND_BUFFER_DATA, &buffer) ||
	    distmind_buffer_map(buffer, &memory))
		bench_die("cannot create a buffer");
	places.buffer = memory;
	places.anonymous = mmap(NULL, 2 * COPY, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (places.anonymous == MAP_FAILED)
		bench_die("cannot map anonymous memory");
	memset(places.buffer, 1, 2 * COPY);
	memset(places.anonymous, 1, 2 * COPY);

	bench_run(&(struct bench){
		.name = "buffer.copy", .unit = "GB/s", .baseline = "anonymous memory",
		.rate = true, .work = 2 * COPY / 1e9, .rounds = 21,
		.ours = copy_ours, .theirs = copy_theirs, .arg = &places,
	});
	bench_run(&(struct bench){
		.name = "buffer.create", .unit = "us", .baseline = "memfd", .work = BATCH,
		.rounds = 21, .scale = 1e6, .ours = create_ours, .theirs = create_theirs,
		.arg = &places,
	});
	distmind_buffer_destroy(buffer);
	bench_leave(engine, places.vgpu);
	return 0;
}
