// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who must not wait for whom: what policy.h promises, on lanes. The engine is threads of
 * the test. A launch is blocks of a millisecond; one of operation DEAF does not look
 * whether it is asked to yield.
 */
#include <sys/eventfd.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SECOND 1000000000ULL
#define DEAF 1
#define LONG 4000 /* blocks; nobody in a hurry must wait for that */
#define SOON (SECOND * 3 / 2)

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

/* Blocks that were run for a vgpu, by the end of its number. */
static uint64_t ran[1024];

static uint64_t *ran_for(uint32_t vgpu)
{
	return &ran[vgpu % (sizeof(ran) / sizeof(ran[0]))];
}

static void run_blocks(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);

	for (next->cookie = next->job.cookie; next->cookie < next->job.blocks; next->cookie++) {
		if (page->reset || (page->yield && next->job.operation != DEAF))
			break;
		usleep(1000);
		__atomic_fetch_add(ran_for(next->job.vgpu), 1, __ATOMIC_RELAXED);
	}
	if (next->cookie < next->job.blocks)
		next->status = DISTMIND_DONE_YIELDED;
}

struct tenant {
	struct distmind_vgpu_record record;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *done;
	uint64_t value;
};

#define TENANTS_MAX 4

struct bed {
	struct distmind_pool *pool;
	struct gpu gpu;
	struct tenant tenants[TENANTS_MAX];
	uint32_t tenant_count;
	struct distmind_batch *batch;
};

static int bed_make(struct bed *bed, uint32_t lanes, uint32_t capabilities)
{
	struct distmind_engine_params params = {
		.name = "inversion", .kind = "test", .memory = MiB,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = lanes,
		.capabilities = capabilities,
	};

	return distmind_pool_open(&bed->pool) || distmind_batch_create(&bed->batch) ||
	       gpu_start(&bed->gpu, &params, run_blocks) ||
	       distmind_pool_gpu_grace(bed->pool, distmind_engine_gpu(bed->gpu.engine),
				       SECOND / 20);
}

static void bed_end(struct bed *bed)
{
	distmind_batch_destroy(bed->batch);
	for (uint32_t i = 0; i < bed->tenant_count; i++) {
		struct tenant *tenant = &bed->tenants[i];

		distmind_timeline_destroy(tenant->done);
		distmind_queue_destroy(tenant->queue);
		distmind_vgpu_close(tenant->vgpu);
		distmind_pool_vgpu_delete(bed->pool, tenant->record.id);
	}
	gpu_stop(bed->pool, &bed->gpu);
	distmind_pool_close(bed->pool);
}

static struct tenant *add_tenant(struct bed *bed, uint32_t sched_class, uint32_t share)
{
	struct tenant *tenant = &bed->tenants[bed->tenant_count++];

	tenant->record = (struct distmind_vgpu_record){
		.gpu = distmind_engine_gpu(bed->gpu.engine), .memory = 64 * 1024, .share = share,
		.sched_class = sched_class,
		.objective_ns = sched_class == DISTMIND_CLASS_LATENCY ? SECOND : 0,
	};
	if (library_vgpu_create(bed->pool, &tenant->record, &tenant->vgpu) ||
	    distmind_queue_create(tenant->vgpu, DISTMIND_LANE_COMPUTE, 8, &tenant->queue) ||
	    distmind_timeline_create(tenant->vgpu, 0, &tenant->done))
		return NULL;
	return tenant;
}

/* Its timeline has tenant->value when that is done. */
static int submit(struct bed *bed, struct tenant *tenant, uint32_t operation, uint32_t blocks)
{
	int err;

	distmind_batch_launch(bed->batch, operation, blocks);
	distmind_batch_signal(bed->batch, tenant->done, ++tenant->value);
	err = distmind_queue_submit(tenant->queue, bed->batch, NULL);
	distmind_batch_clear(bed->batch);
	return err;
}

