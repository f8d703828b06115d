/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows in the order of their id, which is the uint32_t each begins with. The
 * kernel counts ids up, so a new row is nearly always the last. Adding and
 * removing moves rows: pointers to them are good until then.
 */
#ifndef DISTMINDD_TABLE_H
#define DISTMINDD_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table {
	size_t size; /* of a row */
	char *rows;
	size_t count;
	size_t room;
};

void table_free(struct table *table);
void *table_row(const struct table *table, size_t index);
void *table_find(const struct table *table, uint32_t id);
/* The row of that id, a new one all zero but the id. NULL: no memory. */
void *table_add(struct table *table, uint32_t id);
void table_remove(struct table *table, uint32_t id);

#define table_each(table, row) \
	for (size_t i_ = 0; i_ < (table)->count && ((row) = table_row(table, i_)); i_++)

#endif
