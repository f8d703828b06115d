// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests: several jobs, in several queues, with one deadline and one account. The engine
 * is a thread of the test with one lane. A launch is blocks of a millisecond; which
 * operations it ran is written down in their order.
 */
#include <fcntl.h>
#include <time.h>

#include "kselftest_harness.h"
#include "library_test.h"

#define SECOND 1000000000ULL
#define MS 1000000ULL
#define OBJECTIVE (200 * MS)
#define MANY 4096 /* that one vgpu has open at a time */
#define FIRST_OPERATION 100

static uint32_t ran[64];
static volatile uint32_t ran_count;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

static void run_blocks(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);

	if (next->job.operation >= FIRST_OPERATION && !next->job.cookie && ran_count < 64)
		ran[ran_count++] = next->job.operation;
	for (next->cookie = next->job.cookie; next->cookie < next->job.blocks; next->cookie++) {
		if (page->yield && next->cookie > next->job.cookie)
			break;
		usleep(1000);
	}
	if (next->cookie < next->job.blocks)
		next->status = DISTMIND_DONE_YIELDED;
}

FIXTURE(request)
{
	struct distmind_pool *pool;
	struct gpu gpu;
	uint32_t gpu_id;
	struct distmind_vgpu_record record;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queues[2];
	struct distmind_timeline *done; /* how many jobs have ended */
	uint64_t value;
	struct distmind_batch *batch;
};

FIXTURE_SETUP(request)
{
	struct distmind_engine_params params = {
		.name = "request", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1, .capabilities = DISTMIND_ENGINE_YIELDS,
	};

	memset(self, 0, sizeof(*self));
	ran_count = 0;
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, gpu_start(&self->gpu, &params, run_blocks));
	self->gpu_id = distmind_engine_gpu(self->gpu.engine);
	self->record = (struct distmind_vgpu_record){
		.gpu = self->gpu_id, .memory = 64 * 1024, .share = 1000,
		.sched_class = DISTMIND_CLASS_LATENCY, .objective_ns = OBJECTIVE,
	};
	ASSERT_EQ(0, library_vgpu_create(self->pool, &self->record, &self->vgpu));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 8192,
						   &self->queues[i]));
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &self->done));
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
}

FIXTURE_TEARDOWN(request)
{
	distmind_batch_destroy(self->batch);
	distmind_timeline_destroy(self->done);
	for (int i = 0; i < 2; i++)
		distmind_queue_destroy(self->queues[i]);
	distmind_vgpu_close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->record.id);
	gpu_stop(self->pool, &self->gpu);
	distmind_pool_close(self->pool);
}

/* So many jobs; *value is what the timeline has when they are done. */
static int submit(struct distmind_queue *queue, struct distmind_batch *batch,
		  struct distmind_timeline *done, uint64_t *value, uint32_t operation,
		  uint32_t jobs, uint32_t blocks, const struct distmind_request *request)
{
	int err;

	for (uint32_t i = 0; i < jobs; i++) {
		distmind_batch_launch(batch, operation, blocks);
		if (done)
			distmind_batch_signal(batch, done, *value + i + 1);
	}
	if (request)
		distmind_batch_request(batch, request);
	err = distmind_queue_submit(queue, batch, NULL);
	distmind_batch_clear(batch);
	if (!err && done)
		*value += jobs;
	return err;
}

#define SUBMIT(queue, operation, jobs, blocks, request) \
	submit(self->queues[queue], self->batch, self->done, &self->value, operation, jobs, \
	       blocks, request)
#define LOOK() distmind_pool_vgpu(self->pool, self->record.id, &self->record)
#define AWAIT() distmind_timeline_wait(self->done, self->value, 20000)

static uint64_t sum(const uint64_t *numbers, int count)
{
	uint64_t all = 0;

	for (int i = 0; i < count; i++)
		all += numbers[i];
	return all;
}

