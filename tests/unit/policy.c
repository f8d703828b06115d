// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../kmod/policy/policy.h"

#define MS ((u64)1000000)
#define START (1000 * MS)

static struct policy_sched sched;
static struct policy_tenant tenants[64];
static struct policy_entity entities[64];

/* Entity i is of tenant i unless a test says otherwise. */
static void begin(const struct policy *policy, u32 lanes)
{
	memset(entities, 0, sizeof(entities));
	policy_sched_init(&sched, policy, lanes);
	for (size_t i = 0; i < COUNT(entities); i++)
		entities[i].tenant = &tenants[i];
}

static void tenant(int i, u32 share, u32 class, bool capped)
{
	struct policy_settings settings = {
		.share = share, .class = class, .capped = capped,
		.objective_ns = class == DISTMIND_CLASS_LATENCY ? 10 * MS : 0,
	};

	policy_tenant_init(&sched, &tenants[i], &settings, START);
}

static void ready(int i, u64 expected, u64 now)
{
	entities[i].arrival_ns = now;
	entities[i].expected_ns = expected;
	policy_enqueue(&sched, &entities[i], now);
}

static void assert_picks(int i, u64 now)
{
	assert_ptr_equal(policy_pick(&sched, now), &entities[i]);
}

static struct policy_entity *victim_of(int i, u64 now)
{
	struct policy_entity *running[] = { &entities[i] };

	return policy_victim(&sched, running, 1, now);
}

static void policies_are_found_by_name(void **state)
{
	(void)state;
	assert_ptr_equal(policy_find("slo"), &policy_slo);
	assert_ptr_equal(policy_find("fifo"), &policy_fifo);
	assert_ptr_equal(policy_find("fair"), &policy_fair);
	assert_ptr_equal(policy_find("srpt"), &policy_srpt);
	assert_null(policy_find("lottery"));
	assert_string_equal(policy_name(&policy_slo), "slo");
}

static void fifo_goes_by_arrival(void **state)
{
	(void)state;
	begin(&policy_fifo, 1);
	for (int i = 0; i < 4; i++)
		tenant(i, 250, i % 3, false);
	for (int i = 3; i >= 0; i--) {
		entities[i].arrival_ns = START + i;
		policy_enqueue(&sched, &entities[i], START + 10);
	}
	assert_picks(0, START + 10);
	assert_null(victim_of(0, START + 1000 * MS));
	/* What yields keeps its arrival, and with it its place. */
	policy_done(&sched, &entities[0], MS, START + MS);
	policy_enqueue(&sched, &entities[0], START + MS);
	for (int i = 0; i < 4; i++)
		assert_picks(i, START + MS);
	assert_null(policy_pick(&sched, START + MS));
	assert_int_equal(policy_next_event(&sched, START + MS), 0);
}

static void fair_prefers_who_got_less_for_its_share(void **state)
{
	int starts[2] = { 0 };
	u64 now = START;

	(void)state;
	begin(&policy_fair, 1);
	tenant(0, 100, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 300, DISTMIND_CLASS_STANDARD, false);
	ready(0, MS, now);
	ready(1, MS, now);
	for (int i = 0; i < 400; i++) {
		int who = policy_pick(&sched, now) == &entities[1];

		starts[who]++;
		now += MS;
		policy_done(&sched, &entities[who], MS, now);
		ready(who, MS, now);
	}
	assert_in_range(starts[0], 99, 101);
}

static void fair_gives_nothing_for_idling(void **state)
{
	u64 now = START;
	int late = 0;

	(void)state;
	begin(&policy_fair, 1);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	ready(0, MS, now);
	for (int i = 0; i < 1000; i++) {
		if (i == 500)
			ready(1, MS, now);
		int who = policy_pick(&sched, now) == &entities[1];

		late += who;
		now += MS;
		policy_done(&sched, &entities[who], MS, now);
		ready(who, MS, now);
	}
	assert_in_range(late, 249, 251);
}

