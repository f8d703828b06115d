// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every string is one of ours or a label of the kernel's, so none needs quoting.
 * Numbers of processes and threads are made up: 0 means something else there.
 */
#include <distmind.h>
#include <inttypes.h>

#include "trace_write.h"

#define LANE_TID 1
#define ARRIVAL_TID (LANE_TID + DISTMIND_LANES_MAX)

struct writer {
	const struct trace_model *model;
	const struct trace_names *names;
	FILE *out;
	bool begun;
	uint32_t tracks; /* so far */
};

static uint32_t pid_of(uint32_t gpu)
{
	return gpu + 1;
}

/* Of a vgpu's first row of waits: arrivals and vgpus before it have taken theirs. */
static uint32_t wait_tid(const struct trace_model *model, size_t vgpu)
{
	uint32_t tid = ARRIVAL_TID;
	size_t i;

	for (i = 0; i < model->gpu_count; i++)
		tid += model->gpus[i].rows;
	for (i = 0; i < vgpu; i++)
		tid += model->vgpus[i].rows + model->vgpus[i].request_rows;
	return tid;
}

/* Of its first row of requests, which follow its waits. */
static uint32_t request_tid(const struct trace_model *model, size_t vgpu)
{
	return wait_tid(model, vgpu) + model->vgpus[vgpu].rows;
}

/* The beginning of an event, up to where its arguments may follow. */
static void begin(struct writer *writer, const char *phase, uint32_t pid, uint32_t tid)
{
	fprintf(writer->out, "%s\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", writer->begun ? "," : "",
		phase, pid, tid);
	writer->begun = true;
}

/* Microseconds, as the format wants them, to the nanosecond. */
static void put_us(struct writer *writer, const char *key, uint64_t ns)
{
	fprintf(writer->out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned int)(ns % 1000));
}

static void put_time(struct writer *writer, uint64_t time_ns)
{
	put_us(writer, "ts", time_ns - writer->model->begin_ns);
}

static void put_name(struct writer *writer, const char *kind, uint32_t pid, uint32_t tid,
		     const char *what, uint32_t number, const char *name, const char *tail)
{
	begin(writer, "M", pid, tid);
	fprintf(writer->out, ",\"name\":\"%s\",\"args\":{\"name\":\"%s %u%s%s%s%s\"}}", kind, what,
		number, *name ? " (" : "", name, *name ? ")" : "", tail);
}

/* Tracks are shown in the order in which they are told. */
static void put_order(struct writer *writer, uint32_t pid, uint32_t tid)
{
	begin(writer, "M", pid, tid);
	fprintf(writer->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}",
		writer->tracks++);
}

static void put_gpu(struct writer *writer, const struct trace_gpu *gpu)
{
	const struct trace_names *names = writer->names;
	uint32_t pid = pid_of(gpu->gpu), row;

	put_name(writer, "process_name", pid, 0, "gpu", gpu->gpu,
		 trace_name_of(names->gpus, names->gpu_count, gpu->gpu), "");
	for (row = 0; row < gpu->rows; row++) {
		put_name(writer, "thread_name", pid, ARRIVAL_TID + row, "network", row, "", "");
		put_order(writer, pid, ARRIVAL_TID + row);
	}
}