/* Each of them takes a fraction of the objective, and all of them twice as long. */
TEST_F(request, that_is_late_is_missed_once_and_by_the_job_it_is_not)
{
	struct distmind_request request = { .id = 7, .last = true };

	ASSERT_EQ(0, SUBMIT(0, 0, 20, 20, NULL));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(0, self->record.misses);
	EXPECT_EQ(0, self->record.requests);
	ASSERT_EQ(0, SUBMIT(0, 0, 20, 20, &request));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(1, self->record.misses);
	EXPECT_EQ(1, self->record.requests);
	EXPECT_EQ(0, self->record.open_requests);
	EXPECT_EQ(1, sum(self->record.request_latency, DISTMIND_LATENCY_BUCKETS));
}

TEST_F(request, goes_by_its_own_deadline)
{
	struct distmind_request early = { .id = 1, .deadline_ns = 1, .last = true };
	struct distmind_request late = { .id = 2, .deadline_ns = now_ns() + 100 * SECOND,
					 .last = true };

	ASSERT_EQ(0, SUBMIT(0, 0, 1, 1, &early));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(1, self->record.misses);
	ASSERT_EQ(0, SUBMIT(0, 0, 1, 300, &late));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(1, self->record.misses);
	EXPECT_EQ(2, self->record.requests);
}

/* It ends with the last of its jobs, whichever queue that is in. */
TEST_F(request, spans_the_queues_of_a_vgpu)
{
	struct distmind_request request = { .id = ~0ULL };

	ASSERT_EQ(0, SUBMIT(0, 0, 1, 1, &request));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(0, self->record.requests);
	EXPECT_EQ(1, self->record.open_requests);
	request.last = true;
	ASSERT_EQ(0, SUBMIT(1, 0, 2, 300, &request));
	/* It has had its last submission, and is not over. */
	EXPECT_EQ(-EBUSY, SUBMIT(0, 0, 1, 1, &request));
	EXPECT_EQ(0, distmind_request_end(self->vgpu, request.id));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(1, self->record.requests);
	EXPECT_EQ(1, self->record.misses);
	EXPECT_EQ(0, self->record.open_requests);
	EXPECT_EQ(-ENOENT, distmind_request_end(self->vgpu, request.id));
	/* The number is free again. */
	ASSERT_EQ(0, SUBMIT(0, 0, 1, 1, &request));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(2, self->record.requests);
	EXPECT_EQ(1, self->record.misses);
}

/* Idle, then behind another's job on the lane, then on it itself; together it is all. */
TEST_F(request, has_its_time_counted_where_it_went)
{
	struct distmind_request urgent = { .id = 4, .deadline_ns = 1, .last = true };
	struct distmind_request request = { .id = 3 };
	const uint64_t *spent = self->record.request_ns;
	struct distmind_timeline *gate, *other;
	uint64_t begin, all, others = 0;

	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &gate));
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &other));
	begin = now_ns();
	ASSERT_EQ(0, SUBMIT(0, 0, 1, 20, &request));
	ASSERT_EQ(0, AWAIT());
	usleep(30000);
	/* Waits for a timeline. */
	distmind_batch_barrier(self->batch);
	distmind_batch_wait(self->batch, gate, 1);
	distmind_batch_request(self->batch, &request);
	ASSERT_EQ(0, distmind_queue_submit(self->queues[0], self->batch, NULL));
	distmind_batch_clear(self->batch);
	usleep(40000);
	ASSERT_EQ(0, distmind_timeline_signal(gate, 1));
	/* Waits for the lane: what is on it has the earlier deadline. */
	ASSERT_EQ(0, submit(self->queues[1], self->batch, other, &others, 0, 1, 50, &urgent));
	request.last = true;
	ASSERT_EQ(0, SUBMIT(0, 0, 1, 20, &request));
	ASSERT_EQ(0, AWAIT());
	ASSERT_EQ(0, distmind_timeline_wait(other, others, 20000));
	all = now_ns() - begin;
	ASSERT_EQ(0, LOOK());
	ASSERT_EQ(2, self->record.requests);
	EXPECT_GE(spent[DISTMIND_REQUEST_PHASE_IDLE], 30 * MS);
	EXPECT_GE(spent[DISTMIND_REQUEST_PHASE_ORDER], 40 * MS);
	EXPECT_GE(spent[DISTMIND_REQUEST_PHASE_LANE], 40 * MS);
	/* Three jobs, one of them of the other request. */
	EXPECT_GE(spent[DISTMIND_REQUEST_PHASE_RUN], 90 * MS);
	EXPECT_EQ(0, spent[DISTMIND_REQUEST_PHASE_WEIGHTS]);
	/* That one's whole life was within the first one's. */
	EXPECT_LE(sum(spent, DISTMIND_REQUEST_PHASE_MAX + 1), 2 * all);
	EXPECT_GE(sum(spent, DISTMIND_REQUEST_PHASE_MAX + 1), 210 * MS);
	distmind_timeline_destroy(other);
	distmind_timeline_destroy(gate);
}

