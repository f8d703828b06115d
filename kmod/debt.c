// SPDX-License-Identifier: GPL-2.0-only
/*
 * Debts: what a user's tenants of a gpu have had beyond their share when they went.
 *
 * A tenant that has run for longer than it was its turn waits until the others have had as
 * much. If it could close its vgpu instead, and acquire another, it would never wait. So
 * the scheduler remembers, for each user, how far the furthest of its tenants was that
 * have gone, and a new one starts there, for as long as that matters (policy.h). It is
 * noted when a vgpu leaves its gpu, and again when the last job of that has left its lane:
 * the next tenant may have come in between.
 *
 * Of too many users, one whose debt is void is forgotten, else the one that was noted
 * longest ago. Root of the initial user namespace is not one user but all who are served
 * as root, and vgpus that an operator has made are nobody's: neither can be had by who
 * wants to get rid of a debt.
 *
 * Everything is guarded by the scheduler's lock.
 */
#include "account.h"
#include "debt.h"
#include "sched.h"
#include "tenant.h"
#include "vgpu.h"

static struct distmind_account *debtor_of(const struct distmind_tenant *tenant)
{
	struct distmind_account *account = tenant->vgpu->account;

	return account && !distmind_account_is_root(account) ? account : NULL;
}

static struct distmind_debt *debt_find(struct distmind_sched *sched,
				       const struct distmind_account *account)
{
	u32 i;

	for (i = 0; i < DISTMIND_DEBTS_MAX; i++) {
		if (sched->debts[i].account == account)
			return &sched->debts[i];
	}
	return NULL;
}

static bool matters(const struct distmind_sched *sched, const struct distmind_debt *debt, u64 now)
{
	u32 kind;

	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++) {
		if (policy_debt_matters(&sched->policy[kind], &debt->policy[kind], now))
			return true;
	}
	return false;
}

static void forget(struct distmind_debt *debt)
{
	if (debt->account)
		distmind_account_put(debt->account);
	memset(debt, 0, sizeof(*debt));
}

/* A free one, by forgetting what is void, or else the oldest. */
static struct distmind_debt *make_place(struct distmind_sched *sched, u64 now)
{
	struct distmind_debt *oldest = sched->debts;
	u32 i;

	for (i = 0; i < DISTMIND_DEBTS_MAX; i++) {
		struct distmind_debt *debt = &sched->debts[i];

		if (debt->account && !matters(sched, debt, now))
			forget(debt);
		if (debt->noted_ns < oldest->noted_ns)
			oldest = debt;
	}
	forget(oldest);
	return oldest;
}

/* The tenant goes, or is about to. */
void distmind_debt_note(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now)
{
	struct distmind_account *account = debtor_of(tenant);
	struct distmind_debt noted = { 0 }, *debt;
	u32 kind;

	lockdep_assert_held(&sched->lock);
	if (!account || sched->error)
		return;
	debt = debt_find(sched, account);
	if (debt)
		noted = *debt;
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_debt_note(&sched->policy[kind], &tenant->policy[kind], &noted.policy[kind],
				 now);
	if (!matters(sched, &noted, now))
		return;
	if (!debt) {
		debt = make_place(sched, now);
		distmind_account_get(account);
	}
	*debt = noted;
	debt->account = account;
	debt->noted_ns = now;
}

/* The tenant is new. */
void distmind_debt_take(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now)
{
	struct distmind_account *account = debtor_of(tenant);
	struct distmind_debt *debt;
	u32 kind;

	lockdep_assert_held(&sched->lock);
	debt = account ? debt_find(sched, account) : NULL;
	if (!debt)
		return;
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_debt_take(&sched->policy[kind], &tenant->policy[kind], &debt->policy[kind],
				 now);
}

void distmind_debt_forget_all(struct distmind_sched *sched)
{
	u32 i;

	for (i = 0; i < DISTMIND_DEBTS_MAX; i++)
		forget(&sched->debts[i]);
}
