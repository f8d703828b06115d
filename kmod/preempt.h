/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preemption: the vendor's hook, and what the world is told of each rung of the
 * ladder. A vendor's module includes this header and links distmind.ko.
 */
#ifndef _DISTMIND_PREEMPT_H
#define _DISTMIND_PREEMPT_H

#include <linux/list.h>
#include <linux/types.h>
#include <uapi/linux/distmind.h>
#include <uapi/linux/distmind_netlink.h>

struct distmind_suspension;
struct pid;
struct workqueue_struct;

/**
 * struct distmind_preempt - somebody who is to leave a lane
 * @gpu: number of the gpu
 * @gpu_name: its name
 * @gpu_kind: what kind it is, by which hooks are found
 * @lane: which of its lanes; what is resumed may have another now
 * @vgpu: whose work it is
 * @job: which job
 * @type: enum distmind_job_type
 * @pid: of a grant, the process that has the lane; valid during the call
 * @rung: enum distmind_preempt_rung, for events
 * @result: of the hook; 0 otherwise
 */
struct distmind_preempt {
	u32 gpu;
	char gpu_name[DISTMIND_NAME_LEN];
	char gpu_kind[DISTMIND_NAME_LEN];
	u32 lane;
	u32 vgpu;
	u64 job;
	u32 type;
	struct pid *pid;
	u32 rung;
	int result;
};

/**
 * struct distmind_preempt_hook - how a vendor's driver takes work off a device
 * @kind: which kind of gpu it is for; one hook for each
 * @evict: force the work off the device, after the grace period. What has the
 *	lane by a grant must stay off until @resume; an engine's job must soon be
 *	handed back by its engine. 0, or an error: then the hang limit decides.
 * @resume: let a grant's work go on
 * @link: distmind.ko's, as are the others
 * @users: calls that are under way or were ordered
 * @going: it is being unregistered
 * @suspended: what it has evicted and nobody has resumed
 * @resumer: calls @resume
 *
 * Both are called without locks and may sleep, one call at a time for a job, and for
 * several jobs at once.
 */
struct distmind_preempt_hook {
	const char *kind;
	int (*evict)(const struct distmind_preempt *preempt);
	void (*resume)(const struct distmind_preempt *preempt);
	struct list_head link;
	unsigned int users;
	bool going;
	struct list_head suspended;
	struct workqueue_struct *resumer;
};

/* -EBUSY: there is one for that kind already; -ENOMEM. */
int distmind_preempt_register(struct distmind_preempt_hook *hook);
/*
 * Waits for calls that are under way, and calls @resume for all grants that the hook still
 * keeps off the device: nothing stays stopped that nobody could let go on.
 */
void distmind_preempt_unregister(struct distmind_preempt_hook *hook);

int distmind_preempt_evict(struct distmind_preempt *preempt,
			   struct distmind_suspension **suspension);
void distmind_preempt_resume(struct distmind_suspension *suspension);

#endif /* _DISTMIND_PREEMPT_H */
