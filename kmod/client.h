/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_CLIENT_H
#define _DISTMIND_CLIENT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/xarray.h>

#include "account.h"

struct distmind_vgpu;
struct file;

/**
 * struct distmind_client - an open file of a vgpu
 * @ref: held by the file, and by @drop while that is posted
 * @id: tells this open file from others, whoever has copies of its descriptor
 * @vgpu: which; the client holds it
 * @account: whose process has opened it, for whom its objects count; held
 * @in_vgpu: in @vgpu->clients; under the vgpu's lock
 * @handles: see handle.c
 * @drop: takes them away, when the vgpu has been killed
 * @holds_lease: the vgpu ends with this file
 */
struct distmind_client {
	struct kref ref;
	u64 id;
	struct distmind_vgpu *vgpu;
	struct distmind_account *account;
	struct list_head in_vgpu;
	struct xarray handles;
	struct distmind_chore drop;
	bool holds_lease;
};

struct file *distmind_client_open_lease(struct distmind_vgpu *vgpu);
void distmind_client_drop_handles(struct distmind_vgpu *vgpu);

#endif /* _DISTMIND_CLIENT_H */