static void fair_puts_wrong_estimates_right(void **state)
{
	u64 ran[2] = { 0 }, now = START;

	(void)state;
	begin(&policy_fair, 1);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	ready(0, 50 * MS, now);
	ready(1, 0, now);
	for (int i = 0; i < 2000; i++) {
		int who = policy_pick(&sched, now) == &entities[1];
		u64 took = who ? 3 * MS : MS;

		ran[who] += took;
		now += took;
		policy_done(&sched, &entities[who], took, now);
		ready(who, who ? 0 : 50 * MS, now);
	}
	assert_in_range(ran[0] * 100 / ran[1], 97, 103);
}

static void fair_preempts_after_a_slice(void **state)
{
	u64 now;

	(void)state;
	begin(&policy_fair, 1);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	entities[2].tenant = &tenants[0];
	ready(0, 1000 * MS, START);
	assert_picks(0, START);
	ready(2, MS, START);
	assert_null(victim_of(0, START + 50 * MS)); /* of the same tenant */
	ready(1, MS, START + 50 * MS);
	assert_ptr_equal(victim_of(0, START + 50 * MS), &entities[0]);
	assert_null(victim_of(0, START + 51 * MS)); /* asked already */
	policy_done(&sched, &entities[0], 51 * MS, START + 51 * MS);
	assert_picks(1, START + 51 * MS);
	/* It is behind by 51 ms and may catch up; then it is its turn to yield. */
	now = START + 52 * MS;
	while (!victim_of(1, now)) {
		assert_true(policy_next_event(&sched, now) > now);
		now = policy_next_event(&sched, now);
	}
	assert_in_range(now, START + 101 * MS, START + 103 * MS);
}

static void one_tenant_does_not_get_all_lanes(void **state)
{
	(void)state;
	begin(&policy_fair, 4);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	for (int i = 0; i < 8; i++) {
		entities[i].tenant = &tenants[i / 4];
		ready(i, MS, START);
	}
	for (int i = 0; i < 4; i++)
		assert_non_null(policy_pick(&sched, START));
	assert_int_equal(tenants[0].running, 2);
	assert_int_equal(tenants[1].running, 2);
}

static void jobs_without_length_are_not_free(void **state)
{
	int others = 0;

	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	ready(0, 0, START);
	ready(1, 0, START);
	for (int i = 0; i < 100; i++) {
		int who = policy_pick(&sched, START) == &entities[1];

		others += who;
		policy_done(&sched, &entities[who], who ? 1000 : 0, START);
		ready(who, 0, START);
	}
	assert_in_range(others, 49, 51);
}

static void slo_goes_by_class_then_deadline(void **state)
{
	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 100, DISTMIND_CLASS_BEST_EFFORT, false);
	tenant(1, 100, DISTMIND_CLASS_STANDARD, false);
	for (int i = 2; i < 6; i++)
		tenant(i, 100, DISTMIND_CLASS_LATENCY, false);
	entities[2].deadline_ns = START + 30 * MS;
	entities[3].deadline_ns = START + 5 * MS;
	entities[4].deadline_ns = 0; /* 10 ms is its objective */
	entities[5].deadline_ns = ~0ULL;
	for (int i = 0; i < 6; i++)
		ready(i, MS, START);
	assert_picks(3, START);
	assert_picks(4, START);
	assert_picks(2, START);
	assert_picks(5, START);
	assert_picks(1, START);
	assert_picks(0, START);
}

static void slo_preempts_lower_classes_at_once(void **state)
{
	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 100, DISTMIND_CLASS_BEST_EFFORT, false);
	tenant(1, 100, DISTMIND_CLASS_STANDARD, false);
	tenant(2, 100, DISTMIND_CLASS_LATENCY, false);
	ready(0, 1000 * MS, START);
	assert_picks(0, START);
	ready(1, MS, START + 1);
	assert_ptr_equal(victim_of(0, START + 1), &entities[0]);
	policy_done(&sched, &entities[0], 1, START + 1);
	ready(0, 1000 * MS, START + 1);
	assert_picks(1, START + 1);
	ready(2, MS, START + 2);
	assert_ptr_equal(victim_of(1, START + 2), &entities[1]);
	policy_done(&sched, &entities[1], 1, START + 2);
	ready(1, MS, START + 2);
	assert_picks(2, START + 2);
	assert_null(victim_of(2, START + 3));
}

