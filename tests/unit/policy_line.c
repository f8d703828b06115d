// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The requests in a queue: the line knows the most urgent of them as a search through all
 * of them does, and whoever is first in a queue runs in the place of that one.
 */
#include "unit.h"

#include "../../kmod/policy/policy.h"

#define MS ((u64)1000000)
#define START (1000 * MS)
#define TURNS 64
#define QUEUES 8

/* Turns of a queue, oldest first, in a circle. */
struct queue {
	struct policy_entity entity;
	struct policy_line line;
	struct policy_turn turns[TURNS];
	u64 deadline_ns[TURNS];
	u64 left_ns[TURNS];
	u64 work_ns[TURNS];
	u32 first, count;
};

static u32 seed;

static u32 rnd(u32 below)
{
	seed = seed * 1664525 + 1013904223;
	return (u32)(((u64)(seed >> 8) * below) >> 24);
}

static void add(struct queue *queue, u64 now)
{
	u32 i = (queue->first + queue->count++) % TURNS;
	u64 begun = now - rnd(50) * MS;

	queue->deadline_ns[i] = now + rnd(200) * MS - 100 * MS;
	queue->left_ns[i] = rnd(300) * MS;
	queue->work_ns[i] = rnd(30) * MS;
	policy_line_add(&queue->line, &queue->turns[i], begun, queue->deadline_ns[i],
			queue->left_ns[i]);
	policy_line_came(&queue->line, queue->work_ns[i]);
}

static void del(struct queue *queue)
{
	u32 i = queue->first;

	policy_line_del(&queue->line, &queue->turns[i]);
	policy_line_went(&queue->line, queue->work_ns[i]);
	queue->first = (i + 1) % TURNS;
	queue->count--;
}

/* A request that is somewhere in it has another deadline. */
static void move(struct queue *queue, u64 now)
{
	u32 i = (queue->first + rnd(queue->count)) % TURNS;

	queue->deadline_ns[i] = now + rnd(200) * MS - 100 * MS;
	policy_turn_set_deadline(&queue->turns[i], queue->deadline_ns[i]);
}

/* As one sees who looks at all of them. */
static u64 earliest(const struct queue *queue)
{
	u64 due = U64_MAX;

	for (u32 k = 0; k < queue->count; k++) {
		u32 i = (queue->first + k) % TURNS;

		due = min(due, max(queue->deadline_ns[i], queue->turns[i].request_ns));
	}
	return due;
}

static u64 shortest(const struct queue *queue)
{
	u64 least = U64_MAX, before = 0;

	for (u32 k = 0; k < queue->count; k++) {
		u32 i = (queue->first + k) % TURNS;

		least = min(least, queue->turns[i].request_ns / POLICY_SRPT_AGING + before +
				       queue->left_ns[i]);
		before += queue->work_ns[i];
	}
	return least;
}

static void the_most_urgent_of_a_line_is_known(void **state)
{
	static struct queue queue;
	u64 now = START, request_ns, left_ns;

	for (seed = 1; seed < 20; seed++) {
		u32 run = seed;

		memset(&queue, 0, sizeof(queue));
		policy_line_init(&queue.line);
		for (int step = 0; step < 2000; step++) {
			now += rnd(3) * MS;
			if (queue.count < TURNS && rnd(100) < (step / 200 % 2 ? 40u : 60u))
				add(&queue, now);
			else if (queue.count)
				del(&queue);
			if (queue.count && !rnd(3))
				move(&queue, now);
			assert_int_equal(earliest(&queue), policy_line_due(&queue.line));
			assert_int_equal(queue.count > 0, policy_line_shortest(&queue.line,
									       &request_ns,
									       &left_ns));
			if (queue.count)
				assert_int_equal(shortest(&queue),
						 request_ns / POLICY_SRPT_AGING + left_ns);
		}
		seed = run;
	}
}

/* What a queue is to do, be it first or behind, decides about the place of its first job. */
static void describe(struct policy_sched *sched, struct queue *queue, const char *policy, u64 now)
{
	u64 request_ns = 0, left_ns = 0, due;

	if (!strcmp(policy, "srpt")) {
		policy_line_shortest(&queue->line, &request_ns, &left_ns);
		policy_set_behind(sched, &queue->entity, request_ns, left_ns, now);
		return;
	}
	due = policy_line_due(&queue->line);
	if (queue->entity.deadline_ns != due)
		policy_lend(sched, &queue->entity, queue->entity.tenant, due, now);
}

static u64 hurry_of(const struct queue *queue, const char *policy)
{
	return strcmp(policy, "srpt") ? max(earliest(queue), queue->entity.request_ns) :
					shortest(queue);
}

/* One lane; requests come to the queues at any time, behind what is there. */
static void race(const char *policy, u32 number)
{
	static struct queue queues[QUEUES];
	struct policy_settings settings = { .share = 1000, .class = DISTMIND_CLASS_LATENCY };
	struct policy_entity *picked;
	struct policy_tenant tenant;
	struct policy_sched sched;
	u64 now = START;

	seed = number;
	memset(queues, 0, sizeof(queues));
	policy_sched_init(&sched, policy_find(policy), 1);
	policy_tenant_init(&sched, &tenant, &settings, now);
	for (int i = 0; i < QUEUES; i++)
		queues[i].entity.tenant = &tenant;
	for (int step = 0; step < 3000; step++) {
		struct queue *queue = &queues[rnd(QUEUES)];

		now += rnd(100) * 1000;
		if (queue->count < TURNS) {
			add(queue, now);
			if (queue->entity.state == POLICY_IDLE) {
				/* Of the first itself nothing is known: all is in the line. */
				queue->entity.arrival_ns = START - 100 * MS;
				queue->entity.request_ns = START - 100 * MS;
				queue->entity.left_ns = 10000 * MS;
				queue->entity.deadline_ns = START + ((u64)1 << 40);
				describe(&sched, queue, policy, now);
				policy_enqueue(&sched, &queue->entity, now);
			} else {
				describe(&sched, queue, policy, now);
			}
		}
		queue = &queues[rnd(QUEUES)];
		if (queue->count && !rnd(3)) {
			move(queue, now);
			describe(&sched, queue, policy, now);
		}
		if (rnd(2))
			continue;
		picked = policy_pick(&sched, now);
		assert_non_null(picked);
		queue = container_of(picked, struct queue, entity);
		for (int i = 0; i < QUEUES; i++) {
			if (queues[i].count)
				assert_true(hurry_of(queue, policy) <=
					    hurry_of(&queues[i], policy));
		}
		policy_done(&sched, picked, 1000, now);
		del(queue);
		if (queue->count) {
			describe(&sched, queue, policy, now);
			policy_enqueue(&sched, picked, now);
		}
	}
}

static void whoever_is_first_runs_in_the_place_of_the_most_urgent_behind(void **state)
{
	for (u32 number = 1; number <= 20; number++) {
		race("slo", number);
		race("srpt", number);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_most_urgent_of_a_line_is_known),
		cmocka_unit_test(whoever_is_first_runs_in_the_place_of_the_most_urgent_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
