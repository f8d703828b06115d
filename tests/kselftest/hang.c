// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a job or an engine that does not answer costs, and whom: the memory of the job
 * stays until its engine is done with it, other lanes go on, and an engine that is lost
 * reaches no memory any more. The test is the engine: it exchanges, or does not.
 */
#include <distmind_ops.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SECOND 1000000000ULL
#define HANG   (SECOND / 20)
#define HEAP   MiB
#define LANES  2
#define STRANGER 65534 /* another user */

FIXTURE(hang)
{
	struct distmind_pool *pool;
	struct distmind_engine *engine;
	uint32_t gpu;
	char *heap;
	struct owner {
		struct distmind_vgpu_record record;
		struct distmind_vgpu *vgpu;
		struct distmind_queue *queue;
		struct distmind_timeline *done;
		struct distmind_buffer *buffer;
		char *memory;
	} owners[2];
};

static int owner_make_as(struct distmind_pool *pool, uint32_t gpu, struct owner *owner, uid_t uid)
{
	int err;

	owner->record = (struct distmind_vgpu_record){
		.gpu = gpu, .memory = HEAP, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD,
		.uid = uid,
	};
	err = distmind_pool_vgpu_create(pool, &owner->record) || seteuid(uid) ||
	      library_vgpu_open(owner->record.id, &owner->vgpu) ||
	      distmind_queue_create(owner->vgpu, DISTMIND_LANE_COMPUTE, 4, &owner->queue) ||
	      distmind_timeline_create(owner->vgpu, 0, &owner->done);
	return seteuid(0) || err;
}

static int owner_make(struct distmind_pool *pool, uint32_t gpu, struct owner *owner)
{
	return owner_make_as(pool, gpu, owner, 0);
}

static void owner_end(struct distmind_pool *pool, struct owner *owner)
{
	distmind_buffer_destroy(owner->buffer);
	distmind_timeline_destroy(owner->done);
	distmind_queue_destroy(owner->queue);
	distmind_vgpu_close(owner->vgpu);
	distmind_pool_vgpu_delete(pool, owner->record.id);
}

FIXTURE_SETUP(hang)
{
	struct distmind_engine_params params = {
		.name = "hang", .kind = "test", .memory = HEAP, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = LANES, .capabilities = DISTMIND_ENGINE_YIELDS,
	};

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_engine_register(&params, &self->engine));
	self->gpu = distmind_engine_gpu(self->engine);
	self->heap = distmind_engine_heap(self->engine);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, owner_make(self->pool, self->gpu, &self->owners[i]));
}

FIXTURE_TEARDOWN(hang)
{
	for (int i = 0; i < 2; i++)
		owner_end(self->pool, &self->owners[i]);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_engine_close(self->engine);
	distmind_pool_close(self->pool);
}

/* A buffer as large as the heap, full of one byte. */
static int buffer_fill(struct owner *owner, char byte)
{
	void *memory;
	int err = distmind_buffer_create(owner->vgpu, HEAP, DISTMIND_BUFFER_DATA, &owner->buffer);

	if (!err)
		err = distmind_buffer_map(owner->buffer, &memory);
	if (!err)
		owner->memory = memset(memory, byte, HEAP);
	return err;
}

/* A launch that uses the owner's buffer, if there is one. */
static int submit(struct owner *owner, uint64_t value)
{
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	if (err)
		return err;
	distmind_batch_launch(batch, 0, 1);
	if (owner->buffer)
		distmind_batch_range(batch, owner->buffer, 0, HEAP);
	distmind_batch_signal(batch, owner->done, value);
	err = distmind_queue_submit(owner->queue, batch, NULL);
	distmind_batch_destroy(batch);
	return err;
}

static int fetch(struct distmind_engine *engine, uint32_t lane, uint32_t timeout_ms,
		 struct distmind_engine_exchange *exchange)
{
	*exchange = (struct distmind_engine_exchange){ .lane = lane, .timeout_ms = timeout_ms };
	return distmind_engine_exchange(engine, exchange);
}

/* Hands the job back and does not wait for another. */
static int hand_back(struct distmind_engine *engine, const struct distmind_engine_exchange *job)
{
	struct distmind_engine_exchange exchange = { .lane = job->lane, .done = job->job.id };

	return distmind_engine_exchange(engine, &exchange);
}

/* Cancelled, and not handed back: it fails for hanging. */
static int hang(struct distmind_pool *pool, uint32_t gpu, struct owner *owner)
{
	int err = distmind_pool_gpu_hang(pool, gpu, HANG);

	if (err)
		return err;
	distmind_queue_destroy(owner->queue);
	owner->queue = NULL;
	return distmind_timeline_wait(owner->done, 1, 10000);
}