static void slo_asks_as_many_as_are_needed(void **state)
{
	struct policy_entity *running[4], *victim;

	(void)state;
	begin(&policy_slo, 4);
	tenant(0, 100, DISTMIND_CLASS_BEST_EFFORT, false);
	tenant(1, 100, DISTMIND_CLASS_LATENCY, false);
	for (int i = 0; i < 6; i++) {
		entities[i].tenant = &tenants[0];
		ready(i, 100 * MS, START);
	}
	for (int i = 0; i < 4; i++)
		running[i] = policy_pick(&sched, START);
	assert_null(policy_victim(&sched, running, 4, START));
	entities[6].tenant = entities[7].tenant = &tenants[1];
	ready(6, MS, START);
	ready(7, MS, START);
	victim = policy_victim(&sched, running, 4, START);
	assert_non_null(victim);
	assert_ptr_not_equal(policy_victim(&sched, running, 4, START), victim);
	assert_null(policy_victim(&sched, running, 4, START));
	/* With an idle lane nobody has to go. */
	policy_done(&sched, victim, MS, START + MS);
	assert_int_equal(sched.running, 3);
}

static void a_failed_lane_does_not_count(void **state)
{
	(void)state;
	begin(&policy_slo, 2);
	tenant(0, 100, DISTMIND_CLASS_BEST_EFFORT, false);
	tenant(1, 100, DISTMIND_CLASS_LATENCY, false);
	ready(0, 100 * MS, START);
	assert_picks(0, START);
	ready(1, MS, START);
	assert_null(victim_of(0, START));
	policy_set_lanes(&sched, 1, START);
	assert_ptr_equal(victim_of(0, START), &entities[0]);
}

static void slo_spares_nobody_who_uses_more_than_its_share(void **state)
{
	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 200, DISTMIND_CLASS_LATENCY, false);
	ready(1, 1000 * MS, START);
	assert_picks(1, START);
	ready(0, MS, START + MS);
	assert_null(victim_of(1, START + 2 * MS));
	/* Its share of a window is 20 ms, and some comes in meanwhile. */
	for (u64 now = START + 2 * MS; now < START + 20 * MS; now += MS / 4)
		assert_null(victim_of(1, now));
	for (u64 now = START + 20 * MS; !entities[1].asked; now += MS / 4) {
		assert_true(now < START + 30 * MS);
		victim_of(1, now);
	}
	assert_true(tenants[1].over);
	policy_done(&sched, &entities[1], 30 * MS, START + 30 * MS);
	ready(1, MS, START + 30 * MS);
	assert_picks(0, START + 30 * MS);
	assert_null(victim_of(0, START + 30 * MS));
	/* It comes back without being told. */
	assert_in_range(policy_next_event(&sched, START + 30 * MS), START + 31 * MS,
			START + 130 * MS);
	assert_ptr_equal(victim_of(0, START + 130 * MS), &entities[0]);
	assert_false(tenants[1].over);
}

static void slo_serves_a_starved_class(void **state)
{
	u64 now = START, served = 0;

	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 10, DISTMIND_CLASS_BEST_EFFORT, false);
	tenant(1, 990, DISTMIND_CLASS_STANDARD, false);
	ready(0, 50 * MS, now);
	ready(1, MS, now);
	for (int i = 0; i < 4000; i++) {
		int who = policy_pick(&sched, now) == &entities[1];

		assert_null(victim_of(!who, now)); /* the other one has only begun */
		now += MS;
		if (!who) {
			/* It can keep the lane for a slice. */
			while (!victim_of(0, now))
				now += MS;
			assert_in_range(now - entities[0].started_ns, 5 * MS, 6 * MS);
			served += now - entities[0].started_ns;
		}
		policy_done(&sched, &entities[who], now - entities[who].started_ns, now);
		ready(who, who ? MS : 50 * MS, now);
	}
	assert_in_range(served * 1000 / (now - START), 45, 55);
}

