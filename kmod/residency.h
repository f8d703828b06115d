/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_RESIDENCY_H
#define _DISTMIND_RESIDENCY_H

#include <linux/types.h>

struct distmind_buffer;
struct distmind_gpu;
struct distmind_job;
struct distmind_lane;
struct distmind_sched;

bool distmind_residency_try(struct distmind_gpu *gpu, struct distmind_job *job);
int distmind_residency_admit(struct distmind_gpu *gpu, struct distmind_job *job,
			     const struct distmind_lane *lane);
void distmind_residency_release(struct distmind_gpu *gpu, struct distmind_job *job);
void distmind_residency_wake(void);
int distmind_residency_lock(struct distmind_buffer *buffer);
void distmind_residency_unlock(struct distmind_buffer *buffer);

#endif /* _DISTMIND_RESIDENCY_H */
