// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From top to bottom: a line of figures, the axis, and for each gpu its lanes and
 * below them, thin, the waits of its vgpus; then a legend. Details are titles,
 * which browsers show where the pointer is. What would be narrower than a pixel
 * can show is drawn together with its neighbours, so that the picture's size
 * does not depend on how much happened.
 */
#include <inttypes.h>
#include <string.h>

#include "parse.h"
#include "trace_write.h"

#define WIDTH	 1200
#define LEFT	 150
#define RIGHT	 (WIDTH - 24)
#define TOP	 64
#define LANE	 30 /* height of a row, and what is free below it */
#define LANE_GAP 8
#define WAIT	 6
#define WAIT_GAP 8
#define HEADING	 26
#define LEGEND	 20
#define COLOURS	 10
#define FINE	 0.2 /* pixels that nobody sees */
#define SEAM	 0.6 /* pixels between jobs that follow each other */
#define LETTER	 6.6 /* width of one, about */

static const char style[] =
	"<style>\n"
	"svg{font:12px system-ui,sans-serif;background:#fff}\n"
	"text{fill:#222}.dim{fill:#666}.head{font-weight:600}.in{fill:#fff;font-size:11px}\n"
	".grid{stroke:#ddd}.row{fill:#f3f3f3}.mark{fill:#c1121f}.late{fill:#c1121f}\n"
	".c0{fill:#0072b2}.c1{fill:#e07b00}.c2{fill:#00855f}.c3{fill:#b04a8f}.c4{fill:#6b5bd2}\n"
	".c5{fill:#8a6d00}.c6{fill:#3a8fb7}.c7{fill:#a63d2f}.c8{fill:#5a7d2a}.c9{fill:#6c757d}\n"
	".wait{opacity:.55}.failed{stroke:#c1121f;stroke-width:2}\n"
	"@media(prefers-color-scheme:dark){svg{background:#15171c}text{fill:#e4e6eb}\n"
	".dim{fill:#9aa0aa}.grid{stroke:#30343c}.row{fill:#1f2229}.mark,.late{fill:#ff6b6b}\n"
	".failed{stroke:#ff6b6b}.in{fill:#fff}}\n"
	"</style>\n";

struct writer {
	const struct trace_model *model;
	const struct trace_names *names;
	FILE *out;
};

/* Neighbours of one colour that are drawn as one. */
struct run {
	const struct trace_slice *first;
	size_t colour;
	uint32_t jobs;
	double from, to;
};

static double x_of(const struct trace_model *model, uint64_t time_ns)
{
	uint64_t span = model->end_ns - model->begin_ns;

	return LEFT + (span ? (double)(time_ns - model->begin_ns) / span : 0) * (RIGHT - LEFT);
}

static size_t colour_of(const struct trace_model *model, uint32_t gpu, uint32_t vgpu)
{
	return trace_model_vgpu(model, gpu, vgpu) % COLOURS;
}

/* " (train)", or nothing. */
static void put_label(struct writer *writer, const char *name)
{
	if (*name)
		fprintf(writer->out, " (%s)", name);
}

static void put_gpu(struct writer *writer, uint32_t gpu)
{
	fprintf(writer->out, "gpu %u", gpu);
	put_label(writer, trace_name_of(writer->names->gpus, writer->names->gpu_count, gpu));
}

static void put_vgpu(struct writer *writer, uint32_t vgpu)
{
	fprintf(writer->out, "vgpu %u", vgpu);
	put_label(writer, trace_name_of(writer->names->vgpus, writer->names->vgpu_count, vgpu));
}

static double height_of(const struct trace_model *model)
{
	double height = TOP + LEGEND * (model->vgpu_count + 1.0);
	size_t i;

	for (i = 0; i < model->lane_count; i++) {
		height += LANE + LANE_GAP;
		if (!i || model->lanes[i - 1].gpu != model->lanes[i].gpu)
			height += HEADING;
	}
	for (i = 0; i < model->vgpu_count; i++)
		height += model->vgpus[i].rows ? WAIT + WAIT_GAP : 0;
	return height;
}

/* From 1, 2 and 5 times a power of ten, so that there are five to a dozen. */
static uint64_t tick_of(uint64_t span)
{
	uint64_t tick = 1;

	for (;;) {
		if (span / tick <= 12)
			return tick;
		if (span / (2 * tick) <= 12)
			return 2 * tick;
		if (span / (5 * tick) <= 12)
			return 5 * tick;
		tick *= 10;
	}
}