static void srpt_prefers_short_jobs(void **state)
{
	(void)state;
	begin(&policy_srpt, 1);
	for (int i = 0; i < 3; i++)
		tenant(i, 300, DISTMIND_CLASS_STANDARD, false);
	ready(0, 30 * MS, START);
	ready(1, 10 * MS, START);
	ready(2, 20 * MS, START);
	assert_picks(1, START);
	assert_null(victim_of(1, START));
	policy_done(&sched, &entities[1], 10 * MS, START + 10 * MS);
	assert_picks(2, START + 10 * MS);
	ready(1, MS, START + 11 * MS);
	assert_ptr_equal(victim_of(2, START + 11 * MS), &entities[2]);
}

/* The job that arrives last is of the request that began first, and the other way round. */
static void slo_goes_by_the_deadline_of_the_request(void **state)
{
	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 500, DISTMIND_CLASS_LATENCY, false);
	tenant(1, 500, DISTMIND_CLASS_LATENCY, false);
	entities[1].request_ns = START - 5 * MS;
	entities[2].tenant = &tenants[0];
	entities[2].request_ns = START;
	entities[2].deadline_ns = START + 4 * MS;
	ready(0, MS, START);
	ready(1, MS, START + MS);
	ready(2, MS, START + 2 * MS);
	assert_picks(2, START + 2 * MS);
	assert_picks(1, START + 2 * MS);
	assert_picks(0, START + 2 * MS);
}

/* Jobs of the same length, of requests that are not. */
static void srpt_prefers_what_is_left_of_a_short_request(void **state)
{
	(void)state;
	begin(&policy_srpt, 1);
	for (int i = 0; i < 3; i++)
		tenant(i, 300, DISTMIND_CLASS_STANDARD, false);
	entities[0].left_ns = 20 * MS;
	entities[1].left_ns = 3 * MS;
	for (int i = 0; i < 3; i++) {
		entities[i].request_ns = START;
		ready(i, MS, START);
	}
	/* What says nothing is a request of its own. */
	assert_picks(2, START);
	policy_done(&sched, &entities[2], MS, START + MS);
	assert_picks(1, START + MS);
	policy_done(&sched, &entities[1], MS, START + 2 * MS);
	assert_picks(0, START + 2 * MS);
	/* Not for another job of that length, but for what is less work in all. */
	entities[1].left_ns = 18 * MS;
	ready(1, MS, START + 2 * MS);
	assert_null(victim_of(0, START + 2 * MS));
	policy_remove(&sched, &entities[1], START + 2 * MS);
	entities[1].left_ns = 2 * MS;
	ready(1, MS, START + 2 * MS);
	assert_ptr_equal(victim_of(0, START + 2 * MS), &entities[0]);
}

static void who_waits_lends_its_place(void **state)
{
	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 100, DISTMIND_CLASS_BEST_EFFORT, false);
	tenant(1, 100, DISTMIND_CLASS_STANDARD, false);
	tenant(2, 500, DISTMIND_CLASS_LATENCY, false);
	ready(1, 100 * MS, START);
	assert_picks(1, START);
	ready(0, 10 * MS, START);
	assert_null(victim_of(1, START));
	/* Runnable: it has precedence now. */
	policy_lend(&sched, &entities[0], &tenants[2], START + MS, START);
	assert_ptr_equal(victim_of(1, START), &entities[1]);
	policy_done(&sched, &entities[1], MS, START + MS);
	ready(1, 100 * MS, START + MS);
	assert_picks(0, START + MS);
	assert_null(victim_of(0, START + 2 * MS));
	/* On the lane: it loses that again, and what it ran for was not at its tenant's cost. */
	policy_lend(&sched, &entities[0], &tenants[0], 0, START + 3 * MS);
	assert_int_equal(tenants[2].running, 0);
	assert_int_equal(tenants[0].running, 1);
	assert_true(tenants[2].tokens < tenants[2].depth);
	assert_ptr_equal(victim_of(0, START + 3 * MS), &entities[0]);
	policy_done(&sched, &entities[0], MS, START + 4 * MS);
	assert_int_equal(sched.running, 0);
}

