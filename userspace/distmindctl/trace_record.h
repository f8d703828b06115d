/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recording: the module's tracepoints through tracefs, in an instance of our own,
 * so that nobody else's tracing is disturbed. The instance is called after our
 * process and is removed at the end; one whose process is dead, because it was
 * killed, is removed by the next recording.
 */
#ifndef DISTMINDCTL_TRACE_RECORD_H
#define DISTMINDCTL_TRACE_RECORD_H

#include "ctl.h"
#include "trace_model.h"

struct trace_recording {
	uint64_t begin_ns;
	uint64_t end_ns;
	struct trace_event *events; /* the caller's to free */
	size_t count;
	uint64_t lost; /* events that the kernel had no room for */
	bool full;     /* it ended early, because there were too many */
};

/* What to record: one gpu, or DISTMIND_GPU_NONE for all; 0 is until a signal comes. */
struct trace_wish {
	uint32_t gpu;
	uint64_t duration_ns;
};

/* An exit code; the reason is on stderr then, and there is nothing to free. */
int trace_record(struct ctl *ctl, const struct trace_wish *wish,
		 struct trace_recording *recording);

#endif /* DISTMINDCTL_TRACE_RECORD_H */
