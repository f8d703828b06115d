// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Residency: more buffers than the gpu has memory for. What jobs find in them is
 * what was put there, wherever they have been meanwhile. The engine is threads of
 * the test.
 *
 * time-limit: 300
 */
#include <sched.h>

#include "importer/importer.h"
#include "kselftest_harness.h"
#include "library_test.h"

#define HEAP (4 * MiB)

/* What the engine does with each range of a launch; the argument before it says which byte. */
enum {
	OP_STORE,
	OP_CHECK, /* fails with EILSEQ if it is another one */
	OP_HOLD,  /* a check that takes 50 ms */
};

static void run_job(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const struct distmind_engine_job *job = &next->job;

	for (uint32_t i = 0; i + 1 < job->args; i += 2) {
		char *memory = (char *)distmind_engine_heap(engine) + job->arg[i + 1].value;

		if (job->operation == OP_STORE) {
			memset(memory, job->arg[i].value, job->arg[i + 1].length);
		} else if (!all_bytes(memory, job->arg[i + 1].length, job->arg[i].value)) {
			next->status = -EILSEQ;
			return;
		}
	}
	if (job->operation == OP_HOLD)
		usleep(50000);
}

FIXTURE(residency)
{
	struct distmind_pool *pool;
	struct gpu gpus[2];
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_batch *batch;
	struct distmind_timeline *timeline;
	uint64_t value;
	uint32_t id;
};

FIXTURE_SETUP(residency)
{
	struct distmind_engine_params params = {
		.name = "first", .kind = "residency", .memory = HEAP,
		.numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 2, /* and does not yield: waiting jobs must all the same */
	};
	struct distmind_vgpu_record record = {
		.memory = 16 * HEAP, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD,
	};

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, gpu_start(&self->gpus[0], &params, run_job));
	params.name = "second";
	ASSERT_EQ(0, gpu_start(&self->gpus[1], &params, run_job));
	record.gpu = distmind_engine_gpu(self->gpus[0].engine);
	ASSERT_EQ(0, library_vgpu_create(self->pool, &record, &self->vgpu));
	self->id = record.id;
	ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 1024, &self->queue));
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &self->timeline));
	ASSERT_EQ(0, distmind_batch_create(&self->batch));
}

FIXTURE_TEARDOWN(residency)
{
	distmind_batch_destroy(self->batch);
	distmind_timeline_destroy(self->timeline);
	distmind_queue_destroy(self->queue);
	distmind_vgpu_close(self->vgpu);
	distmind_pool_vgpu_delete(self->pool, self->id);
	gpu_stop(self->pool, &self->gpus[0]);
	gpu_stop(self->pool, &self->gpus[1]);
	distmind_pool_close(self->pool);
}

static uint64_t place_of(struct distmind_buffer *buffer)
{
	struct distmind_buffer_info info;

	return distmind_buffer_info(buffer, &info) ? 0 : info.heap_offset;
}

static void add_whole(struct distmind_batch *batch, unsigned char byte,
		      struct distmind_buffer *buffer)
{
	distmind_batch_number(batch, byte);
	distmind_batch_range(batch, buffer, 0, distmind_buffer_size(buffer));
}

/* Submit what was put into the batch, with a signal by its last job; wait for it. */
static int run_batch(FIXTURE_DATA(residency) *self, struct distmind_queue *queue)
{
	int err;

	distmind_batch_signal(self->batch, self->timeline, ++self->value);
	err = distmind_queue_submit(queue, self->batch, NULL);
	distmind_batch_clear(self->batch);
	return err ? err : distmind_timeline_wait(self->timeline, self->value, 20000);
}

static int run_one(FIXTURE_DATA(residency) *self, uint32_t operation, unsigned char byte,
		   struct distmind_buffer *buffer)
{
	distmind_batch_launch(self->batch, operation, 1);
	add_whole(self->batch, byte, buffer);
	return run_batch(self, self->queue);
}