static int is_running(struct bed *bed, struct tenant *tenant)
{
	return distmind_pool_vgpu(bed->pool, tenant->record.id, &tenant->record) ?
		       -1 : (int)tenant->record.running;
}

/* Until one of its jobs is on a lane. */
static int await_running(struct bed *bed, struct tenant *tenant)
{
	uint64_t until = now_ns() + 10 * SECOND;

	while (is_running(bed, tenant) != 1) {
		if (now_ns() > until)
			return -ETIMEDOUT;
		usleep(1000);
	}
	return 0;
}

FIXTURE(inversion)
{
	struct bed bed;
};

FIXTURE_SETUP(inversion)
{
	memset(self, 0, sizeof(*self));
}

FIXTURE_TEARDOWN(inversion)
{
	bed_end(&self->bed);
}

/* The one that ignores it has had the most for its share, so it is asked first. */
TEST_F(inversion, a_lane_that_ignores_its_request_does_not_spare_another)
{
	struct bed *bed = &self->bed;
	struct tenant *deaf, *other, *urgent;
	struct distmind_gpu_record gpu;
	uint64_t begin;

	ASSERT_EQ(0, bed_make(bed, 2, DISTMIND_ENGINE_YIELDS));
	deaf = add_tenant(bed, DISTMIND_CLASS_BEST_EFFORT, 10);
	other = add_tenant(bed, DISTMIND_CLASS_BEST_EFFORT, 900);
	urgent = add_tenant(bed, DISTMIND_CLASS_LATENCY, 50);
	ASSERT_TRUE(deaf && other && urgent);
	ASSERT_EQ(0, submit(bed, deaf, DEAF, LONG));
	ASSERT_EQ(0, await_running(bed, deaf));
	ASSERT_EQ(0, submit(bed, other, 0, LONG));
	ASSERT_EQ(0, await_running(bed, other));
	begin = now_ns();
	ASSERT_EQ(0, submit(bed, urgent, 0, 1));
	ASSERT_EQ(0, distmind_timeline_wait(urgent->done, 1, 10000));
	EXPECT_LT(now_ns() - begin, SOON);
	ASSERT_EQ(0, is_running(bed, deaf) < 0);
	EXPECT_EQ(1, deaf->record.preemptions);
	EXPECT_EQ(1, is_running(bed, deaf));
	ASSERT_EQ(0, distmind_pool_gpu(bed->pool, deaf->record.gpu, &gpu));
	EXPECT_EQ(0, gpu.hangs);
}

/* The launch on the other lane cannot yield; the grant can. */
TEST_F(inversion, a_grant_is_asked_back_from_an_engine_that_does_not_yield)
{
	struct bed *bed = &self->bed;
	struct tenant *fixed, *holder, *urgent;
	struct distmind_grant *grant;
	uint64_t until;

	ASSERT_EQ(0, bed_make(bed, 2, DISTMIND_ENGINE_LENDS));
	fixed = add_tenant(bed, DISTMIND_CLASS_BEST_EFFORT, 300);
	holder = add_tenant(bed, DISTMIND_CLASS_BEST_EFFORT, 300);
	urgent = add_tenant(bed, DISTMIND_CLASS_LATENCY, 300);
	ASSERT_TRUE(fixed && holder && urgent);
	ASSERT_EQ(0, submit(bed, fixed, 0, LONG));
	ASSERT_EQ(0, await_running(bed, fixed));
	ASSERT_EQ(0, distmind_grant_create(holder->vgpu, DISTMIND_LANE_COMPUTE, &grant));
	ASSERT_EQ(0, distmind_grant_begin(grant, 10000));
	ASSERT_EQ(0, submit(bed, urgent, 0, 1));
	for (until = now_ns() + SOON; !distmind_grant_asked(grant) && now_ns() < until;)
		usleep(1000);
	EXPECT_TRUE(distmind_grant_asked(grant));
	EXPECT_EQ(0, distmind_grant_end(grant));
	EXPECT_EQ(0, distmind_timeline_wait(urgent->done, 1, 10000));
	EXPECT_EQ(1, is_running(bed, fixed));
	EXPECT_EQ(0, fixed->record.preemptions);
	distmind_grant_destroy(grant);
}

