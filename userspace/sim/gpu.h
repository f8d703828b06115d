/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A simulated gpu: jobs wait in its queue, one runs at a time, training has it
 * between them. The queue is short, in the order in which jobs are served; the
 * first of them whose model is there comes next.
 *
 * Training gets back a gpu that has nothing to run, after resume_ns, and loses
 * it within a block (yield_ns) or at the end of an iteration. When a job will be
 * ready is known while its model is loaded, so training is asked to yield just
 * before, and a job that is ready never waits for it.
 */
#ifndef DISTMIND_SIM_GPU_H
#define DISTMIND_SIM_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum sim_preemption {
	SIM_PREEMPT_BLOCK,
	SIM_PREEMPT_ITERATION,
	SIM_PREEMPT_NONE, /* there is no training */
};

struct sim_training {
	enum sim_preemption preemption;
	uint64_t yield_ns;
	uint64_t resume_ns;
	uint64_t iteration_ns;
};

struct sim_job {
	uint64_t arrival_ns;
	uint64_t order;	   /* less is served first: deadline or arrival */
	uint64_t deadline_ns;
	uint64_t ready_ns; /* its model is there */
	uint64_t compute_ns;
	uint64_t extra_ns;
	uint32_t model;
};

struct sim_gpu {
	struct sim_job *queue; /* owned */
	uint32_t head, tail, size;

	struct sim_job job; /* that runs, if any does */
	bool running;
	uint64_t next_ns; /* when something happens: the end, or a job becomes ready */
	uint64_t idle_ns; /* since when nothing has run */
};

/* What became of a gap between two jobs, and when the job may start. */
struct sim_gap {
	uint64_t start_ns;
	uint64_t trained_ns;
	bool preempted;
};

/* -ENOMEM. */
int sim_gpu_enqueue(struct sim_gpu *gpu, const struct sim_job *job);

/*
 * Take the job to run now out of the queue. With deadlines: one that is ready
 * does not start before an earlier one whose model is still on its way if that
 * would be late then. False: none is to run; next_ns is when one will be ready.
 */
bool sim_gpu_pick(struct sim_gpu *gpu, uint64_t now, bool deadlines, struct sim_job *job);

/* The job that was picked at that time ends the gap that began at gpu->idle_ns. */
void sim_gpu_gap(const struct sim_gpu *gpu, const struct sim_training *training, uint64_t now,
		 const struct sim_job *job, struct sim_gap *gap);

#endif