TEST_F(residency, four_times_the_memory_is_used_without_a_byte_lost)
{
	struct distmind_gpu_record gpu;
	struct distmind_buffer *buffers[16];
	void *memory;

	for (int i = 0; i < 16; i++) {
		ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA,
						    &buffers[i]));
		ASSERT_EQ(0, run_one(self, OP_STORE, i + 1, buffers[i]));
	}
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 16; i++)
			ASSERT_EQ(0, run_one(self, OP_CHECK, i + 1, buffers[i]));
	}
	/* The application sees them all the time. */
	for (int i = 0; i < 16; i++) {
		ASSERT_EQ(0, distmind_buffer_map(buffers[i], &memory));
		EXPECT_TRUE(all_bytes(memory, HEAP / 4, i + 1));
		memset(memory, 0x80 + i, HEAP / 4);
	}
	for (int i = 0; i < 16; i++)
		EXPECT_EQ(0, run_one(self, OP_CHECK, 0x80 + i, buffers[i]));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, distmind_engine_gpu(self->gpus[0].engine), &gpu));
	EXPECT_LT(40, gpu.memory_evictions);
	EXPECT_EQ(HEAP, gpu.memory_used);
	for (int i = 0; i < 16; i++)
		distmind_buffer_destroy(buffers[i]);
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, distmind_engine_gpu(self->gpus[0].engine), &gpu));
	EXPECT_EQ(0, gpu.memory_used);
}

TEST_F(residency, a_job_that_fits_alone_runs_however_its_buffers_lie)
{
	struct distmind_buffer *small[8], *half;

	/* Eight eighths fill the heap; four of them and a half fit, but not where they lie. */
	for (int i = 0; i < 8; i++) {
		ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 8, DISTMIND_BUFFER_DATA,
						    &small[i]));
		ASSERT_EQ(0, run_one(self, OP_STORE, i, small[i]));
	}
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 2, DISTMIND_BUFFER_DATA, &half));
	distmind_batch_launch(self->batch, OP_CHECK, 1);
	for (int i = 0; i < 8; i += 2)
		add_whole(self->batch, i, small[i]);
	add_whole(self->batch, 0, half);
	EXPECT_EQ(0, run_batch(self, self->queue));
	EXPECT_NE(DISTMIND_OFFSET_NONE, place_of(half));
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(0, run_one(self, OP_CHECK, i, small[i]));
	for (int i = 0; i < 8; i++)
		distmind_buffer_destroy(small[i]);
	distmind_buffer_destroy(half);
}

TEST_F(residency, a_job_that_cannot_fit_fails_and_says_so)
{
	struct distmind_buffer *buffers[5];

	distmind_batch_launch(self->batch, OP_CHECK, 1);
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA,
						    &buffers[i]));
		add_whole(self->batch, 0, buffers[i]);
	}
	EXPECT_EQ(-ENOSPC, run_batch(self, self->queue));
	/* A timeline that has failed stays so. */
	distmind_timeline_destroy(self->timeline);
	ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &self->timeline));
	EXPECT_EQ(0, run_one(self, OP_CHECK, 0, buffers[4]));
	for (int i = 0; i < 5; i++)
		distmind_buffer_destroy(buffers[i]);
}

TEST_F(residency, jobs_on_two_lanes_that_do_not_fit_together_take_turns)
{
	struct distmind_timeline *done[2];
	struct distmind_buffer *buffers[2];
	struct distmind_queue *queues[2];

	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 4 * 3, DISTMIND_BUFFER_DATA,
						    &buffers[i]));
		ASSERT_EQ(0, distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 64,
						   &queues[i]));
		ASSERT_EQ(0, distmind_timeline_create(self->vgpu, 0, &done[i]));
		ASSERT_EQ(0, run_one(self, OP_STORE, i + 1, buffers[i]));
	}
	for (int i = 0; i < 2; i++) {
		for (int job = 1; job <= 5; job++) {
			distmind_batch_launch(self->batch, OP_HOLD, 1);
			add_whole(self->batch, i + 1, buffers[i]);
			distmind_batch_signal(self->batch, done[i], job);
		}
		ASSERT_EQ(0, distmind_queue_submit(queues[i], self->batch, NULL));
		distmind_batch_clear(self->batch);
	}
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, distmind_timeline_wait(done[i], 5, 20000));
	for (int i = 0; i < 2; i++) {
		distmind_timeline_destroy(done[i]);
		distmind_queue_destroy(queues[i]);
		distmind_buffer_destroy(buffers[i]);
	}
}

