// SPDX-License-Identifier: GPL-2.0-or-later
#include "print.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <libsmartcols.h>
#include <pwd.h>
#include <string.h>
#include <time.h>

#include "../common/size.h"
#include "latency.h"
#include "parse.h"

#define RESET "\033[0m"

#define LABEL_WIDTH 9
#define BAR_WIDTH   40

static const char *sequence(const struct print *print, enum print_colour colour)
{
	static const char *const sequences[] = {
		[PRINT_COLOUR_GOOD] = "\033[32m",
		[PRINT_COLOUR_WARN] = "\033[33m",
		[PRINT_COLOUR_BAD] = "\033[31m",
	};

	return print->colour && !print->json ? sequences[colour] : NULL;
}

static bool is_table(const struct print *print)
{
	return print->style == PRINT_TABLE || print->style == PRINT_PLAIN;
}

static void json_string(FILE *out, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	fputc('"', out);
	for (; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < 0x20)
			fprintf(out, "\\u%04x", *c);
		else
			fputc(*c, out);
	}
	fputc('"', out);
}

void print_open(struct print *print, FILE *out, bool json, bool colour)
{
	*print = (struct print){ .out = out, .json = json, .colour = colour };
}

void print_head_open(struct print *print)
{
	print->style = PRINT_EVENT;
	print->lists++;
	print->column = 0;
	print->row_begun = false;
	print->one_line = true;
	print->begun = true;
	if (print->json)
		fputc('{', print->out);
}

void print_head_close(struct print *print)
{
	if (!print->json)
		fputc('\n', print->out);
}

/* Text: an empty line between lists and between records, and none for a list without rows. */
static void separate(struct print *print)
{
	if (print->begun)
		fputc('\n', print->out);
	print->begun = true;
}

void print_list_open(struct print *print, const char *key, enum print_style style)
{
	print->style = style;
	print->rows = 0;
	print->lists++;
	if (print->json) {
		/* Events have no end, so that each is a document of its own. */
		if (style == PRINT_EVENT)
			return;
		fputs(print->lists == 1 ? "{" : ", ", print->out);
		json_string(print->out, key);
		fputs(": [", print->out);
		return;
	}
	if (!is_table(print))
		return;
	print->table = scols_new_table();
	if (!print->table) {
		print->error = -ENOMEM;
		return;
	}
	scols_table_set_stream(print->table, print->out);
	scols_table_enable_colors(print->table, print->colour);
	scols_table_enable_noheadings(print->table, style == PRINT_PLAIN);
}

void print_row_open(struct print *print)
{
	print->column = 0;
	print->row_begun = false;
	print->detail = false;
	print->statistics = false;
	if (print->json) {
		if (print->one_line)
			fputs(print->rows ? ", " : "", print->out);
		else if (print->style != PRINT_EVENT)
			fputs(print->rows ? ",\n  " : "\n  ", print->out);
		fputc('{', print->out);
	} else if (print->table) {
		print->line = scols_table_new_line(print->table, NULL);
		if (!print->line)
			print->error = -ENOMEM;
	} else if (print->style == PRINT_RECORD) {
		separate(print);
	}
}

void print_row_close(struct print *print)
{
	print->rows++;
	if (print->json)
		fputc('}', print->out);
	if (print->style != PRINT_EVENT)
		return;
	fputc('\n', print->out);
	/* Whoever reads events from a pipe wants them now. */
	fflush(print->out);
}

unsigned int print_list_close(struct print *print)
{
	if (print->json) {
		if (print->style != PRINT_EVENT)
			fputs(print->rows && !print->one_line ? "\n]" : "]", print->out);
	} else if (print->table) {
		if (print->rows && !print->error) {
			separate(print);
			print->error = scols_print_table(print->table);
		}
		scols_unref_table(print->table);
		print->table = NULL;
		print->line = NULL;
	}
	return print->rows;
}

int print_close(struct print *print)
{
	if (print->json && print->lists && print->style != PRINT_EVENT)
		fputs("}\n", print->out);
	if (fflush(print->out) || ferror(print->out))
		return errno ? -errno : -EIO;
	return print->error;
}

void print_detail(struct print *print)
{
	print->detail = true;
}

void print_statistics(struct print *print)
{
	print->detail = true;
	print->statistics = true;
}

