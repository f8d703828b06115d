// SPDX-License-Identifier: GPL-2.0-or-later
#include "layers.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const columns[] = { "layer", "param_bytes", "forward_flops" };

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* A file that is being read. */
struct reader {
	const char *path;
	unsigned long line;
	char *error;
};

__attribute__((format(printf, 2, 3))) static int complain(const struct reader *reader,
							   const char *format, ...)
{
	va_list args;
	int len;

	len = snprintf(reader->error, PLANNER_ERROR_LEN, "%s:%lu: ", reader->path, reader->line);
	if (len < 0 || len >= PLANNER_ERROR_LEN)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(reader->error + len, PLANNER_ERROR_LEN - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

/* Cuts a line into its fields. */
static int split(const struct reader *reader, char *line, char *fields[COLUMNS])
{
	size_t count = 0;

	line[strcspn(line, "\r\n")] = '\0';
	for (char *field; (field = strsep(&line, "\t")); count++) {
		if (count == COLUMNS)
			return complain(reader, "more than %zu fields: write %s, %s and %s only",
					COLUMNS, columns[0], columns[1], columns[2]);
		fields[count] = field;
	}
	if (count < COLUMNS)
		return complain(reader, "%s is missing: write %zu fields with tabs between them",
				columns[count], COLUMNS);
	return 0;
}

static int read_header(struct reader *reader, char *line)
{
	char *fields[COLUMNS];
	int err = split(reader, line, fields);

	for (size_t i = 0; i < COLUMNS && !err; i++)
		if (strcmp(fields[i], columns[i]))
			err = complain(reader,
				       "field %zu is \"%s\": the first line names %s, %s and %s",
				       i + 1, fields[i], columns[0], columns[1], columns[2]);
	return err;
}

static int read_layer(struct reader *reader, char *line, char **name, struct planner_layer *layer)
{
	char *fields[COLUMNS], *end;
	int err = split(reader, line, fields);

	if (err)
		return err;
	if (!*fields[0])
		return complain(reader, "%s is empty: give the layer a name", columns[0]);
	errno = 0;
	layer->bytes = strtoull(fields[1], &end, 10);
	if (fields[1][0] < '0' || fields[1][0] > '9' || *end || errno)
		return complain(reader, "%s is \"%s\": write a whole number of bytes below 2^64",
				columns[1], fields[1]);
	layer->flops = strtod(fields[2], &end);
	if (end == fields[2] || *end || !isfinite(layer->flops) || layer->flops < 0)
		return complain(reader, "%s is \"%s\": write a number that is not negative",
				columns[2], fields[2]);
	*name = strdup(fields[0]);
	return *name ? 0 : -ENOMEM;
}

static int append(struct planner_layers *layers, size_t *room)
{
	struct planner_layer *more_layers;
	char **more_names;

	if (layers->count < *room)
		return 0;
	*room = *room ? *room * 2 : 256;
	more_layers = reallocarray(layers->layers, *room, sizeof(*more_layers));
	if (!more_layers)
		return -ENOMEM;
	layers->layers = more_layers;
	more_names = reallocarray(layers->names, *room, sizeof(*more_names));
	if (!more_names)
		return -ENOMEM;
	layers->names = more_names;
	return 0;
}

static int read_all(struct reader *reader, FILE *file, struct planner_layers *layers)
{
	size_t room = 0, line_room = 0;
	char *line = NULL;
	int err = 0;

	while (!err && getline(&line, &line_room, file) >= 0) {
		reader->line++;
		if (reader->line == 1) {
			err = read_header(reader, line);
			continue;
		}
		err = append(layers, &room);
		if (!err)
			err = read_layer(reader, line, &layers->names[layers->count],
					 &layers->layers[layers->count]);
		if (!err)
			layers->count++;
	}
	if (!err && ferror(file))
		err = -EIO;
	if (!err && !layers->count) {
		reader->line++;
		err = complain(reader, "there is no layer: write a line for each");
	}
	free(line);
	return err;
}

int planner_layers_read(const char *path, struct planner_layers *layers, char *error)
{
	struct reader reader = { .path = path, .error = error };
	FILE *file = fopen(path, "re");
	int err = -errno;

	*layers = (struct planner_layers){ 0 };
	if (file) {
		err = read_all(&reader, file, layers);
		fclose(file);
	}
	if (err && err != -EINVAL)
		snprintf(error, PLANNER_ERROR_LEN, "%s: %s", path, strerror(-err));
	if (err)
		planner_layers_destroy(layers);
	return err;
}

void planner_layers_destroy(struct planner_layers *layers)
{
	for (size_t i = 0; i < layers->count; i++)
		free(layers->names[i]);
	free(layers->names);
	free(layers->layers);
	*layers = (struct planner_layers){ 0 };
}
