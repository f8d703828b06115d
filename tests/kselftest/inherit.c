// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who lends whom its place, when queues that wait for each other come, go and are in a hurry
 * in an unkind order: nothing stands still, and no place outlives who lent it. The engine is
 * threads of the test. A launch is blocks of a millisecond; what waits is barriers.
 */
/* time-limit: 60 */
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SECOND 1000000000ULL
#define ENDLESS 100000 /* blocks */
#define VGPUS_MAX 4

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

static void run_blocks(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);

	for (next->cookie = next->job.cookie; next->cookie < next->job.blocks; next->cookie++) {
		if (page->reset || page->yield)
			break;
		usleep(1000);
	}
	if (next->cookie < next->job.blocks)
		next->status = DISTMIND_DONE_YIELDED;
}

FIXTURE(inherit)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	struct distmind_batch *batch;
	struct distmind_vgpu *vgpus[VGPUS_MAX];
	struct distmind_vgpu_record records[VGPUS_MAX];
	uint32_t vgpu_count;
};

FIXTURE_SETUP(inherit)
{
	struct distmind_engine_params params = {
		.name = "inherit", .kind = "test", .memory = MiB,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
		.capabilities = DISTMIND_ENGINE_YIELDS,
	};

	memset(self, 0, sizeof(*self));
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_blocks));
}

FIXTURE_TEARDOWN(inherit)
{
	distmind_batch_destroy(self->batch);
	for (uint32_t i = 0; i < self->vgpu_count; i++) {
		distmind_vgpu_close(self->vgpus[i]);
		distmind_pool_vgpu_delete(self->pool, self->records[i].id);
	}
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
}

typedef FIXTURE_DATA(inherit) bed_t;

static struct distmind_vgpu *add_vgpu(bed_t *bed, uint32_t sched_class, uint32_t share)
{
	struct distmind_vgpu_record *record = &bed->records[bed->vgpu_count];
	struct distmind_vgpu **vgpu = &bed->vgpus[bed->vgpu_count];

	*record = (struct distmind_vgpu_record){
		.gpu = distmind_engine_gpu(bed->gpu.engine), .memory = 64 * 1024, .share = share,
		.sched_class = sched_class,
		.objective_ns = sched_class == DISTMIND_CLASS_LATENCY ? SECOND : 0,
	};
	if (library_vgpu_create(bed->pool, record, vgpu))
		return NULL;
	bed->vgpu_count++;
	return *vgpu;
}

static struct distmind_queue *add_queue(struct distmind_vgpu *vgpu, uint32_t depth)
{
	struct distmind_queue *queue;

	return distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, depth, &queue) ? NULL : queue;
}

static int share_timeline(struct distmind_vgpu *vgpu, struct distmind_timeline *timeline,
			  struct distmind_timeline **shared)
{
	return distmind_timeline_import(vgpu, distmind_timeline_fd(timeline), shared);
}

/* Each may be missing: a request with a deadline, what is waited for, what is signalled. */
struct order {
	uint64_t request;
	uint64_t deadline_ns;
	struct distmind_timeline *wait;
	struct distmind_timeline *signal;
	uint64_t signal_value;
};

/* A barrier; it waits for the value 1. */
static int submit(bed_t *bed, struct distmind_queue *queue, const struct order *order)
{
	struct distmind_request request = {
		.id = order->request, .deadline_ns = order->deadline_ns,
	};
	int err;

	distmind_batch_barrier(bed->batch);
	if (order->wait)
		distmind_batch_wait(bed->batch, order->wait, 1);
	if (order->signal)
		distmind_batch_signal(bed->batch, order->signal, order->signal_value);
	if (order->request)
		distmind_batch_request(bed->batch, &request);
	err = distmind_queue_submit(queue, bed->batch, NULL);
	distmind_batch_clear(bed->batch);
	return err;
}

static int launch(bed_t *bed, struct distmind_queue *queue, uint32_t blocks,
		  struct distmind_timeline *signal, uint64_t value)
{
	int err;

	distmind_batch_launch(bed->batch, 0, blocks);
	distmind_batch_signal(bed->batch, signal, value);
	err = distmind_queue_submit(queue, bed->batch, NULL);
	distmind_batch_clear(bed->batch);
	return err;
}

/*
 * Late and helper wait for each other, and early waits for helper. When helper refuses a
 * job its lenders come back, and the way from helper to late and round to helper again is
 * walked while they do.
 */
