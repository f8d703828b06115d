/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_LADDER_H
#define _DISTMIND_LADDER_H

#include <linux/types.h>

struct distmind_account;
struct distmind_lane;
struct distmind_sched;
struct list_head;
struct work_struct;

u64 distmind_ladder_due(const struct distmind_sched *sched, const struct distmind_lane *lane,
			u64 now);
u64 distmind_ladder_look_at(const struct distmind_sched *sched, const struct distmind_lane *lane,
			    u64 now);
u64 distmind_ladder_lost_at(const struct distmind_sched *sched);
bool distmind_ladder_check(struct distmind_sched *sched, u64 now, struct list_head *ended);
bool distmind_ladder_trusts(const struct distmind_sched *sched,
			    const struct distmind_account *account, u64 now);
void distmind_ladder_call_hook(struct work_struct *work);
void distmind_ladder_quiesce(struct distmind_sched *sched);
int distmind_ladder_init(void);
void distmind_ladder_exit(void);

#endif /* _DISTMIND_LADDER_H */
