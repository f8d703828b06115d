/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_DEBT_H
#define _DISTMIND_DEBT_H

#include <linux/types.h>
#include <uapi/linux/distmind.h>

#include "policy/policy.h"

struct distmind_account;
struct distmind_sched;
struct distmind_tenant;

/* So many users are remembered by a gpu. */
#define DISTMIND_DEBTS_MAX 64

/**
 * struct distmind_debt - what a user's tenants of a gpu have had too much
 * @account: who; held, so that it is still the same when it comes back; or NULL
 * @noted_ns: when one of them went last
 * @policy: as the policies have it, for each kind of lane
 */
struct distmind_debt {
	struct distmind_account *account;
	u64 noted_ns;
	struct policy_debt policy[DISTMIND_LANE__COUNT];
};

void distmind_debt_note(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now);
void distmind_debt_take(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now);
void distmind_debt_forget_all(struct distmind_sched *sched);

#endif /* _DISTMIND_DEBT_H */
