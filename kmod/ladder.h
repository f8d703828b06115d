/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_LADDER_H
#define _DISTMIND_LADDER_H

#include <linux/types.h>

struct distmind_lane;
struct distmind_sched;
struct list_head;

u64 distmind_ladder_due(const struct distmind_sched *sched, const struct distmind_lane *lane);
u64 distmind_ladder_lost_at(const struct distmind_sched *sched);
bool distmind_ladder_check(struct distmind_sched *sched, u64 now, struct list_head *ended);
void distmind_ladder_call_hooks(struct distmind_sched *sched, struct list_head *ended);

#endif /* _DISTMIND_LADDER_H */
