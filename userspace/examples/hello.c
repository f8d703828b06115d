// SPDX-License-Identifier: GPL-2.0-or-later
/* A vgpu of 64 MiB and half a gpu, and a buffer in it. */
#include <distmind.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	struct distmind_claim claim = {
		.memory = 64 << 20,
		.share = DISTMIND_SHARE_WHOLE / 2,
		.sched_class = DISTMIND_CLASS_STANDARD,
		.name = "hello",
	};
	char reason[DISTMIND_REASON_LEN];
	struct distmind_vgpu_info info;
	struct distmind_buffer *buffer;
	struct distmind_vgpu *vgpu;
	void *address;
	int err;

	err = distmind_acquire(&claim, &vgpu, reason);
	if (err) {
		fprintf(stderr, "hello: no vgpu: %s\n", reason);
		return 1;
	}
	err = distmind_buffer_create(vgpu, 16 << 20, DISTMIND_BUFFER_DATA, &buffer);
	if (err) {
		fprintf(stderr, "hello: no buffer: %s\n", strerror(-err));
		distmind_vgpu_close(vgpu);
		return 1;
	}
	err = distmind_buffer_map(buffer, &address);
	if (!err) {
		memset(address, 'x', distmind_buffer_size(buffer));
		err = distmind_vgpu_info(vgpu, &info);
	}
	if (!err)
		printf("vgpu %u on gpu %u: %llu of %llu bytes used\n", info.id, info.gpu,
		       (unsigned long long)info.memory_used, (unsigned long long)info.memory);
	else
		fprintf(stderr, "hello: %s\n", strerror(-err));

	distmind_buffer_destroy(buffer);
	distmind_vgpu_close(vgpu);
	return err ? 1 : 0;
}