TEST_F(residency, weights_go_before_data_and_the_unused_before_the_used)
{
	struct distmind_buffer *old, *fresh, *weights, *wanted;

	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA, &old));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 4, DISTMIND_BUFFER_DATA, &fresh));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 4, DISTMIND_BUFFER_WEIGHTS, &weights));
	ASSERT_EQ(0, run_one(self, OP_CHECK, 0, old));
	ASSERT_EQ(0, run_one(self, OP_CHECK, 0, fresh));
	ASSERT_EQ(0, run_one(self, OP_CHECK, 0, weights));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 2, DISTMIND_BUFFER_DATA, &wanted));
	ASSERT_EQ(0, run_one(self, OP_CHECK, 0, wanted));
	EXPECT_EQ(DISTMIND_OFFSET_NONE, place_of(weights));
	EXPECT_NE(DISTMIND_OFFSET_NONE, place_of(old));
	EXPECT_NE(DISTMIND_OFFSET_NONE, place_of(fresh));
	ASSERT_EQ(0, run_one(self, OP_CHECK, 0, weights));
	EXPECT_EQ(DISTMIND_OFFSET_NONE, place_of(old));
	EXPECT_NE(DISTMIND_OFFSET_NONE, place_of(fresh));
	distmind_buffer_destroy(old);
	distmind_buffer_destroy(fresh);
	distmind_buffer_destroy(weights);
	distmind_buffer_destroy(wanted);
}

static int rebind(FIXTURE_DATA(residency) *self, uint32_t gpu)
{
	struct distmind_vgpu_record record = { .id = self->id, .gpu = gpu };
	int err = distmind_pool_vgpu_set(self->pool, &record, DISTMIND_SET_GPU);

	if (err || gpu == DISTMIND_GPU_NONE)
		return err;
	distmind_queue_destroy(self->queue);
	return distmind_queue_create(self->vgpu, DISTMIND_LANE_COMPUTE, 1024, &self->queue);
}

TEST_F(residency, buffers_follow_their_vgpu_to_another_gpu)
{
	uint32_t second = distmind_engine_gpu(self->gpus[1].engine);
	struct distmind_buffer_info info;
	struct distmind_buffer *buffer;

	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 2, DISTMIND_BUFFER_DATA, &buffer));
	ASSERT_EQ(0, run_one(self, OP_STORE, 42, buffer));
	ASSERT_EQ(0, rebind(self, DISTMIND_GPU_NONE));
	ASSERT_EQ(0, rebind(self, second));
	EXPECT_EQ(0, run_one(self, OP_CHECK, 42, buffer));
	ASSERT_EQ(0, distmind_buffer_info(buffer, &info));
	EXPECT_EQ(second, info.gpu);
	EXPECT_EQ(0, run_one(self, OP_STORE, 43, buffer));
	ASSERT_EQ(0, rebind(self, distmind_engine_gpu(self->gpus[0].engine)));
	EXPECT_EQ(0, run_one(self, OP_CHECK, 43, buffer));
	distmind_buffer_destroy(buffer);
}

/* More short jobs of the latency class than there are lanes, each on its own queue. */
static int run_urgent(FIXTURE_DATA(residency) *self)
{
	struct distmind_vgpu_record record = {
		.gpu = distmind_engine_gpu(self->gpus[0].engine), .memory = MiB, .share = 100,
		.sched_class = DISTMIND_CLASS_LATENCY, .objective_ns = 1000000000,
	};
	struct distmind_timeline *done[3];
	struct distmind_queue *queues[3];
	struct distmind_vgpu *vgpu;
	int err = 0;

	if (library_vgpu_create(self->pool, &record, &vgpu))
		return -1;
	distmind_batch_clear(self->batch);
	for (int i = 0; i < 3; i++) {
		if (distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1, &queues[i]) ||
		    distmind_timeline_create(vgpu, 0, &done[i]))
			return -1;
		distmind_batch_launch(self->batch, OP_HOLD, 1);
		distmind_batch_signal(self->batch, done[i], 1);
		err |= distmind_queue_submit(queues[i], self->batch, NULL);
		distmind_batch_clear(self->batch);
	}
	for (int i = 0; i < 3; i++)
		err |= distmind_timeline_wait(done[i], 1, 10000);
	for (int i = 0; i < 3; i++) {
		distmind_timeline_destroy(done[i]);
		distmind_queue_destroy(queues[i]);
	}
	distmind_vgpu_close(vgpu);
	return err | distmind_pool_vgpu_delete(self->pool, record.id);
}

