// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From top to bottom: a line of figures, the axis, and for each gpu the weights that
 * come to it, its lanes and below them, thin, the waits of its vgpus; then one preemption,
 * large, and a legend.
 * Details are titles, which browsers show where the pointer is. What would be
 * narrower than a pixel can show is drawn together with its neighbours, so that the
 * picture's size does not depend on how much happened.
 */
#include <inttypes.h>
#include <string.h>

#include "parse.h"
#include "trace_svg.h"

#define TOP	 64
#define LANE	 30 /* height of a row, and what is free below it */
#define LANE_GAP 8
#define WAIT	 6
#define WAIT_GAP 8
#define HEADING	 26
#define LEGEND	 20
#define SYMBOLS	 24 /* the line that explains them */
#define COLOURS	 10
#define FINE	 0.2 /* pixels that nobody sees */
#define SEAM	 0.6 /* pixels between jobs that follow each other */

static const char style[] =
	"<style>\n"
	"svg{font:12px system-ui,sans-serif;background:#fff}\n"
	"text{fill:#222}.dim{fill:#666}.head{font-weight:600}.in{fill:#fff;font-size:11px}\n"
	".grid{stroke:#ddd}.row{fill:#f3f3f3}.mark{fill:#c1121f}.late{fill:#c1121f}\n"
	".c0{fill:#0072b2}.c1{fill:#e07b00}.c2{fill:#00855f}.c3{fill:#b04a8f}.c4{fill:#6b5bd2}\n"
	".c5{fill:#8a6d00}.c6{fill:#3a8fb7}.c7{fill:#a63d2f}.c8{fill:#5a7d2a}.c9{fill:#6c757d}\n"
	".moment{stroke:#666;stroke-dasharray:3 3;fill:none}.wait{opacity:.55}.failed{stroke:#c1121f;stroke-width:2}\n"
	"@media(prefers-color-scheme:dark){svg{background:#15171c}text{fill:#e4e6eb}\n"
	".dim{fill:#9aa0aa}.grid{stroke:#30343c}.row{fill:#1f2229}.mark,.late{fill:#ff6b6b}\n"
	".moment{stroke:#9aa0aa}.failed{stroke:#ff6b6b}.in{fill:#fff}}\n"
	"</style>\n";

/* Neighbours of one colour that are drawn as one: jobs, or groups of weights. */
struct run {
	/* The first: either of them. */
	const struct trace_slice *slice;
	const struct trace_arrival *arrival;
	size_t colour;
	uint32_t count;
	double from, to;
};

static double x_of(const struct trace_model *model, uint64_t time_ns)
{
	uint64_t span = model->end_ns - model->begin_ns;

	return SVG_LEFT + (span ? (double)(time_ns - model->begin_ns) / span : 0) * (SVG_RIGHT - SVG_LEFT);
}

size_t svg_colour(const struct trace_model *model, uint32_t gpu, uint32_t vgpu)
{
	return trace_model_vgpu(model, gpu, vgpu) % COLOURS;
}

/* " (train)", or nothing. */
static void put_label(struct svg *svg, const char *name)
{
	if (*name)
		fprintf(svg->out, " (%s)", name);
}

static void put_gpu(struct svg *svg, uint32_t gpu)
{
	fprintf(svg->out, "gpu %u", gpu);
	put_label(svg, trace_name_of(svg->names->gpus, svg->names->gpu_count, gpu));
}

void svg_put_vgpu(struct svg *svg, uint32_t vgpu)
{
	fprintf(svg->out, "vgpu %u", vgpu);
	put_label(svg, trace_name_of(svg->names->vgpus, svg->names->vgpu_count, vgpu));
}

