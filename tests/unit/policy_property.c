// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What policy.h promises, in simulated runs of random workloads. A queue has
 * one job after another, each of some blocks; a lane that is asked to yield
 * does so at the end of the block. After every step the state is compared with
 * what the simulation knows.
 */
#include "unit.h"

#include <stdio.h>

#include "../../kmod/policy/policy.h"

#define MS ((u64)1000000)
#define START (1000 * MS)
#define TENANTS 12
#define QUEUES 48
#define LANES 8

struct queue {
	struct policy_entity entity;
	int tenant;
	u64 arrival_ns; /* of the next job, if there is none */
	u64 left_ns;	/* of the job, 0 if there is none */
	u64 think_ns;	/* between jobs, on average */
	u64 length_ns;	/* of a job, on average */
	u64 block_ns;
	u64 picked_ns;
	u64 yield_ns; /* when it gives the lane back */
	u64 waiting_ns;
	bool deaf;		/* is asked to yield, and does not */
	struct queue *helper;	/* its job waits for that one's, which it lends its place */
	u64 wait_bound_ns;	/* at which that is over */
	u64 submitted, finished;
};

struct stretch {
	u64 start, end;
};

static struct policy_sched sched;
static struct policy_tenant tenants[TENANTS];
static struct queue queues[QUEUES];
static struct policy_entity *running[LANES];
static struct {
	u64 ran, waits_since, longest_wait;
	struct stretch *stretches;
	size_t count;
} stats[TENANTS];
static u64 now, hungry[POLICY_RANKS], hungriest, block_max, edf_checks, switches, throttles;
static u64 longest_start[POLICY_RANKS]; /* from being ready to the lane */
static u64 helped, ignored;
static u32 lanes, tenant_count, queue_count, running_count, most_active;
static u32 seed;

static u32 rnd(u32 below)
{
	seed = seed * 1664525 + 1013904223;
	return (u32)(((u64)(seed >> 8) * below) >> 24);
}

static struct queue *queue_of(struct policy_entity *entity)
{
	return container_of(entity, struct queue, entity);
}

static void begin(const struct policy *policy, u32 lane_count, u32 number)
{
	for (int i = 0; i < TENANTS; i++)
		free(stats[i].stretches);
	memset(queues, 0, sizeof(queues));
	memset(stats, 0, sizeof(stats));
	seed = number;
	lanes = lane_count;
	now = START;
	hungriest = block_max = edf_checks = switches = throttles = helped = ignored = 0;
	tenant_count = queue_count = running_count = most_active = 0;
	for (int i = 0; i < POLICY_RANKS; i++)
		hungry[i] = longest_start[i] = 0;
	policy_sched_init(&sched, policy, lanes);
}

static int add_tenant(u32 share, u32 class, bool capped)
{
	struct policy_settings settings = {
		.share = share, .class = class, .capped = capped,
		.objective_ns = class == DISTMIND_CLASS_LATENCY ? (1 + rnd(50)) * MS : 0,
	};

	policy_tenant_init(&sched, &tenants[tenant_count], &settings, now);
	return (int)tenant_count++;
}

static struct queue *add_queue(int tenant, u64 length_ns, u64 block_ns, u64 think_ns)
{
	struct queue *queue = &queues[queue_count++];

	queue->tenant = tenant;
	queue->entity.tenant = &tenants[tenant];
	queue->length_ns = length_ns;
	queue->block_ns = block_ns;
	queue->think_ns = think_ns;
	queue->arrival_ns = now + (think_ns ? rnd((u32)think_ns) : 0);
	if (block_ns > block_max)
		block_max = block_ns;
	return queue;
}

static void enqueue(struct queue *queue)
{
	/* The estimate may be wrong, by half and sometimes altogether. */
	queue->entity.expected_ns = rnd(20) ? queue->left_ns * (50 + rnd(100)) / 100 : 0;
	queue->entity.left_ns = queue->entity.request_ns ? rnd(1000) * MS : 0;
	queue->waiting_ns = now;
	policy_enqueue(&sched, &queue->entity, now);
}

