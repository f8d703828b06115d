// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One preemption, large. Of those that were seen until the job left its lane, the one is
 * drawn that took the median time to yield: neither the best nor the worst. The lane is
 * shown from a little before the job was asked to a little after it goes on, or after the
 * one that took the lane has ended if that comes long after.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"
#include "trace_svg.h"

#define HEIGHT	190
#define BAND	64  /* offset and height of the lane's band */
#define BAND_AT 74
#define WAIT_AT (BAND_AT + BAND + 6)
#define WAIT	8
#define LONG	4 /* a pause so many times as long as the rest is not shown to its end */

/* What is shown of the lane. */
struct zoom {
	const struct trace_mark *mark;
	const struct trace_slice *winner; /* who has the lane next, or NULL */
	uint64_t begin_ns;
	uint64_t end_ns;
};

static uint64_t yield_ns(const struct trace_mark *mark)
{
	return mark->left_ns - mark->time_ns;
}

static int by_yield(const void *a, const void *b)
{
	uint64_t first = yield_ns(*(const struct trace_mark *const *)a);
	uint64_t second = yield_ns(*(const struct trace_mark *const *)b);

	return (first > second) - (first < second);
}

/* NULL: there is none, or no memory to find it. */
static const struct trace_mark *usual(const struct trace_model *model)
{
	const struct trace_mark **marks, *found = NULL;
	size_t i, count = 0;

	marks = calloc(model->mark_count + 1, sizeof(*marks));
	if (!marks)
		return NULL;
	for (i = 0; i < model->mark_count; i++) {
		if (model->marks[i].kind == TRACE_ASK && model->marks[i].left_ns)
			marks[count++] = &model->marks[i];
	}
	qsort(marks, count, sizeof(*marks), by_yield);
	if (count)
		found = marks[count / 2];
	free(marks);
	return found;
}

/* The first slice of the mark's lane that begins when its job has left. */
static const struct trace_slice *next_on_lane(const struct trace_model *model,
					      const struct trace_mark *mark)
{
	size_t i;

	for (i = 0; i < model->slice_count; i++) {
		const struct trace_slice *slice = &model->slices[i];

		if (slice->gpu == mark->gpu && slice->lane == mark->lane &&
		    slice->begin_ns >= mark->left_ns)
			return slice;
	}
	return NULL;
}

static bool zoom_on(const struct trace_model *model, struct zoom *zoom)
{
	uint64_t end, margin;

	zoom->mark = usual(model);
	if (!zoom->mark)
		return false;
	zoom->winner = next_on_lane(model, zoom->mark);
	end = zoom->winner ? zoom->winner->end_ns : zoom->mark->left_ns;
	margin = end - zoom->mark->time_ns;
	if (zoom->mark->resumed_ns && zoom->mark->resumed_ns < end + LONG * margin)
		end = zoom->mark->resumed_ns;
	margin = (end - zoom->mark->time_ns) / 5 + 1;
	zoom->begin_ns = zoom->mark->time_ns - model->begin_ns > margin ?
				 zoom->mark->time_ns - margin : model->begin_ns;
	zoom->end_ns = model->end_ns - end > margin ? end + margin : model->end_ns;
	return zoom->end_ns > zoom->begin_ns;
}

double svg_zoom_height(const struct trace_model *model)
{
	struct zoom zoom;

	return zoom_on(model, &zoom) ? HEIGHT : 0;
}

static double x_of(const struct zoom *zoom, uint64_t time_ns)
{
	if (time_ns < zoom->begin_ns)
		time_ns = zoom->begin_ns;
	if (time_ns > zoom->end_ns)
		time_ns = zoom->end_ns;
	return SVG_LEFT + (double)(time_ns - zoom->begin_ns) /
				  (double)(zoom->end_ns - zoom->begin_ns) * (SVG_RIGHT - SVG_LEFT);
}

/* A moment, and what happened then; @line is the line of words above the band. */
static void put_moment(struct svg *svg, const struct zoom *zoom, uint64_t time_ns, int line,
		       double y, const char *text)
{
	double x = x_of(zoom, time_ns), width = SVG_LETTER * (double)strlen(text);
	bool left = x + width > SVG_RIGHT;

	fprintf(svg->out,
		"<path class=\"moment\" d=\"M%.1f %.0fV%.0f\"/>"
		"<text x=\"%.1f\" y=\"%.0f\"%s>%s</text>\n",
		x, y + 28 + 16 * line, y + BAND_AT + BAND, left ? x - 5 : x + 5,
		y + 38 + 16 * line, left ? " text-anchor=\"end\"" : "", text);
}

