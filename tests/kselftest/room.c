// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Jobs without room in the gpu's memory: they keep no lane from others, get room from
 * those who are to make way, and learn for whom they wait. The engine is threads of
 * the test.
 *
 * time-limit: 300
 */
#include <time.h>

#include "importer/importer.h"
#include "kselftest_harness.h"
#include "library_test.h"

#define HEAP (4 * MiB)
#define SECOND 1000000000ULL
#define HANG (SECOND / 5)
#define STRANGER 65534 /* another user */

enum {
	OP_SHORT,
	OP_SPIN, /* until it is asked to yield, or the test ends it */
	OP_DEAF, /* until the test ends it */
	OP_LONG, /* for 300 ms */
	OP_SECOND, /* until it has had a lane for a second in all, but for what it yields */
	OP_STAGE, /* with those after it: until the test has come to the stage that follows */
};

static unsigned int started, yields, stage;
static uint64_t spun_ns;
static bool enough;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

/* Whether the job, which has been on its lane since then, is done. */
static bool is_done(uint32_t operation, uint64_t since)
{
	uint64_t ran = now_ns() - since;

	if (operation == OP_LONG)
		return ran >= SECOND / 10 * 3;
	if (operation >= OP_STAGE)
		return __atomic_load_n(&stage, __ATOMIC_SEQ_CST) > operation - OP_STAGE;
	return operation == OP_SECOND &&
	       __atomic_load_n(&spun_ns, __ATOMIC_SEQ_CST) + ran >= SECOND;
}

static void run_job(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);
	uint32_t operation = next->job.operation;
	uint64_t since = now_ns();

	if (operation == OP_SHORT)
		return;
	__atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&enough, __ATOMIC_SEQ_CST) && !is_done(operation, since)) {
		if ((operation == OP_SPIN || operation == OP_SECOND) && page->yield) {
			if (operation == OP_SECOND)
				__atomic_fetch_add(&spun_ns, now_ns() - since, __ATOMIC_SEQ_CST);
			__atomic_fetch_add(&yields, 1, __ATOMIC_SEQ_CST);
			next->status = DISTMIND_DONE_YIELDED;
			return;
		}
		usleep(200);
	}
}

/* Whether so many of the jobs that take long have begun, within 20 s. */
static bool have_started(unsigned int count)
{
	for (int i = 0; i < 20000; i++) {
		if (__atomic_load_n(&started, __ATOMIC_SEQ_CST) >= count)
			return true;
		usleep(1000);
	}
	return false;
}

struct tenant {
	struct distmind_vgpu_record record;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *done;
	struct distmind_buffer *buffer;
	uint64_t value;
};

FIXTURE(room)
{
	struct distmind_pool *pool;
	struct gpu gpus[2];
	struct distmind_batch *batch;
	struct tenant tenants[3];
};

FIXTURE_VARIANT(room)
{
	const char *policy;
};

FIXTURE_VARIANT_ADD(room, slo)
{
	.policy = "slo",
};

FIXTURE_VARIANT_ADD(room, fifo)
{
	.policy = "fifo",
};

FIXTURE_SETUP(room)
{
	struct distmind_engine_params params = {
		.name = "first", .kind = "room", .memory = HEAP, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 2, .capabilities = DISTMIND_ENGINE_YIELDS,
	};

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, gpu_start(&self->gpus[i], &params, run_job));
		ASSERT_EQ(0, distmind_pool_gpu_policy(self->pool,
						      distmind_engine_gpu(self->gpus[i].engine),
						      variant->policy));
		/* With a single lane. */
		params.name = "second";
		params.compute_lanes = 1;
	}
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
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
	tenant->vgpu = NULL;
}

FIXTURE_TEARDOWN(room)
{
	__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 3; i++)
		tenant_stop(self->pool, &self->tenants[i]);
	distmind_batch_destroy(self->batch);
	for (int i = 0; i < 2; i++)
		gpu_stop(self->pool, &self->gpus[i]);
	distmind_pool_close(self->pool);
}

/* With a buffer of that size, opened by that user. */
static int tenant_start_as(FIXTURE_DATA(room) *self, struct tenant *tenant, int gpu,
			   uint32_t class, uint64_t size, uid_t uid)
{
	int err;

	tenant->record = (struct distmind_vgpu_record){
		.gpu = distmind_engine_gpu(self->gpus[gpu].engine),
		.memory = 2 * HEAP, .share = 300, .sched_class = class,
		.objective_ns = class == DISTMIND_CLASS_LATENCY ? SECOND / 100 : 0, .uid = uid,
	};
	err = distmind_pool_vgpu_create(self->pool, &tenant->record);
	if (!err)
		err = seteuid(uid);
	if (!err)
		err = library_vgpu_open(tenant->record.id, &tenant->vgpu);
	if (!err)
		err = distmind_queue_create(tenant->vgpu, DISTMIND_LANE_COMPUTE, 64, &tenant->queue);
	if (!err)
		err = distmind_timeline_create(tenant->vgpu, 0, &tenant->done);
	if (!err)
		err = distmind_buffer_create(tenant->vgpu, size, DISTMIND_BUFFER_DATA,
					     &tenant->buffer);
	return seteuid(0) ? -errno : err;
}