/* A job that uses a buffer, of a request of its own. */
static int submit_use(struct distmind_queue *queue, struct distmind_batch *batch,
		      struct distmind_buffer *buffer, uint32_t operation,
		      struct distmind_timeline *done, uint64_t value)
{
	int err;

	distmind_batch_launch(batch, operation, 1);
	distmind_batch_range(batch, buffer, 0, distmind_buffer_size(buffer));
	distmind_batch_signal(batch, done, value);
	distmind_batch_request(batch, &(struct distmind_request){ .id = value, .last = true });
	err = distmind_queue_submit(queue, batch, NULL);
	distmind_batch_clear(batch);
	return err;
}

/* It waits when it has been submitted, and goes on when the weights are said to be there. */
TEST_F(request, has_its_wait_for_weights_counted_as_such)
{
	struct distmind_extent_record extent = { .size = PAGE, .value = 1 };
	const uint64_t *spent = self->record.request_ns;
	struct distmind_buffer_info info;
	struct distmind_timeline *load;
	struct distmind_buffer *weights;
	uint64_t begin, all, waited;

	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, PAGE, DISTMIND_BUFFER_WEIGHTS, &weights));
	ASSERT_EQ(0, distmind_buffer_info(weights, &info));
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &load));
	ASSERT_EQ(0, distmind_pool_extents_add(self->pool, info.id, distmind_timeline_fd(load),
					       &extent, 1));
	begin = now_ns();
	ASSERT_EQ(0, submit_use(self->queues[0], self->batch, weights, 0, self->done, 1));
	usleep(40000);
	ASSERT_EQ(0, distmind_timeline_signal(load, 1));
	ASSERT_EQ(0, distmind_timeline_wait(self->done, 1, 20000));
	all = now_ns() - begin;
	ASSERT_EQ(0, LOOK());
	ASSERT_EQ(1, self->record.requests);
	EXPECT_GE(spent[DISTMIND_REQUEST_PHASE_WEIGHTS], 40 * MS);
	EXPECT_EQ(0, spent[DISTMIND_REQUEST_PHASE_IDLE]);
	EXPECT_LE(sum(spent, DISTMIND_REQUEST_PHASE_MAX + 1), all);
	/* What has come is not waited for. */
	waited = spent[DISTMIND_REQUEST_PHASE_WEIGHTS];
	ASSERT_EQ(0, submit_use(self->queues[0], self->batch, weights, 0, self->done, 2));
	ASSERT_EQ(0, distmind_timeline_wait(self->done, 2, 20000));
	ASSERT_EQ(0, LOOK());
	ASSERT_EQ(2, self->record.requests);
	EXPECT_EQ(waited, spent[DISTMIND_REQUEST_PHASE_WEIGHTS]);
	distmind_timeline_destroy(load);
	distmind_buffer_destroy(weights);
}

#define DEAF 1 /* until it is told that it is enough, whoever asks it to yield */

static int deaf_runs, deaf_enough;

static void run_deaf(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	if (next->job.operation != DEAF)
		return;
	__atomic_store_n(&deaf_runs, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&deaf_enough, __ATOMIC_SEQ_CST))
		usleep(1000);
}

/* A vgpu with a queue and a buffer of three quarters of the memory. */
struct user {
	struct distmind_vgpu_record record;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *done;
	struct distmind_buffer *buffer;
};

