// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One pass over the events, with what is open: a slice for each lane, and for
 * each job since when it waits and who asked it to yield. Jobs that are not over
 * are in a tree; a job that is cancelled while it waits is never heard of again
 * and waits until the end of the trace.
 */
#include "trace_model.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

struct job {
	uint32_t gpu;
	uint32_t vgpu;
	uint64_t id;
	uint32_t type;
	uint32_t operation;
	uint32_t blocks;
	uint64_t ready_ns; /* 0: does not wait */
	size_t asked;	   /* mark, until it is on a lane again */
};

struct lane {
	struct trace_lane is;
	size_t open; /* slice */
};

/* Of arrivals: who has it, and until when. */
struct row {
	uint64_t timeline;
	uint64_t end_ns;
};

/* A growing array. */
struct list {
	void *items;
	size_t count, room;
};

struct builder {
	uint64_t begin_ns, end_ns;
	struct list slices, waits, requests, marks, arrivals, gpus, lanes, vgpus;
	void *jobs;
	bool out_of_memory;
};

static void *append(struct builder *builder, struct list *list, const void *item, size_t size)
{
	void *grown;

	if (list->count == list->room) {
		grown = reallocarray(list->items, 2 * list->room + 64, size);
		if (!grown) {
			builder->out_of_memory = true;
			return NULL;
		}
		list->items = grown;
		list->room = 2 * list->room + 64;
	}
	grown = (char *)list->items + list->count++ * size;
	memcpy(grown, item, size);
	return grown;
}

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_jobs(const void *a, const void *b)
{
	const struct job *x = a, *y = b;

	return x->gpu != y->gpu ? order(x->gpu, y->gpu) : order(x->id, y->id);
}

static struct job *find_job(struct builder *builder, const struct trace_event *event)
{
	struct job key = { .gpu = event->gpu, .vgpu = event->vgpu, .id = event->job,
			   .type = TRACE_TYPE_UNKNOWN, .asked = NONE };
	struct job **found = tfind(&key, &builder->jobs, compare_jobs);
	struct job *job;

	if (found)
		return *found;
	job = malloc(sizeof(*job));
	if (!job) {
		builder->out_of_memory = true;
		return NULL;
	}
	*job = key;
	if (!tsearch(job, &builder->jobs, compare_jobs)) {
		free(job);
		builder->out_of_memory = true;
		return NULL;
	}
	return job;
}

static void drop_job(struct builder *builder, struct job *job)
{
	tdelete(job, &builder->jobs, compare_jobs);
	free(job);
}

/* There are few. */
static struct lane *find_lane(struct builder *builder, uint32_t gpu, uint32_t lane)
{
	struct lane *lanes = builder->lanes.items;
	struct lane new = { .is = { .gpu = gpu, .lane = lane, .type = TRACE_TYPE_UNKNOWN },
			    .open = NONE };
	size_t i;

	for (i = 0; i < builder->lanes.count; i++) {
		if (lanes[i].is.gpu == gpu && lanes[i].is.lane == lane)
			return &lanes[i];
	}
	return append(builder, &builder->lanes, &new, sizeof(new));
}

/* So long before a time, but not before the trace. */
static uint64_t before(const struct builder *builder, uint64_t time_ns, uint64_t ns)
{
	return time_ns - builder->begin_ns > ns ? time_ns - ns : builder->begin_ns;
}

static void add_wait(struct builder *builder, const struct job *job, uint64_t begin_ns,
		     uint64_t end_ns, bool goes_on)
{
	struct trace_wait wait = { .gpu = job->gpu, .vgpu = job->vgpu, .job = job->id,
				   .begin_ns = begin_ns, .end_ns = end_ns, .goes_on = goes_on };

	append(builder, &builder->waits, &wait, sizeof(wait));
}