static void submit(struct queue *queue)
{
	u64 length = queue->length_ns / 2 + rnd((u32)queue->length_ns);

	queue->left_ns = length + 1;
	queue->submitted++;
	queue->entity.arrival_ns = now;
	queue->entity.request_ns = rnd(2) ? now - rnd(50 * 1000000) : 0;
	queue->entity.deadline_ns = rnd(2) ? now + rnd(100 * 1000000) : 0;
	enqueue(queue);
}

/* Its job is done: what it was lent goes back, and who waited for it is ready. */
static void let_go(struct queue *helper)
{
	for (u32 i = 0; i < queue_count; i++) {
		struct queue *queue = &queues[i];

		if (queue->helper != helper)
			continue;
		assert_true(now <= queue->wait_bound_ns);
		policy_lend(&sched, &helper->entity, &tenants[helper->tenant], 0, now);
		queue->helper = NULL;
		queue->entity.arrival_ns = now;
		enqueue(queue);
	}
}

static void give_back(u32 lane)
{
	struct policy_entity *entity = running[lane];
	struct queue *queue = queue_of(entity);
	u64 ran = now - queue->picked_ns;

	running[lane] = running[--running_count];
	queue->left_ns -= ran;
	stats[queue->tenant].ran += ran;
	if (entity->tenant->settings.capped) {
		struct stretch **list = &stats[queue->tenant].stretches;
		size_t count = stats[queue->tenant].count++;

		if (!(count & (count - 1)))
			*list = realloc(*list, (count ? 2 * count : 1) * sizeof(**list));
		assert_non_null(*list);
		(*list)[count] = (struct stretch){ entity->started_ns, now };
	}
	policy_done(&sched, entity, now - entity->started_ns, now);
	if (queue->left_ns) {
		enqueue(queue);
		return;
	}
	queue->finished++;
	let_go(queue);
	queue->arrival_ns = now + (queue->think_ns ? rnd(2 * (u32)queue->think_ns) : 0);
	if (queue->arrival_ns == now)
		submit(queue);
}

static u64 deadline_of(const struct policy_entity *entity)
{
	u64 deadline = entity->deadline_ns;
	u64 begun = entity->request_ns ? entity->request_ns : entity->arrival_ns;

	if (!deadline)
		return begun + entity->tenant->settings.objective_ns;
	return deadline > begun ? deadline : begun;
}

static void check_edf(const struct policy_entity *picked, u32 rank)
{
	if (sched.policy != &policy_slo || rank != DISTMIND_CLASS_LATENCY)
		return;
	for (u32 i = 0; i < queue_count; i++) {
		const struct policy_entity *other = &queues[i].entity;

		if (other->state != POLICY_RUNNABLE || other->tenant->throttled ||
		    other->tenant->rank != DISTMIND_CLASS_LATENCY)
			continue;
		edf_checks++;
		assert_true(deadline_of(picked) <= deadline_of(other));
	}
}

/* At every step, and when something of a tenant starts. */
static void measure_wait(u32 tenant, bool starts)
{
	if (stats[tenant].waits_since)
		stats[tenant].longest_wait =
			max(stats[tenant].longest_wait, now - stats[tenant].waits_since);
	if (!tenants[tenant].runnable)
		stats[tenant].waits_since = 0;
	else if (starts || !stats[tenant].waits_since)
		stats[tenant].waits_since = now;
}

static bool pick_all(void)
{
	struct policy_entity *entity;
	struct queue *queue;
	bool picked = false;

	while (running_count < lanes) {
		entity = policy_pick(&sched, now);
		if (!entity)
			break;
		picked = true;
		queue = queue_of(entity);
		running[running_count++] = entity;
		queue->picked_ns = now;
		queue->yield_ns = now + queue->left_ns;
		longest_start[entity->rank] =
			max(longest_start[entity->rank], now - queue->waiting_ns);
		check_edf(entity, entity->rank);
		measure_wait((u32)queue->tenant, true);
	}
	return picked;
}

static void ask_all(void)
{
	struct policy_entity *entity;
	struct queue *queue;

	while ((entity = policy_victim(&sched, running, running_count, now))) {
		u64 ran;

		queue = queue_of(entity);
		assert_false(entity->unyielding);
		if (queue->deaf) {
			ignored++;
			continue;
		}
		/* At least the block that it is in. */
		ran = now - queue->picked_ns;
		ran = (ran / queue->block_ns + 1) * queue->block_ns;
		if (queue->picked_ns + ran < queue->yield_ns)
			queue->yield_ns = queue->picked_ns + ran;
	}
}

