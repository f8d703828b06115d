// SPDX-License-Identifier: GPL-2.0-or-later
/* From events to slices, waits, requests, marks and arrivals, as JSON and as a picture. */
#include "ctl_fake.h"

#include "../../userspace/distmindctl/trace_write.h"

#define MS	1000000ULL
#define BEGIN	(5000 * MS)
#define END	(5100 * MS)

/*
 * Training of vgpu 1 is asked to yield at 10 ms, leaves lane 0 at 11 ms for a
 * request of vgpu 2 and goes on at 15 ms.
 */
static const struct trace_event preemption[] = {
	{ .kind = TRACE_READY, .time_ns = BEGIN, .vgpu = 1, .job = 70, .operation = 2,
	  .blocks = 9 },
	{ .kind = TRACE_START, .time_ns = BEGIN + 1 * MS, .vgpu = 1, .job = 70, .operation = 2,
	  .took_ns = 1 * MS },
	{ .kind = TRACE_READY, .time_ns = BEGIN + 10 * MS, .vgpu = 2, .job = 71, .operation = 3,
	  .blocks = 4 },
	{ .kind = TRACE_ASK, .time_ns = BEGIN + 10 * MS, .vgpu = 1, .job = 70 },
	{ .kind = TRACE_STOP, .time_ns = BEGIN + 11 * MS, .vgpu = 1, .job = 70, .status = 1,
	  .cookie = 5, .took_ns = 10 * MS },
	{ .kind = TRACE_READY, .time_ns = BEGIN + 11 * MS, .vgpu = 1, .job = 70, .operation = 2,
	  .blocks = 9, .cookie = 5 },
	{ .kind = TRACE_START, .time_ns = BEGIN + 11 * MS, .vgpu = 2, .job = 71, .operation = 3,
	  .took_ns = 1 * MS },
	{ .kind = TRACE_STOP, .time_ns = BEGIN + 15 * MS, .vgpu = 2, .job = 71,
	  .took_ns = 4 * MS },
	{ .kind = TRACE_START, .time_ns = BEGIN + 15 * MS, .vgpu = 1, .job = 70, .operation = 2,
	  .cookie = 5, .took_ns = 4 * MS },
	{ .kind = TRACE_STOP, .time_ns = BEGIN + 20 * MS, .vgpu = 1, .job = 70,
	  .took_ns = 5 * MS },
};

/*
 * Two loads for vgpu 3: groups 1 and 2 of the first come at 10 and 20 ms, all of the
 * second at 18 ms. Lane 1 copies group 1 of the first.
 */
static const struct trace_event loads[] = {
	{ .kind = TRACE_SIGNAL, .time_ns = BEGIN + 10 * MS, .vgpu = 3, .job = 50, .cookie = 1,
	  .took_ns = 8 * MS },
	{ .kind = TRACE_START, .time_ns = BEGIN + 11 * MS, .vgpu = 3, .lane = 1, .job = 70,
	  .type = DISTMIND_JOB_COPY },
	{ .kind = TRACE_STOP, .time_ns = BEGIN + 13 * MS, .vgpu = 3, .lane = 1, .job = 70 },
	{ .kind = TRACE_START, .time_ns = BEGIN + 13 * MS, .vgpu = 1, .job = 71,
	  .type = DISTMIND_JOB_LAUNCH },
	{ .kind = TRACE_STOP, .time_ns = BEGIN + 30 * MS, .vgpu = 1, .job = 71 },
	{ .kind = TRACE_SIGNAL, .time_ns = BEGIN + 18 * MS, .vgpu = 3, .job = 51, .cookie = 4,
	  .took_ns = 5 * MS },
	/* By the kernel's clock it began before group 1 had come. */
	{ .kind = TRACE_SIGNAL, .time_ns = BEGIN + 20 * MS, .vgpu = 3, .job = 50, .cookie = 2,
	  .took_ns = 10 * MS + 500 },
};

static struct trace_model build(const struct trace_event *events, size_t count)
{
	struct trace_event *copy = malloc(count * sizeof(*copy) + 1);
	struct trace_model model;

	memcpy(copy, events, count * sizeof(*copy));
	assert_int_equal(trace_model_build(copy, count, BEGIN, END, &model), 0);
	free(copy);
	return model;
}