static int tenant_start(FIXTURE_DATA(room) *self, struct tenant *tenant, int gpu,
			uint32_t class, uint64_t size)
{
	return tenant_start_as(self, tenant, gpu, class, size, 0);
}

static int submit(FIXTURE_DATA(room) *self, struct tenant *tenant, uint32_t operation,
		  struct distmind_buffer *buffer)
{
	int err;

	distmind_batch_clear(self->batch);
	distmind_batch_launch(self->batch, operation, 1);
	if (buffer)
		distmind_batch_range(self->batch, buffer, 0, distmind_buffer_size(buffer));
	distmind_batch_signal(self->batch, tenant->done, ++tenant->value);
	err = distmind_queue_submit(tenant->queue, self->batch, NULL);
	distmind_batch_clear(self->batch);
	return err;
}

static int wait_for(struct tenant *tenant, uint32_t timeout_ms)
{
	return distmind_timeline_wait(tenant->done, tenant->value, timeout_ms);
}

/* An importer that has pinned the buffer, until it is closed. */
static int pin(struct distmind_buffer *buffer)
{
	struct importer_call attach = { .op = IMPORTER_ATTACH }, call_pin = { .op = IMPORTER_PIN };
	int importer = open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC);
	int err;

	if (importer < 0)
		return -errno;
	attach.value = distmind_buffer_export(buffer, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	err = call(importer, IMPORTER_CALL, &attach);
	close(attach.value);
	if (!err)
		err = call(importer, IMPORTER_CALL, &call_pin);
	return err ? err : importer;
}

static int hang_after(FIXTURE_DATA(room) *self, uint64_t ns)
{
	return distmind_pool_gpu_hang(self->pool, distmind_engine_gpu(self->gpus[0].engine), ns) ||
	       distmind_pool_gpu_hang(self->pool, distmind_engine_gpu(self->gpus[1].engine), ns);
}

/* The same lane count as there are of those that hold a lane: every lane must be left. */
TEST_F(room, a_job_that_its_own_pin_keeps_out_takes_no_lane_from_others)
{
	struct tenant *own = &self->tenants[0], *other = &self->tenants[1];
	struct tenant *urgent = &self->tenants[2];
	struct distmind_queue_room room;
	struct distmind_buffer *pinned;
	int importer;

	ASSERT_EQ(0, tenant_start(self, own, 1, DISTMIND_CLASS_STANDARD, HEAP));
	ASSERT_EQ(0, tenant_start(self, other, 1, DISTMIND_CLASS_STANDARD, HEAP / 8));
	ASSERT_EQ(0, tenant_start(self, urgent, 1, DISTMIND_CLASS_LATENCY, HEAP / 8));
	ASSERT_EQ(0, distmind_buffer_create(own->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA, &pinned));
	ASSERT_EQ(0, submit(self, own, OP_SHORT, pinned));
	ASSERT_EQ(0, wait_for(own, 20000));
	importer = pin(pinned);
	ASSERT_LE(0, importer);
	ASSERT_EQ(0, submit(self, own, OP_SHORT, own->buffer));
	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(0, submit(self, other, OP_SHORT, other->buffer));
		ASSERT_EQ(0, submit(self, urgent, OP_SHORT, urgent->buffer));
		ASSERT_EQ(0, wait_for(other, 20000));
		ASSERT_EQ(0, wait_for(urgent, 20000));
	}
	EXPECT_EQ(-ETIMEDOUT, wait_for(own, 1));
	ASSERT_EQ(0, distmind_queue_room(own->queue, &room));
	EXPECT_EQ(DISTMIND_ROOM_PINNED, room.cause);
	EXPECT_EQ(0, room.error);
	EXPECT_LT(0, room.waited_ns);
	close(importer);
	EXPECT_EQ(0, wait_for(own, 20000));
	ASSERT_EQ(0, distmind_queue_room(own->queue, &room));
	EXPECT_EQ(DISTMIND_ROOM_NONE, room.cause);
	distmind_buffer_destroy(pinned);
}

TEST_F(room, who_is_kept_out_by_a_pin_fails_and_is_told_for_whom)
{
	struct tenant *holder = &self->tenants[0], *waiter = &self->tenants[1];
	struct distmind_queue_room room;
	struct distmind_buffer_info info;
	uint64_t start;
	int importer;

	ASSERT_EQ(0, hang_after(self, HANG));
	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 4));
	ASSERT_EQ(0, tenant_start(self, waiter, 0, DISTMIND_CLASS_LATENCY, HEAP));
	ASSERT_EQ(0, submit(self, holder, OP_SHORT, holder->buffer));
	ASSERT_EQ(0, wait_for(holder, 20000));
	importer = pin(holder->buffer);
	ASSERT_LE(0, importer);
	start = now_ns();
	ASSERT_EQ(0, submit(self, waiter, OP_SHORT, waiter->buffer));
	EXPECT_EQ(-EBUSY, wait_for(waiter, 20000));
	EXPECT_LE(HANG, now_ns() - start);
	ASSERT_EQ(0, distmind_queue_room(waiter->queue, &room));
	ASSERT_EQ(0, distmind_buffer_info(holder->buffer, &info));
	EXPECT_EQ(DISTMIND_ROOM_PINNED, room.cause);
	EXPECT_EQ(-EBUSY, room.error);
	EXPECT_EQ(info.id, room.buffer);
	EXPECT_EQ(holder->record.id, room.vgpu);
	EXPECT_EQ(holder->record.gpu, room.gpu);
	EXPECT_EQ(getpid(), room.pid);
	EXPECT_STREQ("distmind-test-importer", room.device);
	close(importer);
}

