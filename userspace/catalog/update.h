/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read a key, decide, write on the condition that it did not change: the only way in
 * which the catalog changes what others may change too. A conflict is answered by
 * reading afresh, a bounded number of times. When the answer to a write is lost, reading
 * afresh tells whether it was carried out.
 *
 * Begins the struct of whoever uses it, who frees it in done().
 */
#ifndef CATALOG_UPDATE_H
#define CATALOG_UPDATE_H

#include "batch.h"

struct catalog_update {
	struct catalog_store *store;
	char *key;
	/*
	 * Looks at the entry (NULL: there is none) and fills the batch. The compare of
	 * the key is added to it. 0: write; 1: it is as wanted, write nothing; negative
	 * errno: end with that, and with error in words.
	 */
	int (*prepare)(struct catalog_update *update, const struct catalog_entry *entry,
		       struct catalog_batch *batch);
	/* The result's revision is that of the write, or of the entry if it was as wanted. */
	void (*done)(struct catalog_update *update, const struct catalog_result *result);
	bool unsure; /* an earlier write may have been carried out */
	unsigned int tries;
	uint64_t found; /* revision of the entry */
	char error[CATALOG_ERROR_LEN];
};

/* Negative errno: not started. The key is copied. */
int catalog_update_start(struct catalog_update *update, struct catalog_store *store,
			 const char *key);

#endif
