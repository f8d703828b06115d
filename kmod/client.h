/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_CLIENT_H
#define _DISTMIND_CLIENT_H

#include <linux/list.h>
#include <linux/xarray.h>

struct distmind_queue;
struct distmind_vgpu;
struct file;

/**
 * struct distmind_client - an open file of a vgpu
 * @id: tells this open file from others, whoever has copies of its descriptor
 * @vgpu: which; the client holds it
 * @in_vgpu: in @vgpu->clients; under the vgpu's lock
 * @buffers: handle to buffer, each with a reference; under the vgpu's lock; the
 *	mark says that it may be written
 * @queues: handle to queue, likewise
 * @timelines: handle to timeline, likewise; the mark says that it may be signalled
 * @holds_lease: the vgpu ends with this file
 */
struct distmind_client {
	u64 id;
	struct distmind_vgpu *vgpu;
	struct list_head in_vgpu;
	struct xarray buffers;
	struct xarray queues;
	struct xarray timelines;
	bool holds_lease;
};

#define DISTMIND_CLIENT_WRITABLE XA_MARK_1 /* of a timeline or a buffer */

struct file *distmind_client_open_lease(struct distmind_vgpu *vgpu);
void distmind_client_drop_handles(struct distmind_vgpu *vgpu);
int distmind_client_missing(const struct distmind_client *client);
struct distmind_queue *distmind_client_queue(struct distmind_client *client, unsigned long handle);

#endif /* _DISTMIND_CLIENT_H */