TEST_F(room, a_job_on_what_is_pinned_where_its_vgpu_was_fails_and_is_told_for_whom)
{
	struct tenant *moved = &self->tenants[0];
	struct distmind_queue_room room;
	struct distmind_buffer_info info;
	int importer;

	ASSERT_EQ(0, hang_after(self, HANG));
	ASSERT_EQ(0, tenant_start(self, moved, 0, DISTMIND_CLASS_STANDARD, HEAP / 4));
	ASSERT_EQ(0, submit(self, moved, OP_SHORT, moved->buffer));
	ASSERT_EQ(0, wait_for(moved, 20000));
	importer = pin(moved->buffer);
	ASSERT_LE(0, importer);
	moved->record.gpu = distmind_engine_gpu(self->gpus[1].engine);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &moved->record, DISTMIND_SET_GPU));
	distmind_queue_destroy(moved->queue);
	ASSERT_EQ(0, distmind_queue_create(moved->vgpu, DISTMIND_LANE_COMPUTE, 64, &moved->queue));
	ASSERT_EQ(0, submit(self, moved, OP_SHORT, moved->buffer));
	EXPECT_EQ(-EBUSY, wait_for(moved, 20000));
	ASSERT_EQ(0, distmind_queue_room(moved->queue, &room));
	ASSERT_EQ(0, distmind_buffer_info(moved->buffer, &info));
	EXPECT_EQ(DISTMIND_ROOM_PINNED, room.cause);
	EXPECT_EQ(info.id, room.buffer);
	EXPECT_EQ(distmind_engine_gpu(self->gpus[0].engine), room.gpu);
	EXPECT_EQ(getpid(), room.pid);
	close(importer);
	/* It can follow now. */
	distmind_timeline_destroy(moved->done);
	ASSERT_EQ(0, distmind_timeline_create(moved->vgpu, 0, &moved->done));
	moved->value = 0;
	ASSERT_EQ(0, submit(self, moved, OP_SHORT, moved->buffer));
	EXPECT_EQ(0, wait_for(moved, 20000));
}

/* Who waits is woken by the end of the pin, on the other gpu. */
TEST_F(room, a_buffer_follows_its_vgpu_when_it_is_no_longer_pinned)
{
	struct tenant *moved = &self->tenants[0];
	int importer;

	ASSERT_EQ(0, tenant_start(self, moved, 0, DISTMIND_CLASS_STANDARD, HEAP / 4));
	importer = pin(moved->buffer);
	ASSERT_LE(0, importer);
	moved->record.gpu = distmind_engine_gpu(self->gpus[1].engine);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &moved->record, DISTMIND_SET_GPU));
	distmind_queue_destroy(moved->queue);
	ASSERT_EQ(0, distmind_queue_create(moved->vgpu, DISTMIND_LANE_COMPUTE, 64, &moved->queue));
	ASSERT_EQ(0, submit(self, moved, OP_SHORT, moved->buffer));
	EXPECT_EQ(-ETIMEDOUT, wait_for(moved, 50));
	close(importer);
	EXPECT_EQ(0, wait_for(moved, 5000));
}

TEST_F(room, who_has_the_room_of_a_latency_job_is_asked_for_it)
{
	struct tenant *holder = &self->tenants[0], *urgent = &self->tenants[1];
	bool asks = !strcmp(variant->policy, "slo");
	uint64_t start;

	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 4 * 3));
	ASSERT_EQ(0, tenant_start(self, urgent, 0, DISTMIND_CLASS_LATENCY, HEAP / 2));
	ASSERT_EQ(0, submit(self, holder, OP_SPIN, holder->buffer));
	ASSERT_TRUE(have_started(1));
	/* One lane is free: it is the room that is missing. Under fifo nobody is asked. */
	if (!asks) {
		ASSERT_EQ(0, submit(self, urgent, OP_SHORT, urgent->buffer));
		EXPECT_EQ(-ETIMEDOUT, wait_for(urgent, 300));
		EXPECT_EQ(0, __atomic_load_n(&yields, __ATOMIC_SEQ_CST));
		__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
		EXPECT_EQ(0, wait_for(urgent, 20000));
	}
	for (int i = 0; asks && i < 10; i++) {
		start = now_ns();
		ASSERT_EQ(0, submit(self, urgent, OP_SHORT, urgent->buffer));
		ASSERT_EQ(0, wait_for(urgent, 20000));
		EXPECT_GT(SECOND / 2, now_ns() - start);
		/* It goes on when there is room again. */
		ASSERT_TRUE(have_started(i + 2));
	}
	EXPECT_LE(asks ? 10 : 0, __atomic_load_n(&yields, __ATOMIC_SEQ_CST));
}

#define HOPELESS 12

