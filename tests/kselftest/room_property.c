// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A latency job that needs room in the gpu's memory gets it within what room.h states,
 * whoever has it: jobs of all classes and sizes, at random, of which some yield when they
 * are asked and some do not. The engine is threads of the test.
 *
 * Time is counted in blocks, of a millisecond and a little, that those ran who have the room:
 * what keeps the machine from running keeps them from it too. A single round may take longer
 * by a lot, most may not by much.
 *
 * DISTMIND_SEED=N repeats what was tried with that seed.
 * time-limit: 300
 */
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define UNIT (512 * 1024ULL)
#define UNITS 8 /* of which the heap is */
#define SECOND 1000000000ULL
#define HOLDERS 3
#define ROUNDS 40

/* In blocks. */
#define GRACE 20      /* for which a lane that was asked is counted on */
#define PATIENCE 100  /* DISTMIND_ROOM_PATIENCE_NS */
#define MARGIN 50     /* beyond the bound; most rounds take less */
#define FAR_MORE 2000 /* and all of them less than that beyond it */

enum {
	OP_SHORT,
	/* Of holder 0, and so on: until it is asked to yield, or the test ends it. */
	OP_YIELDING,
	/* Likewise; until the test ends it. */
	OP_DEAF = OP_YIELDING + HOLDERS,
};

struct tenant {
	struct distmind_vgpu_record record;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *done;
	struct distmind_buffer *buffer;
};

static struct holder {
	struct tenant tenant;
	bool deaf;
	bool ended;
	/* What its lane says: where its buffer is, how often it began, how much it ran. */
	uint64_t from, to, begun, blocks;
	bool enough;
	uint64_t blocks_before;
} holders[HOLDERS];

static unsigned int seed;

static unsigned int below(unsigned int limit)
{
	return rand_r(&seed) % limit;
}

static void run_job(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);
	struct holder *holder;

	if (next->job.operation == OP_SHORT)
		return;
	holder = &holders[(next->job.operation - OP_YIELDING) % HOLDERS];
	holder->from = next->job.arg[0].value;
	holder->to = holder->from + next->job.arg[0].length;
	__atomic_fetch_add(&holder->begun, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&holder->enough, __ATOMIC_SEQ_CST)) {
		if (page->yield && next->job.operation < OP_DEAF) {
			next->status = DISTMIND_DONE_YIELDED;
			return;
		}
		usleep(1000);
		__atomic_fetch_add(&holder->blocks, 1, __ATOMIC_SEQ_CST);
	}
}

FIXTURE(room_property)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	struct distmind_batch *batch;
	struct tenant urgent;
};

FIXTURE_SETUP(room_property)
{
	struct distmind_engine_params params = {
		.name = "room", .kind = "test", .memory = UNITS * UNIT,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = HOLDERS + 1,
		.capabilities = DISTMIND_ENGINE_YIELDS,
	};
	uint32_t gpu;

	memset(self, 0, sizeof(*self));
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_job));
	gpu = distmind_engine_gpu(self->gpu.engine);
	ASSERT_EQ(0, distmind_pool_gpu_grace(self->pool, gpu, GRACE * SECOND / 1000));
	/* The deaf are to stay until the test ends them. */
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, gpu, 3000 * SECOND));
}

static void tenant_stop(struct distmind_pool *pool, struct tenant *tenant)
{
	if (!tenant->vgpu)
		return;
	distmind_queue_destroy(tenant->queue);
	distmind_timeline_destroy(tenant->done);
	distmind_buffer_destroy(tenant->buffer);
	distmind_vgpu_close(tenant->vgpu);
	distmind_pool_vgpu_delete(pool, tenant->record.id);
	memset(tenant, 0, sizeof(*tenant));
}

FIXTURE_TEARDOWN(room_property)
{
	for (int i = 0; i < HOLDERS; i++) {
		__atomic_store_n(&holders[i].enough, true, __ATOMIC_SEQ_CST);
		tenant_stop(self->pool, &holders[i].tenant);
	}
	tenant_stop(self->pool, &self->urgent);
	distmind_batch_destroy(self->batch);
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
}