static void dispatch(void)
{
	pick_all();
	do
		ask_all();
	while (pick_all());
}

/* The sched agrees with what was done to it. */
static void check_state(void)
{
	u32 ready[TENANTS] = { 0 }, runs[TENANTS] = { 0 }, all = 0, waiting = 0, active = 0;

	for (u32 i = 0; i < queue_count; i++) {
		const struct queue *queue = &queues[i];

		if (!queue->left_ns || queue->helper)
			assert_int_equal(queue->entity.state, POLICY_IDLE);
		else if (queue->entity.state == POLICY_RUNNABLE)
			ready[queue->entity.tenant - tenants]++;
		else
			assert_int_equal(queue->entity.state, POLICY_RUNNING);
		runs[queue->entity.tenant - tenants] += queue->entity.state == POLICY_RUNNING;
	}
	for (u32 i = 0; i < tenant_count; i++) {
		struct policy_tenant *t = &tenants[i];

		assert_int_equal(t->ready_count, ready[i]);
		assert_int_equal(t->running, runs[i]);
		assert_true(t->reserved >= 0);
		assert_true(t->tokens + t->reserved <= t->depth || runs[i]);
		assert_int_equal(t->runnable, ready[i] && !t->throttled);
		assert_true(!t->throttled || t->settings.capped);
		active += t->runnable;
		measure_wait(i, false);
		all += runs[i];
		waiting += t->runnable ? ready[i] : 0;
		/* Work conservation. */
		if (t->runnable)
			assert_int_equal(running_count, lanes);
	}
	assert_int_equal(all, running_count);
	assert_int_equal(sched.running, running_count);
	assert_int_equal(sched.active, active);
	most_active = max(most_active, active);
	for (u32 i = 0; i < POLICY_RANKS; i++)
		waiting -= sched.ranks[i].waiting;
	assert_int_equal(waiting, 0);
}

static void check_hunger(void)
{
	u64 wait;

	for (u32 rank = 0; rank < POLICY_RANKS; rank++) {
		if (hungry[rank]) {
			wait = now - hungry[rank];
			assert_true(wait <= POLICY_WINDOW_NS + POLICY_SLICE_NS + 2 * block_max);
			hungriest = max(hungriest, wait);
		}
		if (!sched.ranks[rank].waiting || sched.ranks[rank].running)
			hungry[rank] = 0;
		else if (!hungry[rank])
			hungry[rank] = now;
	}
}

/* Whoever is throttled, with a lane idle, is that no longer than its bucket is half empty. */
static void check_throttled(void)
{
	for (u32 i = 0; i < tenant_count && running_count < lanes; i++) {
		const struct policy_tenant *t = &tenants[i];

		if (!t->ready_count || !t->throttled)
			continue;
		throttles++;
		assert_true(t->tokens + (s64)((now - t->refilled_ns) * t->rate) <
			    t->depth / 2 + (s64)t->rate);
	}
}

static void simulate(u64 duration, void (*each)(void))
{
	u64 end = now + duration;

	while (now < end) {
		u64 next = policy_next_event(&sched, now);

		if (!next || next > end)
			next = end;
		for (u32 i = 0; i < queue_count; i++) {
			if (!queues[i].left_ns && queues[i].arrival_ns < next)
				next = queues[i].arrival_ns;
		}
		for (u32 i = 0; i < running_count; i++) {
			if (queue_of(running[i])->yield_ns < next)
				next = queue_of(running[i])->yield_ns;
		}
		if (next > now)
			now = next;
		check_throttled();
		for (u32 i = 0; i < running_count;) {
			if (queue_of(running[i])->yield_ns <= now)
				give_back(i);
			else
				i++;
		}
		for (u32 i = 0; i < queue_count; i++) {
			if (!queues[i].left_ns && queues[i].arrival_ns <= now)
				submit(&queues[i]);
		}
		dispatch();
		check_state();
		if (each)
			each();
	}
}

