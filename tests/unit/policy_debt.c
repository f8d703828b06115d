// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Debts: who leaves after each job and comes back as another tenant gets what it would
 * have got if it had stayed, and what nobody is owed any more is forgotten.
 */
#include "unit.h"

#include "../../kmod/policy/policy.h"

#define MS ((u64)1000000)
#define START (1000 * MS)

/* 0 leaves after each job, 1 stays, and 2 is of the same tenant; no job ever yields. */
static struct policy_sched sched;
static struct policy_tenant tenants[2];
static struct policy_entity entities[3];
static struct policy_settings settings[2];
static struct policy_debt debt;

static void enter(int i, u64 now)
{
	policy_tenant_init(&sched, &tenants[i], &settings[i], now);
	entities[i] = (struct policy_entity){ .tenant = &tenants[i], .unyielding = true };
}

static void begin(const struct policy *policy)
{
	memset(&debt, 0, sizeof(debt));
	policy_sched_init(&sched, policy, 1);
	for (int i = 0; i < 2; i++) {
		settings[i].share = settings[i].share ? settings[i].share : 500;
		enter(i, START);
	}
	entities[2] = (struct policy_entity){ .tenant = &tenants[1] };
}

static void ready(int i, u64 length, u64 now)
{
	entities[i].arrival_ns = now;
	entities[i].expected_ns = length;
	policy_enqueue(&sched, &entities[i], now);
}

/* Whether what it owes is kept is what this is about. */
static void leave(u64 now, bool keep)
{
	if (keep)
		policy_debt_note(&sched, &tenants[0], &debt, now);
	policy_tenant_exit(&sched, &tenants[0]);
}

static void come_back(u64 now, bool keep)
{
	enter(0, now);
	if (keep)
		policy_debt_take(&sched, &tenants[0], &debt, now);
}

/*
 * What the one that leaves has of a second, in thousandths; its jobs take @length, and
 * it is away for a while after each.
 */
static u32 contend_away(u64 length, u64 others, u64 away, bool keep)
{
	u64 now = START, back = 0, ran[2] = { 0 };

	ready(0, length, now);
	if (others)
		ready(1, others, now);
	while (now < START + 1000 * MS) {
		struct policy_entity *picked;
		u64 took;
		int who;

		if (back && now >= back) {
			come_back(now, keep);
			ready(0, length, now);
			back = 0;
		}
		picked = policy_pick(&sched, now);
		if (!picked) {
			now += MS;
			continue;
		}
		who = picked == &entities[1];
		took = who ? others : length;
		now += took;
		ran[who] += took;
		policy_done(&sched, picked, took, now);
		if (who) {
			ready(1, others, now);
		} else {
			leave(now, keep);
			back = now + away;
		}
	}
	return ran[0] * 1000 / (now - START);
}

static u32 contend(u64 length, u64 others, bool keep)
{
	return contend_away(length, others, 0, keep);
}

static void assert_fair(const struct policy *policy, u32 class)
{
	memset(settings, 0, sizeof(settings));
	for (int i = 0; i < 2; i++)
		settings[i].class = class;
	/* Otherwise its long jobs would be worth the same as short ones. */
	begin(policy);
	assert_in_range(contend(20 * MS, MS, false), 900, 1000);
	begin(policy);
	assert_in_range(contend(20 * MS, MS, true), 450, 550);
	/* Those who stay are alone meanwhile, with a job at a time. */
	begin(policy);
	assert_in_range(contend_away(20 * MS, MS, 3 * MS, true), 400, 550);
}

static void who_leaves_after_each_job_gets_no_more_than_its_share(void **state)
{
	(void)state;
	assert_fair(&policy_fair, DISTMIND_CLASS_STANDARD);
	assert_fair(&policy_slo, DISTMIND_CLASS_STANDARD);
	assert_fair(&policy_slo, DISTMIND_CLASS_BEST_EFFORT);
}

static void who_leaves_after_each_job_gets_no_more_than_its_cap(void **state)
{
	(void)state;
	memset(settings, 0, sizeof(settings));
	settings[0] = (struct policy_settings){ .share = 100, .capped = true };
	begin(&policy_fair);
	assert_in_range(contend(5 * MS, 0, false), 900, 1000);
	begin(&policy_fair);
	assert_in_range(contend(5 * MS, 0, true), 50, 110);
}

/* Beyond its share a latency tenant is one of the standard class. */
static void who_leaves_after_each_job_does_not_come_first_for_ever(void **state)
{
	(void)state;
	memset(settings, 0, sizeof(settings));
	settings[0] = (struct policy_settings){
		.share = 100, .class = DISTMIND_CLASS_LATENCY, .objective_ns = 10 * MS,
	};
	settings[1] = (struct policy_settings){ .share = 100, .class = DISTMIND_CLASS_STANDARD };
	begin(&policy_slo);
	assert_in_range(contend(5 * MS, 5 * MS, false), 850, 1000);
	begin(&policy_slo);
	assert_in_range(contend(5 * MS, 5 * MS, true), 450, 700);
}

/* One long job, and the others have made up for it or are gone. */
static void run_long(u64 *now)
{
	memset(settings, 0, sizeof(settings));
	begin(&policy_fair);
	ready(0, 50 * MS, *now);
	assert_ptr_equal(policy_pick(&sched, *now), &entities[0]);
	ready(1, MS, *now);
	*now += 50 * MS;
	policy_done(&sched, &entities[0], 50 * MS, *now);
	policy_debt_note(&sched, &tenants[0], &debt, *now);
	assert_true(policy_debt_matters(&sched, &debt, *now));
}

static void what_the_others_have_had_as_well_is_forgotten(void **state)
{
	u64 now = START;

	(void)state;
	run_long(&now);
	for (int i = 0; i < 55; i++) {
		assert_ptr_equal(policy_pick(&sched, now), &entities[1]);
		/* The next one waits already, so that somebody always does. */
		ready(2, MS, now);
		now += MS;
		policy_done(&sched, &entities[1], MS, now);
		ready(1, MS, now);
		policy_remove(&sched, &entities[2], now);
		if (i < 40)
			assert_true(policy_debt_matters(&sched, &debt, now));
	}
	assert_false(policy_debt_matters(&sched, &debt, now));
}

static void what_nobody_waits_for_is_owed_to_nobody(void **state)
{
	u64 now = START;

	(void)state;
	run_long(&now);
	policy_remove(&sched, &entities[1], now);
	assert_true(policy_debt_matters(&sched, &debt, now));
	now += POLICY_WINDOW_NS;
	assert_false(policy_debt_matters(&sched, &debt, now));
	/* Also when somebody comes again. */
	ready(1, MS, now);
	assert_false(policy_debt_matters(&sched, &debt, now));
	policy_tenant_exit(&sched, &tenants[0]);
	enter(0, now);
	policy_debt_take(&sched, &tenants[0], &debt, now);
	assert_int_equal(tenants[0].vtime, tenants[1].vtime);
}

static void another_policy_begins_anew(void **state)
{
	u64 now = START;

	(void)state;
	run_long(&now);
	policy_switch(&sched, &policy_slo, now);
	assert_false(policy_debt_matters(&sched, &debt, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_leaves_after_each_job_gets_no_more_than_its_share),
		cmocka_unit_test(who_leaves_after_each_job_gets_no_more_than_its_cap),
		cmocka_unit_test(who_leaves_after_each_job_does_not_come_first_for_ever),
		cmocka_unit_test(what_the_others_have_had_as_well_is_forgotten),
		cmocka_unit_test(what_nobody_waits_for_is_owed_to_nobody),
		cmocka_unit_test(another_policy_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
