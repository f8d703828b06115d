// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a decision costs: one pick, the end of what was picked, and its queue
 * runnable again, with that many queues runnable at a time. A hundred queues
 * belong to a tenant: with a share of at least a thousandth each, a gpu has no
 * more than a thousand tenants. They are of all classes, and no two have the
 * same share and length of jobs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../../kmod/policy/policy.h"
#include "bench.h"

#define QUEUES_EACH 100
#define DECISIONS 20000
#define BUDGET 300e-9
#define HUGE_PAGE ((size_t)2 << 20)

struct world {
	struct policy_sched sched;
	struct policy_tenant *tenants;
	struct policy_entity *entities;
	u64 now;
	u32 seed;
};

struct pair {
	struct world few, many;
};

static u32 rnd(struct world *world, u32 below)
{
	world->seed = world->seed * 1664525 + 1013904223;
	return (u32)(((u64)(world->seed >> 8) * below) >> 24);
}

static void enqueue(struct world *world, struct policy_entity *entity)
{
	entity->arrival_ns = world->now;
	entity->expected_ns = 10000 + rnd(world, 1000000);
	policy_enqueue(&world->sched, entity, world->now);
}

/* In huge pages, as the kernel's own memory is mapped. */
static void *allocate(size_t size)
{
	void *memory;

	size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	memory = aligned_alloc(HUGE_PAGE, size);
	if (!memory)
		bench_die("out of memory");
	madvise(memory, size, MADV_HUGEPAGE);
	return memset(memory, 0, size);
}

static void create(struct world *world, const struct policy *policy, u32 queues)
{
	struct policy_settings settings = { 0 };

	memset(world, 0, sizeof(*world));
	world->now = 1000000000;
	world->tenants = allocate(queues / QUEUES_EACH * sizeof(*world->tenants));
	world->entities = allocate(queues * sizeof(*world->entities));
	policy_sched_init(&world->sched, policy, 1);
	for (u32 i = 0; i < queues / QUEUES_EACH; i++) {
		settings.share = 1 + rnd(world, 1000);
		settings.class = rnd(world, DISTMIND_CLASS__COUNT);
		settings.objective_ns = 1000000 + rnd(world, 10000000);
		policy_tenant_init(&world->sched, &world->tenants[i], &settings, world->now);
	}
	for (u32 i = 0; i < queues; i++) {
		/* The queues of a tenant are not neighbours in memory. */
		world->entities[i].tenant = &world->tenants[i % (queues / QUEUES_EACH)];
		world->now += 1000;
		enqueue(world, &world->entities[i]);
	}
}

static void destroy(struct world *world)
{
	free(world->tenants);
	free(world->entities);
}

/* Of this thread alone: what else the machine does is not part of a decision. */
static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static double decide(struct world *world)
{
	double start = cpu_now();

	for (int i = 0; i < DECISIONS; i++) {
		struct policy_entity *entity = policy_pick(&world->sched, world->now);
		u64 ran = entity->expected_ns;

		world->now += ran;
		policy_done(&world->sched, entity, ran, world->now);
		enqueue(world, entity);
	}
	return cpu_now() - start;
}

static double with_few(void *arg)
{
	return decide(&((struct pair *)arg)->few);
}

static double with_many(void *arg)
{
	return decide(&((struct pair *)arg)->many);
}

static double budget(void *arg)
{
	(void)arg;
	return DECISIONS * BUDGET;
}

static void measure(const char *policy, const char *suffix)
{
	struct bench bench = { .unit = "ns", .work = DECISIONS, .scale = 1e9, .rounds = 61 };
	struct pair pair;
	char name[64];

	create(&pair.few, policy_find(policy), 1000);
	create(&pair.many, policy_find(policy), 100000);
	bench.arg = &pair;
	bench.name = name;

	snprintf(name, sizeof(name), "policy.decision%s", suffix);
	bench.baseline = "budget";
	bench.ours = with_few;
	bench.theirs = budget;
	bench_run(&bench);

	snprintf(name, sizeof(name), "policy.scale%s", suffix);
	bench.baseline = "3 x with 1,000 queues";
	bench.ours = with_many;
	bench.theirs = with_few;
	bench.allowance = 3;
	bench_run(&bench);

	destroy(&pair.few);
	destroy(&pair.many);
}

int main(void)
{
	measure("slo", "");
	measure("fair", ".fair");
	measure("srpt", ".srpt");
	measure("fifo", ".fifo");
	return 0;
}