static void assert_slice(const struct trace_slice *slice, uint32_t vgpu, uint64_t begin_ms,
			 uint64_t end_ms, enum trace_end end)
{
	assert_int_equal(slice->vgpu, vgpu);
	assert_int_equal(slice->begin_ns, BEGIN + begin_ms * MS);
	assert_int_equal(slice->end_ns, BEGIN + end_ms * MS);
	assert_int_equal(slice->end, end);
}

static void a_preempted_job_has_a_slice_before_and_one_after(void **state)
{
	struct trace_model model = build(preemption, COUNT(preemption));

	(void)state;
	assert_int_equal(model.slice_count, 3);
	assert_slice(&model.slices[0], 1, 1, 11, TRACE_YIELDED);
	assert_int_equal(model.slices[0].reached, 5);
	assert_int_equal(model.slices[0].blocks, 9);
	assert_slice(&model.slices[1], 2, 11, 15, TRACE_FINISHED);
	assert_slice(&model.slices[2], 1, 15, 20, TRACE_FINISHED);
	assert_int_equal(model.slices[2].cookie, 5);
	assert_int_equal(model.lane_count, 1);
	assert_int_equal(model.mark_count, 1);
	assert_int_equal(model.marks[0].left_ns, BEGIN + 11 * MS);
	assert_int_equal(model.marks[0].resumed_ns, BEGIN + 15 * MS);
	assert_int_equal(model.vgpu_count, 2);
	assert_int_equal(model.vgpus[0].busy_ns, 15 * MS);
	assert_int_equal(model.vgpus[0].wait_ns, 5 * MS);
	assert_int_equal(model.vgpus[0].asked, 1);
	assert_int_equal(model.vgpus[1].wait_ns, 1 * MS);
	assert_int_equal(trace_model_vgpu(&model, 0, 2), 1);
	trace_model_free(&model);
}

static void the_order_of_events_does_not_matter(void **state)
{
	struct trace_event events[COUNT(preemption)];
	struct trace_model model;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(preemption); i++)
		events[i] = preemption[(i + 1) * 7 % COUNT(preemption)];
	model = build(events, COUNT(events));
	assert_int_equal(model.slice_count, 3);
	assert_slice(&model.slices[0], 1, 1, 11, TRACE_YIELDED);
	assert_slice(&model.slices[2], 1, 15, 20, TRACE_FINISHED);
	trace_model_free(&model);
}

static void what_is_cut_off_ends_at_the_edges(void **state)
{
	static const struct trace_event events[] = {
		/* Was running before the trace began, and waited. */
		{ .kind = TRACE_STOP, .time_ns = BEGIN + 5 * MS, .vgpu = 1, .job = 1,
		  .took_ns = 900 * MS },
		{ .kind = TRACE_START, .time_ns = BEGIN + 6 * MS, .vgpu = 2, .job = 2,
		  .took_ns = 900 * MS },
		{ .kind = TRACE_READY, .time_ns = BEGIN + 8 * MS, .vgpu = 3, .job = 3 },
		/* Not of this time. */
		{ .kind = TRACE_STOP, .time_ns = END + 1, .vgpu = 2, .job = 2, .took_ns = 1 },
		{ .kind = TRACE_STOP, .time_ns = BEGIN - 1, .vgpu = 2, .job = 9, .took_ns = 1 },
	};
	struct trace_model model = build(events, COUNT(events));

	(void)state;
	assert_int_equal(model.slice_count, 2);
	assert_slice(&model.slices[0], 1, 0, 5, TRACE_FINISHED);
	assert_int_equal(model.slices[0].type, TRACE_TYPE_UNKNOWN);
	assert_slice(&model.slices[1], 2, 6, 100, TRACE_GOES_ON);
	assert_int_equal(model.wait_count, 2);
	assert_int_equal(model.waits[0].begin_ns, BEGIN);
	assert_int_equal(model.waits[0].end_ns, BEGIN + 6 * MS);
	assert_int_equal(model.waits[1].vgpu, 3);
	assert_int_equal(model.waits[1].end_ns, END);
	assert_true(model.waits[1].goes_on);
	trace_model_free(&model);
}

