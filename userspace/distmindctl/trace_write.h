/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The writers: a model as a file for people or for their tools. They return
 * nothing; whoever opened the file asks it whether all was written.
 */
#ifndef DISTMINDCTL_TRACE_WRITE_H
#define DISTMINDCTL_TRACE_WRITE_H

#include <stdio.h>

#include "trace_model.h"

/* What operators call something; labels of the kernel, which need no quoting. */
struct trace_name {
	uint32_t id;
	uint32_t gpu; /* of a vgpu: the one it is bound to */
	char name[DISTMIND_NAME_LEN];
};

/* Either may be missing: then numbers have to do. */
struct trace_names {
	struct trace_name *gpus;
	size_t gpu_count;
	struct trace_name *vgpus;
	size_t vgpu_count;
};

/* "cpu0", or "" if it has none. */
const char *trace_name_of(const struct trace_name *names, size_t count, uint32_t id);

/* What a job does: "gemm", "copy", "grant", "operation 77", "job" if that is not known. */
void trace_job_text(const struct trace_slice *slice, char *text, size_t len);
/* What a lane is for: "copy", "compute", or "" if that is not known. */
const char *trace_lane_name(const struct trace_lane *lane);
/* How it ended: "yielded". */
const char *trace_end_name(enum trace_end end);
/* A step of a preemption: "asked to yield". */
const char *trace_mark_name(enum trace_kind kind);

/*
 * Chrome's trace format, which ui.perfetto.dev shows: a process for each gpu, in
 * it a thread for each row of arrivals, each lane and each row of a vgpu's waits and
 * of its requests.
 */
void trace_json_write(const struct trace_model *model, const struct trace_names *names,
		      uint64_t lost, FILE *out);

/* A picture that any browser shows, in light and in dark, without scripts. */
void trace_svg_write(const struct trace_model *model, const struct trace_names *names,
		     uint64_t lost, FILE *out);

#endif /* DISTMINDCTL_TRACE_WRITE_H */