/* Nothing of the higher class waits, so nobody but the floor asks it to yield. */
TEST_F(inversion, a_job_that_runs_alone_does_not_starve_a_lower_class)
{
	struct bed *bed = &self->bed;
	struct tenant *low, *high;
	uint64_t begin;

	ASSERT_EQ(0, bed_make(bed, 1, DISTMIND_ENGINE_YIELDS));
	high = add_tenant(bed, DISTMIND_CLASS_STANDARD, 900);
	low = add_tenant(bed, DISTMIND_CLASS_BEST_EFFORT, 100);
	ASSERT_TRUE(high && low);
	ASSERT_EQ(0, submit(bed, high, 0, LONG));
	ASSERT_EQ(0, await_running(bed, high));
	begin = now_ns();
	ASSERT_EQ(0, submit(bed, low, 0, 1));
	ASSERT_EQ(0, distmind_timeline_wait(low->done, 1, 10000));
	EXPECT_LT(now_ns() - begin, SOON);
	EXPECT_EQ(0, distmind_timeline_value(high->done));
	ASSERT_EQ(0, is_running(bed, high) < 0);
	EXPECT_GE(high->record.preemptions, 1);
}

/*
 * Work of the standard class fills the lane, so that best effort gets a twentieth of it.
 * Somebody of the latency class waits for a best-effort job that takes longer than that.
 */
#define HELP 150 /* blocks */

struct dependence {
	struct tenant *low, *high, *urgent;
	struct distmind_timeline *step; /* low's, as urgent knows it */
	uint64_t high_ran; /* blocks, when somebody began to wait for low */
};

static uint64_t high_ran(const struct dependence *d)
{
	return __atomic_load_n(ran_for(d->high->record.id), __ATOMIC_RELAXED);
}

/*
 * Whether low had most of the lane for so many blocks, though high wanted it all the time: by
 * what ran, and not by the clock, which says as much about the host. On its own it would have
 * had a twentieth.
 */
static bool had_the_lane(const struct dependence *d, uint64_t blocks)
{
	return 2 * (high_ran(d) - d->high_ran) < blocks;
}

static int make_dependence(struct bed *bed, struct dependence *d)
{
	int fd;

	if (bed_make(bed, 1, DISTMIND_ENGINE_YIELDS))
		return -1;
	d->low = add_tenant(bed, DISTMIND_CLASS_BEST_EFFORT, 100);
	d->high = add_tenant(bed, DISTMIND_CLASS_STANDARD, 100);
	d->urgent = add_tenant(bed, DISTMIND_CLASS_LATENCY, 800);
	if (!d->low || !d->high || !d->urgent)
		return -1;
	fd = distmind_timeline_fd(d->low->done);
	if (distmind_timeline_import(d->urgent->vgpu, fd, &d->step))
		return -1;
	if (submit(bed, d->high, 0, LONG) || submit(bed, d->high, 0, LONG))
		return -1;
	return await_running(bed, d->high);
}

/* A short job that waits until low's timeline has that value. */
static int submit_waiting(struct bed *bed, struct tenant *tenant, struct distmind_timeline *step,
			  uint64_t value)
{
	int err;

	distmind_batch_launch(bed->batch, 0, 1);
	distmind_batch_wait(bed->batch, step, value);
	distmind_batch_signal(bed->batch, tenant->done, ++tenant->value);
	err = distmind_queue_submit(tenant->queue, bed->batch, NULL);
	distmind_batch_clear(bed->batch);
	return err;
}

