// SPDX-License-Identifier: GPL-2.0-or-later
#include "svg.h"

#include <errno.h>
#include <math.h>

#define WIDTH 760
#define HEIGHT 440
#define LEFT 70
#define RIGHT 20
#define TOP 46
#define BOTTOM 56
#define LEGEND_LINE 18

/* Told apart by people who cannot tell red from green too. */
static const char *const colours[] = {
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#999999", "#6a3d9a",
};

struct axis {
	double min, max;
	bool log;
	double from, to; /* on the page */
};

static double scale(const struct axis *axis, double value)
{
	double low = axis->log ? log10(axis->min) : axis->min;
	double high = axis->log ? log10(axis->max) : axis->max;

	value = axis->log ? log10(fmax(value, axis->min)) : value;
	return axis->from + (fmin(fmax(value, low), high) - low) / (high - low) *
				    (axis->to - axis->from);
}

static void put_text(FILE *stream, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", stream);
		else if (*text == '>')
			fputs("&gt;", stream);
		else if (*text == '&')
			fputs("&amp;", stream);
		else
			fputc(*text, stream);
	}
}

static void range(const struct svg_plot *plot, bool of_x, struct axis *axis)
{
	axis->min = of_x ? plot->x_min : plot->y_min;
	axis->max = of_x ? plot->x_max : plot->y_max;
	axis->log = of_x && plot->log_x;
	if (axis->min < axis->max)
		return;
	axis->min = INFINITY;
	axis->max = -INFINITY;
	for (size_t i = 0; i < plot->count; i++) {
		const double *values = of_x ? plot->series[i].x : plot->series[i].y;

		for (size_t k = 0; k < plot->series[i].count; k++) {
			axis->min = fmin(axis->min, values[k]);
			axis->max = fmax(axis->max, values[k]);
		}
	}
	if (!(axis->min < axis->max)) {
		axis->min = axis->log ? 0.1 : 0;
		axis->max = axis->log ? 10 : 1;
	}
}

/* A step of 1, 2 or 5 times a power of ten that makes some six parts of a range. */
static double round_step(double range)
{
	double power = pow(10, floor(log10(range / 6)));
	double times = range / 6 / power;

	return power * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
}

static void tick(FILE *stream, const struct axis *x, const struct axis *y, bool of_x, double value)
{
	double at = scale(of_x ? x : y, value);

	if (of_x)
		fprintf(stream,
			"<line class='grid' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>"
			"<text x='%.1f' y='%.1f' text-anchor='middle'>%.6g</text>\n",
			at, at, y->from, y->to, at, y->from + 18, value);
	else
		fprintf(stream,
			"<line class='grid' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>"
			"<text x='%.1f' y='%.1f' text-anchor='end'>%.6g</text>\n",
			x->from, x->to, at, at, x->from - 8, at + 4, value);
}

static void ticks(FILE *stream, const struct axis *x, const struct axis *y, bool of_x)
{
	const struct axis *axis = of_x ? x : y;
	double step = round_step(axis->max - axis->min), value;

	if (axis->log) {
		for (value = pow(10, ceil(log10(axis->min) - 1e-9)); value <= axis->max * 1.0001;
		     value *= 10)
			tick(stream, x, y, of_x, value);
		return;
	}
	for (value = ceil(axis->min / step - 1e-9) * step; value <= axis->max + step * 1e-6;
	     value += step)
		tick(stream, x, y, of_x, fabs(value) < step * 1e-6 ? 0 : value);
}

static void line(FILE *stream, const struct axis *x, const struct axis *y,
		 const struct svg_series *series, const char *colour)
{
	fprintf(stream, "<polyline fill='none' stroke='%s' stroke-width='2' points='", colour);
	for (size_t i = 0; i < series->count; i++)
		fprintf(stream, "%.1f,%.1f ", scale(x, series->x[i]), scale(y, series->y[i]));
	fputs("'/>\n", stream);
}

static void legend(FILE *stream, const struct svg_plot *plot)
{
	double y = HEIGHT - BOTTOM - 14 - LEGEND_LINE * ((double)plot->count - 1);
	size_t colour_count = sizeof(colours) / sizeof(*colours);

	for (size_t i = 0; i < plot->count; i++, y += LEGEND_LINE) {
		fprintf(stream,
			"<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='%s' stroke-width='3'/>"
			"<text x='%d' y='%.1f' text-anchor='end'>",
			WIDTH - RIGHT - 40, WIDTH - RIGHT - 12, y, y, colours[i % colour_count],
			WIDTH - RIGHT - 48, y + 4);
		put_text(stream, plot->series[i].name);
		fputs("</text>\n", stream);
	}
}

void svg_write(FILE *stream, const struct svg_plot *plot)
{
	struct axis x = { .from = LEFT, .to = WIDTH - RIGHT };
	struct axis y = { .from = HEIGHT - BOTTOM, .to = TOP };

	range(plot, true, &x);
	range(plot, false, &y);
	fprintf(stream,
		"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' "
		"height='%d' font-family='sans-serif' font-size='12'>\n"
		"<style>:root{color-scheme:light dark}svg{background:#fff}text{fill:#222}"
		".grid{stroke:#ddd}.title{font-size:15px;font-weight:bold}"
		"@media(prefers-color-scheme:dark){svg{background:#181818}text{fill:#ddd}"
		".grid{stroke:#3a3a3a}}</style>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT);
	fprintf(stream, "<text class='title' x='%d' y='24'>", LEFT);
	put_text(stream, plot->title);
	fputs("</text>\n", stream);
	ticks(stream, &x, &y, true);
	ticks(stream, &x, &y, false);
	fprintf(stream, "<text x='%d' y='%d' text-anchor='middle'>", (LEFT + WIDTH - RIGHT) / 2,
		HEIGHT - 14);
	put_text(stream, plot->x_label);
	fprintf(stream, "</text>\n<text transform='translate(18 %d) rotate(-90)' "
			"text-anchor='middle'>", (TOP + HEIGHT - BOTTOM) / 2);
	put_text(stream, plot->y_label);
	fputs("</text>\n", stream);
	for (size_t i = 0; i < plot->count; i++)
		line(stream, &x, &y, &plot->series[i],
		     colours[i % (sizeof(colours) / sizeof(*colours))]);
	legend(stream, plot);
	fputs("</svg>\n", stream);
}

int svg_save(const char *path, const struct svg_plot *plot)
{
	FILE *stream = fopen(path, "we");
	int err;

	if (!stream)
		return -errno;
	svg_write(stream, plot);
	err = ferror(stream) ? -EIO : 0;
	if (fclose(stream) && !err)
		err = -errno;
	return err;
}
