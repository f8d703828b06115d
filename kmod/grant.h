/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_GRANT_H
#define _DISTMIND_GRANT_H

#include <linux/types.h>

struct distmind_job;
struct distmind_lane;
struct distmind_queue;
struct distmind_sched;
struct list_head;

void distmind_grant_lend(struct distmind_sched *sched, struct distmind_lane *lane, u64 now);
struct distmind_job *distmind_grant_take(struct distmind_sched *sched, struct distmind_lane *lane,
					 int status, u64 now);
int distmind_grant_return(struct distmind_sched *sched, struct distmind_queue *queue, u64 grant,
			  bool again);
void distmind_grant_revoke(struct distmind_sched *sched, struct distmind_queue *queue, int error,
			   struct list_head *ended);
struct distmind_job *distmind_grant_forsake(struct distmind_sched *sched,
					    struct distmind_lane *lane, int status, u64 now);

#endif /* _DISTMIND_GRANT_H */