static int user_start(struct distmind_pool *pool, struct user *user, uint32_t gpu, uint32_t class)
{
	int err;

	user->record = (struct distmind_vgpu_record){
		.gpu = gpu, .memory = MiB, .share = 500, .sched_class = class,
		.objective_ns = class == DISTMIND_CLASS_LATENCY ? OBJECTIVE : 0,
	};
	err = library_vgpu_create(pool, &user->record, &user->vgpu);
	if (!err)
		err = distmind_queue_create(user->vgpu, DISTMIND_LANE_COMPUTE, 8, &user->queue);
	if (!err)
		err = distmind_timeline_create(user->vgpu, 0, &user->done);
	if (!err)
		err = distmind_buffer_create(user->vgpu, MiB / 4 * 3, DISTMIND_BUFFER_DATA,
					     &user->buffer);
	return err;
}

static void user_stop(struct distmind_pool *pool, struct user *user)
{
	distmind_queue_destroy(user->queue);
	distmind_timeline_destroy(user->done);
	distmind_buffer_destroy(user->buffer);
	distmind_vgpu_close(user->vgpu);
	distmind_pool_vgpu_delete(pool, user->record.id);
}

/* There is a lane for it, but no room beside what another one's job uses, which stays. */
TEST_F(request, has_its_wait_for_room_counted_as_such)
{
	struct distmind_engine_params params = {
		.name = "deaf", .kind = "test", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 2, .capabilities = DISTMIND_ENGINE_YIELDS,
	};
	struct user holder, waiter;
	const uint64_t *spent = waiter.record.request_ns;
	struct distmind_queue_room room = { 0 };
	uint64_t begin, all;
	struct gpu gpu;

	deaf_runs = deaf_enough = 0;
	ASSERT_EQ(0, gpu_start(&gpu, &params, run_deaf));
	ASSERT_EQ(0, user_start(self->pool, &holder, distmind_engine_gpu(gpu.engine),
				DISTMIND_CLASS_BEST_EFFORT));
	ASSERT_EQ(0, user_start(self->pool, &waiter, distmind_engine_gpu(gpu.engine),
				DISTMIND_CLASS_LATENCY));
	ASSERT_EQ(0, submit_use(holder.queue, self->batch, holder.buffer, DEAF, holder.done, 1));
	while (!__atomic_load_n(&deaf_runs, __ATOMIC_SEQ_CST))
		usleep(1000);
	begin = now_ns();
	ASSERT_EQ(0, submit_use(waiter.queue, self->batch, waiter.buffer, 0, waiter.done, 1));
	while (!room.waited_ns)
		ASSERT_EQ(0, distmind_queue_room(waiter.queue, &room));
	usleep(40000);
	__atomic_store_n(&deaf_enough, 1, __ATOMIC_SEQ_CST);
	ASSERT_EQ(0, distmind_timeline_wait(waiter.done, 1, 20000));
	all = now_ns() - begin;
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, waiter.record.id, &waiter.record));
	ASSERT_EQ(1, waiter.record.requests);
	EXPECT_GE(spent[DISTMIND_REQUEST_PHASE_ROOM], 40 * MS);
	EXPECT_EQ(0, spent[DISTMIND_REQUEST_PHASE_WEIGHTS]);
	EXPECT_LE(sum(spent, DISTMIND_REQUEST_PHASE_MAX + 1), all);
	/* Who had the room ran meanwhile. */
	ASSERT_EQ(0, distmind_timeline_wait(holder.done, 1, 20000));
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, holder.record.id, &holder.record));
	EXPECT_GE(holder.record.request_ns[DISTMIND_REQUEST_PHASE_RUN], 40 * MS);
	user_stop(self->pool, &waiter);
	user_stop(self->pool, &holder);
	gpu_stop(self->pool, &gpu);
}

/* The lane, with what nobody comes before, for so many blocks; until it runs. */
static int occupy_for(struct distmind_queue *queue, struct distmind_batch *batch, uint32_t blocks)
{
	int err = submit(queue, batch, NULL, NULL, FIRST_OPERATION, 1, blocks,
			 &(struct distmind_request){ .id = 99, .deadline_ns = 1, .left_ns = 1,
						     .last = true });

	while (!err && !ran_count)
		usleep(1000);
	return err;
}