static struct trace_slice *open_slice(struct builder *builder, struct lane *lane,
				      const struct job *job, uint64_t begin_ns)
{
	struct trace_slice slice = {
		.gpu = job->gpu, .lane = lane->is.lane, .vgpu = job->vgpu, .type = job->type,
		.operation = job->operation, .blocks = job->blocks, .job = job->id,
		.begin_ns = begin_ns, .end_ns = builder->end_ns, .end = TRACE_GOES_ON,
	};

	lane->open = builder->slices.count;
	return append(builder, &builder->slices, &slice, sizeof(slice));
}

static struct trace_slice *slice_of(struct builder *builder, const struct lane *lane)
{
	return lane->open == NONE ? NULL : (struct trace_slice *)builder->slices.items + lane->open;
}

static void job_starts(struct builder *builder, const struct trace_event *event, struct job *job,
		       struct lane *lane)
{
	struct trace_slice *slice = slice_of(builder, lane);

	if (slice) {
		slice->end = TRACE_UNKNOWN;
		slice->end_ns = event->time_ns;
	}
	slice = open_slice(builder, lane, job, event->time_ns);
	if (!slice)
		return;
	slice->cookie = event->cookie;
	slice->wait_ns = event->took_ns;
	if (event->took_ns)
		add_wait(builder, job, before(builder, event->time_ns, event->took_ns),
			 event->time_ns, false);
	job->ready_ns = 0;
	if (job->asked != NONE) {
		struct trace_mark *mark = (struct trace_mark *)builder->marks.items + job->asked;

		mark->resumed_ns = event->time_ns;
		mark->resumed_lane = event->lane;
	}
	job->asked = NONE;
}

static void job_stops(struct builder *builder, const struct trace_event *event, struct job *job,
		      struct lane *lane)
{
	struct trace_slice *slice = slice_of(builder, lane);

	if (slice && slice->job != event->job) {
		slice->end = TRACE_UNKNOWN;
		slice->end_ns = before(builder, event->time_ns, event->took_ns);
		if (slice->end_ns < slice->begin_ns)
			slice->end_ns = slice->begin_ns;
		slice = NULL;
	}
	/* It began before the trace, or its start was lost. */
	if (!slice)
		slice = open_slice(builder, lane, job,
				   before(builder, event->time_ns, event->took_ns));
	if (!slice)
		return;
	slice->end_ns = event->time_ns;
	slice->status = event->status;
	slice->reached = event->cookie;
	lane->open = NONE;
	if (job->asked != NONE) {
		struct trace_mark *mark = (struct trace_mark *)builder->marks.items + job->asked;

		if (!mark->left_ns)
			mark->left_ns = event->time_ns;
	}
	if (event->status == DISTMIND_DONE_YIELDED) {
		slice->end = TRACE_YIELDED;
		return;
	}
	slice->end = event->status ? TRACE_FAILED : TRACE_FINISHED;
	drop_job(builder, job);
}

static void job_is_preempted(struct builder *builder, const struct trace_event *event,
			     struct job *job)
{
	struct trace_mark mark = { .kind = event->kind, .gpu = event->gpu, .lane = event->lane,
				   .vgpu = event->vgpu, .job = event->job,
				   .time_ns = event->time_ns, .status = event->status };

	if (event->kind == TRACE_ASK)
		job->asked = builder->marks.count;
	append(builder, &builder->marks, &mark, sizeof(mark));
}

static void group_arrives(struct builder *builder, const struct trace_event *event)
{
	struct trace_arrival arrival = {
		.gpu = event->gpu, .vgpu = event->vgpu, .timeline = event->job,
		.group = event->cookie, .status = event->status, .end_ns = event->time_ns,
		.begin_ns = before(builder, event->time_ns, event->took_ns),
	};

	append(builder, &builder->arrivals, &arrival, sizeof(arrival));
}

