// SPDX-License-Identifier: GPL-2.0-or-later
#include "order.h"

#include "../common/text_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_LAYER UINT32_MAX

/* A tensor on its way to its place. */
struct entry {
	const char *name;
	uint32_t index; /* among the names that were given */
	uint32_t layer;
};

static size_t digits(const char *text)
{
	size_t count = 0;

	while (isdigit((unsigned char)text[count]))
		count++;
	return count;
}

int model_order_compare(const char *a, const char *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
			size_t m, n;
			int order;

			x += strspn(x, "0");
			y += strspn(y, "0");
			m = digits(x);
			n = digits(y);
			if (m != n)
				return m < n ? -1 : 1;
			order = strncmp(x, y, m);
			if (order)
				return order;
			x += m;
			y += n;
		} else if (*x != *y) {
			return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
		} else {
			x++;
			y++;
		}
	}
	if (*x || *y)
		return *x ? 1 : -1;
	/* "1" and "01" are different names with the same numbers. */
	return strcmp(a, b);
}

/* How much of a tensor's name is that of its layer. */
static size_t layer_length(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && dot != name ? (size_t)(dot - name) : strlen(name);
}

/* By layer, then by name: a layer's tensors stand together whatever is between their names. */
static int by_natural_order(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	size_t m = layer_length(x->name), n = layer_length(y->name);

	if (m != n || strncmp(x->name, y->name, m)) {
		char *layer_x = strndupa(x->name, m), *layer_y = strndupa(y->name, n);
		int order = model_order_compare(layer_x, layer_y);

		if (order)
			return order;
	}
	return model_order_compare(x->name, y->name);
}

static int by_layer(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return model_order_compare(x->name, y->name);
}

static struct entry *list(const char *const *names, uint32_t count)
{
	struct entry *entries = calloc((size_t)count + 1, sizeof(*entries));

	for (uint32_t i = 0; entries && i < count; i++)
		entries[i] = (struct entry){ .name = names[i], .index = i, .layer = NO_LAYER };
	return entries;
}

static int take_tensors(struct model_order *order, const struct entry *entries, uint32_t count)
{
	order->tensors = calloc((size_t)count + 1, sizeof(*order->tensors));
	if (!order->tensors)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		order->tensors[order->count++] = entries[i].index;
	return 0;
}

int model_order_natural(struct model_order *order, const char *const *names, uint32_t count)
{
	struct entry *entries = list(names, count);
	int err;

	*order = (struct model_order){ 0 };
	order->layers = calloc((size_t)count + 1, sizeof(*order->layers));
	if (!entries || !order->layers) {
		err = -ENOMEM;
		goto out;
	}
	qsort(entries, count, sizeof(*entries), by_natural_order);
	err = take_tensors(order, entries, count);
	for (uint32_t i = 0; i < count && !err; i++) {
		struct model_order_layer *last = &order->layers[order->layer_count - (i > 0)];
		size_t len = layer_length(entries[i].name);

		if (i && strlen(last->name) == len && !strncmp(last->name, entries[i].name, len)) {
			last->tensors++;
			continue;
		}
		last = &order->layers[order->layer_count++];
		last->tensors = 1;
		last->name = strndup(entries[i].name, len);
		if (!last->name)
			err = -ENOMEM;
	}
out:
	free(entries);
	if (err)
		model_order_destroy(order);
	return err;
}

/* A layer of the file, sorted by name to be found by the names of tensors. */
struct line {
	const char *name;
	uint32_t layer;
	unsigned long number;
};

static int by_line_name(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return strcmp(x->name, y->name);
}

struct reader {
	const char *path;
	char *error;
	struct model_order *order;
	struct line *lines; /* owned, one for each layer */
	size_t room;
	unsigned long number; /* of the line */
};

static int append(struct reader *reader)
{
	struct model_order *order = reader->order;
	struct model_order_layer *layers;
	struct line *lines;

	if (order->layer_count < reader->room)
		return 0;
	if (reader->room > UINT32_MAX / 4)
		return -ENOMEM;
	reader->room = reader->room ? reader->room * 2 : 256;
	layers = reallocarray(order->layers, reader->room, sizeof(*layers));
	if (!layers)
		return -ENOMEM;
	order->layers = layers;
	lines = reallocarray(reader->lines, reader->room, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	reader->lines = lines;
	return 0;
}

static int read_flops(const struct reader *reader, const char *text,
		      struct model_order_layer *layer)
{
	char *end;

	errno = 0;
	layer->flops = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || layer->flops > INT64_MAX)
		return model_error(reader->error, -EINVAL,
				   "%s:%lu: FLOPs \"%.64s\": write a whole number, or nothing",
				   reader->path, reader->number, text);
	layer->flops_known = true;
	return 0;
}

