// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The map of a model as a picture: a row per group, as wide as it has bytes, with
 * its chunks in the colours of the hosts that keep them, one above the other where
 * there are replicas; then a legend. Titles, which browsers show where the pointer
 * is, say which chunk it is.
 */
#include <inttypes.h>

#include "../common/size.h"
#include "model_view.h"

#define WIDTH	1200
#define LEFT	150
#define RIGHT	(WIDTH - 24)
#define TOP	56
#define ROW	26
#define ROW_GAP 6
#define LEGEND	24
#define COLOURS 10

static const char style[] =
	"<style>\n"
	"svg{font:12px system-ui,sans-serif;background:#fff}\n"
	"text{fill:#222}.dim{fill:#666}.head{font-weight:600;font-size:14px}\n"
	".c0{fill:#0072b2}.c1{fill:#e07b00}.c2{fill:#00855f}.c3{fill:#b04a8f}.c4{fill:#6b5bd2}\n"
	".c5{fill:#8a6d00}.c6{fill:#3a8fb7}.c7{fill:#a63d2f}.c8{fill:#5a7d2a}.c9{fill:#6c757d}\n"
	".none{fill:none;stroke:#c1121f}\n"
	"@media(prefers-color-scheme:dark){svg{background:#15171c}text{fill:#e4e6eb}\n"
	".dim{fill:#9aa0aa}}\n"
	"</style>\n";

/* Names come from a cluster's configuration: nothing of them is markup. */
static void put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '&' || *text == '<' || *text == '>')
			fprintf(out, "&#%d;", *text);
		else
			fputc(*text, out);
	}
}

static void put_chunk(const struct model_view *view, uint32_t chunk, double x, double width,
		      double y, FILE *out)
{
	const struct model_chunk *described = &view->manifest.chunks[chunk];
	uint32_t first = view->holder_start[chunk];
	uint32_t holders = view->holder_start[chunk + 1] - first;
	char digest[MODEL_DIGEST_TEXT_LEN], size[SIZE_TEXT_LEN];
	double height = holders ? (double)ROW / holders : ROW;

	model_digest_format(&described->digest, digest);
	size_format(described->size, size, sizeof(size));
	for (uint32_t i = 0; i < holders || !i; i++) {
		fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" ", x,
			y + i * height, width > 1.6 ? width - 0.6 : width, height);
		if (holders)
			fprintf(out, "class=\"c%u\"", view->holders[first + i] % COLOURS);
		else
			fputs("class=\"none\"", out);
		fprintf(out, "><title>chunk %u, %s, %.16s: ", chunk, size, digest);
		put_text(out, holders ? view->hosts[view->holders[first + i]] : "nobody keeps it");
		fputs("</title></rect>\n", out);
	}
}

static void put_group(const struct model_view *view, uint32_t index, double scale, double y,
		      FILE *out)
{
	const struct model_view_group *group = &view->groups[index];
	char size[SIZE_TEXT_LEN];
	double x = LEFT;

	size_format(group->bytes, size, sizeof(size));
	fprintf(out, "<text x=\"16\" y=\"%.1f\">group %u</text>"
		"<text class=\"dim\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		y + ROW * 0.65, index, LEFT - 10, y + ROW * 0.65, size);
	for (uint32_t i = group->first_chunk; i < group->end_chunk; i++) {
		double width = (double)view->manifest.chunks[i].size * scale;

		put_chunk(view, i, x, width, y, out);
		x += width;
	}
}

static void put_legend(const struct model_view *view, double y, FILE *out)
{
	for (uint32_t i = 0; i < view->host_count; i++) {
		double top = y + i * LEGEND;

		fprintf(out, "<rect class=\"c%u\" x=\"%d\" y=\"%.1f\" width=\"14\" height=\"14\"/>"
			"<text x=\"%d\" y=\"%.1f\">", i % COLOURS, LEFT, top, LEFT + 22, top + 11);
		put_text(out, view->hosts[i]);
		fputs("</text>\n", out);
	}
}

void model_map_svg(const struct model_view *view, FILE *out)
{
	double legend = TOP + view->group_count * (double)(ROW + ROW_GAP) + 12;
	double height = legend + view->host_count * (double)LEGEND + 12;
	char size[SIZE_TEXT_LEN];
	uint64_t largest = 1;

	for (uint32_t i = 0; i < view->group_count; i++) {
		uint64_t bytes = 0;

		for (uint32_t j = view->groups[i].first_chunk; j < view->groups[i].end_chunk; j++)
			bytes += view->manifest.chunks[j].size;
		if (bytes > largest)
			largest = bytes;
	}
	size_format(view->manifest.size, size, sizeof(size));
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\">\n%s", WIDTH, height, WIDTH, height, style);
	fputs("<text class=\"head\" x=\"16\" y=\"28\">", out);
	put_text(out, view->manifest.name);
	fprintf(out, "</text><text class=\"dim\" x=\"%d\" y=\"28\">%s, %u chunks in %u groups of "
		"%u layers</text>\n", LEFT, size, view->manifest.chunk_count, view->group_count,
		view->manifest.layer_count);
	for (uint32_t i = 0; i < view->group_count; i++)
		put_group(view, i, (double)(RIGHT - LEFT) / (double)largest,
			  TOP + i * (double)(ROW + ROW_GAP), out);
	put_legend(view, legend, out);
	fputs("</svg>\n", out);
}