TEST_F(residency, what_is_pinned_stays_where_it_is)
{
	struct importer_call attach = { .op = IMPORTER_ATTACH }, pin = { .op = IMPORTER_PIN };
	int importer = open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC);
	struct distmind_buffer *pinned, *large;
	uint64_t place;

	ASSERT_LE(0, importer);
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 4, DISTMIND_BUFFER_WEIGHTS, &pinned));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP, DISTMIND_BUFFER_DATA, &large));
	ASSERT_EQ(0, run_one(self, OP_STORE, 7, pinned));
	place = place_of(pinned);
	attach.value = distmind_buffer_export(pinned, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	ASSERT_EQ(0, call(importer, IMPORTER_CALL, &attach));
	ASSERT_EQ(0, call(importer, IMPORTER_CALL, &pin));
	distmind_batch_launch(self->batch, OP_CHECK, 1);
	add_whole(self->batch, 0, large);
	distmind_batch_signal(self->batch, self->timeline, ++self->value);
	ASSERT_EQ(0, distmind_queue_submit(self->queue, self->batch, NULL));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(self->timeline, self->value, 100));
	EXPECT_EQ(place, place_of(pinned));
	/* It does not keep the lane from others meanwhile. */
	ASSERT_EQ(0, run_urgent(self));
	/* It waits for the importer, who is in no hurry but goes. */
	close(attach.value);
	close(importer);
	EXPECT_EQ(0, distmind_timeline_wait(self->timeline, self->value, 20000));
	distmind_buffer_destroy(pinned);
	distmind_buffer_destroy(large);
}

/* A job that checks what is in a buffer; *done goes to 1 when it has ended. */
static int check_later(struct distmind_vgpu *vgpu, struct distmind_batch *batch, unsigned char byte,
		       struct distmind_buffer *buffer, struct distmind_queue **queue,
		       struct distmind_timeline **done)
{
	int err = distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1, queue);

	if (!err)
		err = distmind_timeline_create(vgpu, 0, done);
	if (err)
		return err;
	distmind_batch_launch(batch, OP_CHECK, 1);
	add_whole(batch, byte, buffer);
	distmind_batch_signal(batch, *done, 1);
	err = distmind_queue_submit(*queue, batch, NULL);
	distmind_batch_clear(batch);
	return err;
}

/* There is room enough, but what is pinned cuts it in two. */
TEST_F(residency, who_is_kept_out_by_a_pin_puts_nobody_out)
{
	struct importer_call attach = { .op = IMPORTER_ATTACH }, pin = { .op = IMPORTER_PIN };
	int importer = open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC);
	struct distmind_buffer *small[8], *large;
	struct distmind_timeline *kept_out;
	struct distmind_gpu_record gpu;
	struct distmind_queue *queue;

	ASSERT_LE(0, importer);
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 8, DISTMIND_BUFFER_DATA,
						    &small[i]));
	attach.value = distmind_buffer_export(small[4], DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	ASSERT_EQ(0, call(importer, IMPORTER_CALL, &attach));
	ASSERT_EQ(0, call(importer, IMPORTER_CALL, &pin));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 8 * 5, DISTMIND_BUFFER_DATA, &large));
	ASSERT_EQ(0, check_later(self->vgpu, self->batch, 0, large, &queue, &kept_out));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(kept_out, 1, 100));
	/* It looks again whenever somebody's job ends. */
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 8; i++)
			ASSERT_EQ(0, run_one(self, OP_CHECK, 0, small[i]));
	}
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, distmind_engine_gpu(self->gpus[0].engine), &gpu));
	EXPECT_EQ(0, gpu.memory_evictions);
	EXPECT_EQ(HEAP, gpu.memory_used);
	close(attach.value);
	close(importer);
	EXPECT_EQ(0, distmind_timeline_wait(kept_out, 1, 20000));
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, distmind_engine_gpu(self->gpus[0].engine), &gpu));
	EXPECT_LE(5, gpu.memory_evictions);
	distmind_timeline_destroy(kept_out);
	distmind_queue_destroy(queue);
	for (int i = 0; i < 8; i++)
		distmind_buffer_destroy(small[i]);
	distmind_buffer_destroy(large);
}