static u64 ran_so_far(int tenant)
{
	u64 ran = stats[tenant].ran;

	for (u32 i = 0; i < running_count; i++) {
		if (queue_of(running[i])->tenant == tenant)
			ran += now - running[i]->started_ns;
	}
	return ran;
}

static u64 in_window(const struct stretch *stretches, size_t count, u64 from, u64 to)
{
	u64 sum = 0;

	for (size_t i = 0; i < count; i++) {
		u64 start = stretches[i].start > from ? stretches[i].start : from;
		u64 end = stretches[i].end < to ? stretches[i].end : to;

		if (start < end)
			sum += end - start;
	}
	return sum;
}

/* The fullest window begins or ends with a stretch. */
static void check_caps(void)
{
	for (u32 i = 0; i < tenant_count; i++) {
		const struct policy_settings *settings = &tenants[i].settings;
		u64 allowed = settings->share * lanes * POLICY_WINDOW_NS / 1000 +
			      lanes * (POLICY_LIMIT_SLICE_NS + block_max);
		const struct stretch *list = stats[i].stretches;

		for (size_t k = 0; settings->capped && k < stats[i].count; k++) {
			assert_true(in_window(list, stats[i].count, list[k].start,
					      list[k].start + POLICY_WINDOW_NS) <= allowed);
			assert_true(in_window(list, stats[i].count, list[k].end - POLICY_WINDOW_NS,
					      list[k].end) <= allowed);
		}
	}
}

static void random_workload(const struct policy *policy, u32 number)
{
	begin(policy, 1 + number % 5, number);
	for (int i = 0, count = 2 + (int)rnd(TENANTS - 2); i < count; i++)
		add_tenant(1 + rnd(1000), rnd(3), !rnd(4));
	for (u32 i = 0, count = tenant_count + rnd(QUEUES - TENANTS); i < count; i++)
		add_queue((int)(i < tenant_count ? i : rnd(tenant_count)),
			  (1 + rnd(200)) * MS / (1 + rnd(100)), (1 + rnd(20)) * MS / 10,
			  rnd(2) ? (1 + rnd(100)) * MS : 0);
}

static void classes_wait_no_longer_than_stated(void **state)
{
	u64 checks = 0, most = 0;

	(void)state;
	for (u32 number = 0; number < 150; number++) {
		random_workload(&policy_slo, number);
		simulate(1000 * MS, check_hunger);
		checks += edf_checks;
		most = max(most, hungriest);
	}
	/* It did come to that, and deadlines were compared too. */
	assert_true(most >= POLICY_WINDOW_NS);
	assert_true(checks > 1000);
}

/* Jobs of a higher class on every lane, and none of it waits: that asks nobody to yield. */
static void classes_are_served_though_others_run_alone(void **state)
{
	u64 most = 0;

	(void)state;
	for (u32 number = 0; number < 60; number++) {
		begin(&policy_slo, 1 + number % 3, number);
		add_tenant(1000, 1 + number / 3 % 2, false);
		for (u32 i = 0; i < lanes; i++)
			add_queue(0, (1 + rnd(9)) * 500 * MS, (1 + rnd(20)) * MS / 10, 0);
		add_tenant(1 + rnd(1000), DISTMIND_CLASS_BEST_EFFORT, false);
		add_queue(1, (1 + rnd(500)) * MS, (1 + rnd(20)) * MS / 10, rnd(2) * rnd(50) * MS);
		simulate(3000 * MS, check_hunger);
		assert_true(stats[1].ran >= 3000 * MS / POLICY_FLOOR / 2 || queues[lanes].think_ns);
		most = max(most, hungriest);
	}
	assert_true(most >= POLICY_WINDOW_NS);
}