static bool is_lost(struct distmind_pool *pool, uint32_t gpu)
{
	struct distmind_gpu_record record;

	return !distmind_pool_gpu(pool, gpu, &record) && record.state == DISTMIND_GPU_STATE_LOST;
}

static uint32_t lanes_out(struct distmind_pool *pool, uint32_t gpu)
{
	struct distmind_gpu_record record;

	return distmind_pool_gpu(pool, gpu, &record) ? UINT32_MAX : record.lanes_out;
}

static bool wait_until_lost(struct distmind_pool *pool, uint32_t gpu)
{
	for (int i = 0; i < 1000 && !is_lost(pool, gpu); i++)
		usleep(10000);
	return is_lost(pool, gpu);
}

/* A thread of the engine that fetches a job for lane 1, until it has one or is to stop. */
struct fetcher {
	struct distmind_engine *engine;
	struct distmind_engine_exchange job;
	bool has_job;
	bool stop;
	pthread_t thread;
};

static void *fetch_job(void *arg)
{
	struct fetcher *fetcher = arg;
	int err;

	do {
		err = fetch(fetcher->engine, 1, 50, &fetcher->job);
	} while ((err == -ETIMEDOUT || err == -EINTR) &&
		 !__atomic_load_n(&fetcher->stop, __ATOMIC_ACQUIRE));
	__atomic_store_n(&fetcher->has_job, !err, __ATOMIC_RELEASE);
	return NULL;
}

TEST_F(hang, the_memory_of_a_job_that_hangs_is_nobody_elses_until_it_is_handed_back)
{
	struct owner *one = &self->owners[0], *two = &self->owners[1];
	struct fetcher next = { .engine = self->engine };
	struct distmind_engine_exchange stuck;
	int err;

	ASSERT_EQ(0, buffer_fill(one, 'a'));
	ASSERT_EQ(0, submit(one, 1));
	ASSERT_EQ(0, fetch(self->engine, 0, 10000, &stuck));
	ASSERT_EQ('a', self->heap[stuck.job.arg[0].value]);
	ASSERT_EQ(-ETIME, hang(self->pool, self->gpu, one));
	/* Its owner is rid of it, and somebody else needs the room. */
	distmind_buffer_destroy(one->buffer);
	one->buffer = NULL;
	ASSERT_EQ(0, buffer_fill(two, 'b'));
	ASSERT_EQ(0, submit(two, 1));
	ASSERT_EQ(0, pthread_create(&next.thread, NULL, fetch_job, &next));
	usleep(4 * HANG / 1000);
	EXPECT_FALSE(__atomic_load_n(&next.has_job, __ATOMIC_ACQUIRE));
	/* The engine still works on it. */
	for (uint64_t i = 0; i < HEAP; i += PAGE) {
		EXPECT_EQ('a', self->heap[stuck.job.arg[0].value + i]);
		self->heap[stuck.job.arg[0].value + i] = 'x';
	}
	EXPECT_TRUE(all_bytes(two->memory, HEAP, 'b'));
	/* Whichever lane comes first has the job that waited. */
	stuck = (struct distmind_engine_exchange){ .done = stuck.job.id, .timeout_ms = 100 };
	err = distmind_engine_exchange(self->engine, &stuck);
	__atomic_store_n(&next.stop, !err, __ATOMIC_RELEASE);
	pthread_join(next.thread, NULL);
	ASSERT_EQ(!!err, next.has_job);
	if (err)
		stuck = next.job;
	EXPECT_EQ('b', self->heap[stuck.job.arg[0].value]);
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &stuck));
	EXPECT_EQ(0, distmind_timeline_wait(two->done, 1, 10000));
}

/* What an access to the heap is answered with: a signal, or 0. */
static sigjmp_buf fault_return;

static void fault(int signal)
{
	siglongjmp(fault_return, signal);
}

static int touch(char *at)
{
	struct sigaction action = { .sa_handler = fault }, old;
	int signal;

	sigaction(SIGBUS, &action, &old);
	signal = sigsetjmp(fault_return, 1);
	if (!signal)
		*(volatile char *)at = *(volatile char *)at;
	sigaction(SIGBUS, &old, NULL);
	return signal;
}