/* Those of the crowd wait for one of a higher class, which does not make way for them. */
TEST_F(room, those_for_whom_nobody_makes_way_keep_no_latency_job_from_its_room)
{
	struct tenant *holder = &self->tenants[0], *urgent = &self->tenants[1];
	struct tenant crowd[HOPELESS] = { 0 };
	uint64_t start;

	if (strcmp(variant->policy, "slo"))
		SKIP(return, "under this policy nobody is asked");
	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, tenant_start(self, urgent, 0, DISTMIND_CLASS_LATENCY, HEAP / 2));
	ASSERT_EQ(0, submit(self, holder, OP_SPIN, holder->buffer));
	ASSERT_TRUE(have_started(1));
	for (int i = 0; i < HOPELESS; i++) {
		ASSERT_EQ(0, tenant_start(self, &crowd[i], 0, DISTMIND_CLASS_BEST_EFFORT,
					  HEAP / 2));
		ASSERT_EQ(0, submit(self, &crowd[i], OP_SHORT, crowd[i].buffer));
		ASSERT_TRUE(library_waits_for_room(crowd[i].queue));
	}
	for (int i = 0; i < 5; i++) {
		start = now_ns();
		ASSERT_EQ(0, submit(self, urgent, OP_SHORT, urgent->buffer));
		ASSERT_EQ(0, wait_for(urgent, 5000));
		EXPECT_GT(SECOND, now_ns() - start);
		ASSERT_TRUE(have_started(i + 2));
	}
	__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < HOPELESS; i++) {
		EXPECT_EQ(0, wait_for(&crowd[i], 20000));
		tenant_stop(self->pool, &crowd[i]);
	}
}

TEST_F(room, only_those_are_asked_whose_room_is_needed)
{
	struct tenant *large = &self->tenants[0], *small = &self->tenants[1];
	struct tenant *urgent = &self->tenants[2];
	bool asks = !strcmp(variant->policy, "slo");

	ASSERT_EQ(0, tenant_start(self, small, 0, DISTMIND_CLASS_STANDARD, HEAP / 8));
	ASSERT_EQ(0, submit(self, small, OP_SPIN, small->buffer));
	ASSERT_TRUE(have_started(1));
	ASSERT_EQ(0, tenant_start(self, large, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 4 * 3));
	ASSERT_EQ(0, submit(self, large, OP_SPIN, large->buffer));
	ASSERT_TRUE(have_started(2));
	ASSERT_EQ(0, tenant_start(self, urgent, 0, DISTMIND_CLASS_LATENCY, HEAP / 2));
	ASSERT_EQ(0, submit(self, urgent, OP_SHORT, urgent->buffer));
	if (!asks) {
		EXPECT_EQ(-ETIMEDOUT, wait_for(urgent, 300));
		__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	}
	ASSERT_EQ(0, wait_for(urgent, 20000));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, large->record.id, &large->record));
	EXPECT_EQ(asks, large->record.preemptions);
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, small->record.id, &small->record));
	EXPECT_EQ(0, small->record.preemptions);
}

/* There is always somebody of those on one of the two lanes. */
TEST_F(room, a_large_job_gets_its_room_from_a_stream_of_small_ones)
{
	struct tenant *small[2] = { &self->tenants[0], &self->tenants[1] };
	struct tenant *large = &self->tenants[2];
	uint64_t start = now_ns();

	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, tenant_start(self, small[i], 0, DISTMIND_CLASS_STANDARD, HEAP / 8));
	ASSERT_EQ(0, tenant_start(self, large, 0, DISTMIND_CLASS_STANDARD, HEAP));
	ASSERT_EQ(0, submit(self, large, OP_SHORT, large->buffer));
	ASSERT_EQ(0, wait_for(large, 20000));
	for (int i = 0; i < 2; i++) {
		for (int job = 0; job < 32; job++)
			ASSERT_EQ(0, submit(self, small[i], OP_SHORT, small[i]->buffer));
	}
	ASSERT_EQ(0, submit(self, large, OP_SHORT, large->buffer));
	while (wait_for(large, 0) && now_ns() - start < 20 * SECOND) {
		for (int i = 0; i < 2; i++) {
			/* What its queue does not take is not waited for. */
			if (submit(self, small[i], OP_SHORT, small[i]->buffer))
				small[i]->value--;
		}
	}
	EXPECT_EQ(0, wait_for(large, 0));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, wait_for(small[i], 20000));
}

/* It is not in the way, and so does not wait with those that are. */
TEST_F(room, who_needs_no_room_runs_past_those_that_wait_for_it)
{
	struct tenant *holder = &self->tenants[0], *waiter = &self->tenants[1];
	struct tenant *other = &self->tenants[2];

	ASSERT_EQ(0, tenant_start(self, other, 0, DISTMIND_CLASS_STANDARD, HEAP / 8));
	ASSERT_EQ(0, submit(self, other, OP_SHORT, other->buffer));
	ASSERT_EQ(0, wait_for(other, 20000));
	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, submit(self, holder, OP_DEAF, holder->buffer));
	ASSERT_TRUE(have_started(1));
	ASSERT_EQ(0, tenant_start(self, waiter, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, submit(self, waiter, OP_SHORT, waiter->buffer));
	/* Longer than what who waits is patient for. */
	for (int i = 0; i < 40; i++) {
		ASSERT_EQ(0, submit(self, other, OP_SHORT, other->buffer));
		ASSERT_EQ(0, wait_for(other, 20000));
		usleep(10000);
	}
	EXPECT_EQ(-ETIMEDOUT, wait_for(waiter, 1));
	__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	EXPECT_EQ(0, wait_for(waiter, 20000));
	EXPECT_EQ(0, wait_for(holder, 20000));
}

