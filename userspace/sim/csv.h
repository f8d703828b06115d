/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file of comma-separated values with a line of names first. Columns are asked for
 * by name, in any order; others are ignored. Errors name file, line and column.
 */
#ifndef DISTMIND_SIM_CSV_H
#define DISTMIND_SIM_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CSV_COLUMNS_MAX 32
#define CSV_ERROR_LEN 512

struct csv {
	FILE *stream;
	const char *path;
	unsigned long line;
	char *text; /* of the line, cut into fields */
	size_t room;
	char *names; /* the first line, cut likewise */
	const char *columns[CSV_COLUMNS_MAX];
	const char *fields[CSV_COLUMNS_MAX];
	int column_count;
	char *error; /* CSV_ERROR_LEN, the caller's */
};

/* 0, or a negative errno with the error told; closed by csv_close() only after 0. */
int csv_open(struct csv *csv, const char *path, char *error);
void csv_close(struct csv *csv);

/* The number of a column, or -EINVAL if the file has none of that name. */
int csv_column(struct csv *csv, const char *name);
/* As before, but -1 is no error. */
int csv_optional(const struct csv *csv, const char *name);

/* The next line: 1, 0 at the end, or a negative errno. Empty lines are skipped. */
int csv_next(struct csv *csv);

/* A whole number up to max; empty is an error. */
int csv_number(struct csv *csv, int column, uint64_t max, uint64_t *value);

/* Returns -EINVAL. */
int csv_complain(struct csv *csv, int column, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
