// SPDX-License-Identifier: GPL-2.0-or-later
/* dma-bufs of buffers: mapped, imported, pinned, and outliving everything. */
#include <linux/dma-buf.h>

#include "distmind_test.h"
#include "importer/importer.h"
#include "kselftest_harness.h"

FIXTURE(dmabuf)
{
	struct distmind_pool *pool;
	int engine, vgpu;
	uint32_t gpu, id, handle;
	char *memory;
};

FIXTURE_SETUP(dmabuf)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = engine_start("dmabuf", 16 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
	self->vgpu = vgpu_start(self->pool, self->gpu, 8 * MiB, &self->id);
	ASSERT_LE(0, self->vgpu);
	self->memory = buffer_new(self->vgpu, 4 * MiB, &self->handle);
	ASSERT_NE(MAP_FAILED, self->memory);
}

FIXTURE_TEARDOWN(dmabuf)
{
	munmap(self->memory, 4 * MiB);
	close(self->vgpu);
	close(self->engine);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

static int export(int vgpu, uint32_t handle, uint32_t flags)
{
	struct distmind_buffer_export arg = { .handle = handle, .flags = flags };
	int err = call(vgpu, DISTMIND_IOC_BUFFER_EXPORT, &arg);

	return err ? err : arg.fd;
}

static int import(int importer, enum importer_op op, uint32_t value)
{
	struct importer_call arg = { .op = op, .value = value };

	return call(importer, IMPORTER_CALL, &arg);
}

static int transfer(int importer, enum importer_op op, uint64_t offset, void *data, uint32_t size)
{
	struct importer_call arg = {
		.op = op, .value = size, .offset = offset, .data = (uintptr_t)data,
	};

	return call(importer, IMPORTER_CALL, &arg);
}

static uint32_t pins(int vgpu, uint32_t handle)
{
	struct distmind_buffer_info info = { .handle = handle };

	return call(vgpu, DISTMIND_IOC_BUFFER_INFO, &info) ? ~0U : info.pins;
}

TEST_F(dmabuf, mapping_shows_the_buffer)
{
	int fd = export(self->vgpu, self->handle, DISTMIND_EXPORT_RDWR | DISTMIND_EXPORT_CLOEXEC);
	char *memory;

	ASSERT_LE(0, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(4 * MiB, lseek(fd, 0, SEEK_END));
	memory = mmap(NULL, 4 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, memory);
	memory[3 * MiB] = 1;
	EXPECT_EQ(1, self->memory[3 * MiB]);
	self->memory[0] = 2;
	EXPECT_EQ(2, memory[0]);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 5 * MiB, PROT_READ, MAP_SHARED, fd, 0));
	munmap(memory, 4 * MiB);
	close(fd);
}

TEST_F(dmabuf, a_read_only_one_cannot_be_written_through)
{
	int fd = export(self->vgpu, self->handle, 0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, fcntl(fd, F_GETFD));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	EXPECT_EQ(EACCES, errno);
	EXPECT_NE(MAP_FAILED, mmap(NULL, MiB, PROT_READ, MAP_SHARED, fd, 0));
	close(fd);
}

TEST_F(dmabuf, an_importer_reads_and_writes_by_dma_addresses)
{
	int fd = export(self->vgpu, self->handle, DISTMIND_EXPORT_RDWR);
	int importer = open("/dev/distmind-test-importer", O_RDWR);
	char *copy = malloc(4 * MiB);

	ASSERT_LE(0, fd);
	ASSERT_LE(0, importer);
	for (uint64_t i = 0; i < 4 * MiB; i++)
		self->memory[i] = i * 7 + (i >> 12);
	ASSERT_EQ(0, import(importer, IMPORTER_ATTACH, fd));
	ASSERT_EQ(0, import(importer, IMPORTER_PIN, 0));
	ASSERT_EQ(0, import(importer, IMPORTER_MAP, 0));
	ASSERT_EQ(0, transfer(importer, IMPORTER_READ, 0, copy, 4 * MiB));
	EXPECT_EQ(0, memcmp(copy, self->memory, 4 * MiB));
	memset(copy, 0x3C, MiB);
	ASSERT_EQ(0, transfer(importer, IMPORTER_WRITE, MiB + 123, copy, MiB));
	EXPECT_TRUE(all_bytes(self->memory + MiB + 123, MiB, 0x3C));
	EXPECT_EQ(-ERANGE, transfer(importer, IMPORTER_READ, 4 * MiB - 1, copy, 2));
	close(importer);
	close(fd);
	free(copy);
}

/* As the kernel's enum dma_data_direction. */
enum { BOTH_WAYS, TO_DEVICE, FROM_DEVICE };