static void put_tracks(struct writer *writer)
{
	const struct trace_model *model = writer->model;
	const struct trace_names *names = writer->names;
	size_t i;

	for (i = 0; i < model->gpu_count; i++)
		put_gpu(writer, &model->gpus[i]);
	for (i = 0; i < model->lane_count; i++) {
		const struct trace_lane *lane = &model->lanes[i];
		uint32_t pid = pid_of(lane->gpu);

		put_name(writer, "thread_name", pid, LANE_TID + lane->lane, "lane", lane->lane,
			 trace_lane_name(lane), "");
		put_order(writer, pid, LANE_TID + lane->lane);
	}
	for (i = 0; i < model->vgpu_count; i++) {
		const struct trace_vgpu *vgpu = &model->vgpus[i];
		uint32_t row;

		for (row = 0; row < vgpu->rows; row++) {
			put_name(writer, "thread_name", pid_of(vgpu->gpu),
				 wait_tid(model, i) + row, "vgpu", vgpu->vgpu,
				 trace_name_of(names->vgpus, names->vgpu_count, vgpu->vgpu),
				 " waits");
			put_order(writer, pid_of(vgpu->gpu), wait_tid(model, i) + row);
		}
		for (row = 0; row < vgpu->request_rows; row++) {
			put_name(writer, "thread_name", pid_of(vgpu->gpu),
				 request_tid(model, i) + row, "vgpu", vgpu->vgpu,
				 trace_name_of(names->vgpus, names->vgpu_count, vgpu->vgpu),
				 " requests");
			put_order(writer, pid_of(vgpu->gpu), request_tid(model, i) + row);
		}
	}
}

static void put_arrivals(struct writer *writer)
{
	const struct trace_model *model = writer->model;
	size_t i;

	for (i = 0; i < model->arrival_count; i++) {
		const struct trace_arrival *arrival = &model->arrivals[i];

		begin(writer, "X", pid_of(arrival->gpu), ARRIVAL_TID + arrival->row);
		put_time(writer, arrival->begin_ns);
		put_us(writer, "dur", arrival->end_ns - arrival->begin_ns);
		fprintf(writer->out,
			",\"cat\":\"network\",\"name\":\"group %" PRIu64 "\",\"args\":{\"vgpu\":%u,"
			"\"timeline\":%" PRIu64 ",\"group\":%" PRIu64 ",\"error\":%d}}",
			arrival->group, arrival->vgpu, arrival->timeline, arrival->group,
			arrival->status);
	}
}

static void put_slices(struct writer *writer)
{
	const struct trace_model *model = writer->model;
	char text[64];
	size_t i;

	for (i = 0; i < model->slice_count; i++) {
		const struct trace_slice *slice = &model->slices[i];

		trace_job_text(slice, text, sizeof(text));
		begin(writer, "X", pid_of(slice->gpu), LANE_TID + slice->lane);
		put_time(writer, slice->begin_ns);
		put_us(writer, "dur", slice->end_ns - slice->begin_ns);
		fprintf(writer->out,
			",\"cat\":\"job\",\"name\":\"%s\",\"args\":{\"vgpu\":%u,\"job\":%" PRIu64
			",\"end\":\"%s\"",
			text, slice->vgpu, slice->job, trace_end_name(slice->end));
		if (slice->type != TRACE_TYPE_UNKNOWN)
			fprintf(writer->out,
				",\"operation\":%u,\"blocks\":%u,\"cookie\":%" PRIu64,
				slice->operation, slice->blocks, slice->cookie);
		if (slice->end == TRACE_YIELDED)
			fprintf(writer->out, ",\"reached\":%" PRIu64, slice->reached);
		if (slice->end == TRACE_FAILED)
			fprintf(writer->out, ",\"error\":%d", slice->status);
		put_us(writer, "wait_us", slice->wait_ns);
		fputs("}}", writer->out);
	}
}

static void put_waits(struct writer *writer)
{
	const struct trace_model *model = writer->model;
	const struct trace_wait *wait = model->waits;
	uint32_t tid = 0;
	size_t i;

	for (i = 0; i < model->wait_count; i++, wait++) {
		if (!i || wait->gpu != wait[-1].gpu || wait->vgpu != wait[-1].vgpu)
			tid = wait_tid(model, trace_model_vgpu(model, wait->gpu, wait->vgpu));
		begin(writer, "X", pid_of(wait->gpu), tid + wait->row);
		put_time(writer, wait->begin_ns);
		put_us(writer, "dur", wait->end_ns - wait->begin_ns);
		fprintf(writer->out,
			",\"cat\":\"wait\",\"name\":\"wait\",\"args\":{\"vgpu\":%u,\"job\":%" PRIu64
			",\"goes_on\":%s}}",
			wait->vgpu, wait->job, wait->goes_on ? "true" : "false");
	}
}