/* Pinned where they lie, two of the eight would leave no half in one piece. */
TEST_F(residency, pins_leave_half_of_the_memory_in_one_piece)
{
	struct importer_call attach[2], pin = { .op = IMPORTER_PIN };
	struct distmind_buffer *small[8], *half;
	int importers[2];

	for (int i = 0; i < 8; i++) {
		ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 8, DISTMIND_BUFFER_DATA,
						    &small[i]));
		ASSERT_EQ(0, run_one(self, OP_STORE, i + 1, small[i]));
	}
	for (int i = 0; i < 2; i++) {
		importers[i] = open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, importers[i]);
		attach[i] = (struct importer_call){
			.op = IMPORTER_ATTACH,
			.value = distmind_buffer_export(small[2 + 3 * i], DISTMIND_EXPORT_CLOEXEC |
							DISTMIND_EXPORT_RDWR),
		};
		ASSERT_EQ(0, call(importers[i], IMPORTER_CALL, &attach[i]));
		ASSERT_EQ(0, call(importers[i], IMPORTER_CALL, &pin));
	}
	EXPECT_NE(DISTMIND_OFFSET_NONE, place_of(small[2]));
	EXPECT_EQ(DISTMIND_OFFSET_NONE, place_of(small[5]));
	ASSERT_EQ(0, distmind_buffer_create(self->vgpu, HEAP / 2, DISTMIND_BUFFER_DATA, &half));
	EXPECT_EQ(0, run_one(self, OP_CHECK, 0, half));
	/* It comes back where it is not in the way, and stays there. */
	EXPECT_EQ(0, run_one(self, OP_CHECK, 6, small[5]));
	EXPECT_EQ(HEAP - HEAP / 8, place_of(small[5]));
	EXPECT_EQ(0, run_one(self, OP_CHECK, 0, half));
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(0, run_one(self, OP_CHECK, i + 1, small[i]));
	EXPECT_EQ(HEAP - HEAP / 8, place_of(small[5]));
	for (int i = 0; i < 2; i++) {
		close(attach[i].value);
		close(importers[i]);
	}
	for (int i = 0; i < 8; i++)
		distmind_buffer_destroy(small[i]);
	distmind_buffer_destroy(half);
}

TEST_F(residency, who_waits_for_room_on_a_lane_pays_for_it)
{
	struct importer_call attach = { .op = IMPORTER_ATTACH }, pin = { .op = IMPORTER_PIN };
	struct distmind_engine_params params = {
		.name = "narrow", .kind = "residency", .memory = HEAP,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
	};
	struct distmind_vgpu_record records[2] = {
		{ .memory = 2 * HEAP, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD },
		{ .memory = 2 * HEAP, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD },
	};
	int importer = open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC);
	struct distmind_buffer *pinned, *large;
	struct distmind_vgpu *vgpus[2];
	struct distmind_queue *queues[2];
	struct distmind_timeline *done, *kept_out;
	struct gpu gpu;

	ASSERT_LE(0, importer);
	ASSERT_EQ(0, gpu_start(&gpu, &params, run_job));
	for (int i = 0; i < 2; i++) {
		records[i].gpu = distmind_engine_gpu(gpu.engine);
		ASSERT_EQ(0, library_vgpu_create(self->pool, &records[i], &vgpus[i]));
		ASSERT_EQ(0, distmind_queue_create(vgpus[i], DISTMIND_LANE_COMPUTE, 256, &queues[i]));
	}
	/* One has a job that is kept out by what it has pinned itself. */
	ASSERT_EQ(0, distmind_buffer_create(vgpus[0], HEAP / 4, DISTMIND_BUFFER_DATA, &pinned));
	ASSERT_EQ(0, distmind_buffer_create(vgpus[0], HEAP, DISTMIND_BUFFER_DATA, &large));
	attach.value = distmind_buffer_export(pinned, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	ASSERT_EQ(0, call(importer, IMPORTER_CALL, &attach));
	ASSERT_EQ(0, call(importer, IMPORTER_CALL, &pin));
	ASSERT_EQ(0, distmind_timeline_create(vgpus[0], 0, &kept_out));
	distmind_batch_launch(self->batch, OP_CHECK, 1);
	add_whole(self->batch, 0, large);
	distmind_batch_signal(self->batch, kept_out, 1);
	ASSERT_EQ(0, distmind_queue_submit(queues[0], self->batch, NULL));
	distmind_batch_clear(self->batch);
	/* The other one has many that are short. */
	ASSERT_EQ(0, distmind_timeline_create(vgpus[1], 0, &done));
	for (int i = 1; i <= 200; i++) {
		distmind_batch_launch(self->batch, OP_CHECK, 1);
		distmind_batch_signal(self->batch, done, i);
	}
	ASSERT_EQ(0, distmind_queue_submit(queues[1], self->batch, NULL));
	distmind_batch_clear(self->batch);
	EXPECT_EQ(0, distmind_timeline_wait(done, 200, 20000));
	/* The lane went to and fro now and then, not for each of them. */
	ASSERT_EQ(0, distmind_pool_vgpu(self->pool, records[0].id, &records[0]));
	EXPECT_GT(100, records[0].preemptions);
	/* It gets its room when nothing is pinned any more. */
	close(attach.value);
	close(importer);
	EXPECT_EQ(0, distmind_timeline_wait(kept_out, 1, 20000));
	distmind_timeline_destroy(kept_out);
	distmind_timeline_destroy(done);
	distmind_buffer_destroy(pinned);
	distmind_buffer_destroy(large);
	for (int i = 0; i < 2; i++) {
		distmind_queue_destroy(queues[i]);
		distmind_vgpu_close(vgpus[i]);
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, records[i].id));
	}
	gpu_stop(self->pool, &gpu);
}