static int occupy(struct distmind_queue *queue, struct distmind_batch *batch)
{
	return occupy_for(queue, batch, 30);
}

/* One after the other in a queue each; the lane is busy when they come. */
static int race(struct distmind_queue **queues, struct distmind_batch *batch,
		struct distmind_timeline *done, uint64_t *value,
		const struct distmind_request *first, const struct distmind_request *second)
{
	int err;

	err = occupy(queues[0], batch);
	if (!err)
		err = submit(queues[0], batch, NULL, NULL, FIRST_OPERATION + 1, 1, 2, first);
	if (!err)
		err = submit(queues[1], batch, done, value, FIRST_OPERATION + 2, 1, 2, second);
	if (!err)
		err = submit(queues[0], batch, done, value, FIRST_OPERATION + 3, 1, 2, first);
	return err ? err : distmind_timeline_wait(done, *value, 20000);
}

TEST_F(request, of_the_earlier_deadline_goes_first)
{
	struct distmind_request late = { .id = 1, .deadline_ns = now_ns() + 100 * SECOND };
	struct distmind_request early = { .id = 2, .deadline_ns = now_ns() + 10 * SECOND };

	ASSERT_EQ(0, race(self->queues, self->batch, self->done, &self->value, &late, &early));
	ASSERT_EQ(4, ran_count);
	EXPECT_EQ(FIRST_OPERATION + 2, ran[1]);
}

/* Their jobs are of the same length; what is left of the requests is not. */
/* In one queue, where the order holds: whoever is first runs in the place of who is behind. */
static int race_behind(struct distmind_queue **queues, struct distmind_batch *batch,
		       struct distmind_timeline *done, uint64_t *value,
		       const struct distmind_request *first, const struct distmind_request *behind,
		       const struct distmind_request *other)
{
	int err;

	err = occupy(queues[0], batch);
	if (!err)
		err = submit(queues[1], batch, done, value, FIRST_OPERATION + 3, 1, 2, other);
	if (!err)
		err = submit(queues[0], batch, NULL, NULL, FIRST_OPERATION + 1, 1, 2, first);
	if (!err)
		err = submit(queues[0], batch, done, value, FIRST_OPERATION + 2, 1, 2, behind);
	if (!err)
		err = distmind_timeline_wait(done, *value, 20000);
	while (!err && ran_count < 4)
		usleep(1000);
	return err;
}

TEST_F(request, is_not_held_up_by_a_later_deadline_before_it_in_its_queue)
{
	struct distmind_request late = { .id = 1, .deadline_ns = now_ns() + 100 * SECOND };
	struct distmind_request early = { .id = 2, .deadline_ns = now_ns() + 5 * SECOND };
	struct distmind_request other = { .id = 3, .deadline_ns = now_ns() + 20 * SECOND };

	ASSERT_EQ(0, race_behind(self->queues, self->batch, self->done, &self->value, &late,
				 &early, &other));
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(FIRST_OPERATION + i, ran[i]);
}

TEST_F(request, is_not_held_up_by_a_longer_one_before_it_in_its_queue_under_srpt)
{
	struct distmind_request more = { .id = 1, .left_ns = 3 * SECOND };
	struct distmind_request less = { .id = 2, .left_ns = SECOND / 100 };
	struct distmind_request other = { .id = 3, .left_ns = SECOND };

	ASSERT_EQ(0, distmind_pool_gpu_policy(self->pool, self->gpu_id, "srpt"));
	ASSERT_EQ(0, race_behind(self->queues, self->batch, self->done, &self->value, &more,
				 &less, &other));
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(FIRST_OPERATION + i, ran[i]);
}

/*
 * Jobs of a request and of another one wait in a queue each; then the request goes on in a
 * third queue, with another deadline.
 */
