/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Entries in an array that owns them: sorted by key as long as it is only changed by
 * put and remove, in order of arrival when by append. Changes move entries: pointers to
 * them are good until then.
 */
#ifndef CATALOG_ENTRIES_H
#define CATALOG_ENTRIES_H

#include "store.h"

struct catalog_entries {
	struct catalog_entry *rows;
	size_t count;
	size_t room;
};

/* Neither touches nouns: whoever set them frees them first. */
void catalog_entries_clear(struct catalog_entries *entries);
void catalog_entries_remove(struct catalog_entries *entries, struct catalog_entry *entry);

/* Index of the first entry whose key is not below this one. */
size_t catalog_entries_from(const struct catalog_entries *entries, const char *key);
struct catalog_entry *catalog_entries_find(const struct catalog_entries *entries, const char *key);

/* Copies key and value; value NULL stays NULL. NULL: no memory, nothing has changed. */
struct catalog_entry *catalog_entries_append(struct catalog_entries *entries, const char *key,
					     const void *value, size_t size);
/* The same, in its place; an entry of that key is kept with its noun, with the new value. */
struct catalog_entry *catalog_entries_put(struct catalog_entries *entries, const char *key,
					  const void *value, size_t size);

/*
 * Those of a result, which are the caller's from then on, within done(): so that whoever
 * has them need not be done with them before it returns. -ENOMEM.
 */
int catalog_entries_take(struct catalog_entries *entries, const struct catalog_result *result);

bool catalog_has_prefix(const char *key, const char *prefix);

/* All entries whose key begins with prefix. */
#define catalog_entries_each(entries, prefix, entry)                                        \
	for (size_t i_ = catalog_entries_from(entries, prefix);                             \
	     i_ < (entries)->count && ((entry) = &(entries)->rows[i_]) &&                   \
	     catalog_has_prefix((entry)->key, prefix);                                      \
	     i_++)

#endif