static void request_ends(struct builder *builder, const struct trace_event *event)
{
	struct trace_request request = {
		.gpu = event->gpu, .vgpu = event->vgpu, .client = event->cookie, .id = event->job,
		.begin_ns = before(builder, event->time_ns, event->took_ns),
		.end_ns = event->time_ns, .took_ns = event->took_ns, .status = event->status,
		.missed = event->missed,
	};

	memcpy(request.parts, event->parts, sizeof(request.parts));
	append(builder, &builder->requests, &request, sizeof(request));
}

static void take(struct builder *builder, const struct trace_event *event)
{
	struct lane *lane = NULL;
	struct job *job;

	if (event->kind == TRACE_REQUEST) {
		request_ends(builder, event);
		return;
	}
	if (event->kind == TRACE_SIGNAL) {
		group_arrives(builder, event);
		return;
	}
	job = find_job(builder, event);
	if (!job)
		return;
	if (event->kind != TRACE_READY)
		lane = find_lane(builder, event->gpu, event->lane);
	if (event->kind != TRACE_READY && !lane)
		return;
	if (event->kind == TRACE_READY || event->kind == TRACE_START) {
		job->type = event->type;
		job->operation = event->operation;
	}
	switch (event->kind) {
	case TRACE_READY:
		job->ready_ns = event->time_ns;
		job->blocks = event->blocks;
		break;
	case TRACE_START:
		job_starts(builder, event, job, lane);
		break;
	case TRACE_STOP:
		job_stops(builder, event, job, lane);
		break;
	default:
		job_is_preempted(builder, event, job);
	}
}

static void wait_goes_on(const void *node, VISIT visit, void *arg)
{
	const struct job *job = *(struct job *const *)node;
	struct builder *builder = arg;

	if ((visit == postorder || visit == leaf) && job->ready_ns)
		add_wait(builder, job, job->ready_ns, builder->end_ns, true);
}

/* Of one time: a job is asked, leaves, is ready again, and another one gets the lane. */
static int compare_events(const void *a, const void *b)
{
	static const int turn[TRACE_KINDS] = { [TRACE_STOP] = 1, [TRACE_READY] = 2,
					       [TRACE_START] = 3 };
	const struct trace_event *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return order(x->time_ns, y->time_ns);
	return turn[x->kind] - turn[y->kind];
}

static int compare_slices(const void *a, const void *b)
{
	const struct trace_slice *x = a, *y = b;

	if (x->gpu != y->gpu)
		return order(x->gpu, y->gpu);
	if (x->lane != y->lane)
		return order(x->lane, y->lane);
	return order(x->begin_ns, y->begin_ns);
}

static int compare_waits(const void *a, const void *b)
{
	const struct trace_wait *x = a, *y = b;

	if (x->gpu != y->gpu)
		return order(x->gpu, y->gpu);
	if (x->vgpu != y->vgpu)
		return order(x->vgpu, y->vgpu);
	return order(x->begin_ns, y->begin_ns);
}

static int compare_requests(const void *a, const void *b)
{
	const struct trace_request *x = a, *y = b;

	if (x->gpu != y->gpu)
		return order(x->gpu, y->gpu);
	if (x->vgpu != y->vgpu)
		return order(x->vgpu, y->vgpu);
	return order(x->begin_ns, y->begin_ns);
}

static int compare_lanes(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;

	bool copies = x->is.type == DISTMIND_JOB_COPY;

	if (x->is.gpu != y->is.gpu)
		return order(x->is.gpu, y->is.gpu);
	if (copies != (y->is.type == DISTMIND_JOB_COPY))
		return copies ? -1 : 1;
	return order(x->is.lane, y->is.lane);
}

static int compare_arrivals(const void *a, const void *b)
{
	const struct trace_arrival *x = a, *y = b;

	return x->gpu != y->gpu ? order(x->gpu, y->gpu) : order(x->begin_ns, y->begin_ns);
}

