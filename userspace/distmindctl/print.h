/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Output. A field is printed by one call, with its JSON key and its table
 * heading, whatever the form of the output; so text and JSON cannot drift
 * apart. Text has sizes, durations and users for people, JSON has plain
 * numbers.
 */
#ifndef DISTMINDCTL_PRINT_H
#define DISTMINDCTL_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum print_style {
	PRINT_TABLE,	/* a row each, under headings */
	PRINT_PLAIN,	/* a row each, without headings */
	PRINT_RECORD,	/* a field per line */
	PRINT_EVENT,	/* one line each, as it happens */
};

enum print_colour {
	PRINT_COLOUR_NONE,
	PRINT_COLOUR_GOOD,
	PRINT_COLOUR_WARN,
	PRINT_COLOUR_BAD,
};

struct libscols_table;
struct libscols_line;

struct print {
	FILE *out;
	bool json;
	bool colour;

	/* What follows belongs to print.c. */
	enum print_style style;
	struct libscols_table *table;
	struct libscols_line *line;
	unsigned int column;	/* of the field that comes next */
	unsigned int rows;	/* finished ones of the list */
	unsigned int lists;	/* of the document */
	bool begun;		/* text: something is out already */
	bool row_begun;		/* JSON: a field of this row is out already */
	bool one_line;		/* JSON: the document has no line breaks */
	bool detail;
	bool statistics;
	int error;
};

/* A document has lists, a list has rows, a row has fields. */
void print_open(struct print *print, FILE *out, bool json, bool colour);
/*
 * Before the first list, for documents that follow each other: fields of the
 * document itself, and in JSON a document per line.
 */
void print_head_open(struct print *print);
void print_head_close(struct print *print);
void print_list_open(struct print *print, const char *key, enum print_style style);
void print_row_open(struct print *print);
void print_row_close(struct print *print);
unsigned int print_list_close(struct print *print);
/* 0, or what went wrong since print_open() as a negative errno. */
int print_close(struct print *print);

/*
 * The rest of the row is for JSON, records and events; tables, which have to
 * fit a terminal, leave it out.
 */
void print_detail(struct print *print);

/* The rest of the row is for JSON and records: an event has no use for it either. */
void print_statistics(struct print *print);

/* heading NULL: records and events show the value without a label. */
void print_text(struct print *print, const char *key, const char *heading, const char *value);
void print_state(struct print *print, const char *key, const char *heading, const char *value,
		 enum print_colour colour);
void print_number(struct print *print, const char *key, const char *heading, int64_t value);
void print_size(struct print *print, const char *key, const char *heading, uint64_t bytes);
void print_share(struct print *print, const char *key, const char *heading, uint32_t thousandths);
void print_duration(struct print *print, const char *key, const char *heading, uint64_t value,
		    uint64_t unit_ns);
/* What time it is, as "time" and without a label. */
void print_time(struct print *print);
/* So many in so much time, per second. */
void print_rate(struct print *print, const char *key, const char *heading, uint64_t count,
		uint64_t ns);
void print_user(struct print *print, const char *key, const char *heading, uint32_t uid);
void print_group(struct print *print, const char *key, const char *heading, uint32_t gid);
void print_bool(struct print *print, const char *key, const char *heading, bool value);
void print_none(struct print *print, const char *key, const char *heading);
/* Not for tables and events: as many numbers in JSON, a bar for each in a record. */
void print_latency(struct print *print, const char *key, const char *heading,
		   const uint64_t *buckets, unsigned int count);
/* In tables on a line of its own, below the row's last column. */
void print_note(struct print *print, const char *key, const char *value);

#endif /* DISTMINDCTL_PRINT_H */