TEST_F(inversion, what_a_latency_job_waits_for_has_its_rank)
{
	struct bed *bed = &self->bed;
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	/* What is before it in its queue must be done too, and what is behind it must not. */
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, submit(bed, d.low, 0, i < 2 ? HELP : LONG));
	d.high_ran = high_ran(&d);
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, d.step, 2));
	ASSERT_EQ(0, distmind_timeline_wait(d.urgent->done, 1, 20000));
	EXPECT_TRUE(had_the_lane(&d, 2 * HELP));
	/* Then it is best effort again: what was to be done before it is on the lane. */
	usleep(20000);
	ASSERT_EQ(0, await_running(bed, d.high));
	EXPECT_EQ(0, distmind_timeline_value(d.high->done));
	distmind_timeline_destroy(d.step);
}

TEST_F(inversion, what_is_submitted_for_who_waits_has_its_rank)
{
	struct bed *bed = &self->bed;
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, d.step, 1));
	d.high_ran = high_ran(&d);
	ASSERT_EQ(0, submit(bed, d.low, 0, HELP));
	ASSERT_EQ(0, distmind_timeline_wait(d.urgent->done, 1, 20000));
	EXPECT_TRUE(had_the_lane(&d, HELP));
	distmind_timeline_destroy(d.step);
}

/* One of class latency waits whose share is soon used up: beyond that it counts as standard. */
TEST_F(inversion, who_helps_one_with_a_small_share_is_no_worse_off_for_that)
{
	struct tenant *helper, *other, *urgent;
	struct distmind_timeline *step;
	struct bed *bed = &self->bed;
	uint64_t start;

	ASSERT_EQ(0, bed_make(bed, 1, DISTMIND_ENGINE_YIELDS));
	helper = add_tenant(bed, DISTMIND_CLASS_STANDARD, 800);
	other = add_tenant(bed, DISTMIND_CLASS_STANDARD, 100);
	urgent = add_tenant(bed, DISTMIND_CLASS_LATENCY, 1);
	ASSERT_TRUE(helper && other && urgent);
	ASSERT_EQ(0, distmind_timeline_import(urgent->vgpu, distmind_timeline_fd(helper->done),
					      &step));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, submit(bed, other, 0, LONG));
	ASSERT_EQ(0, await_running(bed, other));
	start = now_ns();
	ASSERT_EQ(0, submit(bed, helper, 0, 2 * HELP));
	ASSERT_EQ(0, submit_waiting(bed, urgent, step, 1));
	EXPECT_EQ(0, distmind_timeline_wait(helper->done, 1, 20000));
	/* It has most of the lane by itself. */
	EXPECT_GT(3 * 2 * HELP * (SECOND / 1000), now_ns() - start)
		TH_LOG("it took %llu ms", (now_ns() - start) / 1000000ULL);
	distmind_timeline_destroy(step);
}

#define CROWD 20 /* more than a submission looks at, and than lend their place at once */

/* So many queues of the tenant's vgpu, each with a job that waits for what @steps say. */
static int make_crowd(struct bed *bed, struct tenant *tenant, struct distmind_timeline **steps,
		      const uint64_t *values, struct distmind_queue **queues)
{
	int err = 0;

	for (int i = 0; !err && i < CROWD; i++) {
		err = distmind_queue_create(tenant->vgpu, DISTMIND_LANE_COMPUTE, 8, &queues[i]);
		distmind_batch_barrier(bed->batch);
		distmind_batch_wait(bed->batch, steps[i], values[i]);
		err = err ? err : distmind_queue_submit(queues[i], bed->batch, NULL);
		distmind_batch_clear(bed->batch);
	}
	return err;
}

/* A job for each of them fits into its queue. */
static int deepen_queue(struct tenant *tenant)
{
	distmind_queue_destroy(tenant->queue);
	return distmind_queue_create(tenant->vgpu, DISTMIND_LANE_COMPUTE, CROWD, &tenant->queue);
}

static void end_crowd(struct distmind_queue **queues)
{
	for (int i = 0; i < CROWD; i++)
		distmind_queue_destroy(queues[i]);
}

