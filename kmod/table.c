// SPDX-License-Identifier: GPL-2.0-only
#include "table.h"

static void changed(struct distmind_table *table)
{
	if (!atomic_inc_return(&table->generation))
		atomic_inc(&table->generation);
}

/* -EBUSY: all numbers below @limit are in use. */
int distmind_table_add(struct distmind_table *table, void *object, u32 limit, u32 *id)
{
	int err;

	err = xa_alloc_cyclic(&table->objects, id, object, XA_LIMIT(0, limit - 1), &table->next,
			      GFP_KERNEL);
	if (err < 0)
		return err;
	changed(table);
	return 0;
}

void distmind_table_del(struct distmind_table *table, u32 id)
{
	xa_erase(&table->objects, id);
	changed(table);
}

/* A number without an object; as above. */
int distmind_table_reserve(struct distmind_table *table, u32 limit, u32 *id)
{
	int err;

	err = xa_alloc_cyclic(&table->objects, id, NULL, XA_LIMIT(0, limit - 1), &table->next,
			      GFP_KERNEL);
	return min(err, 0);
}

/* The object of a reserved number is there. */
void distmind_table_publish(struct distmind_table *table, u32 id, void *object)
{
	/* Its slot is there already, so this cannot fail. */
	WARN_ON(xa_is_err(xa_store(&table->objects, id, object, GFP_KERNEL)));
	changed(table);
}

/* The object goes, and its number is reserved again. */
void distmind_table_withdraw(struct distmind_table *table, u32 id)
{
	/* In a table that hands out numbers, a slot with nothing in it is not free. */
	xa_store(&table->objects, id, NULL, GFP_KERNEL);
	changed(table);
}

/* A reserved number can be handed out. */
void distmind_table_release(struct distmind_table *table, u32 id)
{
	xa_erase(&table->objects, id);
}

u32 distmind_table_generation(struct distmind_table *table)
{
	return atomic_read(&table->generation);
}