static int race_moved(struct distmind_queue **queues, struct distmind_batch *batch,
		      struct distmind_timeline *done, uint64_t *value,
		      struct distmind_request *request, const struct distmind_request *other,
		      uint64_t deadline_ns)
{
	int err;

	err = occupy(queues[0], batch);
	if (!err)
		err = submit(queues[0], batch, NULL, NULL, FIRST_OPERATION + 1, 1, 2, request);
	if (!err)
		err = submit(queues[1], batch, NULL, NULL, FIRST_OPERATION + 2, 1, 2, other);
	request->deadline_ns = deadline_ns;
	if (!err)
		err = submit(queues[2], batch, done, value, FIRST_OPERATION + 3, 1, 2, request);
	if (!err)
		err = distmind_timeline_wait(done, *value, 20000);
	while (!err && ran_count < 4)
		usleep(1000);
	return err;
}

TEST_F(request, goes_by_an_earlier_deadline_in_all_its_queues)
{
	struct distmind_request request = { .id = 1, .deadline_ns = now_ns() + 100 * SECOND };
	struct distmind_request other = { .id = 2, .deadline_ns = now_ns() + 20 * SECOND };
	struct distmind_queue *queues[3] = { self->queues[0], self->queues[1] };

	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 8, &queues[2]));
	ASSERT_EQ(0, race_moved(queues, self->batch, self->done, &self->value, &request, &other,
				now_ns() + 5 * SECOND));
	EXPECT_EQ(FIRST_OPERATION + 2, ran[3]);
	distmind_queue_destroy(queues[2]);
}

TEST_F(request, goes_by_a_later_deadline_in_all_its_queues)
{
	struct distmind_request request = { .id = 1, .deadline_ns = now_ns() + 5 * SECOND };
	struct distmind_request other = { .id = 2, .deadline_ns = now_ns() + 20 * SECOND };
	struct distmind_queue *queues[3] = { self->queues[0], self->queues[1] };

	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 8, &queues[2]));
	ASSERT_EQ(0, race_moved(queues, self->batch, self->done, &self->value, &request, &other,
				now_ns() + 100 * SECOND));
	EXPECT_EQ(FIRST_OPERATION + 2, ran[1]);
	distmind_queue_destroy(queues[2]);
}

#define CROWD 40 /* queues; more than follow at once */

/* Of jobs behind others, and in more queues than are seen to at once. */
TEST_F(request, moves_however_many_queues_it_is_in)
{
	struct distmind_request late = { .id = 1, .deadline_ns = now_ns() + 100 * SECOND };
	struct distmind_request other = { .id = 2, .deadline_ns = now_ns() + 20 * SECOND };
	struct distmind_queue *queues[CROWD];

	/* Until all of them are there. */
	ASSERT_EQ(0, occupy_for(self->queues[0], self->batch, 1000));
	for (int i = 0; i < CROWD; i++) {
		ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 8,
						   &queues[i]));
		/* Two turns each: the second has to know it when the first is over. */
		for (int j = 0; j < 2; j++)
			ASSERT_EQ(0, submit(queues[i], self->batch, NULL, NULL,
					    i < 20 ? FIRST_OPERATION + 1 : 1, 1, 1, &late));
	}
	ASSERT_EQ(0, SUBMIT(1, FIRST_OPERATION + 2, 1, 1, &other));
	late.deadline_ns = now_ns() + 5 * SECOND;
	ASSERT_EQ(0, submit(self->queues[0], self->batch, NULL, NULL, 1, 1, 1, &late));
	ASSERT_EQ(0, AWAIT());
	/* The one on the lane, two of each queue that are written down, and the other. */
	EXPECT_EQ(42, ran_count);
	EXPECT_EQ(FIRST_OPERATION + 2, ran[ran_count - 1]);
	for (int i = 0; i < CROWD; i++)
		distmind_queue_destroy(queues[i]);
}

TEST_F(request, of_which_less_is_left_goes_first_under_srpt)
{
	struct distmind_request more = { .id = 1, .left_ns = 3 * SECOND };
	struct distmind_request less = { .id = 2, .left_ns = SECOND / 100 };

	ASSERT_EQ(0, distmind_pool_gpu_policy(self->pool, self->gpu_id, "srpt"));
	ASSERT_EQ(0, race(self->queues, self->batch, self->done, &self->value, &more, &less));
	ASSERT_EQ(4, ran_count);
	EXPECT_EQ(FIRST_OPERATION + 2, ran[1]);
}