TEST_F(dmabuf, a_device_can_only_read_what_was_exported_read_only)
{
	int fd = export(self->vgpu, self->handle, 0);
	int importer = open("/dev/distmind-test-importer", O_RDWR);
	char byte = 0;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, importer);
	self->memory[5] = 55;
	ASSERT_EQ(0, import(importer, IMPORTER_ATTACH, fd));
	EXPECT_EQ(-EACCES, import(importer, IMPORTER_MAP, BOTH_WAYS));
	EXPECT_EQ(-EACCES, import(importer, IMPORTER_MAP, FROM_DEVICE));
	/* What was refused has left nothing pinned behind. */
	EXPECT_EQ(0, pins(self->vgpu, self->handle));
	ASSERT_EQ(0, import(importer, IMPORTER_MAP, TO_DEVICE));
	EXPECT_EQ(0, transfer(importer, IMPORTER_READ, 5, &byte, 1));
	EXPECT_EQ(55, byte);
	close(importer);
	close(fd);
	/* Of the same buffer, but writable. */
	fd = export(self->vgpu, self->handle, DISTMIND_EXPORT_RDWR);
	importer = open("/dev/distmind-test-importer", O_RDWR);
	ASSERT_EQ(0, import(importer, IMPORTER_ATTACH, fd));
	EXPECT_EQ(0, import(importer, IMPORTER_MAP, BOTH_WAYS));
	close(importer);
	close(fd);
}

static int sync_for_processor(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	return call(fd, DMA_BUF_IOCTL_SYNC, &sync);
}

TEST_F(dmabuf, the_processor_can_begin_and_end_what_its_descriptor_allows)
{
	int writable = export(self->vgpu, self->handle, DISTMIND_EXPORT_RDWR);
	int readable = export(self->vgpu, self->handle, 0);
	int importer = open("/dev/distmind-test-importer", O_RDWR);
	char byte = 0;

	ASSERT_LE(0, importer);
	ASSERT_EQ(0, import(importer, IMPORTER_ATTACH, writable));
	ASSERT_EQ(0, import(importer, IMPORTER_MAP, BOTH_WAYS));
	ASSERT_EQ(0, sync_for_processor(writable, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	self->memory[9] = 99;
	ASSERT_EQ(0, sync_for_processor(writable, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW));
	ASSERT_EQ(0, transfer(importer, IMPORTER_READ, 9, &byte, 1));
	EXPECT_EQ(99, byte);
	byte = 98;
	ASSERT_EQ(0, transfer(importer, IMPORTER_WRITE, 9, &byte, 1));
	/* Through another dma-buf of the buffer than the device's. */
	ASSERT_EQ(0, sync_for_processor(readable, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ));
	EXPECT_EQ(98, self->memory[9]);
	ASSERT_EQ(0, sync_for_processor(readable, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ));
	EXPECT_EQ(-EACCES, sync_for_processor(readable, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE));
	EXPECT_EQ(-EACCES, sync_for_processor(readable, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	close(importer);
	close(readable);
	close(writable);
}

/* A buffer of that size with an importer that is attached to it; its descriptor. */
static int attach_new(int vgpu, uint64_t size, uint32_t *handle)
{
	int importer = open("/dev/distmind-test-importer", O_RDWR);
	struct distmind_buffer_create create;
	int fd, err = buffer_create(vgpu, size, &create);

	if (err)
		return err;
	*handle = create.handle;
	fd = export(vgpu, create.handle, DISTMIND_EXPORT_RDWR);
	err = import(importer, IMPORTER_ATTACH, fd);
	close(fd);
	return err ? err : importer;
}

/* Pins new buffers until that fails; how many it were. */
static int pin_as_many(int vgpu, uint64_t size, int *importers, int count, int *err)
{
	uint32_t handle;

	for (int i = 0; i < count; i++) {
		importers[i] = attach_new(vgpu, size, &handle);
		*err = importers[i] < 0 ? importers[i] : import(importers[i], IMPORTER_PIN, 0);
		if (*err)
			return i;
	}
	return count;
}

TEST_F(dmabuf, pins_of_one_leave_enough_for_others)
{
	int mine[9], others[9], third[9], err = 0;
	uint32_t id[3];
	int vgpus[3];

	for (int i = 0; i < 3; i++) {
		vgpus[i] = vgpu_start(self->pool, self->gpu, 16 * MiB, &id[i]);
		ASSERT_LE(0, vgpus[i]);
	}
	/* Half of the heap can be pinned, half of that by one alone. */
	EXPECT_EQ(4, pin_as_many(vgpus[0], MiB, mine, 9, &err));
	EXPECT_EQ(-EDQUOT, err);
	EXPECT_EQ(2, pin_as_many(vgpus[1], MiB, others, 9, &err));
	EXPECT_EQ(-EDQUOT, err);
	EXPECT_EQ(1, pin_as_many(vgpus[2], MiB, third, 9, &err));
	EXPECT_EQ(-EDQUOT, err);
	/* What is pinned more than once counts once, also against a limit that is reached. */
	EXPECT_EQ(0, import(mine[0], IMPORTER_PIN, 0));
	/* What is no longer pinned counts no longer. */
	EXPECT_EQ(0, import(mine[1], IMPORTER_UNPIN, 0));
	EXPECT_EQ(0, import(mine[2], IMPORTER_UNPIN, 0));
	EXPECT_EQ(0, import(third[1], IMPORTER_PIN, 0));
	for (int i = 0; i < 5; i++)
		close(mine[i]);
	for (int i = 0; i < 3; i++)
		close(others[i]);
	for (int i = 0; i < 2; i++)
		close(third[i]);
	EXPECT_EQ(4, pin_as_many(vgpus[1], MiB, others, 9, &err));
	for (int i = 0; i < 5; i++)
		close(others[i]);
	for (int i = 0; i < 3; i++) {
		close(vgpus[i]);
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id[i]));
	}
}

TEST_F(dmabuf, pins_of_one_user_count_together)
{
	struct distmind_vgpu_record record = {
		.gpu = self->gpu, .memory = 16 * MiB, .share = 500,
		.sched_class = DISTMIND_CLASS_STANDARD, .uid = 65534, .gid = 65534,
	};
	int importers[2][9], vgpus[2], err = 0;
	uint32_t id[2];

	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &record));
		id[i] = record.id;
		vgpus[i] = open_vgpu(id[i]);
		ASSERT_LE(0, vgpus[i]);
	}
	EXPECT_EQ(3, pin_as_many(vgpus[0], MiB, importers[0], 3, &err));
	EXPECT_EQ(1, pin_as_many(vgpus[1], MiB, importers[1], 9, &err));
	EXPECT_EQ(-EDQUOT, err);
	for (int i = 0; i < 3; i++)
		close(importers[0][i]);
	for (int i = 0; i < 2; i++) {
		close(importers[1][i]);
		close(vgpus[i]);
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id[i]));
	}
}

