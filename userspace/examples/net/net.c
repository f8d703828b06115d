// SPDX-License-Identifier: GPL-2.0-or-later
#include "net.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUEUE_DEPTH 64	  /* jobs; a step of training has 24 */
#define TIMEOUT_MS  60000 /* nothing takes that long, on whatever device */

struct tensor net_tensor(struct net *net, uint64_t rows, uint64_t cols)
{
	struct tensor tensor = { .offset = net->size, .rows = rows, .cols = cols };

	/* Each begins on a cache line of its own. */
	net->size += (rows * cols * sizeof(float) + 63) & ~UINT64_C(63);
	return tensor;
}

void net_init(struct net *net, uint32_t rows, uint32_t inputs, uint32_t hidden, uint32_t classes,
	      bool trained)
{
	memset(net, 0, sizeof(*net));
	net->x = net_tensor(net, rows, inputs);
	for (int i = 0; i < NET_LAYERS; i++) {
		struct layer *layer = &net->layers[i];
		bool last = i == NET_LAYERS - 1;
		uint32_t in = i ? hidden : inputs, out = last ? classes : hidden;

		layer->w = net_tensor(net, in, out);
		layer->b = net_tensor(net, 1, out);
		layer->z = net_tensor(net, rows, out);
		layer->h = net_tensor(net, rows, out);
		layer->activation = last ? DISTMIND_ACTIVATION_NONE : DISTMIND_ACTIVATION_RELU;
		if (trained) {
			layer->dw = net_tensor(net, in, out);
			layer->db = net_tensor(net, 1, out);
			layer->dh = net_tensor(net, rows, out);
		}
	}
}

void net_acquire(struct net *net, struct distmind_claim *claim)
{
	char reason[DISTMIND_REASON_LEN] = "";
	void *memory;
	int err;

	claim->memory = net->size;
	err = distmind_vgpu_inherited(0, &net->vgpu);
	if (err == -ENOENT)
		err = distmind_acquire(claim, &net->vgpu, reason);
	if (err && reason[0])
		net_die(reason, 0);
	if (err)
		net_die("no vgpu", err);
	err = distmind_buffer_create(net->vgpu, net->size, DISTMIND_BUFFER_DATA, &net->buffer);
	if (!err)
		err = distmind_buffer_map(net->buffer, &memory);
	if (err)
		net_die("no buffer", err);
	net->memory = memory;
	err = distmind_queue_create(net->vgpu, DISTMIND_LANE_COMPUTE, QUEUE_DEPTH, &net->queue);
	if (!err)
		err = distmind_timeline_create(net->vgpu, 0, &net->timeline);
	if (!err)
		err = distmind_batch_create(&net->batch);
	if (err)
		net_die("no queue", err);
}

void *net_memory(const struct net *net, const struct tensor *tensor)
{
	return net->memory + tensor->offset;
}

/* Such that values are of the same size in all layers. Biases are zero, as new buffers are. */
void net_weights(struct net *net)
{
	for (int i = 0; i < NET_LAYERS; i++) {
		const struct tensor *w = &net->layers[i].w;
		double scale = sqrt(2.0 / (double)w->rows);
		float *value = net_memory(net, w);

		for (uint64_t j = 0; j < w->rows * w->cols; j++)
			value[j] = (float)(net_normal() * scale);
	}
}

/*
 * Every job signals the timeline, not just the last one of a batch: a value that
 * comes after that of a job that failed has failed, so that no failure is missed.
 */
void net_launch(struct net *net, enum distmind_op op, const struct arg *args)
{
	uint32_t count = distmind_op_args(op);
	uint64_t numbers[DISTMIND_OP_ARGS_MAX];

	for (uint32_t i = 0; i < count; i++)
		numbers[i] = args[i].number;
	distmind_batch_launch(net->batch, op, distmind_op_blocks(op, numbers, count));
	for (uint32_t i = 0; i < count; i++) {
		const struct tensor *tensor = args[i].tensor;

		if (tensor)
			distmind_batch_range(net->batch, net->buffer, tensor->offset,
					     tensor->rows * tensor->cols * sizeof(float));
		else
			distmind_batch_number(net->batch, args[i].number);
	}
	distmind_batch_signal(net->batch, net->timeline, ++net->launched);
}

void net_gemm(struct net *net, const struct tensor *c, const struct tensor *a,
	      const struct tensor *b, uint32_t transpose)
{
	uint64_t inner = transpose & DISTMIND_GEMM_TRANSPOSE_A ? a->rows : a->cols;

	LAUNCH(net, GEMM, TENSOR(*c), TENSOR(*a), TENSOR(*b), NUMBER(c->rows), NUMBER(c->cols),
	       NUMBER(inner), NUMBER(transpose), REAL(1), REAL(0), NUMBER(a->cols),
	       NUMBER(b->cols), NUMBER(c->cols), NUMBER(1), NUMBER(0), NUMBER(0), NUMBER(0));
}

void net_forward(struct net *net, const struct tensor *x)
{
	for (int i = 0; i < NET_LAYERS; i++) {
		const struct layer *layer = &net->layers[i];

		net_gemm(net, &layer->z, x, &layer->w, 0);
		LAUNCH(net, BIAS_ACTIVATION, TENSOR(layer->h), TENSOR(layer->z), TENSOR(layer->b),
		       NUMBER(layer->z.rows), NUMBER(layer->z.cols), NUMBER(layer->activation));
		x = &layer->h;
	}
}

uint64_t net_submit(struct net *net)
{
	int err = distmind_queue_submit(net->queue, net->batch, NULL);

	if (err)
		net_die("submit", err);
	distmind_batch_clear(net->batch);
	return net->launched;
}

void net_wait(struct net *net, uint64_t value)
{
	int err = distmind_timeline_wait(net->timeline, value, TIMEOUT_MS);

	if (err)
		net_die("the work failed", err);
}

/* Marsaglia's xorshift: good enough for data to learn from. */
double net_uniform(void)
{
	static uint64_t state = 0x9E3779B97F4A7C15;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) / 9007199254740992.0;
}

double net_normal(void)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += net_uniform();
	return sum;
}

double net_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void net_die(const char *what, int err)
{
	fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what, err ? ": " : "",
		err ? strerror(-err) : "");
	exit(1);
}
