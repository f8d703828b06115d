/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_CLAIM_H
#define _DISTMIND_CLAIM_H

#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/mutex.h>

#include "table.h"
#include "vgpu.h"

struct distmind_account;

/**
 * struct distmind_claim - somebody waits for vgpus
 * @id: number, which another claim can have later
 * @serial: which no other one ever has
 * @account: whom it counts for, with the vgpus that it wants; the caller's
 * @owner: who, and under which label
 * @settings: of each vgpu
 * @count: how many vgpus
 * @flags: DISTMIND_ACQUIRE_*
 * @kind: wanted GPU kind, may be empty
 * @deadline: when the wait ends
 * @granted: the vgpus are there, and count themselves
 * @answered: no longer in the table; under distmind_claim_lock
 * @error: of the answer, 0 if granted
 * @reason: of a refusal
 * @done: the answer is there
 * @vgpus: the answer, each with a reference; @count of them
 */
struct distmind_claim {
	u32 id;
	u64 serial;
	struct distmind_account *account;
	struct distmind_vgpu_owner owner;
	struct distmind_vgpu_settings settings;
	u32 count;
	u32 flags;
	char kind[DISTMIND_NAME_LEN];
	ktime_t deadline;
	bool granted;
	bool answered;
	int error;
	char reason[DISTMIND_REASON_LEN];
	struct completion done;
	struct distmind_vgpu *vgpus[];
};

extern struct mutex distmind_claim_lock;
extern struct distmind_table distmind_claims;

int distmind_claim_acquire(struct distmind_acquire *arg);
int distmind_claim_grant(u32 id, const u32 *gpus, u32 count, struct netlink_ext_ack *extack);
int distmind_claim_refuse(u32 id, int error, const char *reason, struct netlink_ext_ack *extack);

void distmind_claim_exit(void);

#endif /* _DISTMIND_CLAIM_H */