TEST_F(hang, the_engine_of_a_gpu_that_was_removed_reaches_no_buffer)
{
	struct owner *one = &self->owners[0];
	struct distmind_engine_exchange job;

	ASSERT_EQ(0, buffer_fill(one, 'a'));
	ASSERT_EQ(0, submit(one, 1));
	ASSERT_EQ(0, fetch(self->engine, 0, 10000, &job));
	EXPECT_EQ(0, touch(self->heap + job.job.arg[0].value));
	for (int i = 0; i < 2; i++) {
		struct distmind_vgpu_record record = self->owners[i].record;

		record.gpu = DISTMIND_GPU_NONE;
		ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &record, DISTMIND_SET_GPU));
	}
	ASSERT_EQ(0, distmind_pool_gpu_remove(self->pool, self->gpu));
	EXPECT_GT(0, distmind_timeline_wait(one->done, 1, 10000));
	for (uint64_t i = 0; i < HEAP; i += PAGE)
		EXPECT_EQ(SIGBUS, touch(self->heap + i));
	EXPECT_TRUE(all_bytes(one->memory, HEAP, 'a'));
}

TEST_F(hang, the_engine_of_a_gpu_that_is_lost_reaches_no_buffer)
{
	struct distmind_vgpu_record elsewhere = { .id = self->owners[0].record.id };
	struct distmind_engine_exchange jobs[LANES], next;
	struct owner *one = &self->owners[0];
	struct distmind_engine *other;
	struct distmind_engine_params params = {
		.name = "other", .kind = "test", .memory = HEAP, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1,
	};

	ASSERT_EQ(0, buffer_fill(one, 'a'));
	ASSERT_EQ(0, submit(one, 1));
	ASSERT_EQ(0, submit(&self->owners[1], 1));
	for (int i = 0; i < LANES; i++)
		ASSERT_EQ(0, fetch(self->engine, i, 10000, &jobs[i]));
	EXPECT_EQ(0, touch(self->heap));
	EXPECT_EQ(-ETIME, hang(self->pool, self->gpu, one));
	EXPECT_EQ(-ETIME, hang(self->pool, self->gpu, &self->owners[1]));
	ASSERT_TRUE(wait_until_lost(self->pool, self->gpu));
	/* The buffer is used elsewhere now, as if nothing had happened. */
	ASSERT_EQ(0, distmind_engine_register(&params, &other));
	elsewhere.gpu = distmind_engine_gpu(other);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &elsewhere, DISTMIND_SET_GPU));
	ASSERT_EQ(0, distmind_queue_create(one->vgpu, DISTMIND_LANE_COMPUTE, 4, &one->queue));
	distmind_timeline_destroy(one->done);
	ASSERT_EQ(0, distmind_timeline_create(one->vgpu, 0, &one->done));
	ASSERT_EQ(0, submit(one, 2));
	ASSERT_EQ(0, fetch(other, 0, 10000, &next));
	EXPECT_EQ('a', ((char *)distmind_engine_heap(other))[next.job.arg[0].value]);
	EXPECT_EQ(SIGBUS, touch(self->heap));
	EXPECT_EQ(-ENODEV, hand_back(self->engine, &jobs[0]));
	EXPECT_EQ(-ETIMEDOUT, hand_back(other, &next));
	EXPECT_EQ(0, distmind_timeline_wait(one->done, 2, 10000));
	elsewhere.gpu = DISTMIND_GPU_NONE;
	EXPECT_EQ(0, distmind_pool_vgpu_set(self->pool, &elsewhere, DISTMIND_SET_GPU));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, distmind_engine_gpu(other)));
	distmind_engine_close(other);
}

/* Lane 1 of the test's engine, by a thread that does what there is to do. */
static void *serve_lane(void *arg)
{
	struct distmind_engine_exchange exchange = { .lane = 1, .timeout_ms = 50 };

	int err;

	/* A call that fails leaves the job in it alone, which has been handed back by then. */
	while ((err = distmind_engine_exchange(arg, &exchange)) != -ENODEV)
		exchange.done = err ? 0 : exchange.job.id;
	return NULL;
}

