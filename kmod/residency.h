/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_RESIDENCY_H
#define _DISTMIND_RESIDENCY_H

#include <linux/types.h>

struct distmind_buffer;
struct distmind_gpu;
struct distmind_job;
struct distmind_room;

bool distmind_residency_is_in(struct distmind_gpu *gpu, const struct distmind_job *job);
bool distmind_residency_try(struct distmind_gpu *gpu, struct distmind_job *job);
int distmind_residency_admit(struct distmind_gpu *gpu, struct distmind_job *job);
void distmind_residency_release(struct distmind_gpu *gpu, struct distmind_job *job);
bool distmind_residency_fits(struct distmind_gpu *gpu, const struct distmind_job *job, u32 lanes);
int distmind_residency_look(struct distmind_gpu *gpu, const struct distmind_job *job, bool again,
			    struct distmind_room *room);
void distmind_residency_ask_users(struct distmind_buffer *buffer);
struct distmind_gpu *distmind_residency_lock(struct distmind_buffer *buffer);
void distmind_residency_unlock(struct distmind_gpu *gpu);

#endif /* _DISTMIND_RESIDENCY_H */