static double height_of(const struct trace_model *model)
{
	double height = TOP + LEGEND * (model->vgpu_count + 1.0) + SYMBOLS;
	size_t i;

	height += (LANE + LANE_GAP) * (double)model->lane_count;
	for (i = 0; i < model->gpu_count; i++)
		height += HEADING + (LANE + LANE_GAP) * (double)model->gpus[i].rows;
	for (i = 0; i < model->vgpu_count; i++)
		height += model->vgpus[i].rows ? WAIT + WAIT_GAP : 0;
	return height + svg_zoom_height(model);
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

static void put_axis(struct svg *svg, double height)
{
	const struct trace_model *model = svg->model;
	uint64_t span = model->end_ns - model->begin_ns, tick = tick_of(span), at;
	double bottom = height - LEGEND * (model->vgpu_count + 1.0) - SYMBOLS -
			svg_zoom_height(model);
	char text[32];

	for (at = 0; at <= span; at += tick) {
		double x = x_of(model, model->begin_ns + at);

		duration_format(at, text, sizeof(text));
		fprintf(svg->out,
			"<path class=\"grid\" d=\"M%.1f %dV%.0f\"/>"
			"<text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s"
			"</text>\n",
			x, TOP - 14, bottom, x, TOP - 20, text);
	}
}

static void put_head(struct svg *svg, uint64_t lost)
{
	const struct trace_model *model = svg->model;
	size_t i, asked = 0;
	char span[32];

	for (i = 0; i < model->mark_count; i++)
		asked += model->marks[i].kind == TRACE_ASK;
	duration_format(model->end_ns - model->begin_ns, span, sizeof(span));
	fprintf(svg->out,
		"<text class=\"head\" x=\"16\" y=\"22\">%s: %zu runs of jobs, %zu preemptions",
		span, model->slice_count, asked);
	if (lost)
		fprintf(svg->out, "; %" PRIu64 " events were lost", lost);
	fputs("</text>\n", svg->out);
}

/* What it is, and the words that are written on it if there is room. */
static void put_slice_title(struct svg *svg, const struct trace_slice *slice, char *text,
			    size_t len)
{
	char took[32];

	trace_job_text(slice, text, len);
	duration_format(slice->end_ns - slice->begin_ns, took, sizeof(took));
	fprintf(svg->out, ": %s, job %" PRIu64 ", %s, %s", text, slice->job, took,
		trace_end_name(slice->end));
	if (slice->blocks)
		fprintf(svg->out, ", from block %" PRIu64 " of %u", slice->cookie,
			slice->blocks);
}

static void put_arrival_title(struct svg *svg, const struct trace_arrival *arrival,
			      char *text, size_t len)
{
	char took[32];

	snprintf(text, len, "group %" PRIu64, arrival->group);
	duration_format(arrival->end_ns - arrival->begin_ns, took, sizeof(took));
	fprintf(svg->out, ": %s %s after %s", text, arrival->status ? "failed" : "came", took);
}

static void put_run(struct svg *svg, const struct run *run, double y)
{
	const struct trace_slice *slice = run->slice;
	bool failed = slice ? slice->end == TRACE_FAILED : run->count && run->arrival->status;
	double width = run->to - run->from - SEAM;
	char text[64];

	if (!run->count)
		return;
	fprintf(svg->out,
		"<rect class=\"c%zu%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"><title>",
		run->colour, failed ? " failed" : "", run->from, y, width > FINE ? width : FINE,
		LANE);
	svg_put_vgpu(svg, slice ? slice->vgpu : run->arrival->vgpu);
	if (run->count > 1) {
		fprintf(svg->out, ": %u %s</title></rect>\n", run->count,
			slice ? "runs of jobs" : "groups of weights");
		return;
	}
	if (slice)
		put_slice_title(svg, slice, text, sizeof(text));
	else
		put_arrival_title(svg, run->arrival, text, sizeof(text));
	fputs("</title></rect>\n", svg->out);
	/* The number of a group may still fit. */
	if (!slice && width <= SVG_LETTER * strlen(text) + 8)
		snprintf(text, sizeof(text), "%" PRIu64, run->arrival->group);
	if (width > SVG_LETTER * strlen(text) + 8)
		fprintf(svg->out, "<text class=\"in\" x=\"%.1f\" y=\"%.0f\">%s</text>\n",
			run->from + 4, y + LANE / 2.0 + 4, text);
}

/* Draw what is there, and begin anew, unless the two are too small to be told apart. */
static void add_to_run(struct svg *svg, struct run *run, const struct run *next, double y)
{
	if (run->count && next->from - run->to < FINE && next->to - next->from < 1 &&
	    run->to - run->from < 1 && (next->colour == run->colour || next->to - run->to < FINE)) {
		run->to = next->to > run->to ? next->to : run->to;
		run->count++;
		return;
	}
	put_run(svg, run, y);
	*run = *next;
}

static void put_slices(struct svg *svg, const struct trace_lane *lane, double y)
{
	const struct trace_model *model = svg->model;
	struct run run = { 0 };
	size_t i;

	for (i = lane->first; i < lane->first + lane->count; i++) {
		const struct trace_slice *slice = &model->slices[i];
		struct run next = { slice, NULL, svg_colour(model, slice->gpu, slice->vgpu), 1,
				    x_of(model, slice->begin_ns), x_of(model, slice->end_ns) };

		add_to_run(svg, &run, &next, y);
	}
	put_run(svg, &run, y);
}

static void put_arrivals(struct svg *svg, const struct trace_gpu *gpu, uint32_t row, double y)
{
	const struct trace_model *model = svg->model;
	struct run run = { 0 };
	size_t i;

	for (i = 0; i < model->arrival_count; i++) {
		const struct trace_arrival *arrival = &model->arrivals[i];

		if (arrival->gpu == gpu->gpu && arrival->row == row) {
			struct run next = { NULL, arrival,
					    svg_colour(model, arrival->gpu, arrival->vgpu), 1,
					    x_of(model, arrival->begin_ns),
					    x_of(model, arrival->end_ns) };

			add_to_run(svg, &run, &next, y);
		}
	}
	put_run(svg, &run, y);
}

/* How long it took to yield, and a triangle where that began. */
static void put_marks(struct svg *svg, const struct trace_lane *lane, double y)
{
	const struct trace_model *model = svg->model;
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
			fprintf(svg->out,
				"<rect class=\"late\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" "
				"height=\"3\"/>",
				x, y - 3, left - x);
		fprintf(svg->out, "<path class=\"mark\" d=\"M%.2f %.0fl-4 -7h8z\"><title>", x,
			y);
		svg_put_vgpu(svg, mark->vgpu);
		fprintf(svg->out, ": job %" PRIu64 " %s", mark->job,
			trace_mark_name(mark->kind));
		if (mark->left_ns) {
			duration_format(mark->left_ns - mark->time_ns, took, sizeof(took));
			fprintf(svg->out, ", left the lane after %s", took);
		}
		fputs("</title></path>\n", svg->out);
	}
}