/* Some of those on the lanes ignore that they were asked, and others would not. */
static void a_lane_that_ignores_its_request_is_not_counted_on(void **state)
{
	u64 most = 0, all = 0;

	(void)state;
	for (u32 number = 0; number < 60; number++) {
		u32 deaf;

		begin(&policy_slo, 2 + number % 4, number);
		deaf = 1 + rnd(lanes - 1);
		add_tenant(500, DISTMIND_CLASS_LATENCY, false);
		add_queue(0, MS, MS / 2, 50 * MS);
		add_tenant(1 + rnd(20), DISTMIND_CLASS_BEST_EFFORT, false);
		for (u32 i = 0; i < deaf; i++)
			add_queue(1, 10000 * MS, MS, 0)->deaf = true;
		add_tenant(1 + rnd(1000), DISTMIND_CLASS_BEST_EFFORT, false);
		for (u32 i = 0; i < lanes; i++)
			add_queue(2, (1 + rnd(100)) * MS, (1 + rnd(20)) * MS / 10, 0);
		policy_set_patience(&sched, (1 + rnd(50)) * MS, now);
		simulate(2000 * MS, NULL);
		assert_true(longest_start[DISTMIND_CLASS_LATENCY] <=
			    deaf * sched.patience_ns + POLICY_SLICE_NS + 2 * block_max);
		assert_true(queues[0].finished > 10);
		all += ignored;
		most = max(most, longest_start[DISTMIND_CLASS_LATENCY]);
	}
	/* They were asked, and that was waited for. */
	assert_in_range(all, 30, 1000000);
	assert_true(most >= 10 * MS);
}

/* A lane whose job never yields is neither asked nor counted on, nor does it look idle. */
static void what_never_yields_does_not_spare_others(void **state)
{
	(void)state;
	for (u32 number = 0; number < 40; number++) {
		begin(&policy_slo, 2 + number % 4, number);
		add_tenant(500, DISTMIND_CLASS_LATENCY, false);
		add_queue(0, MS, MS / 2, 50 * MS);
		add_tenant(1 + rnd(1000), DISTMIND_CLASS_BEST_EFFORT, !rnd(4));
		for (u32 i = 0; i < lanes - 1; i++)
			add_queue(1, 10000 * MS, MS, 0)->entity.unyielding = true;
		add_tenant(1 + rnd(1000), DISTMIND_CLASS_BEST_EFFORT, false);
		for (u32 i = 0; i < lanes; i++)
			add_queue(2, (1 + rnd(100)) * MS, (1 + rnd(20)) * MS / 10, 0);
		simulate(2000 * MS, NULL);
		assert_true(longest_start[DISTMIND_CLASS_LATENCY] <=
			    POLICY_SLICE_NS + 2 * block_max);
		assert_true(queues[0].finished > 10);
	}
}

/*
 * The latency job of queue 0 waits for somebody's job, and lends it its place. What delays
 * it then is what would delay a latency job: a lane that is being given back, and other
 * classes that were starved, each for a slice in a window.
 */
static void wait_for_another(void)
{
	struct queue *queue = &queues[0], *helper = &queues[1 + rnd(queue_count - 1)];
	u64 turn = POLICY_SLICE_NS + 2 * block_max;

	if (queue->entity.state != POLICY_RUNNABLE || queue->helper || !helper->left_ns ||
	    helper->tenant == queue->tenant || queue->entity.arrival_ns != now)
		return;
	policy_remove(&sched, &queue->entity, now);
	queue->helper = helper;
	queue->wait_bound_ns = now + helper->left_ns +
			       turn * (1 + 2 * (helper->left_ns / POLICY_WINDOW_NS + 2));
	helped += helper->entity.tenant->rank < DISTMIND_CLASS_LATENCY;
	policy_lend(&sched, &helper->entity, &tenants[queue->tenant],
		    queue->entity.arrival_ns + MS, now);
	dispatch();
	check_state();
}

static void what_is_waited_for_has_the_place_of_who_waits(void **state)
{
	u64 count = 0;

	(void)state;
	for (u32 number = 0; number < 80; number++) {
		begin(&policy_slo, 1 + number % 3, number);
		add_tenant(1000, DISTMIND_CLASS_LATENCY, false);
		add_queue(0, MS, MS / 2, 50 * MS);
		for (int i = 1; i < 5; i++) {
			add_tenant(1 + rnd(1000), rnd(2), !rnd(4));
			for (u32 k = 0; k < 1 + lanes; k++)
				add_queue(i, (1 + rnd(100)) * MS, (1 + rnd(20)) * MS / 10,
					  rnd(2) * (1 + rnd(20)) * MS);
		}
		simulate(2000 * MS, wait_for_another);
		for (u32 i = 0; i < queue_count; i++) {
			if (queues[i].helper)
				assert_true(now <= queues[i].wait_bound_ns);
		}
		count += helped;
	}
	assert_true(count > 100);
}