static void table_field(struct print *print, const char *heading, const char *text, int align,
			enum print_colour colour)
{
	const char *paint = sequence(print, colour);
	struct libscols_cell *cell;

	if (print->error)
		return;
	if (print->column == scols_table_get_ncols(print->table)) {
		if (!scols_table_new_column(print->table, heading, 0, align)) {
			print->error = -ENOMEM;
			return;
		}
		/* The lines so far were made for fewer columns. */
		if (scols_line_alloc_cells(print->line, print->column + 1)) {
			print->error = -ENOMEM;
			return;
		}
	}
	cell = scols_line_get_cell(print->line, print->column);
	if (!cell || scols_cell_set_data(cell, text) ||
	    (paint && scols_cell_set_color(cell, paint)))
		print->error = -ENOMEM;
	print->column++;
}

/* A record's and an event's word for a field: the heading, without its shout. */
static void label(struct print *print, const char *heading, int width)
{
	char text[32];
	char *c;

	snprintf(text, sizeof(text), "%s", heading);
	for (c = text; *c; c++)
		*c = tolower((unsigned char)*c);
	fprintf(print->out, "%-*s ", width, text);
}

static void field(struct print *print, const char *heading, const char *text, int align,
		  enum print_colour colour)
{
	const char *paint = sequence(print, colour);

	if (is_table(print)) {
		if (!print->detail)
			table_field(print, heading, text, align, colour);
		return;
	}
	if (print->style == PRINT_RECORD) {
		label(print, heading, LABEL_WIDTH);
	} else {
		/* What there is nothing to say about makes a line only longer. */
		if (print->statistics || !strcmp(text, "-"))
			return;
		if (print->column++)
			fputc(' ', print->out);
		if (heading)
			label(print, heading, 0);
	}
	fprintf(print->out, "%s%s%s", paint ? paint : "", text, paint ? RESET : "");
	if (print->style == PRINT_RECORD)
		fputc('\n', print->out);
}

static void json_key(struct print *print, const char *key)
{
	if (print->row_begun)
		fputs(", ", print->out);
	print->row_begun = true;
	json_string(print->out, key);
	fputs(": ", print->out);
}

void print_state(struct print *print, const char *key, const char *heading, const char *value,
		 enum print_colour colour)
{
	if (print->json) {
		json_key(print, key);
		json_string(print->out, value);
		return;
	}
	field(print, heading, *value ? value : "-", 0, colour);
}

void print_text(struct print *print, const char *key, const char *heading, const char *value)
{
	print_state(print, key, heading, value, PRINT_COLOUR_NONE);
}

void print_number(struct print *print, const char *key, const char *heading, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	if (print->json) {
		json_key(print, key);
		fputs(text, print->out);
		return;
	}
	field(print, heading, text, SCOLS_FL_RIGHT, PRINT_COLOUR_NONE);
}

void print_size(struct print *print, const char *key, const char *heading, uint64_t bytes)
{
	char text[32];

	if (print->json) {
		json_key(print, key);
		fprintf(print->out, "%" PRIu64, bytes);
		return;
	}
	size_format(bytes, text, sizeof(text));
	field(print, heading, text, SCOLS_FL_RIGHT, PRINT_COLOUR_NONE);
}

void print_share(struct print *print, const char *key, const char *heading, uint32_t thousandths)
{
	char text[32];

	share_format(thousandths, text, sizeof(text));
	if (print->json) {
		json_key(print, key);
		fprintf(print->out, "%.*s", (int)strcspn(text, "%"), text);
		return;
	}
	field(print, heading, text, SCOLS_FL_RIGHT, PRINT_COLOUR_NONE);
}

void print_duration(struct print *print, const char *key, const char *heading, uint64_t value,
		    uint64_t unit_ns)
{
	char text[32];

	if (print->json) {
		json_key(print, key);
		fprintf(print->out, "%" PRIu64, value);
		return;
	}
	duration_format(value * unit_ns, text, sizeof(text));
	field(print, heading, text, SCOLS_FL_RIGHT, PRINT_COLOUR_NONE);
}

void print_rate(struct print *print, const char *key, const char *heading, uint64_t count,
		uint64_t ns)
{
	double rate = ns ? (double)count * NSEC_PER_SEC / ns : 0;
	char text[32];

	if (print->json) {
		json_key(print, key);
		fprintf(print->out, "%.3f", rate);
		return;
	}
	snprintf(text, sizeof(text), "%.*f", rate > 0 && rate < 99.95 ? 1 : 0, rate);
	field(print, heading, text, SCOLS_FL_RIGHT, PRINT_COLOUR_NONE);
}