TEST_F(hang, a_lane_that_hangs_is_fenced_alone)
{
	struct owner *one = &self->owners[0], *two = &self->owners[1];
	struct distmind_engine_exchange stuck;
	pthread_t thread;

	ASSERT_EQ(0, submit(one, 1));
	ASSERT_EQ(0, fetch(self->engine, 0, 10000, &stuck));
	ASSERT_EQ(0, pthread_create(&thread, NULL, serve_lane, self->engine));
	ASSERT_EQ(-ETIME, hang(self->pool, self->gpu, one));
	EXPECT_EQ(1, lanes_out(self->pool, self->gpu));
	/* Others go on, for longer than an engine may be silent: a host is not slow for that long. */
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, self->gpu, 2 * SECOND));
	for (int i = 1; i <= 30; i++) {
		ASSERT_EQ(0, submit(two, i));
		ASSERT_EQ(0, distmind_timeline_wait(two->done, i, 10000));
		usleep(100000);
	}
	EXPECT_FALSE(is_lost(self->pool, self->gpu));
	EXPECT_EQ(1, lanes_out(self->pool, self->gpu));
	/* A thread that does not say what became of the job gets no other. */
	EXPECT_EQ(-EPROTO, fetch(self->engine, 0, 0, &(struct distmind_engine_exchange){ 0 }));
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &stuck));
	EXPECT_EQ(0, lanes_out(self->pool, self->gpu));
	for (int i = 0; i < 2; i++) {
		struct distmind_vgpu_record record = self->owners[i].record;

		record.gpu = DISTMIND_GPU_NONE;
		ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &record, DISTMIND_SET_GPU));
	}
	ASSERT_EQ(0, distmind_pool_gpu_remove(self->pool, self->gpu));
	pthread_join(thread, NULL);
}

/* Two vgpus of one user, of which the first has a job that hangs on lane 0. */
static int make_strangers(FIXTURE_DATA(hang) *self, struct owner *users,
			  struct distmind_engine_exchange *stuck)
{
	for (int i = 0; i < 2; i++) {
		if (owner_make_as(self->pool, self->gpu, &users[i], STRANGER))
			return -1;
	}
	if (submit(&users[0], 1) || fetch(self->engine, 0, 10000, stuck))
		return -1;
	return hang(self->pool, self->gpu, &users[0]) == -ETIME ? 0 : -1;
}

/* As one of a user: its next job would take the next lane. */
TEST_F(hang, whose_job_hangs_gets_no_other_lane_until_that_one_is_back)
{
	struct owner *honest = &self->owners[1], users[2] = { 0 };
	struct distmind_engine_exchange stuck, next;

	ASSERT_EQ(0, make_strangers(self, users, &stuck));
	/* Neither with the same vgpu nor with another one. */
	ASSERT_EQ(0, distmind_queue_create(users[0].vgpu, DISTMIND_LANE_COMPUTE, 4,
					   &users[0].queue));
	ASSERT_EQ(0, submit(&users[0], 2));
	ASSERT_EQ(0, submit(&users[1], 1));
	EXPECT_EQ(-ETIMEDOUT, fetch(self->engine, 1, 100, &next));
	ASSERT_EQ(0, submit(honest, 1));
	ASSERT_EQ(0, fetch(self->engine, 1, 10000, &next));
	EXPECT_EQ(honest->record.id, next.job.vgpu);
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &next));
	EXPECT_EQ(0, distmind_timeline_wait(honest->done, 1, 10000));
	/* Both go on when the engine has answered. */
	stuck.done = stuck.job.id;
	stuck.timeout_ms = 10000;
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, distmind_engine_exchange(self->engine, &stuck));
		stuck.done = stuck.job.id;
	}
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &stuck));
	EXPECT_EQ(0, distmind_timeline_wait(users[1].done, 1, 10000));
	for (int i = 0; i < 2; i++)
		owner_end(self->pool, &users[i]);
}

/* It is in a hurry, and has a job that waits for the first one of another. */
static int wait_urgently(struct distmind_pool *pool, struct owner *waits, struct owner *other)
{
	struct distmind_vgpu_record record = waits->record;
	struct distmind_timeline *step;
	struct distmind_batch *batch;
	int err;

	record.sched_class = DISTMIND_CLASS_LATENCY;
	record.objective_ns = SECOND / 100;
	err = distmind_pool_vgpu_set(pool, &record, DISTMIND_SET_CLASS | DISTMIND_SET_OBJECTIVE);
	err = err ? err : distmind_timeline_import(waits->vgpu, distmind_timeline_fd(other->done),
						   &step);
	err = err ? err : distmind_batch_create(&batch);
	if (err)
		return err;
	distmind_batch_launch(batch, 0, 1);
	distmind_batch_wait(batch, step, 1);
	err = distmind_queue_submit(waits->queue, batch, NULL);
	distmind_batch_destroy(batch);
	distmind_timeline_destroy(step);
	return err;
}

/* A job of the first waits in its queue, and the user owes a lane; the second waits for it. */
static int wait_for_who_owes(struct distmind_pool *pool, struct owner *owes, struct owner *waits)
{
	int err;

	distmind_timeline_destroy(owes->done);
	err = distmind_timeline_create(owes->vgpu, 0, &owes->done);
	err = err ? err : distmind_queue_create(owes->vgpu, DISTMIND_LANE_COMPUTE, 4, &owes->queue);
	err = err ? err : submit(owes, 1);
	return err ? err : wait_urgently(pool, waits, owes);
}

