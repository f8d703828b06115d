// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where the chunks of a model are, in text: a row per group, a column per host with
 * its share of the group, and the chunks one by one, each as the letter of the host
 * that is asked for it first; '+' follows one that others keep too. Groups of many
 * chunks show some of them.
 */
#include <inttypes.h>
#include <string.h>

#include "../common/size.h"
#include "model_view.h"

#define STRIP	48 /* chunks of a row, at most */
#define LETTERS 26
#define COLOURS 6

static char letter(uint32_t host)
{
	return (char)('a' + host % LETTERS);
}

static void paint(FILE *out, bool colour, uint32_t host, const char *text)
{
	if (colour)
		fprintf(out, "\033[%um%s\033[0m", 31 + host % COLOURS, text);
	else
		fputs(text, out);
}

static int column_width(const struct model_view *view, uint32_t host)
{
	int width = (int)strlen(view->hosts[host]) + 3;

	return width < 8 ? 8 : width;
}

static void draw_heading(const struct model_view *view, FILE *out, bool colour)
{
	char heading[512];

	fprintf(out, "%-6s %-10s %8s", "GROUP", "LAYERS", "SIZE");
	for (uint32_t i = 0; i < view->host_count; i++) {
		snprintf(heading, sizeof(heading), "%c: %s", letter(i), view->hosts[i]);
		fprintf(out, "  %*s", column_width(view, i) - (int)strlen(heading), "");
		paint(out, colour, i, heading);
	}
	fputs("  CHUNKS\n", out);
}

static void draw_strip(const struct model_view *view, const struct model_view_group *group,
		       FILE *out, bool colour)
{
	uint32_t count = group->end_chunk - group->first_chunk;
	uint32_t shown = count < STRIP ? count : STRIP;

	for (uint32_t i = 0; i < shown; i++) {
		uint32_t chunk = group->first_chunk + (uint32_t)((uint64_t)i * count / shown);
		uint32_t first = view->holder_start[chunk];
		uint32_t holders = view->holder_start[chunk + 1] - first;
		char text[3] = { 0 };

		if (!holders) {
			fputc('-', out);
			continue;
		}
		text[0] = letter(view->holders[first]);
		text[1] = holders > 1 ? '+' : '\0';
		paint(out, colour, view->holders[first], text);
	}
	if (shown < count)
		fprintf(out, " of %u", count);
}

void model_map_draw(const struct model_view *view, FILE *out, bool colour)
{
	draw_heading(view, out, colour);
	for (uint32_t i = 0; i < view->group_count; i++) {
		const struct model_view_group *group = &view->groups[i];
		char size[SIZE_TEXT_LEN], layers[32], share[16];
		uint32_t chunks;

		size_format(group->bytes, size, sizeof(size));
		snprintf(layers, sizeof(layers), "%u-%u", group->first_layer,
			 group->end_layer ? group->end_layer - 1 : 0);
		fprintf(out, "%-6u %-10s %8s", i, layers, size);
		for (uint32_t j = 0; j < view->host_count; j++) {
			uint64_t bytes = model_view_share(view, i, j, &chunks);

			snprintf(share, sizeof(share), "%.0f%%",
				 group->bytes ? 100.0 * (double)bytes / (double)group->bytes : 0);
			fprintf(out, "  %*s", column_width(view, j), share);
		}
		fputs("  ", out);
		draw_strip(view, group, out, colour);
		fputc('\n', out);
	}
}

void model_map_print(const struct model_view *view, struct print *print)
{
	uint32_t chunks;

	print_list_open(print, "map", PRINT_TABLE);
	for (uint32_t i = 0; i < view->group_count; i++) {
		for (uint32_t j = 0; j < view->host_count; j++) {
			uint64_t bytes = model_view_share(view, i, j, &chunks);

			print_row_open(print);
			print_number(print, "group", "GROUP", i);
			print_text(print, "host", "HOST", view->hosts[j]);
			print_number(print, "chunks", "CHUNKS", chunks);
			print_size(print, "bytes", "SIZE", bytes);
			print_row_close(print);
		}
	}
	print_list_close(print);
}