/* Whoever comes back below its cap has an idle lane at once. */
static void no_lane_idles_when_a_cap_allows_more(void **state)
{
	const struct policy *policies[] = { &policy_slo, &policy_fair, &policy_fifo, &policy_srpt };
	u64 count = 0;

	(void)state;
	for (u32 number = 0; number < 120; number++) {
		begin(policies[number % COUNT(policies)], 2 + number % 5, number);
		for (int i = 0, many = 2 + (int)rnd(TENANTS - 2); i < many; i++)
			add_tenant(1 + rnd(400), rnd(3), true);
		for (u32 i = 0; i < QUEUES; i++)
			add_queue((int)rnd(tenant_count), (1 + rnd(100)) * MS / (1 + rnd(200)),
				  (1 + rnd(20)) * MS / 10, rnd(2) * (1 + rnd(10)) * MS);
		simulate(300 * MS, NULL);
		count += throttles;
	}
	assert_true(count > 1000);
}

static void caps_hold_in_every_window(void **state)
{
	const struct policy *policies[] = { &policy_slo, &policy_fair, &policy_fifo, &policy_srpt };
	u64 most = 0;

	(void)state;
	for (u32 number = 0; number < 60; number++) {
		random_workload(policies[number % COUNT(policies)], number);
		simulate(600 * MS, NULL);
		check_caps();
	}
	/* And they are used: 30 % of two lanes for a tenant that wants more. */
	begin(&policy_fair, 2, 1);
	add_tenant(300, DISTMIND_CLASS_STANDARD, true);
	for (int i = 0; i < 4; i++)
		add_queue(0, 20 * MS, MS / 10, 0);
	simulate(2000 * MS, NULL);
	check_caps();
	most = 2 * 300 * 2000 * MS / 1000;
	assert_in_range(stats[0].ran, most * 92 / 100, most);
}

static void shares_converge(const struct policy *policy, u32 lane_count, u64 length)
{
	static const u32 shares[] = { 100, 200, 400 };
	u64 all = 0;

	begin(policy, lane_count, lane_count);
	for (int i = 0; i < 3; i++) {
		add_tenant(shares[i], DISTMIND_CLASS_STANDARD, false);
		for (u32 k = 0; k < 2 * lane_count; k++)
			add_queue(i, length * (u64)(i + 1), MS / 2, 0);
	}
	simulate(10000 * MS, NULL);
	for (int i = 0; i < 3; i++)
		all += ran_so_far(i);
	assert_true(all > (u64)lane_count * 9900 * MS);
	for (int i = 0; i < 3; i++)
		assert_in_range(ran_so_far(i) * 100000 / all, shares[i] * 97 * 1000 / 700,
				shares[i] * 103 * 1000 / 700);
}

static void shares_converge_within_3_percent(void **state)
{
	(void)state;
	for (u32 count = 1; count <= 4; count++) {
		shares_converge(&policy_fair, count, 4 * MS);
		shares_converge(&policy_fair, count, 300 * MS);
		shares_converge(&policy_slo, count, 4 * MS);
		shares_converge(&policy_slo, count, 300 * MS);
	}
}

/* How far the normalised run times of two tenants drift apart. */
static s64 drift_low, drift_high;

static void measure_drift(void)
{
	s64 got[2];

	for (int i = 0; i < 2; i++)
		got[i] = (s64)(ran_so_far(i) * 1000 / tenants[i].settings.share);
	drift_low = min(drift_low, got[0] - got[1]);
	drift_high = max(drift_high, got[0] - got[1]);
}

static void fairness_never_drifts_further_than_stated(void **state)
{
	(void)state;
	for (u32 number = 0; number < 60; number++) {
		u64 bound = 0, length;

		begin(&policy_fair, 1 + number % 4, number);
		drift_low = drift_high = 0;
		for (int i = 0; i < 2; i++) {
			add_tenant(1 + rnd(1000), DISTMIND_CLASS_STANDARD, false);
			length = (1 + rnd(20)) * MS;
			for (u32 k = 0; k < 2 * lanes; k++)
				add_queue(i, length, length * 2, 0);
			bound += (length * 3 / 2 + 1) * 1000 / tenants[i].settings.share;
		}
		for (int i = 2; i < 5; i++) {
			add_tenant(1 + rnd(1000), DISTMIND_CLASS_STANDARD, false);
			add_queue(i, (1 + rnd(20)) * MS, MS, rnd(100) * MS);
		}
		simulate(2000 * MS, measure_drift);
		assert_in_range((u64)(drift_high - drift_low), 0, bound * (lanes + 1));
	}
}