static int compare_gpus(const void *a, const void *b)
{
	const struct trace_gpu *x = a, *y = b;

	return order(x->gpu, y->gpu);
}

static int compare_vgpus(const void *a, const void *b)
{
	const struct trace_vgpu *x = a, *y = b;

	return x->gpu != y->gpu ? order(x->gpu, y->gpu) : order(x->vgpu, y->vgpu);
}

static void sort(struct list *list, size_t size, int (*compare)(const void *, const void *))
{
	if (list->count)
		qsort(list->items, list->count, size, compare);
}

static struct trace_gpu *find_gpu(struct builder *builder, uint32_t gpu)
{
	struct trace_gpu *gpus = builder->gpus.items;
	struct trace_gpu new = { .gpu = gpu };
	size_t i;

	for (i = 0; i < builder->gpus.count; i++) {
		if (gpus[i].gpu == gpu)
			return &gpus[i];
	}
	return append(builder, &builder->gpus, &new, sizeof(new));
}

/* There are hundreds at most. */
static struct trace_vgpu *find_vgpu(struct builder *builder, uint32_t gpu, uint32_t vgpu)
{
	struct trace_vgpu *vgpus = builder->vgpus.items;
	struct trace_vgpu new = { .gpu = gpu, .vgpu = vgpu };
	size_t i;

	for (i = 0; i < builder->vgpus.count; i++) {
		if (vgpus[i].gpu == gpu && vgpus[i].vgpu == vgpu)
			return &vgpus[i];
	}
	return append(builder, &builder->vgpus, &new, sizeof(new));
}

/* The first row that is free again; ends has when each row is, of the vgpu so far. */
static uint32_t place(struct builder *builder, uint32_t *rows, uint64_t begin_ns, uint64_t end_ns,
		      struct list *ends)
{
	uint64_t *free_ns = ends->items;
	uint32_t row;

	if (!*rows)
		ends->count = 0;
	for (row = 0; row < *rows; row++) {
		if (free_ns[row] <= begin_ns)
			break;
	}
	if (row < *rows)
		free_ns[row] = end_ns;
	else if (append(builder, ends, &end_ns, sizeof(end_ns)))
		++*rows;
	return row;
}

static void place_requests(struct builder *builder)
{
	struct trace_request *request = builder->requests.items;
	struct list ends = { 0 };
	struct trace_vgpu *vgpu;
	size_t i;

	for (i = 0; i < builder->requests.count; i++, request++) {
		vgpu = find_vgpu(builder, request->gpu, request->vgpu);
		if (!vgpu)
			break;
		vgpu->requests++;
		vgpu->missed += request->missed;
		request->row = place(builder, &vgpu->request_rows, request->begin_ns,
				     request->end_ns, &ends);
	}
	free(ends.items);
}

/*
 * The row of its load, or one that is free again. The kernel measures and the trace
 * does, a little later each: a group may seem to begin before the last one ended.
 */
static void place_arrival(struct builder *builder, struct trace_gpu *gpu,
			  struct trace_arrival *arrival, struct list *list)
{
	struct row row = { arrival->timeline, arrival->end_ns }, *rows = list->items;
	uint32_t i;

	arrival->row = gpu->rows;
	for (i = 0; i < gpu->rows; i++) {
		if (rows[i].timeline == arrival->timeline) {
			if (arrival->begin_ns < rows[i].end_ns)
				arrival->begin_ns = rows[i].end_ns;
			if (arrival->begin_ns > arrival->end_ns)
				arrival->begin_ns = arrival->end_ns;
			if (row.end_ns < rows[i].end_ns)
				row.end_ns = rows[i].end_ns;
			arrival->row = i;
			break;
		}
		if (arrival->row == gpu->rows && rows[i].end_ns <= arrival->begin_ns)
			arrival->row = i;
	}
	if (arrival->row < gpu->rows)
		rows[arrival->row] = row;
	else if (append(builder, list, &row, sizeof(row)))
		gpu->rows++;
}

