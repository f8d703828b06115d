/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_LANE_H
#define _DISTMIND_LANE_H

#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/distmind.h>

#include "lane_state.h"

struct distmind_job;
struct distmind_preempt;
struct distmind_queue;
struct distmind_sched;
struct pid;
struct vm_area_struct;

/**
 * struct distmind_lane - a slot on which a gpu runs one job at a time
 * @sched: which it is part of
 * @kind: enum distmind_lane_kind
 * @page: what its engine sees: whether it is asked to yield
 * @job: what is on it, or NULL
 * @state: what can happen to it; changes by distmind_lane_step()
 * @lent: whose grant has the lane, or NULL; also when the job was failed, until the
 *	lane is given back, which the end of the queue's handle does at the latest
 * @pid: the process that it is lent to, or NULL; held
 * @server: the process that has taken @job for the engine, or NULL; held
 * @brief: it is lent to a user who is given less time to yield, see ladder.c
 * @failed: number of the job that was last taken away from its engine or process
 * @failed_vgpu: number of the vgpu whose that was
 * @abandoned: that job, while an engine that has not answered can reach its memory; held
 * @started_ns: when @job began
 * @asked_ns: when it was asked to yield, 0 if it was not
 * @failed_ns: when @failed was taken away, or when its process was last looked at
 * @away_ns: since when it is the engine's turn to send a thread, if none waits
 * @wanted_ns: since when there is something to do for which nobody has come, or for which
 *	who has @job could be asked whether it is there; 0: there is nothing
 * @looked_ns: when @server was last looked at, or took @job
 * @halted: it was stopped then
 * @switches: how often it had left a processor by then
 * @wait: where a thread of the engine sleeps
 * @hook_due: number of the job for which the vendor's hook is to be called; 0: none
 * @hook: calls it
 */
struct distmind_lane {
	struct distmind_sched *sched;
	u32 kind;
	struct distmind_lane_page *page;
	struct distmind_job *job;
	struct distmind_lane_state state;
	struct distmind_queue *lent;
	struct pid *pid;
	struct pid *server;
	bool brief;
	u64 failed;
	u32 failed_vgpu;
	struct distmind_job *abandoned;
	u64 started_ns;
	u64 asked_ns;
	u64 failed_ns;
	u64 away_ns;
	u64 wanted_ns;
	u64 looked_ns;
	bool halted;
	unsigned long switches;
	wait_queue_head_t wait;
	u64 hook_due;
	struct work_struct hook;
};

void distmind_lane_step(struct distmind_lane *lane, enum distmind_lane_event event);
u32 distmind_lane_index(const struct distmind_sched *sched, const struct distmind_lane *lane);
bool distmind_lane_can_yield(const struct distmind_sched *sched, const struct distmind_lane *lane);
void distmind_lane_tell(struct distmind_queue *queue);
struct distmind_preempt distmind_lane_describe(const struct distmind_sched *sched,
					       const struct distmind_lane *lane,
					       const struct distmind_job *job, u32 rung);

void distmind_lane_begin(struct distmind_sched *sched, struct distmind_lane *lane,
			 enum distmind_lane_event event, u64 now);
void distmind_lane_ask(struct distmind_sched *sched, struct distmind_lane *lane, u64 now);
struct distmind_job *distmind_lane_stop(struct distmind_sched *sched, struct distmind_lane *lane,
					enum distmind_lane_event event, int status,
					u64 reported, u64 now);
void distmind_lane_reset(struct distmind_lane *lane, struct distmind_job *job);
struct distmind_job *distmind_lane_reclaim(struct distmind_sched *sched,
					   struct distmind_lane *lane);
struct distmind_job *distmind_lane_answer(struct distmind_sched *sched, struct distmind_lane *lane,
					  u64 now);
void distmind_lane_count_end(struct distmind_sched *sched, const struct distmind_job *job,
			     int error, u64 now);
void distmind_lane_count_usable(struct distmind_sched *sched, u32 kind, u64 now);

int distmind_lane_mmap(struct distmind_sched *sched, struct vm_area_struct *vma);

#endif /* _DISTMIND_LANE_H */