static void a_lost_stop_does_not_hide_what_follows(void **state)
{
	static const struct trace_event events[] = {
		{ .kind = TRACE_START, .time_ns = BEGIN + 1 * MS, .vgpu = 1, .job = 1 },
		{ .kind = TRACE_START, .time_ns = BEGIN + 4 * MS, .vgpu = 2, .job = 2 },
		/* And the start of this one. */
		{ .kind = TRACE_STOP, .time_ns = BEGIN + 9 * MS, .vgpu = 1, .job = 3,
		  .status = -ETIME, .took_ns = 2 * MS },
	};
	struct trace_model model = build(events, COUNT(events));

	(void)state;
	assert_int_equal(model.slice_count, 3);
	assert_slice(&model.slices[0], 1, 1, 4, TRACE_UNKNOWN);
	assert_slice(&model.slices[1], 2, 4, 7, TRACE_UNKNOWN);
	assert_slice(&model.slices[2], 1, 7, 9, TRACE_FAILED);
	assert_int_equal(model.slices[2].status, -ETIME);
	trace_model_free(&model);
}

static void waits_that_overlap_have_rows_of_their_own(void **state)
{
	struct trace_event events[12] = { 0 };
	struct trace_model model;
	size_t i, j;

	(void)state;
	/* Jobs that become ready every 2 ms, wait for 5 and run on six lanes. */
	for (i = 0; i < COUNT(events); i++)
		events[i] = (struct trace_event){ .kind = TRACE_START, .vgpu = 1, .job = i,
						  .lane = i % 6, .took_ns = 5 * MS,
						  .time_ns = BEGIN + (5 + 2 * i) * MS };
	model = build(events, COUNT(events));
	assert_int_equal(model.wait_count, COUNT(events));
	assert_int_equal(model.vgpus[0].rows, 3);
	for (i = 0; i < model.wait_count; i++) {
		for (j = i + 1; j < model.wait_count; j++) {
			if (model.waits[i].row == model.waits[j].row)
				assert_true(model.waits[i].end_ns <= model.waits[j].begin_ns);
		}
	}
	trace_model_free(&model);
}

/* A group of a load for vgpu 3. */
static struct trace_event group_came(uint64_t end_ms, uint64_t timeline, uint64_t group,
				     uint64_t took_ms)
{
	return (struct trace_event){
		.kind = TRACE_SIGNAL, .time_ns = BEGIN + end_ms * MS, .vgpu = 3, .job = timeline,
		.cookie = group, .took_ns = took_ms * MS,
	};
}

static void assert_arrival(const struct trace_arrival *arrival, uint64_t timeline, uint64_t group,
			   uint64_t begin_ms, uint64_t end_ms, uint32_t row)
{
	assert_int_equal(arrival->timeline, timeline);
	assert_int_equal(arrival->group, group);
	assert_int_equal(arrival->begin_ns, BEGIN + begin_ms * MS);
	assert_int_equal(arrival->end_ns, BEGIN + end_ms * MS);
	assert_int_equal(arrival->row, row);
}

static void groups_follow_each_other_on_the_row_of_their_load(void **state)
{
	struct trace_model model = build(loads, COUNT(loads));

	(void)state;
	assert_int_equal(model.arrival_count, 3);
	assert_arrival(&model.arrivals[0], 50, 1, 2, 10, 0);
	assert_arrival(&model.arrivals[1], 50, 2, 10, 20, 0);
	assert_arrival(&model.arrivals[2], 51, 4, 13, 18, 1);
	assert_int_equal(model.gpu_count, 1);
	assert_int_equal(model.gpus[0].rows, 2);
	assert_int_equal(model.vgpus[1].vgpu, 3);
	assert_int_equal(model.vgpus[1].groups, 3);
	assert_int_equal(model.vgpus[1].load_ns, 23 * MS);
	assert_int_equal(model.vgpus[1].busy_ns, 2 * MS);
	trace_model_free(&model);
}

/* The second seems to begin first, as it was measured a little later. */
static void groups_that_come_at_once_end_where_they_begin(void **state)
{
	const struct trace_event events[] = {
		group_came(5, 50, 1, 2), group_came(6, 50, 2, 4), group_came(9, 50, 3, 4),
	};
	struct trace_model model = build(events, COUNT(events));

	(void)state;
	assert_int_equal(model.arrival_count, 3);
	assert_arrival(&model.arrivals[0], 50, 2, 2, 6, 0);
	assert_arrival(&model.arrivals[1], 50, 1, 5, 5, 0);
	assert_arrival(&model.arrivals[2], 50, 3, 6, 9, 0);
	trace_model_free(&model);
}