static void place_arrivals(struct builder *builder)
{
	struct trace_arrival *arrivals = builder->arrivals.items;
	struct list rows = { 0 };
	struct trace_gpu *gpu;
	size_t i;

	for (i = 0; i < builder->arrivals.count; i++) {
		gpu = find_gpu(builder, arrivals[i].gpu);
		if (!gpu)
			break;
		if (!gpu->rows)
			rows.count = 0;
		place_arrival(builder, gpu, &arrivals[i], &rows);
	}
	free(rows.items);
}

/* Where the slices of each lane are, and what they are. */
static void fill_lanes(struct builder *builder)
{
	struct trace_slice *slice = builder->slices.items;
	struct trace_lane *lane = NULL;
	size_t i;

	for (i = 0; i < builder->slices.count; i++, slice++) {
		if (!lane || lane->gpu != slice->gpu || lane->lane != slice->lane) {
			lane = &find_lane(builder, slice->gpu, slice->lane)->is;
			lane->first = i;
		}
		lane->count++;
		if (slice->type == DISTMIND_JOB_COPY || slice->type == DISTMIND_JOB_LAUNCH)
			lane->type = slice->type;
	}
}

static void count_vgpus(struct builder *builder)
{
	struct trace_arrival *arrivals = builder->arrivals.items;
	struct trace_slice *slices = builder->slices.items;
	struct trace_wait *waits = builder->waits.items;
	struct trace_mark *marks = builder->marks.items;
	struct trace_vgpu *vgpu;
	struct list ends = { 0 };
	size_t i;

	for (i = 0; i < builder->slices.count; i++) {
		vgpu = find_vgpu(builder, slices[i].gpu, slices[i].vgpu);
		if (!vgpu)
			return;
		vgpu->slices++;
		vgpu->busy_ns += slices[i].end_ns - slices[i].begin_ns;
	}
	for (i = 0; i < builder->marks.count; i++) {
		vgpu = find_vgpu(builder, marks[i].gpu, marks[i].vgpu);
		if (!vgpu)
			return;
		vgpu->asked += marks[i].kind == TRACE_ASK;
	}
	for (i = 0; i < builder->arrivals.count; i++) {
		vgpu = find_vgpu(builder, arrivals[i].gpu, arrivals[i].vgpu);
		if (!vgpu)
			return;
		vgpu->groups++;
		vgpu->load_ns += arrivals[i].end_ns - arrivals[i].begin_ns;
	}
	for (i = 0; i < builder->waits.count; i++) {
		vgpu = find_vgpu(builder, waits[i].gpu, waits[i].vgpu);
		if (!vgpu)
			break;
		vgpu->wait_ns += waits[i].end_ns - waits[i].begin_ns;
		waits[i].row = place(builder, &vgpu->rows, waits[i].begin_ns, waits[i].end_ns,
				     &ends);
	}
	free(ends.items);
}

/* Every gpu has a vgpu that something is told of. */
static void find_gpus(struct builder *builder)
{
	struct trace_vgpu *vgpus = builder->vgpus.items;
	size_t i;

	for (i = 0; i < builder->vgpus.count; i++)
		find_gpu(builder, vgpus[i].gpu);
}

/* The writers know lanes without what is open on them. */
static void give_lanes(struct builder *builder, struct trace_model *model)
{
	struct lane *lanes = builder->lanes.items;
	struct list given = { 0 };
	size_t i;

	for (i = 0; i < builder->lanes.count; i++)
		append(builder, &given, &lanes[i].is, sizeof(lanes[i].is));
	free(lanes);
	model->lanes = given.items;
	model->lane_count = given.count;
}