static void srpt_serves_every_tenant(void **state)
{
	u64 most = 0;

	(void)state;
	for (u32 number = 0; number < 100; number++) {
		u64 longest = 0;

		random_workload(&policy_srpt, number);
		for (u32 i = 0; i < queue_count; i++)
			longest = max(longest, queues[i].length_ns * 3 / 2);
		simulate(1000 * MS, NULL);
		for (u32 i = 0; i < tenant_count; i++) {
			assert_true(stats[i].longest_wait * lanes <=
				    (most_active + lanes) * (POLICY_DEFICIT_NS + longest));
			most = max(most, stats[i].longest_wait);
		}
	}
	/* It did come to that. */
	assert_true(most > POLICY_DEFICIT_NS);
}

static void switch_at_random(void)
{
	const struct policy *policies[] = { &policy_slo, &policy_fair, &policy_fifo, &policy_srpt };

	if (rnd(10))
		return;
	if (!rnd(20))
		policy_set_lanes(&sched, lanes, now);
	if (rnd(2)) {
		policy_switch(&sched, policies[rnd(COUNT(policies))], now);
		switches++;
	} else {
		struct policy_settings settings = {
			.share = 1 + rnd(1000), .class = rnd(3), .capped = !rnd(4),
			.objective_ns = MS,
		};

		policy_tenant_change(&sched, &tenants[rnd(tenant_count)], &settings, now);
	}
	dispatch();
	check_state();
}

static void no_job_is_lost_when_policies_change(void **state)
{
	u64 count = 0;

	(void)state;
	for (u32 number = 0; number < 80; number++) {
		random_workload(&policy_slo, number);
		simulate(500 * MS, switch_at_random);
		count += switches;
		for (u32 i = 0; i < tenant_count; i++)
			policy_tenant_change(&sched, &tenants[i],
					     &(struct policy_settings){ .share = 100 }, now);
		/* No more jobs; those that are there come to their end. */
		for (u32 i = 0; i < queue_count; i++) {
			queues[i].think_ns = (u64)1 << 30;
			if (!queues[i].left_ns)
				queues[i].arrival_ns = ~0ULL;
		}
		for (int i = 0; i < 200 && running_count; i++) {
			simulate(100 * MS, NULL);
			for (u32 k = 0; k < queue_count; k++) {
				if (!queues[k].left_ns)
					queues[k].arrival_ns = ~0ULL;
			}
		}
		for (u32 i = 0; i < queue_count; i++) {
			assert_int_equal(queues[i].left_ns, 0);
			assert_int_equal(queues[i].submitted, queues[i].finished);
		}
		for (u32 i = 0; i < tenant_count; i++) {
			assert_int_equal(tenants[i].reserved, 0);
			policy_tenant_exit(&sched, &tenants[i]);
		}
		assert_true(list_empty(&sched.tenants));
	}
	assert_true(count > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_wait_no_longer_than_stated),
		cmocka_unit_test(classes_are_served_though_others_run_alone),
		cmocka_unit_test(a_lane_that_ignores_its_request_is_not_counted_on),
		cmocka_unit_test(what_never_yields_does_not_spare_others),
		cmocka_unit_test(what_is_waited_for_has_the_place_of_who_waits),
		cmocka_unit_test(no_lane_idles_when_a_cap_allows_more),
		cmocka_unit_test(caps_hold_in_every_window),
		cmocka_unit_test(shares_converge_within_3_percent),
		cmocka_unit_test(fairness_never_drifts_further_than_stated),
		cmocka_unit_test(srpt_serves_every_tenant),
		cmocka_unit_test(no_job_is_lost_when_policies_change),
	};
	int failed = cmocka_run_group_tests_name("policy_property", tests, NULL, NULL);

	for (int i = 0; i < TENANTS; i++)
		free(stats[i].stretches);
	return failed;
}