/* The waits of a vgpu on one line, however many of its jobs wait at a time. */
static void put_waits(struct svg *svg, const struct trace_vgpu *vgpu, size_t *at, double y)
{
	const struct trace_model *model = svg->model;
	double from = 0, to = -1;

	fprintf(svg->out, "<text class=\"dim\" x=\"24\" y=\"%.0f\" font-size=\"10\">", y + WAIT);
	svg_put_vgpu(svg, vgpu->vgpu);
	fputs(" waits</text>\n", svg->out);
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
			fprintf(svg->out,
				"<rect class=\"wait c%zu\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" "
				"height=\"%d\"/>\n",
				svg_colour(model, vgpu->gpu, vgpu->vgpu), from, y,
				to - from > FINE ? to - from : FINE, WAIT);
		if (last)
			break;
		from = x_of(model, wait->begin_ns);
		to = x_of(model, wait->end_ns);
	}
}

/* The background of a row, and the beginning of its name. */
static void put_row(struct svg *svg, double y)
{
	fprintf(svg->out,
		"<rect class=\"row\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>"
		"<text x=\"24\" y=\"%.0f\">",
		SVG_LEFT, y, SVG_RIGHT - SVG_LEFT, LANE, y + LANE / 2.0 + 4);
}

static double put_rows(struct svg *svg)
{
	const struct trace_model *model = svg->model;
	size_t i, lane = 0, wait = 0, vgpu = 0;
	double y = TOP;
	uint32_t row;

	for (i = 0; i < model->gpu_count; i++) {
		const struct trace_gpu *gpu = &model->gpus[i];

		fprintf(svg->out, "<text class=\"head\" x=\"16\" y=\"%.0f\">", y + 10);
		put_gpu(svg, gpu->gpu);
		fputs("</text>\n", svg->out);
		y += HEADING;
		for (row = 0; row < gpu->rows; row++) {
			put_row(svg, y);
			fputs("network</text>\n", svg->out);
			put_arrivals(svg, gpu, row, y);
			y += LANE + LANE_GAP;
		}
		for (; lane < model->lane_count && model->lanes[lane].gpu == gpu->gpu; lane++) {
			put_row(svg, y);
			fprintf(svg->out, "lane %u", model->lanes[lane].lane);
			put_label(svg, trace_lane_name(&model->lanes[lane]));
			fputs("</text>\n", svg->out);
			put_slices(svg, &model->lanes[lane], y);
			put_marks(svg, &model->lanes[lane], y);
			y += LANE + LANE_GAP;
		}
		for (; vgpu < model->vgpu_count && model->vgpus[vgpu].gpu == gpu->gpu; vgpu++) {
			if (!model->vgpus[vgpu].rows)
				continue;
			put_waits(svg, &model->vgpus[vgpu], &wait, y);
			y += WAIT + WAIT_GAP;
		}
	}
	return y;
}