/* A vgpu of that class with a job on a buffer of that size. */
static int tenant_start(FIXTURE_DATA(room_property) *self, struct tenant *tenant, uint32_t class,
			uint64_t size, uint32_t operation)
{
	int err;

	tenant->record = (struct distmind_vgpu_record){
		.gpu = distmind_engine_gpu(self->gpu.engine), .memory = size, .share = 250,
		.sched_class = class,
		.objective_ns = class == DISTMIND_CLASS_LATENCY ? SECOND / 100 : 0,
	};
	err = library_vgpu_create(self->pool, &tenant->record, &tenant->vgpu);
	if (!err)
		err = distmind_queue_create(tenant->vgpu, DISTMIND_LANE_COMPUTE, 1, &tenant->queue);
	if (!err)
		err = distmind_timeline_create(tenant->vgpu, 0, &tenant->done);
	if (!err)
		err = distmind_buffer_create(tenant->vgpu, size, DISTMIND_BUFFER_DATA,
					     &tenant->buffer);
	if (err)
		return err;
	distmind_batch_launch(self->batch, operation, 1);
	distmind_batch_range(self->batch, tenant->buffer, 0, size);
	distmind_batch_signal(self->batch, tenant->done, 1);
	err = distmind_queue_submit(tenant->queue, self->batch, NULL);
	distmind_batch_clear(self->batch);
	return err;
}

/* Until it runs. */
static int holder_start(FIXTURE_DATA(room_property) *self, int i, uint32_t class, bool deaf,
			uint64_t size)
{
	struct holder *holder = &holders[i];
	int err;

	*holder = (struct holder){ .deaf = deaf };
	err = tenant_start(self, &holder->tenant, class, size,
			   (deaf ? OP_DEAF : OP_YIELDING) + i);
	for (int wait = 0; !err && !__atomic_load_n(&holder->begun, __ATOMIC_SEQ_CST); wait++) {
		usleep(1000);
		if (wait > 20000)
			err = -ETIMEDOUT;
	}
	return err;
}

/* Its job ends; what it had is free. */
static int holder_end(struct holder *holder)
{
	__atomic_store_n(&holder->enough, true, __ATOMIC_SEQ_CST);
	holder->ended = true;
	return distmind_timeline_wait(holder->tenant.done, 1, 20000);
}

/* The longest piece of the heap that those who stay leave: the deaf, or all that run. */
static uint64_t largest_gap(bool deaf_only)
{
	uint64_t best = 0;

	for (int start = -1; start < HOLDERS; start++) {
		uint64_t from = start < 0 ? 0 : holders[start].to, to = UNITS * UNIT;

		for (int i = 0; i < HOLDERS; i++) {
			if (holders[i].ended || (deaf_only && !holders[i].deaf))
				continue;
			if (holders[i].to > from && holders[i].from < to)
				to = holders[i].from > from ? holders[i].from : from;
		}
		best = to - from > best ? to - from : best;
	}
	return best;
}

/* The most that any of them ran since note_blocks(). */
static uint64_t most_run(void)
{
	uint64_t most = 0;

	for (int i = 0; i < HOLDERS; i++) {
		uint64_t ran = __atomic_load_n(&holders[i].blocks, __ATOMIC_SEQ_CST) -
			       holders[i].blocks_before;

		most = ran > most ? ran : most;
	}
	return most;
}

static void note_blocks(void)
{
	for (int i = 0; i < HOLDERS; i++)
		holders[i].blocks_before = __atomic_load_n(&holders[i].blocks, __ATOMIC_SEQ_CST);
}

/* How many blocks others ran until it is done; more than @limit: it is not. */
static uint64_t await(struct tenant *tenant, uint64_t limit)
{
	int err;

	for (int i = 0; i < 60000; i++) {
		err = distmind_timeline_wait(tenant->done, 1, 1);
		if (err != -ETIMEDOUT)
			return err ? UINT64_MAX : most_run();
		if (most_run() > limit)
			return most_run();
	}
	return UINT64_MAX;
}

static int round_end(FIXTURE_DATA(room_property) *self)
{
	int err = 0;

	for (int i = 0; i < HOLDERS && !err; i++) {
		if (!holders[i].tenant.vgpu)
			continue;
		if (!holders[i].ended)
			err = holder_end(&holders[i]);
		tenant_stop(self->pool, &holders[i].tenant);
	}
	tenant_stop(self->pool, &self->urgent);
	return err;
}

static void describe(struct __test_metadata *_metadata, int round, uint64_t size, uint64_t took,
		     uint64_t bound)
{
	TH_LOG("round %d: %llu units took %lld blocks, bound %llu", round,
	       (unsigned long long)(size / UNIT), (long long)took, (unsigned long long)bound);
	for (int i = 0; i < HOLDERS; i++)
		TH_LOG("  holder of class %u at %.1f to %.1f%s%s", holders[i].tenant.record.sched_class,
		       (double)holders[i].from / UNIT, (double)holders[i].to / UNIT,
		       holders[i].deaf ? ", deaf" : "", holders[i].ended ? ", ended" : "");
}