static void a_load_that_is_over_leaves_its_row_to_the_next(void **state)
{
	const struct trace_event events[] = {
		group_came(5, 50, 1, 900),
		group_came(9, 51, 1, 3),
		/* Another gpu has rows of its own. */
		{ .kind = TRACE_SIGNAL, .time_ns = BEGIN + 9 * MS, .gpu = 1, .vgpu = 4, .job = 52,
		  .cookie = 1, .took_ns = 9 * MS, .status = -EIO },
	};
	struct trace_model model = build(events, COUNT(events));

	(void)state;
	assert_int_equal(model.arrival_count, 3);
	assert_arrival(&model.arrivals[0], 50, 1, 0, 5, 0);
	assert_arrival(&model.arrivals[1], 51, 1, 6, 9, 0);
	assert_arrival(&model.arrivals[2], 52, 1, 0, 9, 0);
	assert_int_equal(model.arrivals[2].status, -EIO);
	assert_int_equal(model.gpu_count, 2);
	assert_int_equal(model.gpus[0].rows, 1);
	assert_int_equal(model.gpus[1].rows, 1);
	trace_model_free(&model);
}

static void copies_come_before_what_is_computed_with_them(void **state)
{
	struct trace_model model = build(loads, COUNT(loads));

	(void)state;
	assert_int_equal(model.lane_count, 2);
	assert_int_equal(model.lanes[0].lane, 1);
	assert_int_equal(model.lanes[0].count, 1);
	assert_int_equal(model.slices[model.lanes[0].first].job, 70);
	assert_string_equal(trace_lane_name(&model.lanes[0]), "copy");
	assert_int_equal(model.lanes[1].lane, 0);
	assert_int_equal(model.slices[model.lanes[1].first].job, 71);
	assert_string_equal(trace_lane_name(&model.lanes[1]), "compute");
	trace_model_free(&model);
}

static void a_cropped_trace_is_as_long_as_what_happened(void **state)
{
	struct trace_model model = build(loads, COUNT(loads));

	(void)state;
	trace_model_crop(&model);
	assert_int_equal(model.begin_ns, BEGIN + 2 * MS);
	assert_int_equal(model.end_ns, BEGIN + 30 * MS);
	trace_model_free(&model);
	model = build(loads, 0);
	trace_model_crop(&model);
	assert_int_equal(model.begin_ns, BEGIN);
	assert_int_equal(model.end_ns, END);
	trace_model_free(&model);
}

static char *written(void (*write)(const struct trace_model *, const struct trace_names *,
				   uint64_t, FILE *),
		     const struct trace_model *model, uint64_t lost)
{
	static struct trace_name gpus[] = { { .id = 0, .name = "cpu0" } };
	static struct trace_name vgpus[] = { { .id = 1, .name = "train" } };
	struct trace_names names = { gpus, 1, vgpus, 1 };
	FILE *out;
	char *text;
	size_t len;

	out = open_memstream(&text, &len);
	write(model, &names, lost, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static json_t *json_of(const struct trace_model *model)
{
	char *text = written(trace_json_write, model, 17);
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fail_msg("%s in: %s", error.text, text);
	free(text);
	return root;
}

/* The n-th event of a phase, and of a name if that is not NULL. */
static json_t *event_of(json_t *root, const char *phase, const char *name, unsigned int n)
{
	json_t *event;
	size_t i;

	json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
		if (strcmp(json_string_value(json_object_get(event, "ph")), phase))
			continue;
		if (name && strcmp(json_string_value(json_object_get(event, "name")), name))
			continue;
		if (!n--)
			return event;
	}
	return NULL;
}

static double number_in(json_t *event, const char *key)
{
	json_t *value = json_object_get(event, key);

	if (!value)
		value = json_object_get(json_object_get(event, "args"), key);
	assert_true(json_is_number(value));
	return json_number_value(value);
}

static const char *text_in(json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(json_object_get(event, "args"), key));

	assert_non_null(text);
	return text;
}