static void put_legend(struct svg *svg, double y)
{
	const struct trace_model *model = svg->model;
	char busy[32], waited[32], load[32];
	size_t i;

	if (!model->vgpu_count)
		fprintf(svg->out, "<text x=\"16\" y=\"%d\">No job ran.</text>\n", TOP);
	for (i = 0; i < model->vgpu_count; i++) {
		const struct trace_vgpu *vgpu = &model->vgpus[i];

		duration_format(vgpu->busy_ns, busy, sizeof(busy));
		duration_format(vgpu->wait_ns, waited, sizeof(waited));
		y += LEGEND;
		fprintf(svg->out,
			"<rect class=\"c%zu\" x=\"%d\" y=\"%.0f\" width=\"12\" height=\"12\"/>"
			"<text x=\"%d\" y=\"%.0f\">",
			i % COLOURS, SVG_LEFT, y - 11, SVG_LEFT + 20, y);
		svg_put_vgpu(svg, vgpu->vgpu);
		fprintf(svg->out, " on gpu %u: busy %s, waited %s, preempted %u times",
			vgpu->gpu, busy, waited, vgpu->asked);
		if (vgpu->requests)
			fprintf(svg->out, "; %u requests, %u of them late", vgpu->requests,
				vgpu->missed);
		if (vgpu->groups) {
			duration_format(vgpu->load_ns, load, sizeof(load));
			fprintf(svg->out, "; %u groups of weights in %s", vgpu->groups, load);
		}
		fputs("</text>\n", svg->out);
	}
}

/* What else there is to see, in words. */
static void put_symbols(struct svg *svg, double y)
{
	fprintf(svg->out,
		"<path class=\"mark\" d=\"M%d %.0fl-4 -7h8z\"/>"
		"<text class=\"dim\" x=\"%d\" y=\"%.0f\">asked to yield</text>"
		"<rect class=\"late\" x=\"%d\" y=\"%.0f\" width=\"14\" height=\"3\"/>"
		"<text class=\"dim\" x=\"%d\" y=\"%.0f\">until it has left the lane</text>"
		"<rect class=\"wait c9\" x=\"%d\" y=\"%.0f\" width=\"14\" height=\"%d\"/>"
		"<text class=\"dim\" x=\"%d\" y=\"%.0f\">ready, waits for a lane</text>"
		"<rect class=\"failed row\" x=\"%d\" y=\"%.0f\" width=\"14\" height=\"10\"/>"
		"<text class=\"dim\" x=\"%d\" y=\"%.0f\">failed</text>\n",
		SVG_LEFT + 6, y, SVG_LEFT + 20, y, SVG_LEFT + 130, y - 5, SVG_LEFT + 152, y,
		SVG_LEFT + 330, y - 7, WAIT, SVG_LEFT + 352, y, SVG_LEFT + 520, y - 9,
		SVG_LEFT + 542, y);
}

void trace_svg_write(const struct trace_model *model, const struct trace_names *names,
		     uint64_t lost, FILE *out)
{
	struct svg svg = { .model = model, .names = names, .out = out };
	double height = height_of(model), y;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
		"width=\"%d\" height=\"%.0f\">\n<title>Lanes</title>\n%s",
		SVG_WIDTH, height + LEGEND, SVG_WIDTH, height + LEGEND, style);
	put_head(&svg, lost);
	put_axis(&svg, height);
	y = put_rows(&svg);
	svg_put_zoom(&svg, y);
	y += svg_zoom_height(model);
	put_legend(&svg, y);
	if (model->vgpu_count)
		put_symbols(&svg, y + LEGEND * (double)model->vgpu_count + SYMBOLS);
	fputs("</svg>\n", out);
}