static int read_line(struct reader *reader, char *text)
{
	struct model_order *order = reader->order;
	struct model_order_layer *layer;
	char *flops;

	text[strcspn(text, "\r\n")] = '\0';
	if (!*text || *text == '#')
		return 0;
	flops = strchr(text, '\t');
	if (flops)
		*flops++ = '\0';
	if (!*text)
		return model_error(reader->error, -EINVAL,
				   "%s:%lu: no name before the tab: name the layer", reader->path,
				   reader->number);
	if (append(reader))
		return model_error(reader->error, -ENOMEM, "%s: out of memory", reader->path);
	layer = &order->layers[order->layer_count];
	*layer = (struct model_order_layer){ .name = strdup(text) };
	if (!layer->name)
		return model_error(reader->error, -ENOMEM, "%s: out of memory", reader->path);
	reader->lines[order->layer_count] = (struct line){
		.name = layer->name, .layer = order->layer_count, .number = reader->number,
	};
	order->layer_count++;
	return flops && *flops ? read_flops(reader, flops, layer) : 0;
}

static int read_lines(struct reader *reader)
{
	char why[TEXT_FILE_ERROR_LEN], *text, *line, *end;
	size_t size;
	int err = text_file_read(reader->path, MODEL_ORDER_FILE_MAX, &text, &size, why);

	if (err)
		return model_error(reader->error, err, "%s: %s", reader->path, why);
	for (line = text; !err && line < text + size; line = end + 1) {
		end = memchr(line, '\n', (size_t)(text + size - line));
		if (!end)
			end = text + size;
		*end = '\0';
		reader->number++;
		err = read_line(reader, line);
	}
	free(text);
	return err;
}

/* The layer with the longest name that a tensor's name has in front of a dot. */
static uint32_t find_layer(const struct reader *reader, const char *name)
{
	char *part = strdupa(name), *dot;

	for (;;) {
		const struct line key = { .name = part };
		const struct line *line = bsearch(&key, reader->lines, reader->order->layer_count,
						  sizeof(key), by_line_name);

		if (line)
			return line->layer;
		dot = strrchr(part, '.');
		if (!dot)
			return NO_LAYER;
		*dot = '\0';
	}
}

/* Lines that say the same stand together once they are sorted. */
static int check_twins(const struct reader *reader)
{
	for (uint32_t i = 1; i < reader->order->layer_count; i++) {
		const struct line *one = &reader->lines[i - 1], *two = &reader->lines[i];

		if (!strcmp(one->name, two->name))
			return model_error(reader->error, -EINVAL,
					   "%s:%lu: layer \"%.200s\" is in line %lu, too: "
					   "remove one of the two",
					   reader->path,
					   one->number > two->number ? one->number : two->number,
					   one->name,
					   one->number < two->number ? one->number : two->number);
	}
	return 0;
}

static int check_layers(const struct reader *reader)
{
	for (uint32_t i = 0; i < reader->order->layer_count; i++) {
		const struct line *line = &reader->lines[i];
		const struct model_order_layer *layer = &reader->order->layers[line->layer];

		if (!layer->tensors && !layer->flops_known)
			return model_error(reader->error, -EINVAL,
					   "%s:%lu: layer \"%.200s\" has neither tensors nor "
					   "FLOPs: correct its name",
					   reader->path, line->number, line->name);
	}
	return 0;
}

static int assign(struct reader *reader, const char *const *names, uint32_t count)
{
	struct model_order *order = reader->order;
	struct entry *entries = list(names, count);
	int err;

	if (!entries)
		return model_error(reader->error, -ENOMEM, "%s: out of memory", reader->path);
	if (order->layer_count)
		qsort(reader->lines, order->layer_count, sizeof(*reader->lines), by_line_name);
	err = check_twins(reader);
	for (uint32_t i = 0; i < count && !err; i++) {
		entries[i].layer = order->layer_count ? find_layer(reader, names[i]) : NO_LAYER;
		if (entries[i].layer == NO_LAYER)
			err = model_error(reader->error, -EINVAL,
					  "%s: tensor \"%s\" belongs to no layer: add a line "
					  "with its name or the part before a dot",
					  reader->path, names[i]);
		else
			order->layers[entries[i].layer].tensors++;
	}
	if (!err)
		err = check_layers(reader);
	if (!err) {
		qsort(entries, count, sizeof(*entries), by_layer);
		if (take_tensors(order, entries, count))
			err = model_error(reader->error, -ENOMEM, "%s: out of memory",
					  reader->path);
	}
	free(entries);
	return err;
}

int model_order_read(struct model_order *order, const char *path, const char *const *names,
		     uint32_t count, char *error)
{
	struct reader reader = { .path = path, .error = error, .order = order };
	int err;

	*order = (struct model_order){ 0 };
	err = read_lines(&reader);
	if (!err)
		err = assign(&reader, names, count);
	free(reader.lines);
	if (err)
		model_order_destroy(order);
	return err;
}

void model_order_destroy(struct model_order *order)
{
	for (uint32_t i = 0; i < order->layer_count; i++)
		free(order->layers[i].name);
	free(order->layers);
	free(order->tensors);
	*order = (struct model_order){ 0 };
}
