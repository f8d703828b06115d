/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the lanes did, made from what the module's tracepoints told. Pure: from a
 * list of events, in any order and with gaps, to slices of lanes, waits and requests of
 * vgpus, marks of preemptions and weights that arrive, which the writers draw.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Everything in a model lies within its
 * begin and end. The model owns its arrays; it keeps nothing of the events.
 */
#ifndef DISTMINDCTL_TRACE_MODEL_H
#define DISTMINDCTL_TRACE_MODEL_H

#include <linux/distmind.h>
#include <linux/distmind_netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
	TRACE_READY,
	TRACE_START,
	TRACE_STOP,
	TRACE_SIGNAL,
	TRACE_REQUEST,
	TRACE_ASK,
	TRACE_HOOK,
	TRACE_HANG,
	TRACE_KILL,
	TRACE_KINDS
};

#define TRACE_PHASES (DISTMIND_REQUEST_PHASE_MAX + 1)

/* One tracepoint; what it does not have is 0. */
struct trace_event {
	enum trace_kind kind;
	uint64_t time_ns;
	uint32_t gpu;
	uint32_t lane;
	uint32_t vgpu;
	uint32_t type;
	uint32_t operation;
	uint32_t blocks;
	uint64_t job;	  /* TRACE_SIGNAL: the timeline; TRACE_REQUEST: the request */
	uint64_t cookie;  /* TRACE_SIGNAL: its value; TRACE_REQUEST: the client */
	uint64_t took_ns; /* START: it waited, STOP: it ran, SIGNAL: since the one before,
			     REQUEST: since it began */
	int32_t status;	  /* of STOP, SIGNAL and REQUEST, or the result of TRACE_HOOK */
	bool missed;	  /* TRACE_REQUEST: its deadline */
	uint16_t parts[TRACE_PHASES]; /* TRACE_REQUEST: thousandths of its time */
};

enum trace_end {
	TRACE_FINISHED,
	TRACE_YIELDED,
	TRACE_FAILED,	/* see status */
	TRACE_UNKNOWN,	/* events were lost */
	TRACE_GOES_ON	/* at the end of the trace */
};

#define TRACE_TYPE_UNKNOWN UINT32_MAX /* it began before the trace, or events were lost */

/* A job on a lane, until it ended or yielded. */
struct trace_slice {
	uint32_t gpu;
	uint32_t lane;
	uint32_t vgpu;
	uint32_t type; /* enum distmind_job_type, or TRACE_TYPE_UNKNOWN */
	uint32_t operation;
	uint32_t blocks; /* 0: not known */
	uint64_t job;
	uint64_t cookie; /* where it began */
	uint64_t reached; /* where it ended, if it yielded */
	uint64_t begin_ns;
	uint64_t end_ns;
	uint64_t wait_ns;
	enum trace_end end;
	int32_t status;
};

/* A job that could run, and did not yet. */
struct trace_wait {
	uint32_t gpu;
	uint32_t vgpu;
	uint64_t job;
	uint64_t begin_ns;
	uint64_t end_ns;
	uint32_t row; /* of its vgpu: no two that overlap have the same */
	bool goes_on; /* at the end of the trace */
};

/* A request that has ended, from its first submission on. */
struct trace_request {
	uint32_t gpu;
	uint32_t vgpu;
	uint64_t client;
	uint64_t id;
	uint64_t begin_ns;
	uint64_t end_ns;
	uint64_t took_ns; /* also if it began before the trace */
	uint32_t row;	  /* of its vgpu */
	int32_t status;
	bool missed;
	uint16_t parts[TRACE_PHASES];
};

/* A step of the preemption of a job. */
struct trace_mark {
	enum trace_kind kind;
	uint32_t gpu;
	uint32_t lane;
	uint32_t vgpu;
	uint64_t job;
	uint64_t time_ns;
	uint64_t left_ns;    /* TRACE_ASK: when it left the lane */
	uint64_t resumed_ns; /* TRACE_ASK: when it was on a lane again; 0: not seen */
	uint32_t resumed_lane;
	int32_t status; /* of the hook */
};

/* A group of a model's weights on its way to a gpu, since the one before it was there. */
struct trace_arrival {
	uint32_t gpu;
	uint32_t vgpu;
	uint64_t timeline; /* of the load */
	uint64_t group;	   /* the last, if several came at once; from 1 */
	uint64_t begin_ns;
	uint64_t end_ns;
	uint32_t row;	/* of its gpu: loads at the same time have rows of their own */
	int32_t status; /* it did not come */
};

struct trace_lane {
	uint32_t gpu;
	uint32_t lane;
	uint32_t type; /* what it is for: launches or copies, or TRACE_TYPE_UNKNOWN */
	size_t first;  /* of its slices */
	size_t count;
};

struct trace_gpu {
	uint32_t gpu;
	uint32_t rows; /* of arrivals */
};

struct trace_vgpu {
	uint32_t gpu;
	uint32_t vgpu;
	uint32_t rows;	  /* of waits */
	uint32_t request_rows;
	uint32_t requests;
	uint32_t missed; /* of these */
	uint32_t slices;
	uint32_t asked;	  /* preemptions */
	uint32_t groups;  /* that arrived, or did not */
	uint64_t busy_ns; /* within the trace */
	uint64_t wait_ns;
	uint64_t load_ns;
};

struct trace_model {
	uint64_t begin_ns;
	uint64_t end_ns;
	/* By time on each lane. */
	struct trace_slice *slices;
	size_t slice_count;
	/* By gpu, vgpu and time. */
	struct trace_wait *waits;
	size_t wait_count;
	/* By gpu, vgpu and time. */
	struct trace_request *requests;
	size_t request_count;
	/* By time. */
	struct trace_mark *marks;
	size_t mark_count;
	/* By gpu and time. */
	struct trace_arrival *arrivals;
	size_t arrival_count;
	/* Those that anything is told of, by number. */
	struct trace_gpu *gpus;
	size_t gpu_count;
	/* By gpu; copies before launches, as weights go; then number. */
	struct trace_lane *lanes;
	size_t lane_count;
	/* By gpu, then number; a vgpu that has moved is there for each gpu. */
	struct trace_vgpu *vgpus;
	size_t vgpu_count;
};

/* The events are put in order. -ENOMEM; then there is nothing to free. */
int trace_model_build(struct trace_event *events, size_t count, uint64_t begin_ns,
		      uint64_t end_ns, struct trace_model *model);
void trace_model_free(struct trace_model *model);

/* Let it begin and end with what happened. */
void trace_model_crop(struct trace_model *model);

/* The index of the vgpu in model->vgpus, for its colour and track. */
size_t trace_model_vgpu(const struct trace_model *model, uint32_t gpu, uint32_t vgpu);

#endif /* DISTMINDCTL_TRACE_MODEL_H */