static void json_has_a_thread_for_each_lane_and_its_jobs(void **state)
{
	struct trace_model model = build(preemption, COUNT(preemption));
	json_t *root = json_of(&model), *lane, *job;

	(void)state;
	assert_int_equal(number_in(json_object_get(root, "otherData"), "lost_events"), 17);
	assert_string_equal(text_in(event_of(root, "M", "process_name", 0), "name"),
			    "gpu 0 (cpu0)");
	lane = event_of(root, "M", "thread_name", 0);
	assert_string_equal(text_in(lane, "name"), "lane 0 (compute)");
	assert_null(event_of(root, "M", "process_name", 1));
	job = event_of(root, "X", NULL, 0);
	assert_int_equal(number_in(job, "pid"), number_in(lane, "pid"));
	assert_int_equal(number_in(job, "tid"), number_in(lane, "tid"));
	assert_int_equal(number_in(job, "ts"), 1000);
	assert_int_equal(number_in(job, "dur"), 10000);
	assert_int_equal(number_in(job, "vgpu"), 1);
	assert_int_equal(number_in(job, "operation"), 2);
	assert_int_equal(number_in(job, "blocks"), 9);
	assert_int_equal(number_in(job, "cookie"), 0);
	assert_int_equal(number_in(job, "reached"), 5);
	assert_string_equal(text_in(job, "end"), "yielded");
	json_decref(root);
	trace_model_free(&model);
}

static void json_has_waits_on_a_thread_for_each_vgpu(void **state)
{
	struct trace_model model = build(preemption, COUNT(preemption));
	json_t *root = json_of(&model), *train, *serve;

	(void)state;
	train = event_of(root, "M", "thread_name", 1);
	serve = event_of(root, "M", "thread_name", 2);
	assert_string_equal(text_in(train, "name"), "vgpu 1 (train) waits");
	assert_string_equal(text_in(serve, "name"), "vgpu 2 waits");
	assert_int_equal(number_in(event_of(root, "X", "wait", 1), "tid"), number_in(train, "tid"));
	assert_int_equal(number_in(event_of(root, "X", "wait", 1), "ts"), 11000);
	assert_int_equal(number_in(event_of(root, "X", "wait", 2), "tid"), number_in(serve, "tid"));
	assert_null(event_of(root, "X", "wait", 3));
	json_decref(root);
	trace_model_free(&model);
}

/* Two of vgpu 2 at the same time, one of which began before the trace, and one after. */
static void json_has_requests_and_where_their_time_went(void **state)
{
	static const struct trace_event requests[] = {
		{ .kind = TRACE_REQUEST, .time_ns = BEGIN + 10 * MS, .vgpu = 2, .job = 5,
		  .cookie = 9, .took_ns = 8 * MS, .missed = true,
		  .parts = { [DISTMIND_REQUEST_PHASE_LANE] = 750,
			     [DISTMIND_REQUEST_PHASE_RUN] = 250 } },
		{ .kind = TRACE_REQUEST, .time_ns = BEGIN + 12 * MS, .vgpu = 2, .job = 6,
		  .took_ns = 30 * MS, .status = -5 },
		{ .kind = TRACE_REQUEST, .time_ns = BEGIN + 20 * MS, .vgpu = 2, .job = 7,
		  .took_ns = 1 * MS },
	};
	struct trace_model model = build(requests, COUNT(requests));
	json_t *root = json_of(&model), *row, *other, *request;

	(void)state;
	assert_int_equal(model.vgpus[0].requests, 3);
	assert_int_equal(model.vgpus[0].missed, 1);
	assert_int_equal(model.vgpus[0].request_rows, 2);
	row = event_of(root, "M", "thread_name", 0);
	other = event_of(root, "M", "thread_name", 1);
	assert_string_equal(text_in(row, "name"), "vgpu 2 requests");
	request = event_of(root, "X", "request 6", 0);
	assert_int_equal(number_in(request, "tid"), number_in(row, "tid"));
	assert_int_equal(number_in(request, "ts"), 0);
	assert_int_equal(number_in(request, "latency_us"), 30000);
	assert_int_equal(number_in(request, "error"), -5);
	request = event_of(root, "X", "request 5", 0);
	assert_int_equal(number_in(request, "tid"), number_in(other, "tid"));
	assert_int_equal(number_in(request, "ts"), 2000);
	assert_int_equal(number_in(request, "dur"), 8000);
	assert_int_equal(number_in(request, "lane_percent"), 75);
	assert_int_equal(number_in(request, "run_percent"), 25);
	assert_true(json_is_true(json_object_get(json_object_get(request, "args"), "missed")));
	assert_int_equal(number_in(event_of(root, "X", "request 7", 0), "tid"),
			 number_in(row, "tid"));
	json_decref(root);
	trace_model_free(&model);
}