TEST_F(request, has_failed_if_one_of_its_jobs_has)
{
	struct distmind_request request = { .id = 5, .last = true };
	struct distmind_queue *queue;
	uint64_t until = now_ns() + 10 * SECOND;

	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 8, &queue));
	ASSERT_EQ(0, submit(queue, self->batch, NULL, NULL, 0, 3, 1000, &request));
	distmind_queue_destroy(queue);
	do {
		ASSERT_EQ(0, LOOK());
	} while (!self->record.requests && now_ns() < until);
	EXPECT_EQ(1, self->record.requests);
	EXPECT_EQ(1, self->record.failed_requests);
	EXPECT_EQ(0, self->record.open_requests);
}

/* The numbers of a line of fdinfo; returns how many there are, 0: there is no such line. */
static int fdinfo_line(int fd, const char *key, uint64_t *numbers, int max)
{
	char path[64], line[1024], *at, *end;
	int count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) || line[strlen(key)] != ':')
			continue;
		for (at = line + strlen(key) + 1; count < max; at = end, count++) {
			numbers[count] = strtoull(at, &end, 10);
			if (end == at)
				break;
		}
	}
	if (file)
		fclose(file);
	return count;
}

static uint64_t fdinfo(int fd, const char *key)
{
	uint64_t number;

	return fdinfo_line(fd, key, &number, 1) ? number : UINT64_MAX;
}

/* One late and two in time, of different lengths; fdinfo and netlink say the same of them. */
TEST_F(request, is_told_of_in_fdinfo)
{
	struct distmind_request late = { .id = 1, .deadline_ns = 1, .last = true };
	struct distmind_request in_time = { .deadline_ns = now_ns() + 100 * SECOND, .last = true };
	static const char *const phases[] = { "idle", "order", "weights", "lane", "room", "run" };
	uint64_t latency[DISTMIND_LATENCY_BUCKETS + 1];
	int fd = distmind_vgpu_fd(self->vgpu);
	char key[64];

	ASSERT_EQ(0, SUBMIT(0, 0, 1, 1, &late));
	for (in_time.id = 2; in_time.id <= 3; in_time.id++)
		ASSERT_EQ(0, SUBMIT(0, 0, 1, 20 * in_time.id, &in_time));
	ASSERT_EQ(0, AWAIT());
	EXPECT_EQ(3, fdinfo(fd, "distmind-requests-ended"));
	EXPECT_EQ(0, fdinfo(fd, "distmind-requests-open"));
	EXPECT_EQ(0, fdinfo(fd, "distmind-requests-failed"));
	EXPECT_EQ(1, fdinfo(fd, "distmind-requests-missed"));
	/* Each of their blocks takes a millisecond, at least. */
	EXPECT_LE(101 * MS, fdinfo(fd, "distmind-requests-run"));
	ASSERT_EQ(0, LOOK());
	for (int i = 0; i <= DISTMIND_REQUEST_PHASE_MAX; i++) {
		snprintf(key, sizeof(key), "distmind-requests-%s", phases[i]);
		EXPECT_EQ(self->record.request_ns[i], fdinfo(fd, key));
	}
	ASSERT_EQ(DISTMIND_LATENCY_BUCKETS,
		  fdinfo_line(fd, "distmind-requests-latency", latency,
			      DISTMIND_LATENCY_BUCKETS + 1));
	EXPECT_EQ(3, sum(latency, DISTMIND_LATENCY_BUCKETS));
	for (int i = 0; i < DISTMIND_LATENCY_BUCKETS; i++)
		EXPECT_EQ(self->record.request_latency[i], latency[i]);
	/* The last one took longer than 2^16 microseconds. */
	EXPECT_LE(1, sum(latency + 17, DISTMIND_LATENCY_BUCKETS - 17));
}