TEST_F_TIMEOUT(room_property, a_latency_job_gets_its_room_within_the_bound, 240)
{
	static const uint32_t classes[] = {
		DISTMIND_CLASS_BEST_EFFORT, DISTMIND_CLASS_BEST_EFFORT, DISTMIND_CLASS_STANDARD,
		DISTMIND_CLASS_STANDARD, DISTMIND_CLASS_LATENCY,
	};
	const char *given = getenv("DISTMIND_SEED");
	int late = 0, rounds = 0, with_deaf = 0;

	seed = given ? strtoul(given, NULL, 0) : (unsigned int)time(NULL);
	TH_LOG("DISTMIND_SEED=%u", seed);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t free, gap, size, took, bound = MARGIN, left = UNITS - 1;
		bool equals = false;

		for (int i = 0; i < HOLDERS; i++) {
			uint64_t units = 1 + below(left - (HOLDERS - 1 - i));

			left -= units;
			ASSERT_EQ(0, holder_start(self, i, classes[below(5)], !below(3),
						  units * UNIT));
		}
		/* A hole, perhaps. */
		if (!below(3))
			ASSERT_EQ(0, holder_end(&holders[below(HOLDERS)]));
		free = largest_gap(false);
		gap = largest_gap(true);
		if (free == UNITS * UNIT)
			goto next;
		for (int i = 0; i < HOLDERS; i++) {
			if (holders[i].ended)
				continue;
			bound += holders[i].deaf ? GRACE : 0;
			equals |= holders[i].tenant.record.sched_class == DISTMIND_CLASS_LATENCY;
		}
		bound += equals ? PATIENCE : 0;
		rounds++;
		note_blocks();
		if (gap > free) {
			/* Those who yield have enough of it. */
			size = free + UNIT * (1 + below((gap - free) / UNIT));
			ASSERT_EQ(0, tenant_start(self, &self->urgent, DISTMIND_CLASS_LATENCY, size,
						  OP_SHORT));
			with_deaf += gap < UNITS * UNIT;
		} else {
			/* They have not: it waits for the deaf, and not for anybody else then. */
			size = free + UNIT * (1 + below((UNITS * UNIT - free) / UNIT));
			ASSERT_EQ(0, tenant_start(self, &self->urgent, DISTMIND_CLASS_LATENCY, size,
						  OP_SHORT));
			ASSERT_TRUE(library_waits_for_room(self->urgent.queue));
			for (int i = 0; i < HOLDERS; i++) {
				if (holders[i].deaf && !holders[i].ended)
					ASSERT_EQ(0, holder_end(&holders[i]));
			}
			note_blocks();
		}
		took = await(&self->urgent, bound + FAR_MORE);
		late += took > bound;
		EXPECT_GE(bound + FAR_MORE, took) {
			describe(_metadata, round, size, took, bound);
			break;
		}
next:
		ASSERT_EQ(0, round_end(self));
	}
	TH_LOG("%d rounds, %d with others beside the deaf, %d late", rounds, with_deaf, late);
	EXPECT_LE(late, rounds / 4);
	EXPECT_LT(0, with_deaf);
}

/* It has enough, and is of the lowest class: it is the first that is asked, and the only one. */
TEST_F(room_property, one_that_ignores_its_request_is_counted_on_for_the_grace_period_only)
{
	int late = 0;

	for (int round = 0; round < 11; round++) {
		uint64_t took;

		ASSERT_EQ(0, holder_start(self, 0, DISTMIND_CLASS_BEST_EFFORT, true, 4 * UNIT));
		ASSERT_EQ(0, holder_start(self, 1, DISTMIND_CLASS_STANDARD, false, 3 * UNIT));
		note_blocks();
		ASSERT_EQ(0, tenant_start(self, &self->urgent, DISTMIND_CLASS_LATENCY, 3 * UNIT,
					  OP_SHORT));
		took = await(&self->urgent, GRACE + MARGIN + FAR_MORE);
		ASSERT_GE(GRACE + MARGIN + FAR_MORE, took);
		late += took > GRACE + MARGIN;
		ASSERT_EQ(0, round_end(self));
	}
	EXPECT_GT(6, late);
}

TEST_HARNESS_MAIN