/*
 * Two take turns to wait for what tenant 0 runs, more often than a slice: tenant 3, of the same
 * class as they are, gets the lane all the same.
 */
static void those_who_lend_their_place_in_turns_do_not_renew_a_slice(void **state)
{
	u64 now = START;
	int i;

	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 100, DISTMIND_CLASS_BEST_EFFORT, false);
	for (i = 1; i <= 3; i++)
		tenant(i, 300, DISTMIND_CLASS_STANDARD, false);
	ready(0, MS, now);
	assert_picks(0, now);
	policy_lend(&sched, &entities[0], &tenants[1], 0, now);
	ready(3, MS, now);
	for (i = 0; !victim_of(0, now); i++, now += MS) {
		assert_true(i < 100);
		if (i % 4 == 0)
			policy_lend(&sched, &entities[0], &tenants[1 + i / 4 % 2], 0, now);
	}
}

static void srpt_pays_its_debts(void **state)
{
	u64 now = START;
	int starts = 0;

	(void)state;
	begin(&policy_srpt, 1);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	/* So long that its wait does not make it the shorter one. */
	ready(0, 100000 * MS, now);
	ready(1, MS, now);
	/* Two tenants: of each millisecond half is owed to the one that waits. */
	while (policy_pick(&sched, now) == &entities[1]) {
		starts++;
		assert_true(starts < 1000);
		now += MS;
		policy_done(&sched, &entities[1], MS, now);
		ready(1, MS, now);
	}
	assert_in_range(starts, 200, 202);
	assert_null(victim_of(0, now + MS)); /* and it can make use of it */
}

static void srpt_owes_nothing_to_who_is_served(void **state)
{
	u64 now = START;

	(void)state;
	begin(&policy_srpt, 1);
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	ready(0, 100000 * MS, now);
	/* A long job that gets half of the lane, between short ones, has no claim to more. */
	for (int i = 0; i < 1000; i++) {
		ready(1, MS, now);
		assert_picks(1, now);
		now += MS;
		policy_done(&sched, &entities[1], MS, now);
		assert_picks(0, now);
		now += MS;
		policy_done(&sched, &entities[0], MS, now);
		ready(0, 100000 * MS, now);
	}
}

static void capped_tenants_come_back_by_themselves(void **state)
{
	u64 now = START, when, ran = 0;
	int rounds = 0;

	(void)state;
	begin(&policy_fifo, 1);
	tenant(0, 100, DISTMIND_CLASS_STANDARD, true);
	for (; now < START + 1000 * MS; rounds++) {
		assert_true(rounds < 10000);
		ready(0, 100000, now);
		if (!policy_pick(&sched, now)) {
			when = policy_next_event(&sched, now);
			assert_true(when > now);
			now = when;
			assert_picks(0, now);
		}
		now += 100000;
		ran += 100000;
		policy_done(&sched, &entities[0], 100000, now);
	}
	assert_in_range(ran, 92 * MS, 100 * MS);
}

static void barred_tenants_are_not_picked_and_keep_their_place(void **state)
{
	static const struct policy *const policies[] = {
		&policy_fifo, &policy_fair, &policy_slo, &policy_srpt,
	};

	(void)state;
	for (size_t i = 0; i < COUNT(policies); i++) {
		begin(policies[i], 2);
		tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
		tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
		entities[2].tenant = &tenants[0];
		ready(0, MS, START);
		ready(2, MS, START + 1);
		ready(1, MS, START + 2);
		assert_picks(0, START + 3);
		policy_bar(&sched, &tenants[0], true, START + 3);
		/* What runs goes on; of what waits, only others get a lane. */
		assert_picks(1, START + 3);
		policy_done(&sched, &entities[1], MS, START + MS);
		assert_null(policy_pick(&sched, START + MS));
		assert_false(policy_is_wanted(&sched));
		assert_null(victim_of(0, START + 200 * MS));
		policy_bar(&sched, &tenants[0], false, START + 200 * MS);
		assert_true(policy_is_wanted(&sched));
		assert_picks(2, START + 200 * MS);
	}
}