static void put_requests(struct writer *writer)
{
	const struct trace_model *model = writer->model;
	const struct trace_request *request = model->requests;
	uint32_t tid = 0;
	size_t i;

	for (i = 0; i < model->request_count; i++, request++) {
		if (!i || request->gpu != request[-1].gpu || request->vgpu != request[-1].vgpu)
			tid = request_tid(model,
					  trace_model_vgpu(model, request->gpu, request->vgpu));
		begin(writer, "X", pid_of(request->gpu), tid + request->row);
		put_time(writer, request->begin_ns);
		put_us(writer, "dur", request->end_ns - request->begin_ns);
		fprintf(writer->out,
			",\"cat\":\"request\",\"name\":\"request %" PRIu64
			"\",\"args\":{\"vgpu\":%u,\"client\":%" PRIu64
			",\"missed\":%s,\"error\":%d",
			request->id, request->vgpu, request->client,
			request->missed ? "true" : "false", request->status);
		put_us(writer, "latency_us", request->took_ns);
		for (uint32_t phase = 0; phase < TRACE_PHASES; phase++)
			fprintf(writer->out, ",\"%s_percent\":%u.%u",
				distmind_request_phase_name(phase), request->parts[phase] / 10,
				request->parts[phase] % 10);
		fputs("}}", writer->out);
	}
}

/* An arrow from where it was asked to where it went on. */
static void put_flow(struct writer *writer, const struct trace_mark *mark, size_t id)
{
	begin(writer, "s", pid_of(mark->gpu), LANE_TID + mark->lane);
	put_time(writer, mark->time_ns);
	fprintf(writer->out, ",\"cat\":\"preemption\",\"name\":\"preemption\",\"id\":%zu}", id);
	begin(writer, "f", pid_of(mark->gpu), LANE_TID + mark->resumed_lane);
	put_time(writer, mark->resumed_ns);
	fprintf(writer->out,
		",\"cat\":\"preemption\",\"name\":\"preemption\",\"id\":%zu,\"bp\":\"e\"}", id);
}

static void put_marks(struct writer *writer)
{
	const struct trace_model *model = writer->model;
	size_t i;

	for (i = 0; i < model->mark_count; i++) {
		const struct trace_mark *mark = &model->marks[i];

		begin(writer, "i", pid_of(mark->gpu), LANE_TID + mark->lane);
		put_time(writer, mark->time_ns);
		fprintf(writer->out,
			",\"s\":\"t\",\"cat\":\"preemption\",\"name\":\"%s\","
			"\"args\":{\"vgpu\":%u,\"job\":%" PRIu64,
			trace_mark_name(mark->kind), mark->vgpu, mark->job);
		if (mark->left_ns)
			put_us(writer, "latency_us", mark->left_ns - mark->time_ns);
		if (mark->kind == TRACE_HOOK)
			fprintf(writer->out, ",\"result\":%d", mark->status);
		fputs("}}", writer->out);
		if (mark->resumed_ns)
			put_flow(writer, mark, i + 1);
	}
}

void trace_json_write(const struct trace_model *model, const struct trace_names *names,
		      uint64_t lost, FILE *out)
{
	struct writer writer = { .model = model, .names = names, .out = out };

	fprintf(out,
		"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\","
		"\"begin_ns\":%" PRIu64 ",\"lost_events\":%" PRIu64 "},\n\"traceEvents\":[",
		model->begin_ns, lost);
	put_tracks(&writer);
	put_arrivals(&writer);
	put_slices(&writer);
	put_waits(&writer);
	put_requests(&writer);
	put_marks(&writer);
	fputs("\n]}\n", out);
}
