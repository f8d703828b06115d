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

u32 distmind_table_generation(struct distmind_table *table)
{
	return atomic_read(&table->generation);
}
