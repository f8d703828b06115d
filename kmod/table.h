/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_TABLE_H
#define _DISTMIND_TABLE_H

#include <linux/atomic.h>
#include <linux/xarray.h>

/**
 * struct distmind_table - objects of one kind by number
 * @objects: number to object
 * @next: where the search for a free number goes on
 * @generation: changes whenever an object comes or goes, never 0; lets a dump
 *	that takes several messages say that it is not one consistent state
 *
 * Numbers are handed out in a circle, so that a number which an operator has
 * just seen does not soon mean something else. Who may use an object that was
 * found here is up to the table's owner.
 *
 * A number can be reserved before its object is there, and stay so when the object
 * has gone: nobody finds anything under it, and nobody else gets it.
 */
struct distmind_table {
	struct xarray objects;
	u32 next;
	atomic_t generation;
};

#define DISTMIND_TABLE_INIT(name) { \
	.objects = XARRAY_INIT(name.objects, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT), \
	.generation = ATOMIC_INIT(1), \
}

int distmind_table_add(struct distmind_table *table, void *object, u32 limit, u32 *id);
void distmind_table_del(struct distmind_table *table, u32 id);
int distmind_table_reserve(struct distmind_table *table, u32 limit, u32 *id);
void distmind_table_publish(struct distmind_table *table, u32 id, void *object);
void distmind_table_withdraw(struct distmind_table *table, u32 id);
void distmind_table_release(struct distmind_table *table, u32 id);
u32 distmind_table_generation(struct distmind_table *table);

static inline void *distmind_table_find(struct distmind_table *table, u32 id)
{
	return xa_load(&table->objects, id);
}

/* The first object with a number of at least *id, which becomes its number. */
static inline void *distmind_table_from(struct distmind_table *table, unsigned long *id)
{
	return xa_find(&table->objects, id, U32_MAX, XA_PRESENT);
}

#define distmind_table_for_each(table, id, object) \
	xa_for_each(&(table)->objects, id, object)

#endif /* _DISTMIND_TABLE_H */
