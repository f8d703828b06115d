// SPDX-License-Identifier: GPL-2.0-or-later
#include "table.h"

#include <stdlib.h>
#include <string.h>

void table_free(struct table *table)
{
	free(table->rows);
	table->rows = NULL;
	table->count = 0;
	table->room = 0;
}

void *table_row(const struct table *table, size_t index)
{
	return table->rows + index * table->size;
}

static uint32_t row_id(const struct table *table, size_t index)
{
	uint32_t id;

	memcpy(&id, table_row(table, index), sizeof(id));
	return id;
}

/* The index of the first row whose id is not below. */
static size_t position(const struct table *table, uint32_t id)
{
	size_t low = 0, high = table->count, middle;

	if (!high || row_id(table, high - 1) < id)
		return high;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (row_id(table, middle) < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void *table_find(const struct table *table, uint32_t id)
{
	size_t index = position(table, id);

	return index < table->count && row_id(table, index) == id ? table_row(table, index) : NULL;
}

static int grow(struct table *table)
{
	size_t room = table->room ? 2 * table->room : 16;
	char *rows = reallocarray(table->rows, room, table->size);

	if (!rows)
		return -1;
	table->rows = rows;
	table->room = room;
	return 0;
}

void *table_add(struct table *table, uint32_t id)
{
	size_t index = position(table, id);
	char *row;

	if (index < table->count && row_id(table, index) == id)
		return table_row(table, index);
	if (table->count == table->room && grow(table))
		return NULL;
	row = table_row(table, index);
	memmove(row + table->size, row, (table->count - index) * table->size);
	memset(row, 0, table->size);
	memcpy(row, &id, sizeof(id));
	table->count++;
	return row;
}

void table_remove(struct table *table, uint32_t id)
{
	size_t index = position(table, id);
	char *row;

	if (index == table->count || row_id(table, index) != id)
		return;
	row = table_row(table, index);
	memmove(row, row + table->size, (table->count - index - 1) * table->size);
	table->count--;
}