TEST_F(hang, who_waits_for_a_user_that_owes_a_lane_lends_it_one_but_not_to_itself)
{
	struct distmind_engine_params params = {
		.name = "three", .kind = "test", .memory = HEAP, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 3, .capabilities = DISTMIND_ENGINE_YIELDS,
	};
	struct owner honest = { 0 }, users[2] = { 0 };
	struct distmind_engine_exchange stuck, next;
	FIXTURE_DATA(hang) three = *self;

	ASSERT_EQ(0, distmind_engine_register(&params, &three.engine));
	three.gpu = distmind_engine_gpu(three.engine);
	ASSERT_EQ(0, owner_make(self->pool, three.gpu, &honest));
	ASSERT_EQ(0, make_strangers(&three, users, &stuck));
	/* For lane 2 nobody comes; it counts all the same. */
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, three.gpu, 30 * SECOND));
	ASSERT_EQ(0, wait_for_who_owes(self->pool, &users[0], &users[1]));
	EXPECT_EQ(-ETIMEDOUT, fetch(three.engine, 1, 100, &next));
	distmind_queue_destroy(users[0].queue);
	ASSERT_EQ(0, wait_for_who_owes(self->pool, &users[0], &honest));
	ASSERT_EQ(0, fetch(three.engine, 1, 10000, &next));
	EXPECT_EQ(users[0].record.id, next.job.vgpu);
	next.done = next.job.id;
	next.timeout_ms = 10000;
	ASSERT_EQ(0, distmind_engine_exchange(three.engine, &next));
	EXPECT_EQ(honest.record.id, next.job.vgpu);
	EXPECT_EQ(-ETIMEDOUT, hand_back(three.engine, &next));
	hand_back(three.engine, &stuck);
	for (int i = 0; i < 2; i++)
		owner_end(self->pool, &users[i]);
	owner_end(self->pool, &honest);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, three.gpu));
	distmind_engine_close(three.engine);
}

/* Else two users who wait for each other would take the gpu from everybody. */
TEST_F(hang, the_last_lane_goes_to_nobody_who_owes_one_whoever_waits_for_it)
{
	struct owner *waits = &self->owners[0], *honest = &self->owners[1], users[2] = { 0 };
	struct distmind_engine_exchange stuck, next;

	ASSERT_EQ(0, make_strangers(self, users, &stuck));
	ASSERT_EQ(0, wait_for_who_owes(self->pool, &users[0], waits));
	EXPECT_EQ(-ETIMEDOUT, fetch(self->engine, 1, 100, &next));
	/* Others have it, also of the one that waits. */
	ASSERT_EQ(0, submit(honest, 1));
	ASSERT_EQ(0, fetch(self->engine, 1, 10000, &next));
	EXPECT_EQ(honest->record.id, next.job.vgpu);
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &next));
	distmind_queue_destroy(waits->queue);
	ASSERT_EQ(0, distmind_queue_create(waits->vgpu, DISTMIND_LANE_COMPUTE, 4, &waits->queue));
	ASSERT_EQ(0, submit(waits, 1));
	ASSERT_EQ(0, fetch(self->engine, 1, 10000, &next));
	EXPECT_EQ(waits->record.id, next.job.vgpu);
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &next));
	/* It goes on when the engine has answered. */
	stuck.done = stuck.job.id;
	stuck.timeout_ms = 10000;
	ASSERT_EQ(0, distmind_engine_exchange(self->engine, &stuck));
	EXPECT_EQ(users[0].record.id, stuck.job.vgpu);
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &stuck));
	for (int i = 0; i < 2; i++)
		owner_end(self->pool, &users[i]);
}

/* The place that it is lent is worth nothing, and it has its own. */
TEST_F(hang, for_whom_a_user_waits_that_owes_a_lane_runs_all_the_same)
{
	struct owner *honest = &self->owners[1], users[2] = { 0 };
	struct distmind_engine_exchange stuck, next;
	struct distmind_queue *waiting;

	ASSERT_EQ(0, make_strangers(self, users, &stuck));
	ASSERT_EQ(0, wait_urgently(self->pool, &users[1], honest));
	waiting = users[1].queue;
	ASSERT_EQ(0, distmind_queue_create(users[1].vgpu, DISTMIND_LANE_COMPUTE, 4,
					   &users[1].queue));
	ASSERT_EQ(0, submit(&users[1], 1));
	EXPECT_EQ(-ETIMEDOUT, fetch(self->engine, 1, 100, &next));
	ASSERT_EQ(0, submit(honest, 1));
	ASSERT_EQ(0, fetch(self->engine, 1, 10000, &next));
	EXPECT_EQ(honest->record.id, next.job.vgpu);
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &next));
	EXPECT_EQ(0, distmind_timeline_wait(honest->done, 1, 10000));
	hand_back(self->engine, &stuck);
	distmind_queue_destroy(waiting);
	for (int i = 0; i < 2; i++)
		owner_end(self->pool, &users[i]);
}