static void put_slice(struct svg *svg, const struct zoom *zoom, const struct trace_slice *slice,
		      double y)
{
	double from = x_of(zoom, slice->begin_ns), to = x_of(zoom, slice->end_ns);
	const char *name;
	char text[64];

	fprintf(svg->out,
		"<rect class=\"c%zu\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\"/>\n",
		svg_colour(svg->model, slice->gpu, slice->vgpu), from, y + BAND_AT,
		to - from > 1 ? to - from : 1, BAND);
	name = trace_name_of(svg->names->vgpus, svg->names->vgpu_count, slice->vgpu);
	if (*name)
		snprintf(text, sizeof(text), "%s", name);
	else
		snprintf(text, sizeof(text), "vgpu %u", slice->vgpu);
	if (to - from > SVG_LETTER * (double)strlen(text) + 10)
		fprintf(svg->out, "<text class=\"in head\" x=\"%.1f\" y=\"%.0f\">%s</text>\n",
			from + 6, y + BAND_AT + 26, text);
	trace_job_text(slice, text, sizeof(text));
	if (to - from > SVG_LETTER * (double)strlen(text) + 10)
		fprintf(svg->out, "<text class=\"in\" x=\"%.1f\" y=\"%.0f\">%s</text>\n", from + 6,
			y + BAND_AT + 44, text);
}

static void put_band(struct svg *svg, const struct zoom *zoom, double y)
{
	const struct trace_model *model = svg->model;
	size_t i;

	fprintf(svg->out,
		"<rect class=\"row\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>"
		"<text x=\"24\" y=\"%.0f\">gpu %u, lane %u</text>\n",
		SVG_LEFT, y + BAND_AT, SVG_RIGHT - SVG_LEFT, BAND, y + BAND_AT + BAND / 2.0 + 4,
		zoom->mark->gpu, zoom->mark->lane);
	for (i = 0; i < model->slice_count; i++) {
		const struct trace_slice *slice = &model->slices[i];

		if (slice->gpu == zoom->mark->gpu && slice->lane == zoom->mark->lane &&
		    slice->end_ns > zoom->begin_ns && slice->begin_ns < zoom->end_ns)
			put_slice(svg, zoom, slice, y);
	}
}

/* For how long the one that took the lane, and the one that gave it up, waited. */
static void put_wait(struct svg *svg, const struct zoom *zoom, uint32_t vgpu, uint64_t from,
		     uint64_t to, double y)
{
	double begin = x_of(zoom, from), end = x_of(zoom, to);

	if (end <= begin)
		return;
	fprintf(svg->out,
		"<rect class=\"wait c%zu\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\">"
		"<title>",
		svg_colour(svg->model, zoom->mark->gpu, vgpu), begin, y, end - begin, WAIT);
	svg_put_vgpu(svg, vgpu);
	fputs(" waits</title></rect>\n", svg->out);
}

/* Where the job stood when it left the lane. */
static const struct trace_slice *given_up(const struct trace_model *model,
					  const struct trace_mark *mark)
{
	size_t i;

	for (i = 0; i < model->slice_count; i++) {
		const struct trace_slice *slice = &model->slices[i];

		if (slice->gpu == mark->gpu && slice->lane == mark->lane &&
		    slice->job == mark->job && slice->end_ns == mark->left_ns)
			return slice;
	}
	return NULL;
}

static void put_moments(struct svg *svg, const struct zoom *zoom, double y)
{
	const struct trace_slice *slice = given_up(svg->model, zoom->mark);
	char text[96], took[32];

	put_moment(svg, zoom, zoom->mark->time_ns, 0, y, "asked to yield");
	duration_format(yield_ns(zoom->mark), took, sizeof(took));
	if (slice && slice->end == TRACE_YIELDED && slice->blocks)
		snprintf(text, sizeof(text), "%s later it has left the lane, at block %" PRIu64
			 " of %u", took, slice->reached, slice->blocks);
	else
		snprintf(text, sizeof(text), "%s later it has left the lane", took);
	put_moment(svg, zoom, zoom->mark->left_ns, 1, y, text);
	if (zoom->mark->resumed_ns && zoom->mark->resumed_ns <= zoom->end_ns)
		put_moment(svg, zoom, zoom->mark->resumed_ns, 0, y, "goes on");
}

void svg_put_zoom(struct svg *svg, double y)
{
	struct zoom zoom;

	if (!zoom_on(svg->model, &zoom))
		return;
	fprintf(svg->out, "<text class=\"head\" x=\"16\" y=\"%.0f\">One preemption: ", y + 14);
	svg_put_vgpu(svg, zoom.mark->vgpu);
	if (zoom.winner) {
		fputs(" makes room for ", svg->out);
		svg_put_vgpu(svg, zoom.winner->vgpu);
	}
	fputs("</text>\n", svg->out);
	put_band(svg, &zoom, y);
	fprintf(svg->out,
		"<text class=\"dim\" x=\"24\" y=\"%.0f\" font-size=\"10\">who waits</text>\n",
		y + WAIT_AT + WAIT);
	if (zoom.winner)
		put_wait(svg, &zoom, zoom.winner->vgpu, zoom.winner->begin_ns - zoom.winner->wait_ns,
			 zoom.winner->begin_ns, y + WAIT_AT);
	put_wait(svg, &zoom, zoom.mark->vgpu, zoom.mark->left_ns,
		 zoom.mark->resumed_ns ? zoom.mark->resumed_ns : zoom.end_ns,
		 y + WAIT_AT + WAIT + 3);
	put_moments(svg, &zoom, y);
}
