// SPDX-License-Identifier: GPL-2.0-or-later
/* Words that both writers use. */
#include <distmind_ops.h>

#include "trace_write.h"

const char *trace_name_of(const struct trace_name *names, size_t count, uint32_t id)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (names[i].id == id)
			return names[i].name;
	}
	return "";
}

void trace_job_text(const struct trace_slice *slice, char *text, size_t len)
{
	switch (slice->type) {
	case DISTMIND_JOB_LAUNCH:
		if (slice->operation < DISTMIND_OP__COUNT)
			snprintf(text, len, "%s", distmind_op_name(slice->operation));
		else
			snprintf(text, len, "operation %u", slice->operation);
		break;
	case DISTMIND_JOB_COPY:
		snprintf(text, len, "copy");
		break;
	case DISTMIND_JOB_GRANT:
		snprintf(text, len, "grant");
		break;
	case TRACE_TYPE_UNKNOWN:
		snprintf(text, len, "job");
		break;
	default:
		snprintf(text, len, "job of type %u", slice->type);
	}
}

const char *trace_lane_name(const struct trace_lane *lane)
{
	switch (lane->type) {
	case DISTMIND_JOB_COPY:
		return "copy";
	case DISTMIND_JOB_LAUNCH:
		return "compute";
	default:
		return "";
	}
}

const char *trace_end_name(enum trace_end end)
{
	static const char *const names[] = {
		[TRACE_FINISHED] = "finished", [TRACE_YIELDED] = "yielded",
		[TRACE_FAILED] = "failed",     [TRACE_UNKNOWN] = "unknown",
		[TRACE_GOES_ON] = "goes on",
	};

	return names[end];
}

const char *trace_mark_name(enum trace_kind kind)
{
	switch (kind) {
	case TRACE_ASK:
		return "asked to yield";
	case TRACE_HOOK:
		return "forced off by the driver";
	case TRACE_HANG:
		return "hangs";
	default:
		return "killed";
	}
}