/* Also if it is of a tenant whose other queue waits, and has a claim. */
TEST_F(room, what_uses_no_memory_does_not_wait_with_others_of_its_tenant)
{
	struct tenant *holder = &self->tenants[0], *waiter = &self->tenants[1];
	struct distmind_timeline *done;
	struct distmind_queue *queue;

	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 4 * 3));
	ASSERT_EQ(0, submit(self, holder, OP_DEAF, holder->buffer));
	ASSERT_TRUE(have_started(1));
	ASSERT_EQ(0, tenant_start(self, waiter, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, submit(self, waiter, OP_SHORT, waiter->buffer));
	EXPECT_EQ(-ETIMEDOUT, wait_for(waiter, 50));
	ASSERT_EQ(0, distmind_queue_create(waiter->vgpu, DISTMIND_LANE_COMPUTE, 1, &queue));
	ASSERT_EQ(0, distmind_timeline_create(waiter->vgpu, 0, &done));
	distmind_batch_launch(self->batch, OP_SHORT, 1);
	distmind_batch_number(self->batch, 1);
	distmind_batch_signal(self->batch, done, 1);
	ASSERT_EQ(0, distmind_queue_submit(queue, self->batch, NULL));
	EXPECT_EQ(0, distmind_timeline_wait(done, 1, 5000));
	distmind_queue_destroy(queue);
	distmind_timeline_destroy(done);
	__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	EXPECT_EQ(0, wait_for(waiter, 20000));
}

/* The owner has been bound elsewhere while somebody's job runs on what it had exported. */
TEST_F(room, an_importers_endless_job_gives_back_what_its_owner_needs_elsewhere)
{
	struct tenant *owner = &self->tenants[0], *importer = &self->tenants[1];
	struct distmind_buffer *imported;
	int fd;

	ASSERT_EQ(0, tenant_start(self, owner, 0, DISTMIND_CLASS_STANDARD, HEAP / 4));
	ASSERT_EQ(0, tenant_start(self, importer, 0, DISTMIND_CLASS_LATENCY, HEAP / 8));
	fd = distmind_buffer_export(owner->buffer, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, distmind_buffer_import(importer->vgpu, fd, &imported));
	close(fd);
	ASSERT_EQ(0, submit(self, importer, OP_SPIN, imported));
	ASSERT_TRUE(have_started(1));
	owner->record.gpu = distmind_engine_gpu(self->gpus[1].engine);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &owner->record, DISTMIND_SET_GPU));
	distmind_queue_destroy(owner->queue);
	ASSERT_EQ(0, distmind_queue_create(owner->vgpu, DISTMIND_LANE_COMPUTE, 64, &owner->queue));
	ASSERT_EQ(0, submit(self, owner, OP_SHORT, owner->buffer));
	EXPECT_EQ(0, wait_for(owner, 5000));
	EXPECT_EQ(-EXDEV, wait_for(importer, 5000));
	distmind_buffer_destroy(imported);
}

static uint64_t run_many(FIXTURE_DATA(room) *self, struct tenant *tenant, int count)
{
	uint64_t start = now_ns();

	for (int i = 0; i < count; i++) {
		if (submit(self, tenant, OP_SHORT, tenant->buffer) || wait_for(tenant, 20000))
			return UINT64_MAX;
	}
	return now_ns() - start;
}

/* Queues of a tenant, each with a job for which there is no room; it signals a value, or 0. */
static int add_to_crowd(FIXTURE_DATA(room) *self, struct tenant *crowd,
			struct distmind_queue **queues, int from, int to, uint64_t value)
{
	for (int i = from; i < to; i++) {
		if (distmind_queue_create(crowd->vgpu, DISTMIND_LANE_COMPUTE, 1, &queues[i]))
			return -1;
		distmind_batch_clear(self->batch);
		distmind_batch_launch(self->batch, OP_SHORT, 1);
		distmind_batch_range(self->batch, crowd->buffer, 0, HEAP);
		if (value)
			distmind_batch_signal(self->batch, crowd->done, value);
		if (distmind_queue_submit(queues[i], self->batch, NULL))
			return -1;
	}
	distmind_batch_clear(self->batch);
	return 0;
}