static void json_has_an_arrow_from_a_preemption_to_where_the_job_goes_on(void **state)
{
	struct trace_model model = build(preemption, COUNT(preemption));
	json_t *root = json_of(&model), *mark, *from, *to;

	(void)state;
	mark = event_of(root, "i", "asked to yield", 0);
	assert_int_equal(number_in(mark, "ts"), 10000);
	assert_int_equal(number_in(mark, "latency_us"), 1000);
	from = event_of(root, "s", NULL, 0);
	to = event_of(root, "f", NULL, 0);
	assert_int_equal(number_in(from, "id"), number_in(to, "id"));
	assert_int_equal(number_in(from, "ts"), 10000);
	assert_int_equal(number_in(to, "ts"), 15000);
	json_decref(root);
	trace_model_free(&model);
}

static void json_has_a_thread_for_each_load_with_its_groups(void **state)
{
	struct trace_model model = build(loads, COUNT(loads));
	json_t *root = json_of(&model), *row, *group;

	(void)state;
	row = event_of(root, "M", "thread_name", 0);
	assert_string_equal(text_in(row, "name"), "network 0");
	group = event_of(root, "X", "group 2", 0);
	assert_int_equal(number_in(group, "pid"), number_in(row, "pid"));
	assert_int_equal(number_in(group, "tid"), number_in(row, "tid"));
	assert_int_equal(number_in(group, "ts"), 10000);
	assert_int_equal(number_in(group, "dur"), 10000);
	assert_int_equal(number_in(group, "vgpu"), 3);
	assert_int_equal(number_in(group, "timeline"), 50);
	assert_int_equal(number_in(group, "error"), 0);
	row = event_of(root, "M", "thread_name", 1);
	assert_string_equal(text_in(row, "name"), "network 1");
	assert_int_equal(number_in(event_of(root, "X", "group 4", 0), "tid"),
			 number_in(row, "tid"));
	/* No thread of anything else has the same number. */
	assert_string_equal(text_in(event_of(root, "M", "thread_name", 2), "name"),
			    "lane 1 (copy)");
	assert_true(number_in(event_of(root, "X", "copy", 0), "tid") <
		    number_in(event_of(root, "M", "thread_name", 0), "tid"));
	json_decref(root);
	trace_model_free(&model);
}

static unsigned int count_of(const char *text, const char *part)
{
	unsigned int count = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		count++;
	return count;
}

static void the_picture_has_rows_colours_marks_and_a_legend(void **state)
{
	struct trace_model model = build(preemption, COUNT(preemption));
	char *text = written(trace_svg_write, &model, 0);

	(void)state;
	assert_ptr_equal(strstr(text, "<svg "), text);
	assert_contains(text, "prefers-color-scheme:dark");
	assert_null(strstr(text, "<script"));
	assert_null(strstr(text, "lost"));
	assert_contains(text, "100ms: 3 runs of jobs, 1 preemptions");
	assert_contains(text, ">gpu 0 (cpu0)<");
	assert_contains(text, ">lane 0 (compute)<");
	assert_null(strstr(text, "network"));
	assert_contains(text, ">10ms<");
	/* One, and one that is explained. */
	assert_int_equal(count_of(text, "<path class=\"mark\""), 2);
	assert_contains(text, "left the lane after 1ms");
	/* Two runs of training and its square, one of the other and its square, and waits: */
	/* all but the squares are in the large one, too. */
	assert_int_equal(count_of(text, "<rect class=\"c0\""), 5);
	assert_int_equal(count_of(text, "<rect class=\"c1\""), 3);
	assert_int_equal(count_of(text, "<rect class=\"wait c0\""), 3);
	assert_int_equal(count_of(text, "<rect class=\"wait c1\""), 2);
	assert_contains(text, "vgpu 1 (train) on gpu 0: busy 15ms, waited 5ms, preempted 1 times");
	free(text);
	text = written(trace_svg_write, &model, 3);
	assert_contains(text, "3 events were lost");
	free(text);
	trace_model_free(&model);
}