int trace_model_build(struct trace_event *events, size_t count, uint64_t begin_ns,
		      uint64_t end_ns, struct trace_model *model)
{
	struct builder builder = { .begin_ns = begin_ns, .end_ns = end_ns };
	size_t i;

	if (count)
		qsort(events, count, sizeof(*events), compare_events);
	for (i = 0; i < count && !builder.out_of_memory; i++) {
		if (events[i].time_ns >= begin_ns && events[i].time_ns <= end_ns)
			take(&builder, &events[i]);
	}
	twalk_r(builder.jobs, wait_goes_on, &builder);
	tdestroy(builder.jobs, free);
	sort(&builder.slices, sizeof(struct trace_slice), compare_slices);
	sort(&builder.waits, sizeof(struct trace_wait), compare_waits);
	sort(&builder.requests, sizeof(struct trace_request), compare_requests);
	sort(&builder.arrivals, sizeof(struct trace_arrival), compare_arrivals);
	fill_lanes(&builder);
	sort(&builder.lanes, sizeof(struct lane), compare_lanes);
	place_arrivals(&builder);
	count_vgpus(&builder);
	place_requests(&builder);
	sort(&builder.vgpus, sizeof(struct trace_vgpu), compare_vgpus);
	find_gpus(&builder);
	sort(&builder.gpus, sizeof(struct trace_gpu), compare_gpus);
	*model = (struct trace_model){
		.begin_ns = begin_ns, .end_ns = end_ns,
		.slices = builder.slices.items, .slice_count = builder.slices.count,
		.waits = builder.waits.items, .wait_count = builder.waits.count,
		.requests = builder.requests.items, .request_count = builder.requests.count,
		.marks = builder.marks.items, .mark_count = builder.marks.count,
		.arrivals = builder.arrivals.items, .arrival_count = builder.arrivals.count,
		.gpus = builder.gpus.items, .gpu_count = builder.gpus.count,
		.vgpus = builder.vgpus.items, .vgpu_count = builder.vgpus.count,
	};
	give_lanes(&builder, model);
	if (!builder.out_of_memory)
		return 0;
	trace_model_free(model);
	return -ENOMEM;
}

void trace_model_free(struct trace_model *model)
{
	free(model->slices);
	free(model->waits);
	free(model->requests);
	free(model->marks);
	free(model->arrivals);
	free(model->gpus);
	free(model->lanes);
	free(model->vgpus);
	*model = (struct trace_model){ 0 };
}

static void span(uint64_t *from, uint64_t *to, uint64_t begin_ns, uint64_t end_ns)
{
	*from = begin_ns < *from ? begin_ns : *from;
	*to = end_ns > *to ? end_ns : *to;
}

void trace_model_crop(struct trace_model *model)
{
	uint64_t from = UINT64_MAX, to = 0;
	size_t i;

	for (i = 0; i < model->slice_count; i++)
		span(&from, &to, model->slices[i].begin_ns, model->slices[i].end_ns);
	for (i = 0; i < model->wait_count; i++)
		span(&from, &to, model->waits[i].begin_ns, model->waits[i].end_ns);
	for (i = 0; i < model->request_count; i++)
		span(&from, &to, model->requests[i].begin_ns, model->requests[i].end_ns);
	for (i = 0; i < model->mark_count; i++)
		span(&from, &to, model->marks[i].time_ns, model->marks[i].time_ns);
	for (i = 0; i < model->arrival_count; i++)
		span(&from, &to, model->arrivals[i].begin_ns, model->arrivals[i].end_ns);
	if (from > to)
		return;
	model->begin_ns = from;
	model->end_ns = to;
}

size_t trace_model_vgpu(const struct trace_model *model, uint32_t gpu, uint32_t vgpu)
{
	struct trace_vgpu key = { .gpu = gpu, .vgpu = vgpu };
	const struct trace_vgpu *found = bsearch(&key, model->vgpus, model->vgpu_count,
						 sizeof(key), compare_vgpus);

	/* Every vgpu of a slice, wait, request, mark or arrival is there. */
	return (size_t)(found - model->vgpus);
}