/* A block takes a millisecond; between two it looks whether it is to yield. */
static void run_blocks(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);

	for (next->cookie = next->job.cookie; next->cookie < next->job.blocks; next->cookie++) {
		if (page->yield)
			break;
		usleep(1000);
	}
	if (next->cookie < next->job.blocks)
		next->status = DISTMIND_DONE_YIELDED;
}

/* An engine in a process of its own, that can be stopped. */
static pid_t start_engine_of(uint32_t lanes, uint32_t capabilities, uint32_t *gpu)
{
	struct distmind_engine_params params = {
		.name = "stopped", .kind = "test", .memory = HEAP, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = lanes, .capabilities = capabilities,
	};
	struct gpu served;
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		if (gpu_start(&served, &params, run_blocks))
			_exit(1);
		*gpu = distmind_engine_gpu(served.engine);
		if (write(ends[1], gpu, sizeof(*gpu)) != sizeof(*gpu))
			_exit(1);
		for (uint32_t i = 0; i < lanes; i++)
			pthread_join(served.lanes[i].thread, NULL);
		_exit(0);
	}
	close(ends[1]);
	if (read(ends[0], gpu, sizeof(*gpu)) != sizeof(*gpu))
		pid = -1;
	close(ends[0]);
	return pid;
}

static pid_t start_engine(uint32_t lanes, uint32_t *gpu)
{
	return start_engine_of(lanes, DISTMIND_ENGINE_YIELDS, gpu);
}

TEST_F(hang, an_engine_that_stops_while_it_has_nothing_to_do_is_noticed)
{
	struct owner owner = { 0 };
	uint32_t gpu;
	pid_t pid = start_engine(LANES, &gpu);
	int status;

	ASSERT_LT(0, pid);
	ASSERT_EQ(0, owner_make(self->pool, gpu, &owner));
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, gpu, HANG));
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	/* Nobody wants anything of it: nobody can tell. */
	usleep(1500000);
	EXPECT_FALSE(is_lost(self->pool, gpu));
	EXPECT_EQ(0, lanes_out(self->pool, gpu));
	ASSERT_EQ(0, submit(&owner, 1));
	EXPECT_EQ(-EOWNERDEAD, distmind_timeline_wait(owner.done, 1, 10000));
	EXPECT_TRUE(is_lost(self->pool, gpu));
	/* It learns of that when it goes on. */
	ASSERT_EQ(0, kill(pid, SIGCONT));
	EXPECT_EQ(0, child_status(pid));
	distmind_timeline_destroy(owner.done);
	distmind_queue_destroy(owner.queue);
	distmind_vgpu_close(owner.vgpu);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, owner.record.id));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

static int submit_blocks(struct owner *owner, uint64_t value, uint32_t blocks)
{
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	if (err)
		return err;
	distmind_batch_launch(batch, 0, blocks);
	distmind_batch_signal(batch, owner->done, value);
	err = distmind_queue_submit(owner->queue, batch, NULL);
	distmind_batch_destroy(batch);
	return err;
}

/* Two tenants of an engine in a process of its own, under a policy that asks nobody. */
static pid_t start_fifo(struct distmind_pool *pool, uint32_t lanes, struct owner *owners,
			uint32_t *gpu)
{
	pid_t pid = start_engine(lanes, gpu);

	memset(owners, 0, 2 * sizeof(*owners));
	if (pid <= 0 || distmind_pool_gpu_policy(pool, *gpu, "fifo") ||
	    distmind_pool_gpu_hang(pool, *gpu, HANG) || owner_make(pool, *gpu, &owners[0]) ||
	    owner_make(pool, *gpu, &owners[1]) || submit_blocks(&owners[0], 1, 3500))
		return -1;
	do {
		if (distmind_pool_vgpu(pool, owners[0].record.id, &owners[0].record))
			return -1;
		usleep(1000);
	} while (!owners[0].record.running);
	return pid;
}