TEST_F(inherit, a_full_queue_in_a_circle_refuses_a_job)
{
	struct distmind_timeline *step, *step_of_latency, *back, *back_of_helper;
	struct distmind_vgpu *latency, *best_effort;
	struct distmind_queue *early, *late, *helper;
	uint64_t now = now_ns();

	latency = add_vgpu(self, DISTMIND_CLASS_LATENCY, 500);
	best_effort = add_vgpu(self, DISTMIND_CLASS_BEST_EFFORT, 500);
	ASSERT_TRUE(latency && best_effort);
	early = add_queue(latency, 8);
	late = add_queue(latency, 8);
	helper = add_queue(best_effort, 1);
	ASSERT_TRUE(early && late && helper);
	ASSERT_EQ(0, distmind_timeline_create(best_effort, 0, &step));
	ASSERT_EQ(0, share_timeline(latency, step, &step_of_latency));
	ASSERT_EQ(0, distmind_timeline_create(latency, 0, &back));
	ASSERT_EQ(0, share_timeline(best_effort, back, &back_of_helper));

	ASSERT_EQ(0, submit(self, late, &(struct order){
		.request = 1, .deadline_ns = now + 100 * SECOND, .wait = step_of_latency,
		.signal = back, .signal_value = 1 }));
	ASSERT_EQ(0, submit(self, helper, &(struct order){
		.wait = back_of_helper, .signal = step, .signal_value = 1 }));
	ASSERT_EQ(0, submit(self, early, &(struct order){
		.request = 2, .deadline_ns = now + SECOND, .wait = step_of_latency }));
	EXPECT_EQ(-EAGAIN, submit(self, helper, &(struct order){
		.signal = step, .signal_value = 2 }));

	distmind_queue_destroy(early);
	distmind_queue_destroy(late);
	distmind_queue_destroy(helper);
	distmind_timeline_destroy(step);
	distmind_timeline_destroy(step_of_latency);
	distmind_timeline_destroy(back);
	distmind_timeline_destroy(back_of_helper);
}

/*
 * A chain: each link waits for the next, and the last for a job that runs. Three links are
 * of latency, so that what is lent at the beginning comes to the last one after as many steps
 * as a walk has. There it displaces one of those who wait for the same job, directly.
 */
#define LAST 32
#define CROWD 15

static bool is_of_latency(int link)
{
	return link == 0 || link == LAST / 2 || link == LAST;
}

static int make_chain(bed_t *bed, struct distmind_queue **links, struct distmind_timeline **steps,
		      struct distmind_timeline **steps_of_latency)
{
	uint64_t now = now_ns();

	for (int i = 0; i <= LAST; i++) {
		struct distmind_timeline **of = is_of_latency(i) ? steps_of_latency : steps;
		struct order order = {
			.request = is_of_latency(i) ? i + 1 : 0,
			.deadline_ns = now + (i == 0 ? 1000 : i == LAST ? 500 : 100) * SECOND,
			.wait = of[i], .signal = i ? of[i - 1] : NULL, .signal_value = 1,
		};
		int err = submit(bed, links[i], &order);

		if (err)
			return err;
	}
	return 0;
}

TEST_F(inherit, who_is_displaced_at_the_end_of_a_chain_can_go)
{
	struct distmind_timeline *steps[LAST + 1], *steps_of_latency[LAST + 1], *of_goer, *of_crowd;
	struct distmind_queue *links[LAST + 1], *helper, *goer, *crowd[CROWD];
	struct distmind_vgpu *latency, *best_effort, *standard, *goers;

	latency = add_vgpu(self, DISTMIND_CLASS_LATENCY, 200);
	best_effort = add_vgpu(self, DISTMIND_CLASS_BEST_EFFORT, 200);
	standard = add_vgpu(self, DISTMIND_CLASS_STANDARD, 200);
	goers = add_vgpu(self, DISTMIND_CLASS_STANDARD, 200);
	ASSERT_TRUE(latency && best_effort && standard && goers);
	for (int i = 0; i <= LAST; i++) {
		ASSERT_EQ(0, distmind_timeline_create(best_effort, 0, &steps[i]));
		ASSERT_EQ(0, share_timeline(latency, steps[i], &steps_of_latency[i]));
		links[i] = add_queue(is_of_latency(i) ? latency : best_effort, 8);
		ASSERT_NE(NULL, links[i]);
	}
	ASSERT_EQ(0, share_timeline(goers, steps[LAST], &of_goer));
	ASSERT_EQ(0, share_timeline(standard, steps[LAST], &of_crowd));
	helper = add_queue(best_effort, 8);
	goer = add_queue(goers, 8);
	ASSERT_TRUE(helper && goer);

	ASSERT_EQ(0, launch(self, helper, ENDLESS, steps[LAST], 1));
	ASSERT_EQ(0, submit(self, goer, &(struct order){ .wait = of_goer }));
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = add_queue(standard, 8);
		ASSERT_NE(NULL, crowd[i]);
		ASSERT_EQ(0, submit(self, crowd[i], &(struct order){ .wait = of_crowd }));
	}
	ASSERT_EQ(0, make_chain(self, links, steps, steps_of_latency));
	/* The first link is in a hurry now. */
	ASSERT_EQ(0, submit(self, links[0], &(struct order){
		.request = 1, .deadline_ns = now_ns() + SECOND }));

	distmind_queue_destroy(goer);
	distmind_timeline_destroy(of_goer);
	distmind_vgpu_close(goers);
	self->vgpu_count--;
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, self->records[self->vgpu_count].id));
	distmind_queue_destroy(helper);
	for (int i = 0; i < CROWD; i++)
		distmind_queue_destroy(crowd[i]);
	for (int i = 0; i <= LAST; i++) {
		distmind_queue_destroy(links[i]);
		distmind_timeline_destroy(steps[i]);
		distmind_timeline_destroy(steps_of_latency[i]);
	}
	distmind_timeline_destroy(of_crowd);
}

TEST_HARNESS_MAIN
