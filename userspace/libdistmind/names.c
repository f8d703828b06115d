// SPDX-License-Identifier: MIT
#include "distmind.h"

#include <errno.h>
#include <string.h>

static const char *const classes[] = {
	[DISTMIND_CLASS_BEST_EFFORT] = "best-effort",
	[DISTMIND_CLASS_STANDARD] = "standard",
	[DISTMIND_CLASS_LATENCY] = "latency",
};

static const char *const gpu_states[] = {
	[DISTMIND_GPU_STATE_READY] = "ready",
	[DISTMIND_GPU_STATE_DRAINING] = "draining",
	[DISTMIND_GPU_STATE_LOST] = "lost",
};

static const char *const vgpu_states[] = {
	[DISTMIND_VGPU_STATE_BOUND] = "bound",
	[DISTMIND_VGPU_STATE_PARKED] = "parked",
	[DISTMIND_VGPU_STATE_LOST] = "lost",
};

static const char *const buffer_kinds[] = {
	[DISTMIND_BUFFER_DATA] = "data",
	[DISTMIND_BUFFER_WEIGHTS] = "weights",
};

static const char *const preempt_rungs[] = {
	[DISTMIND_PREEMPT_RUNG_ASK] = "ask",	     [DISTMIND_PREEMPT_RUNG_YIELDED] = "yielded",
	[DISTMIND_PREEMPT_RUNG_HOOK] = "hook",	     [DISTMIND_PREEMPT_RUNG_HANG] = "hang",
	[DISTMIND_PREEMPT_RUNG_KILL] = "kill",
};

static const char *const extent_states[] = {
	[DISTMIND_EXTENT_STATE_PRESENT] = "present",
	[DISTMIND_EXTENT_STATE_LOADING] = "loading",
	[DISTMIND_EXTENT_STATE_ABSENT] = "absent",
};

static const char *const request_phases[] = {
	[DISTMIND_REQUEST_PHASE_IDLE] = "idle",	      [DISTMIND_REQUEST_PHASE_ORDER] = "order",
	[DISTMIND_REQUEST_PHASE_WEIGHTS] = "weights", [DISTMIND_REQUEST_PHASE_LANE] = "lane",
	[DISTMIND_REQUEST_PHASE_ROOM] = "room",	      [DISTMIND_REQUEST_PHASE_RUN] = "run",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NAME(array, index) ((index) < COUNT(array) ? (array)[index] : "?")

const char *distmind_class_name(uint32_t sched_class)
{
	return NAME(classes, sched_class);
}

const char *distmind_gpu_state_name(uint32_t state)
{
	return NAME(gpu_states, state);
}

const char *distmind_vgpu_state_name(uint32_t state)
{
	return NAME(vgpu_states, state);
}

const char *distmind_buffer_kind_name(uint32_t kind)
{
	return NAME(buffer_kinds, kind);
}

const char *distmind_preempt_rung_name(uint32_t rung)
{
	return NAME(preempt_rungs, rung);
}

const char *distmind_extent_state_name(uint32_t state)
{
	return NAME(extent_states, state);
}

const char *distmind_request_phase_name(uint32_t phase)
{
	return NAME(request_phases, phase);
}

int distmind_class_parse(const char *name)
{
	for (unsigned int i = 0; i < COUNT(classes); i++)
		if (!strcmp(name, classes[i]))
			return (int)i;
	return -EINVAL;
}