/* With another lane, to which nobody comes, and without. */
TEST_F(hang, an_engine_that_stops_with_a_job_that_nobody_asks_for_is_noticed)
{
	struct owner owners[2];
	int status;

	for (uint32_t lanes = 1; lanes <= LANES; lanes++) {
		uint32_t gpu;
		pid_t pid = start_fifo(self->pool, lanes, owners, &gpu);

		ASSERT_LT(0, pid);
		ASSERT_EQ(0, kill(pid, SIGSTOP));
		ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
		ASSERT_EQ(0, submit_blocks(&owners[1], 1, 1));
		EXPECT_EQ(-EOWNERDEAD, distmind_timeline_wait(owners[1].done, 1, 15000));
		EXPECT_TRUE(is_lost(self->pool, gpu));
		EXPECT_GT(0, distmind_timeline_wait(owners[0].done, 1, 0));
		ASSERT_EQ(0, kill(pid, SIGCONT));
		EXPECT_EQ(0, child_status(pid));
		owner_end(self->pool, &owners[0]);
		owner_end(self->pool, &owners[1]);
		EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	}
}

/* It is asked whether it is there, and that is all. */
TEST_F(hang, an_engine_that_has_a_long_job_under_fifo_goes_on_with_it)
{
	struct owner owners[2];
	uint32_t gpu;
	pid_t pid = start_fifo(self->pool, 1, owners, &gpu);

	ASSERT_LT(0, pid);
	ASSERT_EQ(0, submit_blocks(&owners[1], 1, 1));
	ASSERT_EQ(0, distmind_timeline_wait(owners[1].done, 1, 60000));
	EXPECT_EQ(0, distmind_timeline_wait(owners[0].done, 1, 0));
	EXPECT_FALSE(is_lost(self->pool, gpu));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, owners[0].record.id, &owners[0].record));
	EXPECT_LE(1, owners[0].record.preemptions);
	owner_end(self->pool, &owners[0]);
	owner_end(self->pool, &owners[1]);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	EXPECT_EQ(0, child_status(pid));
}

/* An engine that cannot yield, alone with a job that takes a while. */
static pid_t start_unyielding(struct distmind_pool *pool, struct owner *owner, uint32_t *gpu)
{
	pid_t pid = start_engine_of(1, 0, gpu);

	memset(owner, 0, sizeof(*owner));
	if (pid <= 0 || distmind_pool_gpu_hang(pool, *gpu, HANG) || owner_make(pool, *gpu, owner) ||
	    submit_blocks(owner, 1, 3500))
		return -1;
	do {
		if (distmind_pool_vgpu(pool, owner->record.id, &owner->record))
			return -1;
		usleep(1000);
	} while (!owner->record.running);
	return pid;
}

TEST_F(hang, an_engine_that_cannot_yield_and_stops_is_noticed_though_nobody_else_waits)
{
	struct owner owner;
	uint32_t gpu;
	pid_t pid = start_unyielding(self->pool, &owner, &gpu);
	int status;

	ASSERT_LT(0, pid);
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	EXPECT_EQ(-ETIME, distmind_timeline_wait(owner.done, 1, 10000));
	EXPECT_TRUE(wait_until_lost(self->pool, gpu));
	ASSERT_EQ(0, kill(pid, SIGCONT));
	EXPECT_EQ(0, child_status(pid));
	owner_end(self->pool, &owner);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

/*
 * Whoever looks finds it stopped, almost every time; yet it goes on now and then. Each stop is
 * much shorter than the time between two looks, also where a sleep takes longer than asked.
 */
TEST_F(hang, an_engine_that_is_stopped_again_and_again_keeps_its_job)
{
	struct owner owner;
	uint32_t gpu;
	pid_t pid = start_unyielding(self->pool, &owner, &gpu);
	int status;

	ASSERT_LT(0, pid);
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, gpu, 2 * SECOND));
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(0, kill(pid, SIGSTOP));
		ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
		usleep(1200000);
		ASSERT_EQ(0, kill(pid, SIGCONT));
		usleep(50000);
	}
	EXPECT_EQ(0, distmind_timeline_wait(owner.done, 1, 20000));
	EXPECT_FALSE(is_lost(self->pool, gpu));
	owner_end(self->pool, &owner);
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	EXPECT_EQ(0, child_status(pid));
}