/* A gpu with room for many small buffers, and a vgpu that has filled it with them. */
#define CROWD 16384

struct crowd {
	struct gpu gpu;
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *done;
	struct distmind_buffer *large; /* as all of it */
	uint32_t id;
	uint64_t filled_ns; /* how long it took to fill it */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static int crowd_start(struct distmind_pool *pool, struct crowd *crowd, uint32_t count)
{
	struct distmind_engine_params params = {
		.name = "crowd", .kind = "residency", .memory = count * PAGE,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 2,
	};
	struct distmind_vgpu_record record = {
		.memory = 2 * count * PAGE, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD,
	};
	struct distmind_buffer_create create;
	int err = gpu_start(&crowd->gpu, &params, run_job);

	if (err)
		return err;
	record.gpu = distmind_engine_gpu(crowd->gpu.engine);
	err = library_vgpu_create(pool, &record, &crowd->vgpu);
	crowd->id = record.id;
	crowd->filled_ns = now_ns();
	for (uint32_t i = 0; !err && i < count; i++)
		err = buffer_create(distmind_vgpu_fd(crowd->vgpu), PAGE, &create);
	crowd->filled_ns = now_ns() - crowd->filled_ns;
	if (!err)
		err = distmind_buffer_create(crowd->vgpu, count * PAGE, DISTMIND_BUFFER_DATA,
					     &crowd->large);
	if (!err)
		err = distmind_queue_create(crowd->vgpu, DISTMIND_LANE_COMPUTE, 1, &crowd->queue);
	return err ? err : distmind_timeline_create(crowd->vgpu, 0, &crowd->done);
}

/* A job that needs all of the memory: everybody else must go. */
static int crowd_clear(struct crowd *crowd, struct distmind_batch *batch)
{
	int err;

	distmind_batch_launch(batch, OP_HOLD, 1);
	distmind_batch_number(batch, 0);
	distmind_batch_range(batch, crowd->large, 0, PAGE);
	distmind_batch_signal(batch, crowd->done, 1);
	err = distmind_queue_submit(crowd->queue, batch, NULL);
	distmind_batch_clear(batch);
	return err;
}

static void crowd_end(struct distmind_pool *pool, struct crowd *crowd)
{
	distmind_timeline_destroy(crowd->done);
	distmind_queue_destroy(crowd->queue);
	distmind_buffer_destroy(crowd->large);
	distmind_vgpu_close(crowd->vgpu);
	distmind_pool_vgpu_delete(pool, crowd->id);
	gpu_stop(pool, &crowd->gpu);
}

/* Who goes first is looked for among all: not for each of so many. */
TEST_F_TIMEOUT(residency, a_crowd_goes_in_about_the_time_that_it_took_to_come, 120)
{
	struct distmind_gpu_record gpu;
	struct crowd crowd;
	uint64_t start;

	ASSERT_EQ(0, crowd_start(self->pool, &crowd, CROWD));
	start = now_ns();
	ASSERT_EQ(0, crowd_clear(&crowd, self->batch));
	EXPECT_EQ(0, distmind_timeline_wait(crowd.done, 1, 100000));
	EXPECT_GT(2 * crowd.filled_ns, now_ns() - start);
	ASSERT_EQ(0, distmind_pool_gpu(self->pool, distmind_engine_gpu(crowd.gpu.engine), &gpu));
	EXPECT_EQ(CROWD, gpu.memory_evictions);
	crowd_end(self->pool, &crowd);
}

static int by_size(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return (first > second) - (first < second);
}

/* How long it takes to bring in many of another vgpu, each of which somebody must go for. */
static int crowd_join(FIXTURE_DATA(residency) *self, uint32_t count, uint64_t *took_ns)
{
	struct distmind_vgpu_record record = {
		.memory = HEAP, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD,
	};
	struct distmind_buffer *buffers[200];
	struct distmind_timeline *done;
	struct distmind_queue *queue;
	struct distmind_vgpu *vgpu;
	struct crowd crowd;
	uint64_t took[200];
	int err;

	err = crowd_start(self->pool, &crowd, count);
	if (err)
		return err;
	record.gpu = distmind_engine_gpu(crowd.gpu.engine);
	err = library_vgpu_create(self->pool, &record, &vgpu);
	err = err ? err : distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1, &queue);
	err = err ? err : distmind_timeline_create(vgpu, 0, &done);
	for (int i = 0; !err && i < 200; i++) {
		err = distmind_buffer_create(vgpu, PAGE, DISTMIND_BUFFER_DATA, &buffers[i]);
		if (!err && place_of(buffers[i]) != DISTMIND_OFFSET_NONE)
			err = -EEXIST;
	}
	for (int i = 0; !err && i < 200; i++) {
		took[i] = now_ns();
		distmind_batch_launch(self->batch, OP_CHECK, 1);
		add_whole(self->batch, 0, buffers[i]);
		distmind_batch_signal(self->batch, done, i + 1);
		err = distmind_queue_submit(queue, self->batch, NULL);
		distmind_batch_clear(self->batch);
		err = err ? err : distmind_timeline_wait(done, i + 1, 20000);
		took[i] = now_ns() - took[i];
	}
	if (err)
		return err;
	qsort(took, 200, sizeof(took[0]), by_size);
	*took_ns = took[20];
	for (int i = 0; i < 200; i++)
		distmind_buffer_destroy(buffers[i]);
	distmind_timeline_destroy(done);
	distmind_queue_destroy(queue);
	distmind_vgpu_close(vgpu);
	err = distmind_pool_vgpu_delete(self->pool, record.id);
	crowd_end(self->pool, &crowd);
	return err;
}