static void put_axis(struct writer *writer, double height)
{
	const struct trace_model *model = writer->model;
	uint64_t span = model->end_ns - model->begin_ns, tick = tick_of(span), at;
	double bottom = height - LEGEND * (model->vgpu_count + 1.0);
	char text[32];

	for (at = 0; at <= span; at += tick) {
		double x = x_of(model, model->begin_ns + at);

		duration_format(at, text, sizeof(text));
		fprintf(writer->out,
			"<path class=\"grid\" d=\"M%.1f %dV%.0f\"/>"
			"<text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s"
			"</text>\n",
			x, TOP - 14, bottom, x, TOP - 20, text);
	}
}

static void put_head(struct writer *writer, uint64_t lost)
{
	const struct trace_model *model = writer->model;
	size_t i, asked = 0;
	char span[32];

	for (i = 0; i < model->mark_count; i++)
		asked += model->marks[i].kind == TRACE_ASK;
	duration_format(model->end_ns - model->begin_ns, span, sizeof(span));
	fprintf(writer->out,
		"<text class=\"head\" x=\"16\" y=\"22\">%s: %zu runs of jobs, %zu preemptions",
		span, model->slice_count, asked);
	if (lost)
		fprintf(writer->out, "; %" PRIu64 " events were lost", lost);
	fputs("</text>\n", writer->out);
}

static void put_run(struct writer *writer, const struct run *run, double y)
{
	const struct trace_slice *slice = run->first;
	double width = run->to - run->from - SEAM;
	char text[64], took[32];

	if (!run->jobs)
		return;
	fprintf(writer->out,
		"<rect class=\"c%zu%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"><title>",
		run->colour, slice->end == TRACE_FAILED ? " failed" : "", run->from, y,
		width > FINE ? width : FINE, LANE);
	put_vgpu(writer, slice->vgpu);
	if (run->jobs > 1) {
		fprintf(writer->out, ": %u runs of jobs</title></rect>\n", run->jobs);
		return;
	}
	trace_job_text(slice, text, sizeof(text));
	duration_format(slice->end_ns - slice->begin_ns, took, sizeof(took));
	fprintf(writer->out, ": %s, job %" PRIu64 ", %s, %s", text, slice->job, took,
		trace_end_name(slice->end));
	if (slice->blocks)
		fprintf(writer->out, ", from block %" PRIu64 " of %u", slice->cookie,
			slice->blocks);
	fputs("</title></rect>\n", writer->out);
	if (width > LETTER * strlen(text) + 8)
		fprintf(writer->out, "<text class=\"in\" x=\"%.1f\" y=\"%.0f\">%s</text>\n",
			run->from + 4, y + LANE / 2.0 + 4, text);
}

/* The slices of a lane, which are in the order of time, from *at on. */
static void put_slices(struct writer *writer, const struct trace_lane *lane, size_t *at, double y)
{
	const struct trace_model *model = writer->model;
	struct run run = { 0 };

	for (; *at < model->slice_count; ++*at) {
		const struct trace_slice *slice = &model->slices[*at];
		double from = x_of(model, slice->begin_ns), to = x_of(model, slice->end_ns);
		size_t colour;

		if (slice->gpu != lane->gpu || slice->lane != lane->lane)
			break;
		colour = colour_of(model, slice->gpu, slice->vgpu);
		if (run.jobs && from - run.to < FINE && to - from < 1 && run.to - run.from < 1 &&
		    (colour == run.colour || to - run.to < FINE)) {
			run.to = to > run.to ? to : run.to;
			run.jobs++;
			continue;
		}
		put_run(writer, &run, y);
		run = (struct run){ slice, colour, 1, from, to };
	}
	put_run(writer, &run, y);
}

/* How long it took to yield, and a triangle where that began. */
static void put_marks(struct writer *writer, const struct trace_lane *lane, double y)
{
	const struct trace_model *model = writer->model;
	double last = 0;
	char took[32];
	size_t i;

	for (i = 0; i < model->mark_count; i++) {
		const struct trace_mark *mark = &model->marks[i];
		double x = x_of(model, mark->time_ns), left;

		if (mark->gpu != lane->gpu || mark->lane != lane->lane)
			continue;
		if (mark->kind == TRACE_ASK && x - last < FINE)
			continue;
		last = x;
		left = mark->left_ns ? x_of(model, mark->left_ns) : x;
		if (left - x > FINE)
			fprintf(writer->out,
				"<rect class=\"late\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" "
				"height=\"3\"/>",
				x, y - 3, left - x);
		fprintf(writer->out, "<path class=\"mark\" d=\"M%.2f %.0fl-4 -7h8z\"><title>", x,
			y);
		put_vgpu(writer, mark->vgpu);
		fprintf(writer->out, ": job %" PRIu64 " %s", mark->job,
			trace_mark_name(mark->kind));
		if (mark->left_ns) {
			duration_format(mark->left_ns - mark->time_ns, took, sizeof(took));
			fprintf(writer->out, ", left the lane after %s", took);
		}
		fputs("</title></path>\n", writer->out);
	}
}