TEST_F(dmabuf, pins_are_counted_per_importer)
{
	int fd = export(self->vgpu, self->handle, DISTMIND_EXPORT_RDWR);
	int one = open("/dev/distmind-test-importer", O_RDWR);
	int two = open("/dev/distmind-test-importer", O_RDWR);
	uint32_t base;

	ASSERT_LE(0, one);
	ASSERT_EQ(0, import(one, IMPORTER_ATTACH, fd));
	ASSERT_EQ(0, import(two, IMPORTER_ATTACH, fd));
	base = pins(self->vgpu, self->handle);
	ASSERT_EQ(0, import(one, IMPORTER_PIN, 0));
	ASSERT_EQ(0, import(one, IMPORTER_PIN, 0));
	ASSERT_EQ(0, import(two, IMPORTER_PIN, 0));
	EXPECT_EQ(base + 3, pins(self->vgpu, self->handle));
	ASSERT_EQ(0, import(one, IMPORTER_UNPIN, 0));
	EXPECT_EQ(base + 2, pins(self->vgpu, self->handle));
	close(one);
	EXPECT_EQ(base + 1, pins(self->vgpu, self->handle));
	close(two);
	EXPECT_EQ(0, pins(self->vgpu, self->handle));
	close(fd);
}

TEST_F(dmabuf, an_import_outlives_handle_file_vgpu_and_engine)
{
	int fd = export(self->vgpu, self->handle, DISTMIND_EXPORT_RDWR);
	int importer = open("/dev/distmind-test-importer", O_RDWR);
	char byte = 0;

	ASSERT_LE(0, importer);
	self->memory[100] = 77;
	ASSERT_EQ(0, import(importer, IMPORTER_ATTACH, fd));
	ASSERT_EQ(0, import(importer, IMPORTER_MAP, 0));
	munmap(self->memory, 4 * MiB);
	self->memory = mmap(NULL, 4 * MiB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_EQ(0, buffer_destroy(self->vgpu, self->handle));
	close(fd);
	close(self->vgpu);
	close(self->engine);
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, self->id));
	ASSERT_EQ(0, distmind_pool_gpu_remove(self->pool, self->gpu));
	ASSERT_EQ(0, transfer(importer, IMPORTER_READ, 100, &byte, 1));
	EXPECT_EQ(77, byte);
	close(importer);
}

TEST_F(dmabuf, shows_as_shared_in_fdinfo)
{
	char path[64], text[2048] = "";
	int fd = export(self->vgpu, self->handle, 0);
	FILE *file;

	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->vgpu);
	file = fopen(path, "r");
	ASSERT_NE(NULL, file);
	ASSERT_LT(0, fread(text, 1, sizeof(text) - 1, file));
	fclose(file);
	EXPECT_NE(NULL, strstr(text, "drm-shared-heap:\t4096 KiB\n"));
	close(fd);
}

TEST_HARNESS_MAIN