TEST_F(hang, a_lane_for_which_nobody_comes_is_out_until_somebody_does)
{
	struct owner *one = &self->owners[0], *two = &self->owners[1];
	struct distmind_engine_exchange job;

	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, self->gpu, HANG));
	/* Lane 1 has a job, and another waits: there is one more lane. */
	ASSERT_EQ(0, submit(one, 1));
	ASSERT_EQ(0, fetch(self->engine, 1, 10000, &job));
	ASSERT_EQ(0, submit(two, 1));
	for (int i = 0; i < 1000 && !lanes_out(self->pool, self->gpu); i++)
		usleep(10000);
	EXPECT_EQ(1, lanes_out(self->pool, self->gpu));
	EXPECT_FALSE(is_lost(self->pool, self->gpu));
	EXPECT_EQ(-EAGAIN, distmind_timeline_status(two->done, 1));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(one->done, 1, 0));
	/* Somebody comes for it. */
	ASSERT_EQ(0, fetch(self->engine, 0, 10000, &(struct distmind_engine_exchange){ 0 }));
	EXPECT_EQ(0, lanes_out(self->pool, self->gpu));
	EXPECT_EQ(-ETIMEDOUT, hand_back(self->engine, &job));
	EXPECT_EQ(0, distmind_timeline_wait(one->done, 1, 10000));
}

/* distmind-engine-cpu with two lanes; its gpu's number goes to *gpu. */
static pid_t start_cpu_engine(uint32_t *gpu)
{
	const char *build = getenv("DISTMIND_BUILD");
	char path[512], line[64] = "";
	int ends[2];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/bin/distmind-engine-cpu", build ? build : "build");
	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		execl(path, path, "--name", "calculator", "--memory", "16M", "--lanes", "2", NULL);
		_exit(127);
	}
	close(ends[1]);
	if (read(ends[0], line, sizeof(line) - 1) <= 0 || sscanf(line, "gpu %u", gpu) != 1)
		pid = -1;
	close(ends[0]);
	return pid;
}

/* A launch with numbers only; what it ends with. */
static int run_numbers(struct owner *owner, uint32_t operation, const uint64_t *numbers,
		       uint32_t count, uint64_t value)
{
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	if (err)
		return err;
	distmind_batch_launch(batch, operation, distmind_op_blocks(operation, numbers, count));
	for (uint32_t i = 0; i < count; i++)
		distmind_batch_number(batch, numbers[i]);
	distmind_batch_signal(batch, owner->done, value);
	err = distmind_queue_submit(owner->queue, batch, NULL);
	distmind_batch_destroy(batch);
	return err ? err : distmind_timeline_wait(owner->done, value, 20000);
}

/* One block of 4294 s, as often as there are lanes and more. */
TEST_F(hang, a_block_without_end_costs_the_cpu_engine_nothing)
{
	const uint64_t endless[] = { 1, UINT32_MAX }, brief[] = { 1, 1000 };
	struct owner hostile[4] = { 0 }, other = { 0 };
	uint32_t gpu;
	pid_t pid = start_cpu_engine(&gpu);

	ASSERT_LT(0, pid);
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, gpu, SECOND));
	ASSERT_EQ(0, owner_make(self->pool, gpu, &other));
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, owner_make(self->pool, gpu, &hostile[i]));
		EXPECT_EQ(-EFBIG, run_numbers(&hostile[i], DISTMIND_OP_SPIN, endless, 2, 1));
		EXPECT_EQ(0, run_numbers(&other, DISTMIND_OP_SPIN, brief, 2, i + 1));
	}
	EXPECT_FALSE(is_lost(self->pool, gpu));
	EXPECT_EQ(0, lanes_out(self->pool, gpu));
	for (int i = 0; i < 5; i++) {
		struct owner *owner = i < 4 ? &hostile[i] : &other;

		distmind_timeline_destroy(owner->done);
		distmind_queue_destroy(owner->queue);
		distmind_vgpu_close(owner->vgpu);
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, owner->record.id));
	}
	/* It ends as it says, also when its heap is closed under it. */
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	EXPECT_EQ(69, child_status(pid));
}

/* What it does for as long as it is stopped is noticed, and it ends to be started again. */
TEST_F(hang, a_cpu_engine_that_was_given_up_ends_to_be_started_again)
{
	const uint64_t brief[] = { 1, 1000 };
	struct owner owner = { 0 };
	uint32_t gpu;
	pid_t pid = start_cpu_engine(&gpu);
	int status;

	ASSERT_LT(0, pid);
	ASSERT_EQ(0, owner_make(self->pool, gpu, &owner));
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->pool, gpu, HANG));
	EXPECT_EQ(0, run_numbers(&owner, DISTMIND_OP_SPIN, brief, 2, 1));
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	EXPECT_EQ(-EOWNERDEAD, run_numbers(&owner, DISTMIND_OP_SPIN, brief, 2, 2));
	ASSERT_EQ(0, kill(pid, SIGCONT));
	EXPECT_EQ(75, child_status(pid));
	distmind_timeline_destroy(owner.done);
	distmind_queue_destroy(owner.queue);
	distmind_vgpu_close(owner.vgpu);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, owner.record.id));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
}

TEST_HARNESS_MAIN
