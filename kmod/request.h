/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_REQUEST_H
#define _DISTMIND_REQUEST_H

#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/mutex.h>

#include "table.h"
#include "vgpu.h"

struct user_namespace;

/**
 * struct distmind_request_payer - whom a request counts for
 * @uid: a user of the initial user namespace
 * @ns: if that is root, a user namespace that it has made, or NULL; its requests hold it
 */
struct distmind_request_payer {
	kuid_t uid;
	const struct user_namespace *ns;
};

/**
 * struct distmind_request - somebody waits for vgpus
 * @id: number
 * @payer: whom it counts for
 * @owner: who, and under which label
 * @settings: of each vgpu
 * @count: how many vgpus
 * @flags: DISTMIND_ACQUIRE_*
 * @kind: wanted GPU kind, may be empty
 * @deadline: when the wait ends
 * @answered: no longer in the table; under distmind_request_lock
 * @error: of the answer, 0 if granted
 * @reason: of a refusal
 * @done: the answer is there
 * @vgpus: the answer, each with a reference; @count of them
 */
struct distmind_request {
	u32 id;
	struct distmind_request_payer payer;
	struct distmind_vgpu_owner owner;
	struct distmind_vgpu_settings settings;
	u32 count;
	u32 flags;
	char kind[DISTMIND_NAME_LEN];
	ktime_t deadline;
	bool answered;
	int error;
	char reason[DISTMIND_REASON_LEN];
	struct completion done;
	struct distmind_vgpu *vgpus[];
};

extern struct mutex distmind_request_lock;
extern struct distmind_table distmind_requests;

int distmind_request_acquire(struct distmind_acquire *arg);
int distmind_request_grant(u32 id, const u32 *gpus, u32 count, struct netlink_ext_ack *extack);
int distmind_request_refuse(u32 id, int error, const char *reason, struct netlink_ext_ack *extack);

void distmind_request_exit(void);

#endif /* _DISTMIND_REQUEST_H */
