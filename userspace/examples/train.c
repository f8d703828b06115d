// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Training on a vgpu: a network of three dense layers learns by stochastic
 * gradient descent to tell clusters of points apart.
 *
 * A step - forwards, loss, backwards, new weights - is 24 jobs in one batch.
 * The jobs of a queue run in order, so nothing needs to be waited for between
 * them, nor between steps: the next one is submitted while one runs, and the
 * gpu never idles for want of work. The process only waits on the timeline
 * to read the loss. It asks for the best effort class: whoever has an objective
 * gets the gpu first, between two blocks of whatever job of this runs.
 */
#include "net/net.h"
#include "net/options.h"

#include <signal.h>
#include <stdio.h>

#define INPUTS	16
#define CLASSES 10
#define BATCHES 8 /* of examples, over and over */
#define AHEAD	2 /* steps in the queue */

static const char usage[] =
	"usage: train [options]\n"
	"\n"
	"Trains a small network on a vgpu: that of \"distmindctl run\", or one of the\n"
	"best effort class. SIGINT or SIGTERM end it after the step that runs.\n"
	"\n"
	"  --seconds N   for so long (default 10)\n"
	"  --steps N     at most so many steps (default no limit)\n"
	"  --hidden N    width of the hidden layers (default 256)\n"
	"  --batch N     examples in a step (default 32)\n"
	"  --json        one line at the end, nothing else\n"
	"\n"
	"Exit status: 0 if the loss has gone down, from the first step to the mean of the\n"
	"last 8, in which each example is seen once.\n";

struct options {
	double seconds, steps;
	uint32_t hidden, batch;
	bool json;
};