static void capped_tenants_yield_to_nobody(void **state)
{
	u64 now = START, when;

	(void)state;
	begin(&policy_fair, 1);
	tenant(0, 100, DISTMIND_CLASS_STANDARD, true);
	ready(0, 1000 * MS, now);
	assert_picks(0, now);
	for (;;) {
		when = policy_next_event(&sched, now);
		assert_true(when > now);
		now = when;
		assert_true(now < START + 2 * MS);
		if (victim_of(0, now))
			break;
	}
	policy_done(&sched, &entities[0], now - START, now);
	ready(0, 1000 * MS, now);
	assert_null(policy_pick(&sched, now));
	/* Another policy makes no difference, no cap does. */
	policy_switch(&sched, &policy_slo, now);
	assert_null(policy_pick(&sched, now));
	policy_tenant_change(&sched, &tenants[0],
			     &(struct policy_settings){ .share = 100 }, now);
	assert_picks(0, now);
}

static void shares_can_change_while_jobs_run(void **state)
{
	u64 ran[2] = { 0 }, now = START;

	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 100, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 100, DISTMIND_CLASS_STANDARD, false);
	ready(0, MS, now);
	ready(1, MS, now);
	for (int i = 0; i < 3000; i++) {
		int who = policy_pick(&sched, now) == &entities[1];

		if (i == 1500) {
			policy_tenant_change(&sched, &tenants[1], &(struct policy_settings){
				.share = 900, .class = DISTMIND_CLASS_STANDARD }, now);
			ran[0] = ran[1] = 0;
		}
		now += MS;
		ran[who] += MS;
		policy_done(&sched, &entities[who], MS, now);
		ready(who, MS, now);
	}
	assert_in_range(ran[1] * 100 / ran[0], 870, 930);
}

static void tenants_leave_and_others_go_on(void **state)
{
	u64 now = START;

	(void)state;
	begin(&policy_slo, 2);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 8; i++) {
			tenant(i, 1 + i * 100, i % 3, i == 5);
			ready(i, MS, now);
		}
		for (int i = 0; i < 2; i++) {
			struct policy_entity *entity = policy_pick(&sched, now);

			policy_done(&sched, entity, 50 * MS, now + 50 * MS);
		}
		now += 50 * MS;
		for (int i = 0; i < 8; i++) {
			policy_remove(&sched, &entities[i], now);
			policy_tenant_exit(&sched, &tenants[i]);
		}
		assert_int_equal(sched.active, 0);
		assert_null(policy_pick(&sched, now));
		assert_int_equal(policy_next_event(&sched, now), 0);
		assert_true(list_empty(&sched.tenants));
	}
}

static void virtual_time_may_wrap(void **state)
{
	u64 now = START;
	int starts[2] = { 0 };

	(void)state;
	begin(&policy_fair, 1);
	sched.ranks[0].vtime = ~0ULL - 50 * MS;
	tenant(0, 500, DISTMIND_CLASS_STANDARD, false);
	tenant(1, 500, DISTMIND_CLASS_STANDARD, false);
	ready(0, MS, now);
	ready(1, MS, now);
	for (int i = 0; i < 200; i++) {
		int who = policy_pick(&sched, now) == &entities[1];

		starts[who]++;
		now += MS;
		policy_done(&sched, &entities[who], MS, now);
		ready(who, MS, now);
	}
	assert_in_range(starts[0], 99, 101);
	/* Somebody who was away for half of all time is not in debt. */
	policy_remove(&sched, &entities[0], now);
	tenants[0].vtime = sched.ranks[0].vtime + (1ULL << 62);
	ready(0, MS, now);
	policy_remove(&sched, &entities[1], now);
	ready(1, MS, now);
	assert_picks(0, now);
}