static void the_picture_shows_one_preemption_large(void **state)
{
	struct trace_model model = build(preemption, COUNT(preemption));
	char *text = written(trace_svg_write, &model, 0);

	(void)state;
	assert_contains(text, ">One preemption: vgpu 1 (train) makes room for vgpu 2");
	assert_contains(text, ">asked to yield<");
	assert_contains(text, ">1ms later it has left the lane");
	assert_contains(text, ">goes on<");
	assert_contains(text, ">train<");
	free(text);
	trace_model_free(&model);
}

/* Of three that took 1, 2 and 9 ms to yield: 2. */
static void the_preemption_that_is_shown_is_the_usual_one(void **state)
{
	static const unsigned int took[] = { 9, 1, 2 };
	struct trace_event events[COUNT(took) * 3];
	struct trace_model model;
	size_t i, n = 0;
	char *text;

	(void)state;
	for (i = 0; i < COUNT(took); i++) {
		uint64_t begin = BEGIN + i * 20 * MS;

		events[n++] = (struct trace_event){ .kind = TRACE_START, .vgpu = 1, .job = i + 1,
						    .time_ns = begin };
		events[n++] = (struct trace_event){ .kind = TRACE_ASK, .vgpu = 1, .job = i + 1,
						    .time_ns = begin + 5 * MS };
		events[n++] = (struct trace_event){ .kind = TRACE_STOP, .vgpu = 1, .job = i + 1,
						    .status = DISTMIND_DONE_YIELDED,
						    .time_ns = begin + (5 + took[i]) * MS };
	}
	model = build(events, n);
	text = written(trace_svg_write, &model, 0);
	assert_contains(text, ">2ms later it has left the lane");
	assert_null(strstr(text, ">goes on<"));
	free(text);
	trace_model_free(&model);
}

static void the_picture_has_the_stages_of_a_load(void **state)
{
	struct trace_event events[COUNT(loads) + 1];
	struct trace_model model;
	char *text;

	(void)state;
	memcpy(events, loads, sizeof(loads));
	events[COUNT(loads)] = group_came(60, 50, 3, 40);
	events[COUNT(loads)].status = -EIO;
	model = build(events, COUNT(events));
	text = written(trace_svg_write, &model, 0);
	assert_int_equal(count_of(text, ">network<"), 2);
	assert_true(strstr(text, ">network<") < strstr(text, ">lane 1 (copy)<"));
	assert_true(strstr(text, ">lane 1 (copy)<") < strstr(text, ">lane 0 (compute)<"));
	assert_contains(text, "vgpu 3: group 2 came after 10ms");
	assert_contains(text, ">group 2<");
	assert_int_equal(count_of(text, " failed\""), 1);
	assert_contains(text, "vgpu 3: group 3 failed after 40ms");
	assert_contains(text, "vgpu 3 on gpu 0: busy 2ms, waited 0, preempted 0 times; "
			      "4 groups of weights in 63ms");
	free(text);
	trace_model_free(&model);
}

static void the_picture_of_many_jobs_stays_small(void **state)
{
	size_t i, count = 40000;
	struct trace_event *events = calloc(2 * count, sizeof(*events));
	struct trace_model model;
	char *text;

	(void)state;
	/* Two vgpus in turns, 2 us each. */
	for (i = 0; i < count; i++) {
		events[2 * i] = (struct trace_event){ .kind = TRACE_START, .vgpu = i % 2, .job = i,
						      .time_ns = BEGIN + i * 2000 };
		events[2 * i + 1] = (struct trace_event){ .kind = TRACE_STOP, .vgpu = i % 2,
							  .job = i,
							  .time_ns = BEGIN + i * 2000 + 1999 };
	}
	assert_int_equal(trace_model_build(events, 2 * count, BEGIN, END, &model), 0);
	assert_int_equal(model.slice_count, count);
	text = written(trace_svg_write, &model, 0);
	assert_in_range(count_of(text, "<rect"), 100, 6000);
	free(text);
	trace_model_free(&model);
	free(events);
}