/* Eventfds that watch, and queues of low's own class, all before it. */
TEST_F(inversion, who_waits_is_found_among_all_others_that_wait)
{
	struct distmind_queue *queues[CROWD];
	struct distmind_timeline *steps[CROWD];
	struct bed *bed = &self->bed;
	uint64_t values[CROWD];
	int event = eventfd(0, 0);
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	for (int i = 0; i < CROWD; i++) {
		struct distmind_timeline_watch watch = { .value = 1, .eventfd = event };

		ASSERT_EQ(0, call(distmind_timeline_fd(d.low->done),
				  DISTMIND_IOC_TIMELINE_WATCH, &watch));
		steps[i] = d.low->done;
		values[i] = 1;
	}
	ASSERT_EQ(0, make_crowd(bed, d.low, steps, values, queues));
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, d.step, 2));
	d.high_ran = high_ran(&d);
	/* The second job reaches what the urgent one waits for; the first is before it. */
	ASSERT_EQ(0, submit(bed, d.low, 0, HELP));
	ASSERT_EQ(0, submit(bed, d.low, 0, HELP));
	ASSERT_EQ(0, distmind_timeline_wait(d.urgent->done, 1, 20000));
	EXPECT_TRUE(had_the_lane(&d, 2 * HELP));
	end_crowd(queues);
	distmind_timeline_destroy(d.step);
	close(event);
}

/* Each job of a batch is waited for by somebody, the last one by one in a hurry. */
TEST_F(inversion, who_waits_for_the_last_of_a_batch_is_found)
{
	struct distmind_timeline *steps[CROWD], *last;
	struct distmind_queue *queues[CROWD];
	struct bed *bed = &self->bed;
	uint64_t values[CROWD];
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	for (int i = 0; i < CROWD; i++) {
		ASSERT_EQ(0, distmind_timeline_create(d.low->vgpu, 0, &steps[i]));
		values[i] = 1;
	}
	ASSERT_EQ(0, make_crowd(bed, d.low, steps, values, queues));
	ASSERT_EQ(0, distmind_timeline_import(d.urgent->vgpu,
					      distmind_timeline_fd(steps[CROWD - 1]), &last));
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, last, 1));
	for (int i = 0; i < CROWD; i++) {
		distmind_batch_launch(bed->batch, 0, HELP / 10);
		distmind_batch_signal(bed->batch, steps[i], 1);
	}
	d.high_ran = high_ran(&d);
	ASSERT_EQ(0, deepen_queue(d.low));
	ASSERT_EQ(0, distmind_queue_submit(d.low->queue, bed->batch, NULL));
	distmind_batch_clear(bed->batch);
	ASSERT_EQ(0, distmind_timeline_wait(d.urgent->done, 1, 20000));
	EXPECT_TRUE(had_the_lane(&d, CROWD * (HELP / 10)));
	end_crowd(queues);
	distmind_timeline_destroy(last);
	for (int i = 0; i < CROWD; i++)
		distmind_timeline_destroy(steps[i]);
	distmind_timeline_destroy(d.step);
}

/* Queues of the latency class, one for each of low's jobs. */
TEST_F(inversion, a_helper_has_the_rank_of_those_that_were_too_many_later)
{
	struct distmind_timeline *steps[CROWD];
	struct distmind_queue *queues[CROWD];
	struct bed *bed = &self->bed;
	uint64_t values[CROWD];
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	ASSERT_EQ(0, deepen_queue(d.low));
	for (int i = 0; i < CROWD; i++) {
		steps[i] = d.step;
		values[i] = i + 1;
		ASSERT_EQ(0, submit(bed, d.low, 0, HELP / 6));
	}
	ASSERT_EQ(0, make_crowd(bed, d.urgent, steps, values, queues));
	d.high_ran = high_ran(&d);
	ASSERT_EQ(0, distmind_timeline_wait(d.low->done, CROWD, 20000));
	EXPECT_TRUE(had_the_lane(&d, CROWD * (HELP / 6)));
	end_crowd(queues);
	distmind_timeline_destroy(d.step);
}