void print_time(struct print *print)
{
	struct timespec now;
	struct tm tm;
	char text[64];
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	if (print->json) {
		gmtime_r(&now.tv_sec, &tm);
		len = strftime(text, sizeof(text), "%FT%T", &tm);
		snprintf(text + len, sizeof(text) - len, ".%06ldZ", now.tv_nsec / 1000);
	} else {
		localtime_r(&now.tv_sec, &tm);
		len = strftime(text, sizeof(text), "%T", &tm);
		snprintf(text + len, sizeof(text) - len, ".%03ld", now.tv_nsec / 1000000);
	}
	print_text(print, "time", NULL, text);
}

void print_user(struct print *print, const char *key, const char *heading, uint32_t uid)
{
	const struct passwd *user = print->json ? NULL : getpwuid(uid);

	if (user)
		field(print, heading, user->pw_name, 0, PRINT_COLOUR_NONE);
	else
		print_number(print, key, heading, uid);
}

void print_group(struct print *print, const char *key, const char *heading, uint32_t gid)
{
	const struct group *group = print->json ? NULL : getgrgid(gid);

	if (group)
		field(print, heading, group->gr_name, 0, PRINT_COLOUR_NONE);
	else
		print_number(print, key, heading, gid);
}

void print_bool(struct print *print, const char *key, const char *heading, bool value)
{
	if (print->json) {
		json_key(print, key);
		fputs(value ? "true" : "false", print->out);
		return;
	}
	field(print, heading, value ? "yes" : "no", 0, PRINT_COLOUR_NONE);
}

void print_none(struct print *print, const char *key, const char *heading)
{
	if (print->json) {
		json_key(print, key);
		fputs("null", print->out);
		return;
	}
	field(print, heading, "-", SCOLS_FL_RIGHT, PRINT_COLOUR_NONE);
}

/* The buckets between which all that was counted lies. */
static void latency_bars(struct print *print, const char *heading, const uint64_t *buckets,
			 unsigned int count)
{
	unsigned int first = count, last = 0, i;
	char limit[32], text[48];
	uint64_t most = 0;
	int bar;

	for (i = 0; i < count; i++) {
		if (!buckets[i])
			continue;
		first = first < i ? first : i;
		last = i;
		most = most > buckets[i] ? most : buckets[i];
	}
	if (!most)
		field(print, heading, "-", 0, PRINT_COLOUR_NONE);
	for (i = first; most && i <= last; i++) {
		label(print, i == first ? heading : "", LABEL_WIDTH);
		if (i == count - 1) {
			duration_format(latency_bucket_ns(i - 1), limit, sizeof(limit));
			snprintf(text, sizeof(text), "from %s", limit);
		} else {
			duration_format(latency_bucket_ns(i), limit, sizeof(limit));
			snprintf(text, sizeof(text), "below %s", limit);
		}
		/* What there is shows, however little it is. */
		bar = (double)buckets[i] / most * BAR_WIDTH;
		bar += !bar && buckets[i];
		fprintf(print->out, "%-13s %8" PRIu64 "%s%.*s\n", text, buckets[i], bar ? " " : "",
			bar, "########################################");
	}
}

void print_latency(struct print *print, const char *key, const char *heading,
		   const uint64_t *buckets, unsigned int count)
{
	unsigned int i;

	if (print->json) {
		json_key(print, key);
		for (i = 0; i < count; i++)
			fprintf(print->out, "%s%" PRIu64, i ? ", " : "[", buckets[i]);
		fputc(']', print->out);
	} else if (print->style == PRINT_RECORD) {
		latency_bars(print, heading, buckets, count);
	}
}

void print_note(struct print *print, const char *key, const char *value)
{
	char text[512];

	if (print->json || !print->table) {
		print_text(print, key, key, value);
		return;
	}
	if (!*value || print->error || !print->column)
		return;
	snprintf(text, sizeof(text), "%s: %s", key, value);
	print->line = scols_table_new_line(print->table, NULL);
	if (!print->line || scols_line_set_data(print->line, print->column - 1, text))
		print->error = -ENOMEM;
}