static void nothing_is_a_trace_too(void **state)
{
	struct trace_model model = build(preemption, 0);
	json_t *root = json_of(&model);
	char *text = written(trace_svg_write, &model, 0);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 0);
	assert_contains(text, "No job ran.");
	free(text);
	json_decref(root);
	trace_model_free(&model);
}

static void jobs_have_names(void **state)
{
	static const struct {
		struct trace_slice slice;
		const char *text;
	} cases[] = {
		{ { .type = DISTMIND_JOB_LAUNCH, .operation = 1 }, "spin" },
		{ { .type = DISTMIND_JOB_LAUNCH, .operation = 7777 }, "operation 7777" },
		{ { .type = DISTMIND_JOB_COPY }, "copy" },
		{ { .type = DISTMIND_JOB_GRANT }, "grant" },
		{ { .type = 9 }, "job of type 9" },
		{ { .type = TRACE_TYPE_UNKNOWN }, "job" },
	};
	char text[64];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		trace_job_text(&cases[i].slice, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
}

static void expect(const char *line, int status, const char *out, const char *err)
{
	struct outcome outcome = ctl(line);

	assert_says(outcome.err, err);
	assert_string_equal(outcome.out, out);
	assert_int_equal(outcome.status, status);
	outcome_free(&outcome);
}

static void the_command_wants_a_file_and_a_time_it_can_measure(void **state)
{
	(void)state;
	expect("trace", CTL_USAGE, "", "trace needs --output FILE or --svg FILE");
	expect("trace --duration 5 --svg x", CTL_USAGE, "",
	       "--duration 5 is not a duration from 1ms to 1h, write it as 500ms or 2s");
	expect("trace --svg x lanes", CTL_USAGE, "", "does not know what to do with 'lanes'");
	expect("trace --svg x --gpu cpu7", CTL_FAILED, "", "there is no gpu cpu7");
	expect("trace --svg", CTL_USAGE, "", "--svg needs a value");
	expect("trace --svg /nowhere/x --duration 1ms", CTL_FAILED, "",
	       "cannot write /nowhere/x: No such file or directory; choose another file");
	expect("trace --output a.json --svg b.svg --dry-run", CTL_OK,
	       "would record what the lanes do, and write a.json and b.svg\n", "");
	fake.open_error = -ENOENT;
	expect("trace --svg x", CTL_FAILED, "", "the module distmind is not loaded");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_preempted_job_has_a_slice_before_and_one_after),
		cmocka_unit_test(the_order_of_events_does_not_matter),
		cmocka_unit_test(what_is_cut_off_ends_at_the_edges),
		cmocka_unit_test(a_lost_stop_does_not_hide_what_follows),
		cmocka_unit_test(waits_that_overlap_have_rows_of_their_own),
		cmocka_unit_test(groups_follow_each_other_on_the_row_of_their_load),
		cmocka_unit_test(groups_that_come_at_once_end_where_they_begin),
		cmocka_unit_test(a_load_that_is_over_leaves_its_row_to_the_next),
		cmocka_unit_test(copies_come_before_what_is_computed_with_them),
		cmocka_unit_test(a_cropped_trace_is_as_long_as_what_happened),
		cmocka_unit_test(json_has_a_thread_for_each_lane_and_its_jobs),
		cmocka_unit_test(json_has_waits_on_a_thread_for_each_vgpu),
		cmocka_unit_test(json_has_requests_and_where_their_time_went),
		cmocka_unit_test(json_has_an_arrow_from_a_preemption_to_where_the_job_goes_on),
		cmocka_unit_test(json_has_a_thread_for_each_load_with_its_groups),
		cmocka_unit_test(the_picture_has_rows_colours_marks_and_a_legend),
		cmocka_unit_test(the_picture_shows_one_preemption_large),
		cmocka_unit_test(the_preemption_that_is_shown_is_the_usual_one),
		cmocka_unit_test(the_picture_has_the_stages_of_a_load),
		cmocka_unit_test(the_picture_of_many_jobs_stays_small),
		cmocka_unit_test(nothing_is_a_trace_too),
		cmocka_unit_test(jobs_have_names),
		cmocka_unit_test_setup(the_command_wants_a_file_and_a_time_it_can_measure,
				       fake_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