/* Beside the network: all examples, and the losses of the steps in the queue. */
struct data {
	struct tensor x[BATCHES], labels[BATCHES];
	struct tensor loss[AHEAD];
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void parse(int argc, char **argv, struct options *options)
{
	const struct net_option known[] = {
		{ "seconds", .real = &options->seconds, .min = 0.1 },
		{ "steps", .real = &options->steps, .min = 2 },
		{ "hidden", .count = &options->hidden, .min = 1 },
		{ "batch", .count = &options->batch, .min = 1 },
		{ "json", .flag = &options->json },
		{ 0 },
	};

	net_options(argc, argv, known, usage);
}

static void lay_out(struct net *net, struct data *data, const struct options *options)
{
	net_init(net, options->batch, INPUTS, options->hidden, CLASSES, true);
	for (int i = 0; i < BATCHES; i++) {
		data->x[i] = net_tensor(net, options->batch, INPUTS);
		data->labels[i] = net_tensor(net, options->batch, 1);
	}
	for (int i = 0; i < AHEAD; i++)
		data->loss[i] = net_tensor(net, options->batch, 1);
}

/* Each class is a cloud of points around a centre of its own. */
static void make_examples(struct net *net, struct data *data)
{
	float centres[CLASSES][INPUTS];

	for (int i = 0; i < CLASSES * INPUTS; i++)
		centres[i / INPUTS][i % INPUTS] = (float)net_normal();
	for (int i = 0; i < BATCHES; i++) {
		float *x = net_memory(net, &data->x[i]);
		int32_t *labels = net_memory(net, &data->labels[i]);

		for (uint64_t row = 0; row < data->x[i].rows; row++) {
			int32_t label = (int32_t)(net_uniform() * CLASSES);

			labels[row] = label;
			for (int j = 0; j < INPUTS; j++)
				x[row * INPUTS + j] = centres[label][j] + 0.5f * (float)net_normal();
		}
	}
}

/* From the gradient of the last layer's output to new weights in all of them. */
static void backward(struct net *net, const struct tensor *x)
{
	/* What a step does to the output is a sum over the width of the layers. */
	float rate = 8.0f / (float)(64 + net->layers[0].w.cols);

	for (int i = NET_LAYERS - 1; i >= 0; i--) {
		struct layer *layer = &net->layers[i];
		const struct tensor *input = i ? &net->layers[i - 1].h : x;
		uint64_t rows = layer->dh.rows, cols = layer->dh.cols;

		LAUNCH(net, BIAS_ACTIVATION_GRAD, TENSOR(layer->dh), TENSOR(layer->dh),
		       TENSOR(layer->z), TENSOR(layer->b), NUMBER(rows), NUMBER(cols),
		       NUMBER(layer->activation));
		LAUNCH(net, REDUCE, TENSOR(layer->db), TENSOR(layer->dh), NUMBER(rows),
		       NUMBER(cols));
		net_gemm(net, &layer->dw, input, &layer->dh, DISTMIND_GEMM_TRANSPOSE_A);
		if (i)
			net_gemm(net, &net->layers[i - 1].dh, &layer->dh, &layer->w,
				 DISTMIND_GEMM_TRANSPOSE_B);
		LAUNCH(net, SGD, TENSOR(layer->w), TENSOR(layer->dw),
		       NUMBER(layer->w.rows * layer->w.cols), REAL(rate));
		LAUNCH(net, SGD, TENSOR(layer->b), TENSOR(layer->db), NUMBER(cols), REAL(rate));
	}
}

/* Returns what to wait for. */
static uint64_t submit_step(struct net *net, const struct data *data, uint64_t step)
{
	const struct tensor *x = &data->x[step % BATCHES];
	const struct layer *last = &net->layers[NET_LAYERS - 1];

	net_forward(net, x);
	LAUNCH(net, SOFTMAX_XENT, TENSOR(data->loss[step % AHEAD]), TENSOR(last->dh),
	       TENSOR(last->h), TENSOR(data->labels[step % BATCHES]), NUMBER(x->rows),
	       NUMBER(CLASSES), REAL(1.0f / (float)x->rows));
	backward(net, x);
	return net_submit(net);
}

/* The mean loss of a step that has ended. */
static double read_loss(const struct net *net, const struct data *data, uint64_t step)
{
	const struct tensor *loss = &data->loss[step % AHEAD];
	const float *values = net_memory(net, loss);
	double sum = 0;

	for (uint64_t i = 0; i < loss->rows; i++)
		sum += (double)values[i];
	return sum / (double)loss->rows;
}

static double mean(const double *values, uint64_t count)
{
	double sum = 0;

	for (uint64_t i = 0; i < count; i++)
		sum += values[i];
	return count ? sum / (double)count : 0;
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .steps = 1e9, .hidden = 256, .batch = 32 };
	struct distmind_claim claim = {
		.share = DISTMIND_SHARE_WHOLE / 2,
		.sched_class = DISTMIND_CLASS_BEST_EFFORT,
		.name = "train",
	};
	struct sigaction action = { .sa_handler = stop };
	double recent[BATCHES] = { 0 }, first = 0, last = 0, begin, now, told;
	struct data data;
	struct net net;
	uint64_t end[AHEAD], submitted = 0, done = 0;

	parse(argc, argv, &options);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	lay_out(&net, &data, &options);
	net_acquire(&net, &claim);
	net_weights(&net);
	make_examples(&net, &data);

	begin = now = net_now();
	told = begin - 1;
	for (;;) {
		while (submitted < done + AHEAD && submitted < options.steps && !stopped &&
		       (submitted < 2 || now - begin < options.seconds)) {
			end[submitted % AHEAD] = submit_step(&net, &data, submitted);
			submitted++;
		}
		if (submitted == done)
			break; /* and nothing more is to be submitted */
		net_wait(&net, end[done % AHEAD]);
		last = read_loss(&net, &data, done);
		recent[done % BATCHES] = last;
		now = net_now();
		if (!done++)
			first = last;
		if (!options.json && now - told >= 1) {
			printf("step %6lu  loss %.4f\n", (unsigned long)done, last);
			fflush(stdout);
			told = now;
		}
	}

	last = mean(recent, done < BATCHES ? done : BATCHES);
	printf(options.json ? "{\"steps\": %lu, \"first_loss\": %.6f, \"last_loss\": %.6f, "
			      "\"seconds\": %.3f, \"steps_per_second\": %.3f}\n" :
			      "%lu steps: loss from %.4f to %.4f in %.1f s, %.1f steps per second\n",
	       (unsigned long)done, first, last, now - begin, (double)done / (now - begin));
	return last < first ? 0 : 1;
}