TEST_F(room, a_crowd_that_waits_for_room_is_no_worse_for_others_than_a_few)
{
	struct tenant *crowd = &self->tenants[0], *other = &self->tenants[1];
	uint64_t beside_few = UINT64_MAX, beside_many = UINT64_MAX, took;
	struct distmind_queue *queues[500];
	struct distmind_buffer *pinned;
	int importer;

	ASSERT_EQ(0, tenant_start(self, crowd, 0, DISTMIND_CLASS_STANDARD, HEAP));
	ASSERT_EQ(0, tenant_start(self, other, 0, DISTMIND_CLASS_STANDARD, HEAP / 8));
	ASSERT_EQ(0, distmind_buffer_create(crowd->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA, &pinned));
	ASSERT_EQ(0, submit(self, crowd, OP_SHORT, pinned));
	ASSERT_EQ(0, wait_for(crowd, 20000));
	importer = pin(pinned);
	ASSERT_LE(0, importer);
	ASSERT_EQ(0, add_to_crowd(self, crowd, queues, 0, 16, 0));
	ASSERT_NE(UINT64_MAX, run_many(self, other, 50));
	for (int i = 0; i < 3; i++) {
		took = run_many(self, other, 200);
		beside_few = took < beside_few ? took : beside_few;
	}
	ASSERT_EQ(0, add_to_crowd(self, crowd, queues, 16, 500, 0));
	/* Each of them is tried once, in turns with the other. */
	ASSERT_NE(UINT64_MAX, run_many(self, other, 600));
	for (int i = 0; i < 3; i++) {
		took = run_many(self, other, 200);
		beside_many = took < beside_many ? took : beside_many;
	}
	EXPECT_GT(4 * beside_few, beside_many) {
		TH_LOG("beside a few %llu us, beside many %llu us",
		       (unsigned long long)beside_few / 1000,
		       (unsigned long long)beside_many / 1000);
	}
	for (int i = 0; i < 500; i++)
		distmind_queue_destroy(queues[i]);
	close(importer);
	distmind_buffer_destroy(pinned);
}

/* Each within the limit, and not one behind the other. */
TEST_F(room, all_that_a_pin_keeps_out_fail_however_many_they_are)
{
	struct tenant *crowd = &self->tenants[0];
	struct distmind_queue *queues[100];
	struct distmind_buffer *pinned;
	uint64_t start;
	int importer;

	ASSERT_EQ(0, hang_after(self, HANG));
	ASSERT_EQ(0, tenant_start(self, crowd, 0, DISTMIND_CLASS_STANDARD, HEAP));
	ASSERT_EQ(0, distmind_buffer_create(crowd->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA, &pinned));
	ASSERT_EQ(0, submit(self, crowd, OP_SHORT, pinned));
	ASSERT_EQ(0, wait_for(crowd, 20000));
	importer = pin(pinned);
	ASSERT_LE(0, importer);
	start = now_ns();
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(0, add_to_crowd(self, crowd, queues, i, i + 1, ++crowd->value));
	EXPECT_EQ(-EBUSY, wait_for(crowd, 20000));
	for (int i = 0; i < 100; i++) {
		struct distmind_queue_room room;

		while (!distmind_queue_room(queues[i], &room) && !room.error &&
		       now_ns() - start < 5 * SECOND)
			usleep(1000);
		EXPECT_EQ(-EBUSY, room.error);
	}
	/* With sixteen at a time it was seven times the limit. */
	EXPECT_GT(4 * HANG, now_ns() - start);
	for (int i = 0; i < 100; i++)
		distmind_queue_destroy(queues[i]);
	close(importer);
	distmind_buffer_destroy(pinned);
}

/* Each of the crowd would keep the lanes idle for as long as it has a claim to them. */
TEST_F(room, those_at_their_cap_keep_nobody_from_the_room_that_they_cannot_use)
{
	struct tenant *crowd = &self->tenants[0], *other = &self->tenants[1];
	struct distmind_queue *queues[16];
	uint64_t start;
	int before;

	if (strcmp(variant->policy, "slo"))
		SKIP(return, "under this policy nobody is asked");
	ASSERT_EQ(0, tenant_start(self, crowd, 0, DISTMIND_CLASS_STANDARD, HEAP));
	crowd->record.share = 10;
	crowd->record.capped = true;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &crowd->record,
					    DISTMIND_SET_SHARE | DISTMIND_SET_CAPPED));
	/* Nobody of the crowd may ask it, until none of them can run. */
	ASSERT_EQ(0, tenant_start(self, other, 0, DISTMIND_CLASS_LATENCY, HEAP / 2));
	other->record.share = 990;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &other->record, DISTMIND_SET_SHARE));
	start = now_ns();
	ASSERT_EQ(0, submit(self, other, OP_SECOND, other->buffer));
	ASSERT_TRUE(have_started(1));
	ASSERT_EQ(0, add_to_crowd(self, crowd, queues, 0, 16, 0));
	/* With a hundredth of the gpu, that is what it may have in thirty seconds. */
	ASSERT_EQ(0, submit(self, crowd, OP_LONG, NULL));
	ASSERT_EQ(0, wait_for(crowd, 20000));
	other->record.sched_class = DISTMIND_CLASS_STANDARD;
	other->record.objective_ns = 0;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &other->record,
					    DISTMIND_SET_CLASS | DISTMIND_SET_OBJECTIVE));
	before = __atomic_load_n(&yields, __ATOMIC_SEQ_CST);
	EXPECT_EQ(0, wait_for(other, 20000));
	EXPECT_EQ(before, __atomic_load_n(&yields, __ATOMIC_SEQ_CST))
		TH_LOG("a second on the lane took %llu ms", (now_ns() - start) / 1000000ULL);
	for (int i = 0; i < 16; i++)
		distmind_queue_destroy(queues[i]);
}

