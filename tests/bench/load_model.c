// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * load.pipeline              a request to a model that the gpu does not have: how long its
 *                            slowest stage takes, against the time to the result
 * load.pipeline.unpipelined  the same request, which waits for all of the model first
 * load.pipeline.predicted    what the planner said before, against what was measured
 * load.switch                a vgpu that alternates between two models which the gpu has,
 *                            against computing alone
 *
 * Against the daemon of this host and an engine with a paced profile, see
 * tests/bench/load.sh. The rows of the request are chosen so that to compute takes
 * as long as to transfer.
 *
 * usage: load_model MODEL OTHER   of layers that are matrices, each as wide as the next
 */
#include <distmind.h>
#include <distmind_ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define WIDTH_MAX   1024
#define ROWS_MAX    1024
#define ROWS_FIRST  8 /* to find out what a row takes */
#define ROWS_SWITCH 2
#define BATCH	    32
#define ROUNDS	    31
#define SWITCHES    4
#define TIMEOUT_MS  60000
#define OBJECTIVE   100000000 /* ns */
#define ACTIVATION  (ROWS_MAX * WIDTH_MAX * sizeof(float))

struct request {
	struct distmind_vgpu *vgpu;
	struct distmind_queue *queue;
	struct distmind_timeline *timeline;
	struct distmind_buffer *activations; /* two, which layers use in turns */
	struct distmind_batch *batch;
	const char *models[2];
	uint64_t rows, value;
	uint64_t compute_ns; /* of the rows, for the planner */
};

/* A request that found the gpu without the model. */
struct cold {
	double loaded, done; /* seconds from its beginning */
	double predicted;
	unsigned int groups;
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What the models that a request uses at a time may have, of which its vgpu pays. */
#define MODELS_MAX (192U << 20)

/* ROUNDS is odd. */
static double median(const double *values)
{
	double sorted[ROUNDS];

	memcpy(sorted, values, sizeof(sorted));
	qsort(sorted, ROUNDS, sizeof(*sorted), compare);
	return sorted[ROUNDS / 2];
}

static void request_open(struct request *request)
{
	struct distmind_claim terms = {
		.memory = 2 * ACTIVATION + MODELS_MAX, .share = DISTMIND_SHARE_WHOLE / 2,
		.sched_class = DISTMIND_CLASS_LATENCY, .objective_ns = OBJECTIVE, .name = "bench",
	};
	char reason[DISTMIND_REASON_LEN] = "";
	void *memory;

	if (distmind_acquire(&terms, &request->vgpu, reason))
		bench_die("no vgpu: %s", reason);
	if (distmind_buffer_create(request->vgpu, 2 * ACTIVATION, DISTMIND_BUFFER_DATA,
				   &request->activations) ||
	    distmind_buffer_map(request->activations, &memory) ||
	    distmind_queue_create(request->vgpu, DISTMIND_LANE_COMPUTE, 256, &request->queue) ||
	    distmind_timeline_create(request->vgpu, 0, &request->timeline) ||
	    distmind_batch_create(&request->batch))
		bench_die("no queue");
	memset(memory, 0, 2 * ACTIVATION);
}

static void request_close(struct request *request)
{
	distmind_batch_destroy(request->batch);
	distmind_queue_destroy(request->queue);
	distmind_timeline_destroy(request->timeline);
	distmind_buffer_destroy(request->activations);
	distmind_vgpu_close(request->vgpu);
}

static void put_layer(struct request *request, struct distmind_model *model,
		      const struct distmind_tensor *tensor, bool odd)
{
	uint64_t k = tensor->shape[0], n = tensor->shape[1];
	uint64_t args[DISTMIND_OP_ARGS_MAX] = {
		[DISTMIND_GEMM_M] = request->rows, [DISTMIND_GEMM_N] = n, [DISTMIND_GEMM_K] = k,
		[DISTMIND_GEMM_ALPHA] = distmind_op_float(1), [DISTMIND_GEMM_LDA] = k,
		[DISTMIND_GEMM_LDB] = n, [DISTMIND_GEMM_LDC] = n, [DISTMIND_GEMM_BATCH] = 1,
	};
	uint32_t count = distmind_op_args(DISTMIND_OP_GEMM);

	distmind_batch_launch(request->batch, DISTMIND_OP_GEMM,
			      distmind_op_blocks(DISTMIND_OP_GEMM, args, count));
	distmind_batch_range(request->batch, request->activations, odd ? ACTIVATION : 0,
			     request->rows * n * sizeof(float));
	distmind_batch_range(request->batch, request->activations, odd ? 0 : ACTIVATION,
			     request->rows * k * sizeof(float));
	distmind_batch_range(request->batch, distmind_model_buffer(model), tensor->offset,
			     k * n * sizeof(float));
	for (uint32_t i = DISTMIND_GEMM_B + 1; i < count; i++)
		distmind_batch_number(request->batch, args[i]);
}

static void submit(struct request *request)
{
	if (distmind_queue_submit(request->queue, request->batch, NULL))
		bench_die("cannot submit");
	distmind_batch_clear(request->batch);
}

/* What is not there yet is the kernel's to wait for. */
static void compute(struct request *request, struct distmind_model *model)
{
	size_t count = distmind_model_count(model);
	struct distmind_tensor tensor;
	uint32_t jobs = 0;

	for (size_t i = 0; i < count; i++) {
		if (distmind_model_at(model, i, &tensor))
			bench_die("no tensor %zu", i);
		if (tensor.rank != 2)
			continue;
		if (tensor.shape[0] > WIDTH_MAX || tensor.shape[1] > WIDTH_MAX)
			bench_die("tensor %zu is wider than %d", i, WIDTH_MAX);
		put_layer(request, model, &tensor, jobs % 2);
		distmind_batch_signal(request->batch, request->timeline, ++request->value);
		if (++jobs % BATCH == 0)
			submit(request);
	}
	if (jobs % BATCH)
		submit(request);
	if (distmind_timeline_wait(request->timeline, request->value, TIMEOUT_MS))
		bench_die("the work failed");
}

static struct distmind_model *load(struct request *request, const char *name, bool wait)
{
	struct distmind_model_options options = { .wait = wait, .compute_ns = request->compute_ns };
	char reason[DISTMIND_REASON_LEN] = "";
	struct distmind_model *model;