/* With a look at each of the crowd it would take as much longer as there are more of them. */
TEST_F_TIMEOUT(residency, a_crowd_of_buffers_does_not_slow_down_the_admissions_of_others, 240)
{
	uint64_t few, many;

	/* A busy host slows down some rounds, a look at a crowd all of them. */
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(0, crowd_join(self, CROWD / 64, &few));
		ASSERT_EQ(0, crowd_join(self, CROWD, &many));
		if (many < 3 * few)
			return;
		TH_LOG("%llu ns beside few, %llu ns beside many", few + 0ULL, many + 0ULL);
	}
	EXPECT_GT(3 * few, many);
}

/*
 * Both find the heap locked by somebody who has to put out a crowd: first the owner's
 * job, to take the buffer to another gpu, then one that uses it where it still is.
 */
TEST_F_TIMEOUT(residency, a_buffer_that_two_gpus_want_at_once_is_in_one_of_them, 120)
{
	struct distmind_vgpu_record owner = {
		.memory = HEAP, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD,
	};
	struct distmind_buffer *buffer, *imported;
	struct distmind_timeline *done[2];
	struct distmind_queue *queues[2];
	struct distmind_vgpu *vgpu;
	struct crowd crowd;
	void *memory;
	int fd, err;

	ASSERT_EQ(0, crowd_start(self->pool, &crowd, CROWD));
	owner.gpu = distmind_engine_gpu(crowd.gpu.engine);
	ASSERT_EQ(0, library_vgpu_create(self->pool, &owner, &vgpu));
	ASSERT_EQ(0, distmind_buffer_create(vgpu, MiB, DISTMIND_BUFFER_DATA, &buffer));
	ASSERT_EQ(0, distmind_buffer_map(buffer, &memory));
	memset(memory, 42, MiB);
	EXPECT_EQ(DISTMIND_OFFSET_NONE, place_of(buffer));
	fd = distmind_buffer_export(buffer, DISTMIND_EXPORT_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, distmind_buffer_import(crowd.vgpu, fd, &imported));
	close(fd);

	ASSERT_EQ(0, crowd_clear(&crowd, self->batch));
	owner.gpu = distmind_engine_gpu(self->gpus[1].engine);
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &owner, DISTMIND_SET_GPU));
	ASSERT_EQ(0, check_later(vgpu, self->batch, 42, buffer, &queues[0], &done[0]));
	usleep(1000);
	err = check_later(crowd.vgpu, self->batch, 42, imported, &queues[1], &done[1]);
	EXPECT_EQ(0, distmind_timeline_wait(done[0], 1, 20000));
	if (!err)
		err = distmind_timeline_wait(done[1], 1, 20000);
	/* It was in time, or it was not. */
	if (err)
		EXPECT_EQ(-EXDEV, err);
	for (int i = 0; i < 2; i++) {
		distmind_timeline_destroy(done[i]);
		distmind_queue_destroy(queues[i]);
	}
	distmind_buffer_destroy(imported);
	distmind_buffer_destroy(buffer);
	distmind_vgpu_close(vgpu);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, owner.id));
	crowd_end(self->pool, &crowd);
}

