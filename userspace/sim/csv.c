// SPDX-License-Identifier: GPL-2.0-or-later
#include "csv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int csv_complain(struct csv *csv, int column, const char *format, ...)
{
	va_list args;
	int len;

	len = snprintf(csv->error, CSV_ERROR_LEN, "%s:%lu: %s%s", csv->path, csv->line,
		       column >= 0 ? csv->columns[column] : "", column >= 0 ? ": " : "");
	if (len < 0 || len >= CSV_ERROR_LEN)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(csv->error + len, CSV_ERROR_LEN - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

/* Returns how many, or -EINVAL if there are too many. */
static int cut(char *text, const char **fields)
{
	int count = 0;

	text[strcspn(text, "\r\n")] = '\0';
	for (char *field; (field = strsep(&text, ","));) {
		if (count == CSV_COLUMNS_MAX)
			return -EINVAL;
		fields[count++] = field;
	}
	return count;
}

int csv_open(struct csv *csv, const char *path, char *error)
{
	int err;

	*csv = (struct csv){ .path = path, .error = error };
	csv->stream = fopen(path, "re");
	if (!csv->stream) {
		err = -errno;
		snprintf(error, CSV_ERROR_LEN, "%s: %s", path, strerror(errno));
		return err;
	}
	csv->line = 1;
	if (getline(&csv->names, &csv->room, csv->stream) < 0) {
		err = csv_complain(csv, -1, "the file is empty: write a line of column names");
		goto err;
	}
	csv->room = 0;
	csv->column_count = cut(csv->names, csv->columns);
	if (csv->column_count < 0) {
		err = csv_complain(csv, -1, "more than %d columns", CSV_COLUMNS_MAX);
		goto err;
	}
	return 0;
err:
	csv_close(csv);
	return err;
}

void csv_close(struct csv *csv)
{
	fclose(csv->stream);
	free(csv->text);
	free(csv->names);
}

int csv_optional(const struct csv *csv, const char *name)
{
	for (int i = 0; i < csv->column_count; i++)
		if (!strcmp(csv->columns[i], name))
			return i;
	return -1;
}

int csv_column(struct csv *csv, const char *name)
{
	int column = csv_optional(csv, name);

	if (column >= 0)
		return column;
	csv->line = 1;
	return csv_complain(csv, -1, "there is no column \"%s\"", name);
}

int csv_next(struct csv *csv)
{
	ssize_t len;
	int count;

	do {
		errno = 0;
		len = getline(&csv->text, &csv->room, csv->stream);
		if (len < 0) {
			if (!ferror(csv->stream) && errno != ENOMEM)
				return 0;
			csv_complain(csv, -1, "%s", strerror(errno));
			return -EIO;
		}
		csv->line++;
	} while (!csv->text[strspn(csv->text, "\r\n")]);
	if (memchr(csv->text, '\0', (size_t)len))
		return csv_complain(csv, -1, "a NUL character: this is not a text");
	count = cut(csv->text, csv->fields);
	if (count != csv->column_count)
		return csv_complain(csv, -1, "%d fields, where the first line has %d",
				    count < 0 ? CSV_COLUMNS_MAX + 1 : count, csv->column_count);
	return 1;
}

int csv_number(struct csv *csv, int column, uint64_t max, uint64_t *value)
{
	const char *field = csv->fields[column];
	char *end;

	errno = 0;
	*value = strtoull(field, &end, 10);
	/* Some writers make 8 an 8.0. */
	if (!strcmp(end, ".0"))
		end += 2;
	if (errno || end == field || *end || *field < '0' || *field > '9' || *value > max)
		return csv_complain(csv, column,
				    "\"%s\" is not a number: write 0 to %llu", field,
				    (unsigned long long)max);
	return 0;
}
