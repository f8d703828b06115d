/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pool as distmindd's placement sees it, of one moment: what the kernel lists, with what
 * distmindd's configuration says of it. All of it belongs to the view. Gpus have the numbers of
 * their records; a vgpu that is on one of them has a grant.
 *
 * What was asked for in the past only the daemon knows: here it is the vgpus that there are, as
 * it is for a daemon that has just started.
 */
#ifndef DISTMINDCTL_POOL_VIEW_H
#define DISTMINDCTL_POOL_VIEW_H

#include "../placement/decision.h"
#include "ctl.h"

struct pool_view {
	struct distmind_gpu_record *gpus;
	uint32_t gpu_count, gpu_room;
	struct distmind_vgpu_record *vgpus;
	uint32_t vgpu_count, vgpu_room;
	uint32_t *grants; /* of each vgpu, or PLACEMENT_NONE */
	struct placement_pool *pool;
	struct placement placement;
};

/* An exit code; what is wrong has been said. To be closed in any case. */
int pool_view_open(struct ctl *ctl, struct pool_view *view);
void pool_view_close(struct pool_view *view);

/* The vgpu of a grant. */
const struct distmind_vgpu_record *pool_view_holder(const struct pool_view *view, uint32_t grant);
/* The grant of the vgpu with that id, or PLACEMENT_NONE. */
uint32_t pool_view_grant(const struct pool_view *view, uint32_t id);

/* The verbs. */
int pool_show_command(struct ctl *ctl, int argc, char **argv);
int pool_explain_command(struct ctl *ctl, int argc, char **argv);
int pool_repack_command(struct ctl *ctl, int argc, char **argv);

#endif /* DISTMINDCTL_POOL_VIEW_H */