/* Also by who opens the vgpu again, and the end of that file ends what it has begun. */
TEST_F(request, is_one_of_its_file_and_ends_with_it)
{
	struct distmind_request request = { 0 };
	struct distmind_timeline *done;
	struct distmind_queue *queue;
	struct distmind_vgpu *other;
	uint64_t value = 0;

	ASSERT_EQ(0, library_vgpu_open(self->record.id, &other));
	ASSERT_EQ(0, distmind_queue_create(other, DISTMIND_LANE_COMPUTE, 8192, &queue));
	ASSERT_EQ(0, distmind_timeline_create(other, 0, &done));
	for (request.id = 1; request.id <= MANY; request.id++) {
		distmind_batch_barrier(self->batch);
		distmind_batch_signal(self->batch, done, ++value);
		distmind_batch_request(self->batch, &request);
		ASSERT_EQ(0, distmind_queue_submit(queue, self->batch, NULL));
		distmind_batch_clear(self->batch);
	}
	/* What one file calls 1 is not what another one calls so. */
	request.id = 1;
	EXPECT_EQ(-ENOENT, distmind_request_end(self->vgpu, 1));
	EXPECT_EQ(0, distmind_request_end(other, 1));
	EXPECT_EQ(0, SUBMIT(0, 0, 1, 1, &request));
	EXPECT_EQ(MANY, fdinfo(distmind_vgpu_fd(self->vgpu), "distmind-requests-open"));
	EXPECT_EQ(1, fdinfo(distmind_vgpu_fd(self->vgpu), "distmind-requests-ended"));
	ASSERT_EQ(0, AWAIT());
	distmind_timeline_destroy(done);
	distmind_queue_destroy(queue);
	distmind_vgpu_close(other);
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(1, self->record.open_requests);
	EXPECT_EQ(MANY, self->record.requests);
	EXPECT_EQ(0, distmind_request_end(self->vgpu, 1));
}

TEST_F(request, must_make_sense)
{
	struct distmind_job_desc barrier = { .type = DISTMIND_JOB_BARRIER };
	struct distmind_submit submit = { .jobs = (uintptr_t)&barrier, .job_count = 1 };
	struct distmind_queue_create queue = { .depth = 8 };
	struct distmind_request_end end = { .request = 1 };
	int fd = distmind_vgpu_fd(self->vgpu);

	ASSERT_EQ(0, ioctl(fd, DISTMIND_IOC_QUEUE_CREATE, &queue));
	submit.queue = queue.handle;
	submit.deadline_ns = 1;
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_SUBMIT, &submit));
	EXPECT_EQ(EINVAL, errno);
	submit.deadline_ns = 0;
	submit.left_ns = 1;
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_SUBMIT, &submit));
	EXPECT_EQ(EINVAL, errno);
	submit.left_ns = 0;
	submit.flags = DISTMIND_SUBMIT_LAST;
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_SUBMIT, &submit));
	EXPECT_EQ(EINVAL, errno);
	submit.request = 1;
	submit.flags = ~DISTMIND_SUBMIT__ALL;
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_SUBMIT, &submit));
	EXPECT_EQ(EINVAL, errno);
	submit.flags = 0;
	submit.deadline_ns = ~0ULL;
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_SUBMIT, &submit));
	EXPECT_EQ(EINVAL, errno);
	/* Who knows nothing of requests has a shorter structure. */
	submit.deadline_ns = 0;
	submit.request = 0;
	EXPECT_EQ(0, ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, DISTMIND_IOC_MAGIC,
				    _IOC_NR(DISTMIND_IOC_SUBMIT),
				    offsetof(struct distmind_submit, request)), &submit));
	/* A submission that was refused has begun nothing. */
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_REQUEST_END, &end));
	EXPECT_EQ(ENOENT, errno);
	end.request = 0;
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_REQUEST_END, &end));
	EXPECT_EQ(EINVAL, errno);
	end = (struct distmind_request_end){ .request = 1, .flags = 1 };
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_REQUEST_END, &end));
	EXPECT_EQ(EINVAL, errno);
	end = (struct distmind_request_end){ .request = 1, .pad = 1 };
	EXPECT_EQ(-1, ioctl(fd, DISTMIND_IOC_REQUEST_END, &end));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_EQ(0, LOOK());
	EXPECT_EQ(0, self->record.open_requests);
	EXPECT_EQ(0, self->record.requests);
}

TEST_HARNESS_MAIN
