/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#ifndef DISTMIND_TEST_IMPORTER_H
#define DISTMIND_TEST_IMPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* What /dev/distmind-test-importer does with the dma-buf of its open file. */
enum importer_op {
	IMPORTER_ATTACH, /* value: a dma-buf's descriptor */
	IMPORTER_DETACH,
	IMPORTER_PIN,
	IMPORTER_UNPIN,
	IMPORTER_MAP, /* for DMA; value: an enum dma_data_direction, 0 is both */
	IMPORTER_UNMAP,
	IMPORTER_READ, /* value bytes at offset to data, by the DMA addresses */
	IMPORTER_WRITE, /* value bytes at offset from data, by the DMA addresses */
	IMPORTER_SLEEP, /* for value ms, also if the process is killed */
};

struct importer_call {
	__u32 op;
	__u32 value;
	__aligned_u64 offset;
	__aligned_u64 data;
};

#define IMPORTER_CALL _IOW('i', 0, struct importer_call)

#endif /* DISTMIND_TEST_IMPORTER_H */