/* Of one tenant: the first job fits around the pin only when that has gone. */
TEST_F(room, one_that_a_pin_keeps_out_does_not_keep_another_of_its_tenant_from_being_served)
{
	struct tenant *holder = &self->tenants[0], *own = &self->tenants[1];
	struct distmind_buffer *pinned, *large;
	struct distmind_queue *first;
	int importer;

	if (strcmp(variant->policy, "slo"))
		SKIP(return, "under this policy nobody is asked");
	ASSERT_EQ(0, tenant_start(self, own, 0, DISTMIND_CLASS_STANDARD, HEAP / 2));
	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 2));
	ASSERT_EQ(0, distmind_buffer_create(own->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA, &pinned));
	ASSERT_EQ(0, distmind_buffer_create(own->vgpu, HEAP, DISTMIND_BUFFER_DATA, &large));
	ASSERT_EQ(0, submit(self, own, OP_SHORT, pinned));
	ASSERT_EQ(0, wait_for(own, 20000));
	importer = pin(pinned);
	ASSERT_LE(0, importer);
	ASSERT_EQ(0, submit(self, holder, OP_SPIN, holder->buffer));
	ASSERT_TRUE(have_started(1));
	first = own->queue;
	ASSERT_EQ(0, submit(self, own, OP_SHORT, large));
	ASSERT_TRUE(library_waits_for_room(own->queue));
	ASSERT_EQ(0, distmind_queue_create(own->vgpu, DISTMIND_LANE_COMPUTE, 1, &own->queue));
	/* Its value is behind that of the first, which is to fail no sooner than in 10 s. */
	ASSERT_EQ(0, submit(self, own, OP_SHORT, own->buffer));
	EXPECT_EQ(0, wait_for(own, 5000));
	distmind_queue_destroy(first);
	close(importer);
	distmind_buffer_destroy(large);
	distmind_buffer_destroy(pinned);
}

/* Has a latency job wait for what the last job of the tenant signals. */
static int submit_behind(FIXTURE_DATA(room) *self, struct tenant *urgent, struct tenant *tenant)
{
	struct distmind_timeline *work;
	int err;

	err = distmind_timeline_import(urgent->vgpu, distmind_timeline_fd(tenant->done), &work);
	if (err)
		return err;
	distmind_batch_clear(self->batch);
	distmind_batch_launch(self->batch, OP_SHORT, 1);
	distmind_batch_wait(self->batch, work, tenant->value);
	distmind_batch_signal(self->batch, urgent->done, ++urgent->value);
	err = distmind_queue_submit(urgent->queue, self->batch, NULL);
	distmind_batch_clear(self->batch);
	distmind_timeline_destroy(work);
	return err;
}

/* The one that a latency job waits for is behind another of its tenant, of low rank as itself. */
TEST_F(room, who_gets_the_place_of_a_latency_job_while_it_waits_for_room_is_served_as_one)
{
	struct tenant *holder = &self->tenants[0], *helper = &self->tenants[1];
	struct tenant *urgent = &self->tenants[2];
	struct distmind_queue *first;

	if (strcmp(variant->policy, "slo"))
		SKIP(return, "under this policy nobody is asked");
	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, tenant_start(self, helper, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 2));
	ASSERT_EQ(0, tenant_start(self, urgent, 0, DISTMIND_CLASS_LATENCY, HEAP / 8));
	ASSERT_EQ(0, submit(self, holder, OP_SPIN, holder->buffer));
	ASSERT_TRUE(have_started(1));
	first = helper->queue;
	ASSERT_EQ(0, submit(self, helper, OP_SHORT, helper->buffer));
	ASSERT_TRUE(library_waits_for_room(helper->queue));
	ASSERT_EQ(0, distmind_queue_create(helper->vgpu, DISTMIND_LANE_COMPUTE, 1,
					   &helper->queue));
	ASSERT_EQ(0, submit(self, helper, OP_SHORT, helper->buffer));
	ASSERT_TRUE(library_waits_for_room(helper->queue));
	ASSERT_EQ(0, submit_behind(self, urgent, helper));
	EXPECT_EQ(0, wait_for(urgent, 5000));
	distmind_queue_destroy(first);
}

/*
 * The other of its tenant has found room, has no lane to use it, and finds that it has gone when
 * it gets one. It was the first to wait, and has waited before, but is of low rank.
 */
TEST_F(room, who_tries_again_in_vain_does_not_come_before_what_a_latency_job_waits_for)
{
	struct tenant *holder = &self->tenants[0], *helper = &self->tenants[1];
	struct tenant *urgent = &self->tenants[2];
	struct distmind_queue *first, *blockers[2];
	struct distmind_buffer *large;

	if (strcmp(variant->policy, "slo"))
		SKIP(return, "under this policy nobody is asked");
	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, tenant_start(self, helper, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 2));
	ASSERT_EQ(0, tenant_start(self, urgent, 0, DISTMIND_CLASS_LATENCY, HEAP / 4));
	ASSERT_EQ(0, distmind_buffer_create(helper->vgpu, HEAP / 8 * 7, DISTMIND_BUFFER_DATA,
					    &large));
	ASSERT_EQ(0, submit(self, holder, OP_SPIN, holder->buffer));
	ASSERT_TRUE(have_started(1));
	first = helper->queue;
	ASSERT_EQ(0, submit(self, helper, OP_SHORT, helper->buffer));
	ASSERT_TRUE(library_waits_for_room(first));
	ASSERT_EQ(0, distmind_queue_create(helper->vgpu, DISTMIND_LANE_COMPUTE, 1,
					   &helper->queue));
	ASSERT_EQ(0, submit(self, helper, OP_SHORT, large));
	ASSERT_TRUE(library_waits_for_room(helper->queue));
	/* Both lanes, and of the memory as much as leaves room for the first only. */
	for (int i = 0; i < 2; i++) {
		blockers[i] = urgent->queue;
		ASSERT_EQ(0, submit(self, urgent, OP_STAGE + i, i ? urgent->buffer : NULL));
		ASSERT_EQ(0, distmind_queue_create(urgent->vgpu, DISTMIND_LANE_COMPUTE, 1,
						   &urgent->queue));
		ASSERT_TRUE(have_started(i + 2));
	}
	ASSERT_TRUE(library_has_room(first));
	/* The holder, of higher rank, gets the lane that becomes free, and the room. */
	__atomic_store_n(&stage, 1, __ATOMIC_SEQ_CST);
	ASSERT_TRUE(have_started(4));
	ASSERT_EQ(0, submit_behind(self, urgent, helper));
	__atomic_store_n(&stage, 2, __ATOMIC_SEQ_CST);
	EXPECT_EQ(0, wait_for(urgent, 5000));
	distmind_queue_destroy(first);
	for (int i = 0; i < 2; i++)
		distmind_queue_destroy(blockers[i]);
	distmind_buffer_destroy(large);
}