static void a_clock_that_stands_still_is_harmless(void **state)
{
	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 100, DISTMIND_CLASS_LATENCY, false);
	tenant(1, 100, DISTMIND_CLASS_STANDARD, true);
	for (int i = 0; i < 1000; i++) {
		ready(0, MS, START);
		ready(1, MS, START);
		struct policy_entity *entity = policy_pick(&sched, START);

		policy_done(&sched, entity, i, START - i);
		policy_remove(&sched, &entities[0], START);
		policy_remove(&sched, &entities[1], START);
	}
}

static void estimates_are_learned(void **state)
{
	struct policy_tenant *t = &tenants[0];
	u64 unknown;

	(void)state;
	begin(&policy_slo, 1);
	tenant(0, 100, DISTMIND_CLASS_STANDARD, false);
	unknown = policy_estimate_get(t, 7, 100);
	assert_int_equal(unknown, MS);
	policy_estimate_update(t, 7, 100, 50 * MS);
	assert_int_equal(policy_estimate_get(t, 7, 100), 50 * MS);
	assert_int_equal(policy_estimate_get(t, 7, 10), 5 * MS);
	for (int i = 0; i < 100; i++)
		policy_estimate_update(t, 7, 10, 10 * MS);
	assert_in_range(policy_estimate_get(t, 7, 100), 99 * MS, 100 * MS);
	/* One that is used stays while others come and go. */
	for (u32 i = 100; i < 1000; i++) {
		policy_estimate_update(t, i, 1, i);
		assert_int_not_equal(policy_estimate_get(t, 7, 1), unknown);
	}
	assert_int_equal(policy_estimate_get(t, 100, 1), unknown);
	assert_int_equal(policy_estimate_get(t, 999, 1), 999);
	/* Extremes. */
	policy_estimate_update(t, 1, 0, 0);
	assert_int_equal(policy_estimate_get(t, 1, 1), 0);
	policy_estimate_update(t, 2, 1, ~0ULL);
	assert_true(policy_estimate_get(t, 2, ~0U) < 1ULL << 43);
	for (int i = 0; i < 1000; i++)
		policy_estimate_update(t, 2, 1, 0);
	assert_true(policy_estimate_get(t, 2, 1) < 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_are_found_by_name),
		cmocka_unit_test(fifo_goes_by_arrival),
		cmocka_unit_test(fair_prefers_who_got_less_for_its_share),
		cmocka_unit_test(fair_gives_nothing_for_idling),
		cmocka_unit_test(fair_puts_wrong_estimates_right),
		cmocka_unit_test(fair_preempts_after_a_slice),
		cmocka_unit_test(one_tenant_does_not_get_all_lanes),
		cmocka_unit_test(jobs_without_length_are_not_free),
		cmocka_unit_test(slo_goes_by_class_then_deadline),
		cmocka_unit_test(slo_preempts_lower_classes_at_once),
		cmocka_unit_test(slo_asks_as_many_as_are_needed),
		cmocka_unit_test(a_failed_lane_does_not_count),
		cmocka_unit_test(slo_spares_nobody_who_uses_more_than_its_share),
		cmocka_unit_test(slo_serves_a_starved_class),
		cmocka_unit_test(srpt_prefers_short_jobs),
		cmocka_unit_test(slo_goes_by_the_deadline_of_the_request),
		cmocka_unit_test(srpt_prefers_what_is_left_of_a_short_request),
		cmocka_unit_test(who_waits_lends_its_place),
		cmocka_unit_test(those_who_lend_their_place_in_turns_do_not_renew_a_slice),
		cmocka_unit_test(srpt_pays_its_debts),
		cmocka_unit_test(srpt_owes_nothing_to_who_is_served),
		cmocka_unit_test(capped_tenants_come_back_by_themselves),
		cmocka_unit_test(capped_tenants_yield_to_nobody),
		cmocka_unit_test(barred_tenants_are_not_picked_and_keep_their_place),
		cmocka_unit_test(shares_can_change_while_jobs_run),
		cmocka_unit_test(tenants_leave_and_others_go_on),
		cmocka_unit_test(virtual_time_may_wrap),
		cmocka_unit_test(a_clock_that_stands_still_is_harmless),
		cmocka_unit_test(estimates_are_learned),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