/* Has nothing of a processor that somebody else wants. */
static void *destroy_idly(void *arg)
{
	struct sched_param param = { 0 };

	if (sched_setscheduler(0, SCHED_IDLE, &param))
		return (void *)-1L;
	distmind_buffer_destroy(arg);
	return NULL;
}

static volatile bool busy;

static void *keep_busy(void *arg)
{
	while (busy)
		;
	return NULL;
}

#define BUSY_MAX	16
#define LARGE		(48 * MiB)

/* What its tenant has begun to give back, and does not get on with, is there for others. */
TEST_F(residency, who_goes_slowly_keeps_nobody_from_the_room_that_it_had)
{
	struct distmind_engine_params params = {
		.name = "large", .kind = "residency", .memory = LARGE,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
	};
	struct distmind_vgpu_record record = {
		.memory = LARGE, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD,
	};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct distmind_queue *queues[2];
	struct distmind_timeline *done[2];
	struct distmind_buffer *buffers[2];
	struct distmind_vgpu *vgpus[2];
	pthread_t idle, hogs[BUSY_MAX];
	struct gpu gpu;
	uint32_t ids[2];
	void *err;

	ASSERT_LE(processors, BUSY_MAX);
	ASSERT_EQ(0, gpu_start(&gpu, &params, run_job));
	record.gpu = distmind_engine_gpu(gpu.engine);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, library_vgpu_create(self->pool, &record, &vgpus[i]));
		ids[i] = record.id;
		ASSERT_EQ(0, distmind_queue_create(vgpus[i], DISTMIND_LANE_COMPUTE, 1, &queues[i]));
		ASSERT_EQ(0, distmind_timeline_create(vgpus[i], 0, &done[i]));
		ASSERT_EQ(0, distmind_buffer_create(vgpus[i], LARGE, DISTMIND_BUFFER_DATA,
						    &buffers[i]));
	}
	/* So that the engine has every page of it mapped. */
	distmind_batch_launch(self->batch, OP_STORE, 1);
	add_whole(self->batch, 1, buffers[0]);
	distmind_batch_signal(self->batch, done[0], 1);
	ASSERT_EQ(0, distmind_queue_submit(queues[0], self->batch, NULL));
	distmind_batch_clear(self->batch);
	ASSERT_EQ(0, distmind_timeline_wait(done[0], 1, 20000));
	ASSERT_EQ(DISTMIND_OFFSET_NONE, place_of(buffers[1]));

	busy = true;
	for (long i = 0; i < processors; i++)
		ASSERT_EQ(0, pthread_create(&hogs[i], NULL, keep_busy, NULL));
	ASSERT_EQ(0, pthread_create(&idle, NULL, destroy_idly, buffers[0]));
	/* It has begun by then, and is not to have ended. */
	sleep(1);
	distmind_batch_launch(self->batch, OP_CHECK, 1);
	distmind_batch_number(self->batch, 0);
	distmind_batch_range(self->batch, buffers[1], 0, PAGE);
	distmind_batch_signal(self->batch, done[1], 1);
	ASSERT_EQ(0, distmind_queue_submit(queues[1], self->batch, NULL));
	distmind_batch_clear(self->batch);
	EXPECT_EQ(0, distmind_timeline_wait(done[1], 1, 5000));
	busy = false;
	for (long i = 0; i < processors; i++)
		pthread_join(hogs[i], NULL);
	ASSERT_EQ(0, pthread_join(idle, &err));
	EXPECT_EQ(NULL, err);
	EXPECT_EQ(0, place_of(buffers[1]));
	distmind_buffer_destroy(buffers[1]);
	for (int i = 0; i < 2; i++) {
		distmind_timeline_destroy(done[i]);
		distmind_queue_destroy(queues[i]);
		distmind_vgpu_close(vgpus[i]);
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, ids[i]));
	}
	EXPECT_EQ(0, gpu_stop(self->pool, &gpu));
}

TEST_HARNESS_MAIN