/* The waits of a vgpu on one line, however many of its jobs wait at a time. */
static void put_waits(struct writer *writer, const struct trace_vgpu *vgpu, size_t *at, double y)
{
	const struct trace_model *model = writer->model;
	double from = 0, to = -1;

	fprintf(writer->out, "<text class=\"dim\" x=\"24\" y=\"%.0f\" font-size=\"10\">", y + WAIT);
	put_vgpu(writer, vgpu->vgpu);
	fputs(" waits</text>\n", writer->out);
	for (; *at <= model->wait_count; ++*at) {
		const struct trace_wait *wait = &model->waits[*at];
		bool last = *at == model->wait_count || wait->gpu != vgpu->gpu ||
			    wait->vgpu != vgpu->vgpu;

		if (!last && to >= 0 && x_of(model, wait->begin_ns) - to < FINE) {
			double end = x_of(model, wait->end_ns);

			to = end > to ? end : to;
			continue;
		}
		if (to >= 0)
			fprintf(writer->out,
				"<rect class=\"wait c%zu\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" "
				"height=\"%d\"/>\n",
				colour_of(model, vgpu->gpu, vgpu->vgpu), from, y,
				to - from > FINE ? to - from : FINE, WAIT);
		if (last)
			break;
		from = x_of(model, wait->begin_ns);
		to = x_of(model, wait->end_ns);
	}
}

static double put_lanes(struct writer *writer)
{
	const struct trace_model *model = writer->model;
	size_t i, slice = 0, wait = 0, vgpu = 0;
	double y = TOP;

	for (i = 0; i < model->lane_count; i++) {
		const struct trace_lane *lane = &model->lanes[i];

		if (!i || lane[-1].gpu != lane->gpu) {
			fprintf(writer->out, "<text class=\"head\" x=\"16\" y=\"%.0f\">", y + 10);
			put_gpu(writer, lane->gpu);
			fputs("</text>\n", writer->out);
			y += HEADING;
		}
		fprintf(writer->out,
			"<rect class=\"row\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>"
			"<text x=\"24\" y=\"%.0f\">lane %u</text>\n",
			LEFT, y, RIGHT - LEFT, LANE, y + LANE / 2.0 + 4, lane->lane);
		put_slices(writer, lane, &slice, y);
		put_marks(writer, lane, y);
		y += LANE + LANE_GAP;
		if (i + 1 < model->lane_count && lane[1].gpu == lane->gpu)
			continue;
		for (; vgpu < model->vgpu_count && model->vgpus[vgpu].gpu <= lane->gpu; vgpu++) {
			if (!model->vgpus[vgpu].rows)
				continue;
			put_waits(writer, &model->vgpus[vgpu], &wait, y);
			y += WAIT + WAIT_GAP;
		}
	}
	return y;
}

static void put_legend(struct writer *writer, double y)
{
	const struct trace_model *model = writer->model;
	char busy[32], waited[32];
	size_t i;

	if (!model->vgpu_count)
		fprintf(writer->out, "<text x=\"16\" y=\"%d\">No job ran.</text>\n", TOP);
	for (i = 0; i < model->vgpu_count; i++) {
		const struct trace_vgpu *vgpu = &model->vgpus[i];

		duration_format(vgpu->busy_ns, busy, sizeof(busy));
		duration_format(vgpu->wait_ns, waited, sizeof(waited));
		y += LEGEND;
		fprintf(writer->out,
			"<rect class=\"c%zu\" x=\"%d\" y=\"%.0f\" width=\"12\" height=\"12\"/>"
			"<text x=\"%d\" y=\"%.0f\">",
			i % COLOURS, LEFT, y - 11, LEFT + 20, y);
		put_vgpu(writer, vgpu->vgpu);
		fprintf(writer->out, " on gpu %u: busy %s, waited %s, preempted %u times</text>\n",
			vgpu->gpu, busy, waited, vgpu->asked);
	}
}

void trace_svg_write(const struct trace_model *model, const struct trace_names *names,
		     uint64_t lost, FILE *out)
{
	struct writer writer = { .model = model, .names = names, .out = out };
	double height = height_of(model);

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
		"width=\"%d\" height=\"%.0f\">\n<title>Lanes</title>\n%s",
		WIDTH, height + LEGEND, WIDTH, height + LEGEND, style);
	put_head(&writer, lost);
	put_axis(&writer, height);
	put_legend(&writer, put_lanes(&writer));
	fputs("</svg>\n", out);
}
