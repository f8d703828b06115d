// SPDX-License-Identifier: GPL-2.0-or-later
#include "txn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int catalog_txn_copy(struct catalog_txn *copy, const struct catalog_txn *txn)
{
	struct catalog_compare *compares = calloc(txn->compare_count + 1, sizeof(*compares));
	struct catalog_write *writes = calloc(txn->write_count + 1, sizeof(*writes));

	*copy = (struct catalog_txn){ .compares = compares, .writes = writes };
	if (!compares || !writes)
		return -ENOMEM;
	for (; copy->compare_count < txn->compare_count; copy->compare_count++) {
		struct catalog_compare *compare = &compares[copy->compare_count];

		*compare = txn->compares[copy->compare_count];
		compare->key = strdup(compare->key);
		if (!compare->key)
			return -ENOMEM;
	}
	for (; copy->write_count < txn->write_count; copy->write_count++) {
		const struct catalog_write *from = &txn->writes[copy->write_count];
		struct catalog_write *write = &writes[copy->write_count];
		void *value = from->value ? malloc(from->size + 1) : NULL;

		*write = *from;
		write->value = value;
		write->key = strdup(from->key);
		if (!write->key || (from->value && !value)) {
			free((char *)write->key);
			free(value);
			return -ENOMEM;
		}
		if (value)
			memcpy(value, from->value, from->size);
	}
	return 0;
}

void catalog_txn_free(struct catalog_txn *copy)
{
	for (size_t i = 0; i < copy->compare_count; i++)
		free((char *)copy->compares[i].key);
	for (size_t i = 0; i < copy->write_count; i++) {
		free((char *)copy->writes[i].key);
		free((void *)copy->writes[i].value);
	}
	free((void *)copy->compares);
	free((void *)copy->writes);
	*copy = (struct catalog_txn){ 0 };
}
