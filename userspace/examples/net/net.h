/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A multilayer perceptron on a vgpu, for the examples that train it and that
 * serve it. In the order of use:
 *
 *   net_init, net_tensor    lay everything out in one buffer
 *   net_acquire             get a vgpu that holds it, and a queue
 *   net_weights             random weights, through the mapping of the buffer
 *   net_forward, LAUNCH     describe jobs, which are collected in a batch
 *   net_submit, net_wait    hand the batch to the kernel; wait for its end
 *
 * What fails ends the program with a message. What it leaves behind is the
 * kernel's to clean up, with the last descriptor of the vgpu.
 */
#ifndef EXAMPLES_NET_H
#define EXAMPLES_NET_H

#include <distmind.h>
#include <distmind_ops.h>
#include <stdbool.h>
#include <stdint.h>

#define NET_LAYERS 3

/* A matrix in the net's buffer. */
struct tensor {
	uint64_t offset; /* bytes */
	uint64_t rows, cols;
};

/* h = activation(x w + b), and the gradients of the loss if it is trained. */
struct layer {
	struct tensor w, b, z, h;
	struct tensor dw, db, dh;
	enum distmind_activation activation;
};

struct net {
	struct tensor x;
	struct layer layers[NET_LAYERS];
	uint64_t size; /* of all tensors */

	struct distmind_vgpu *vgpu;
	struct distmind_buffer *buffer;
	struct distmind_queue *queue;
	struct distmind_timeline *timeline;
	struct distmind_batch *batch;
	uint64_t launched; /* jobs: each has its number on the timeline */
	char *memory;	   /* the buffer in this process */
};

/* An argument of an operation: a tensor or a number. */
struct arg {
	const struct tensor *tensor;
	uint64_t number;
};

#define TENSOR(t) { .tensor = &(t) }
#define NUMBER(n) { .number = (n) }
#define REAL(r)	  { .number = distmind_op_float(r) }

/* Adds a job: an operation of <distmind_ops.h> with its arguments in order. */
#define LAUNCH(net, OP, ...) \
	net_launch(net, DISTMIND_OP_##OP, (const struct arg[]){ __VA_ARGS__ })

/* Rows of inputs to rows of classes, with two layers between. */
void net_init(struct net *net, uint32_t rows, uint32_t inputs, uint32_t hidden, uint32_t classes,
	      bool trained);
struct tensor net_tensor(struct net *net, uint64_t rows, uint64_t cols);

/* The vgpu of "distmindctl run" if there is one, else the one that is asked for. */
void net_acquire(struct net *net, struct distmind_claim *claim);
void net_weights(struct net *net);
void *net_memory(const struct net *net, const struct tensor *tensor);

void net_launch(struct net *net, enum distmind_op op, const struct arg *args);
/* c = a b, transposed as asked with DISTMIND_GEMM_TRANSPOSE_*. */
void net_gemm(struct net *net, const struct tensor *c, const struct tensor *a,
	      const struct tensor *b, uint32_t transpose);
/* From x to the last layer's h. */
void net_forward(struct net *net, const struct tensor *x);
/* Returns what to wait for. */
uint64_t net_submit(struct net *net);
void net_wait(struct net *net, uint64_t value);

/* Uniform and normal, the same numbers in each run. */
double net_uniform(void);
double net_normal(void);

double net_now(void); /* seconds */

/* "train: no vgpu: out of memory", and exit. err is 0 or a negative errno. */
void net_die(const char *what, int err) __attribute__((noreturn));

#endif
