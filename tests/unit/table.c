// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/distmindd/common/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct row {
	uint32_t id;
	uint32_t value;
};

static void rows_are_found_and_in_order(void **state)
{
	struct table table = { .size = sizeof(struct row) };
	bool there[256] = { 0 };
	struct row *row;
	uint32_t id, last;
	size_t count;

	(void)state;
	srandom(1);
	for (int round = 0; round < 20000; round++) {
		id = (uint32_t)(random() % 256);
		row = table_find(&table, id);
		assert_int_equal(!!row, there[id]);
		if (random() % 2) {
			row = table_add(&table, id);
			assert_non_null(row);
			assert_int_equal(row->id, id);
			/* New rows are zero, old ones are kept. */
			assert_int_equal(row->value, there[id] ? id + 1 : 0);
			row->value = id + 1;
			there[id] = true;
		} else {
			table_remove(&table, id);
			there[id] = false;
		}
	}
	count = 0;
	last = 0;
	table_each(&table, row) {
		assert_true(!count || row->id > last);
		assert_true(there[row->id]);
		assert_int_equal(row->value, row->id + 1);
		last = row->id;
		count++;
	}
	for (id = 0; id < 256; id++)
		count -= there[id];
	assert_int_equal(count, 0);
	table_free(&table);
	assert_null(table_find(&table, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_found_and_in_order),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