	if (distmind_model_load(request->vgpu, name, &options, &model, reason))
		bench_die("model %s: %s", name, reason);
	return model;
}

static void evict(const char *name)
{
	char command[128];

	snprintf(command, sizeof(command), "distmindctl model evict %s >/dev/null", name);
	if (system(command))
		bench_die("cannot evict %s", name);
}

static struct cold ask_cold(struct request *request, bool pipelined)
{
	struct distmind_model_info info;
	struct distmind_model *model;
	struct cold cold;
	double begin;

	evict(request->models[0]);
	begin = bench_now();
	model = load(request, request->models[0], !pipelined);
	cold.loaded = bench_now() - begin;
	compute(request, model);
	cold.done = bench_now() - begin;
	distmind_model_info(model, &info);
	if (info.cached)
		bench_die("the gpu still has %s", request->models[0]);
	cold.predicted = (double)info.predicted_ns * 1e-9;
	cold.groups = (unsigned int)info.groups;
	distmind_model_release(model);
	return cold;
}

static double time_compute(struct request *request, struct distmind_model *model)
{
	double begin = bench_now();

	compute(request, model);
	return bench_now() - begin;
}

/* After these loads the daemon knows its rates, too. */
static void match(struct request *request)
{
	double transfers[ROUNDS], transfer, row;
	struct distmind_model *model;

	request->rows = ROWS_FIRST;
	for (int i = 0; i < ROUNDS; i++)
		transfers[i] = ask_cold(request, false).loaded;
	transfer = median(transfers);
	model = load(request, request->models[0], true);
	time_compute(request, model);
	row = time_compute(request, model) / (double)request->rows;
	request->rows = (uint64_t)fmin(fmax(round(transfer / row), 1), ROWS_MAX);
	request->compute_ns = (uint64_t)(time_compute(request, model) * 1e9);
	distmind_model_release(model);
}

static void bench_pipeline(struct request *request)
{
	double transfer[ROUNDS], computing[ROUNDS], whole[ROUNDS], result[ROUNDS];
	double predicted[ROUNDS], part[ROUNDS], whole_part[ROUNDS], right[ROUNDS];
	double slowest[ROUNDS];
	struct cold cold;

	match(request);
	for (int i = 0; i < ROUNDS; i++) {
		cold = ask_cold(request, true);
		result[i] = cold.done;
		predicted[i] = cold.predicted;
		cold = ask_cold(request, false);
		whole[i] = cold.done;
		transfer[i] = cold.loaded;
		computing[i] = cold.done - cold.loaded;
		request->compute_ns = (uint64_t)(computing[i] * 1e9);
	}
	/*
	 * Each round by itself, as the speed of a guest changes over time: the stages are as
	 * long as each other, so that now the one is the slowest and now the other.
	 */
	for (int i = 0; i < ROUNDS; i++) {
		slowest[i] = fmax(transfer[i], computing[i]);
		part[i] = slowest[i] / result[i];
		whole_part[i] = slowest[i] / whole[i];
		right[i] = fmin(predicted[i], result[i]) / fmax(predicted[i], result[i]);
	}
	fprintf(stderr, "load.pipeline: %u groups, transfer %.1f ms, computing %.1f ms\n",
		cold.groups, median(transfer) * 1e3, median(computing) * 1e3);
	bench_report("load.pipeline", median(result) * 1e3, "ms", "slowest stage", median(slowest) * 1e3,
		     median(part));
	bench_report("load.pipeline.unpipelined", median(whole) * 1e3, "ms", "slowest stage",
		     median(slowest) * 1e3, median(whole_part));
	bench_report("load.pipeline.predicted", median(result) * 1e3, "ms", "the planner",
		     median(predicted) * 1e3, median(right));
}

static double switch_ours(void *arg)
{
	struct request *request = arg;
	struct distmind_model *model;
	double begin = bench_now();

	for (int i = 0; i < SWITCHES; i++) {
		model = load(request, request->models[i % 2], false);
		compute(request, model);
		distmind_model_release(model);
	}
	return bench_now() - begin;
}

static double switch_theirs(void *arg)
{
	struct request *request = arg;
	struct distmind_model *models[2];
	double begin, end;

	for (int i = 0; i < 2; i++)
		models[i] = load(request, request->models[i], true);
	begin = bench_now();
	for (int i = 0; i < SWITCHES; i++)
		compute(request, models[i % 2]);
	end = bench_now();
	for (int i = 0; i < 2; i++)
		distmind_model_release(models[i]);
	return end - begin;
}

int main(int argc, char **argv)
{
	struct request request = { 0 };

	if (argc != 3)
		bench_die("usage: load_model MODEL OTHER");
	request.models[0] = argv[1];
	request.models[1] = argv[2];
	request_open(&request);
	bench_pipeline(&request);
	request.rows = ROWS_SWITCH;
	bench_run(&(struct bench){
		.name = "load.switch", .unit = "ms", .baseline = "computing alone",
		.rounds = ROUNDS, .work = SWITCHES, .scale = 1e3, .ours = switch_ours,
		.theirs = switch_theirs, .arg = &request,
	});
	request_close(&request);
	return 0;
}