/* The one that waited first is gone: the others wait on. */
TEST_F(inversion, another_one_lends_its_rank_when_the_first_is_gone)
{
	struct distmind_timeline *steps[CROWD];
	struct distmind_queue *queues[CROWD];
	struct bed *bed = &self->bed;
	uint64_t values[CROWD];
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	for (int i = 0; i < CROWD; i++) {
		steps[i] = d.step;
		values[i] = 1;
	}
	ASSERT_EQ(0, make_crowd(bed, d.urgent, steps, values, queues));
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, d.step, 1));
	d.high_ran = high_ran(&d);
	ASSERT_EQ(0, submit(bed, d.low, 0, HELP));
	end_crowd(queues);
	ASSERT_EQ(0, distmind_timeline_wait(d.urgent->done, 1, 20000));
	EXPECT_TRUE(had_the_lane(&d, HELP));
	distmind_timeline_destroy(d.step);
}

/* Low's job waits itself, for one of another tenant of its class; and that one's end. */
TEST_F(inversion, a_rank_is_lent_on)
{
	struct distmind_timeline *first;
	struct bed *bed = &self->bed;
	struct tenant *lowest;
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	lowest = add_tenant(bed, DISTMIND_CLASS_BEST_EFFORT, 50);
	ASSERT_NE(NULL, lowest);
	ASSERT_EQ(0, distmind_timeline_import(d.low->vgpu, distmind_timeline_fd(lowest->done),
					      &first));
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, d.step, 1));
	ASSERT_EQ(0, submit_waiting(bed, d.low, first, 1));
	d.high_ran = high_ran(&d);
	ASSERT_EQ(0, submit(bed, lowest, 0, HELP));
	ASSERT_EQ(0, distmind_timeline_wait(d.urgent->done, 1, 20000));
	EXPECT_TRUE(had_the_lane(&d, HELP));
	distmind_timeline_destroy(first);
	distmind_timeline_destroy(d.step);
}

/* Whoever waited has gone: what helped it is what it was, also if it goes on the lane. */
TEST_F(inversion, a_rank_goes_with_who_lent_it)
{
	struct bed *bed = &self->bed;
	struct distmind_queue *queue;
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	ASSERT_EQ(0, submit(bed, d.low, 0, LONG));
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, d.step, 1));
	ASSERT_EQ(0, await_running(bed, d.low));
	distmind_timeline_destroy(d.step);
	queue = d.urgent->queue;
	d.urgent->queue = NULL;
	distmind_queue_destroy(queue);
	distmind_vgpu_close(d.urgent->vgpu);
	d.urgent->vgpu = NULL;
	ASSERT_EQ(0, distmind_pool_vgpu_delete(bed->pool, d.urgent->record.id));
	ASSERT_EQ(0, await_running(bed, d.high));
	EXPECT_EQ(0, distmind_timeline_value(d.low->done));
}

/* Queues that wait for each other: nothing comes of it, and nothing is left of it. */
TEST_F(inversion, a_circle_of_queues_that_wait_is_no_trap)
{
	struct bed *bed = &self->bed;
	struct distmind_timeline *first;
	struct dependence d;

	ASSERT_EQ(0, make_dependence(bed, &d));
	ASSERT_EQ(0, distmind_timeline_import(d.low->vgpu, distmind_timeline_fd(d.urgent->done),
					      &first));
	ASSERT_EQ(0, submit_waiting(bed, d.urgent, d.step, 1));
	ASSERT_EQ(0, submit_waiting(bed, d.low, first, 1));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(d.urgent->done, 1, 50));
	distmind_timeline_destroy(first);
	distmind_timeline_destroy(d.step);
}

TEST_HARNESS_MAIN