TEST_F(room, who_waits_for_another_user_learns_for_what_and_not_for_whom)
{
	struct tenant *holder = &self->tenants[0], *waiter = &self->tenants[1];
	struct distmind_queue_room room;
	int importer;

	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_BEST_EFFORT, HEAP / 4));
	ASSERT_EQ(0, tenant_start_as(self, waiter, 0, DISTMIND_CLASS_LATENCY, HEAP, STRANGER));
	ASSERT_EQ(0, submit(self, holder, OP_SHORT, holder->buffer));
	ASSERT_EQ(0, wait_for(holder, 20000));
	importer = pin(holder->buffer);
	ASSERT_LE(0, importer);
	ASSERT_EQ(0, submit(self, waiter, OP_SHORT, waiter->buffer));
	do {
		ASSERT_EQ(0, seteuid(STRANGER));
		ASSERT_EQ(0, distmind_queue_room(waiter->queue, &room));
		ASSERT_EQ(0, seteuid(0));
	} while (room.cause != DISTMIND_ROOM_PINNED);
	EXPECT_EQ(DISTMIND_ROOM_HIDDEN, room.buffer);
	EXPECT_EQ(DISTMIND_ROOM_HIDDEN, room.vgpu);
	EXPECT_EQ(0, room.pid);
	EXPECT_STREQ("", room.device);
	EXPECT_EQ(holder->record.gpu, room.gpu);
	/* Who may see everything sees that. */
	ASSERT_EQ(0, distmind_queue_room(waiter->queue, &room));
	EXPECT_EQ(holder->record.id, room.vgpu);
	EXPECT_EQ(getpid(), room.pid);
	close(importer);
	EXPECT_EQ(0, wait_for(waiter, 20000));
}

/* Its queue's end asks it to yield, which it does not. Its engine keeps its memory. */
TEST_F(room, who_waits_for_the_memory_of_a_job_that_hangs_fails_and_is_told_for_whom)
{
	struct tenant *holder = &self->tenants[0], *waiter = &self->tenants[1];
	struct distmind_queue_room room;
	struct distmind_buffer_info info;

	ASSERT_EQ(0, hang_after(self, HANG));
	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, submit(self, holder, OP_DEAF, holder->buffer));
	ASSERT_TRUE(have_started(1));
	distmind_queue_destroy(holder->queue);
	holder->queue = NULL;
	ASSERT_EQ(0, tenant_start(self, waiter, 0, DISTMIND_CLASS_STANDARD, HEAP / 2));
	ASSERT_EQ(0, submit(self, waiter, OP_SHORT, waiter->buffer));
	EXPECT_EQ(-EBUSY, wait_for(waiter, 20000));
	ASSERT_EQ(0, distmind_queue_room(waiter->queue, &room));
	ASSERT_EQ(0, distmind_buffer_info(holder->buffer, &info));
	EXPECT_EQ(DISTMIND_ROOM_HUNG, room.cause);
	EXPECT_EQ(info.id, room.buffer);
	EXPECT_EQ(holder->record.id, room.vgpu);
}

TEST_F(room, a_queue_that_waits_for_room_can_be_destroyed)
{
	struct tenant *holder = &self->tenants[0], *waiter = &self->tenants[1];

	ASSERT_EQ(0, tenant_start(self, holder, 0, DISTMIND_CLASS_STANDARD, HEAP / 4 * 3));
	ASSERT_EQ(0, submit(self, holder, OP_DEAF, holder->buffer));
	ASSERT_TRUE(have_started(1));
	ASSERT_EQ(0, tenant_start(self, waiter, 0, DISTMIND_CLASS_STANDARD, HEAP / 2));
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, submit(self, waiter, OP_SHORT, waiter->buffer));
	EXPECT_EQ(-ETIMEDOUT, wait_for(waiter, 50));
	distmind_queue_destroy(waiter->queue);
	waiter->queue = NULL;
	EXPECT_EQ(-ECANCELED, wait_for(waiter, 20000));
}

TEST_HARNESS_MAIN
