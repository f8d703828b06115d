// SPDX-License-Identifier: GPL-2.0-or-later
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void free_entry(struct catalog_entry *entry)
{
	free(entry->key);
	free(entry->value);
}

void catalog_entries_clear(struct catalog_entries *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		free_entry(&entries->rows[i]);
	free(entries->rows);
	*entries = (struct catalog_entries){ 0 };
}

void catalog_entries_remove(struct catalog_entries *entries, struct catalog_entry *entry)
{
	size_t after = entries->count - (size_t)(entry - entries->rows) - 1;

	free_entry(entry);
	memmove(entry, entry + 1, after * sizeof(*entry));
	entries->count--;
}

size_t catalog_entries_from(const struct catalog_entries *entries, const char *key)
{
	size_t low = 0, high = entries->count;

	/* Keys often arrive in order. */
	if (high && strcmp(entries->rows[high - 1].key, key) < 0)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(entries->rows[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct catalog_entry *catalog_entries_find(const struct catalog_entries *entries, const char *key)
{
	size_t index = catalog_entries_from(entries, key);

	if (index < entries->count && !strcmp(entries->rows[index].key, key))
		return &entries->rows[index];
	return NULL;
}

static void *copy_value(const void *value, size_t size)
{
	char *copy = malloc(size + 1);

	if (!copy)
		return NULL;
	if (size)
		memcpy(copy, value, size);
	copy[size] = '\0';
	return copy;
}

static struct catalog_entry *insert(struct catalog_entries *entries, size_t index, const char *key,
				    const void *value, size_t size)
{
	struct catalog_entry entry = { .size = size }, *row;

	if (entries->count == entries->room) {
		size_t room = entries->room ? entries->room * 2 : 8;
		void *rows = reallocarray(entries->rows, room, sizeof(entry));

		if (!rows)
			return NULL;
		entries->rows = rows;
		entries->room = room;
	}
	entry.key = strdup(key);
	entry.value = value ? copy_value(value, size) : NULL;
	if (!entry.key || (value && !entry.value)) {
		free_entry(&entry);
		return NULL;
	}
	row = &entries->rows[index];
	memmove(row + 1, row, (entries->count - index) * sizeof(entry));
	entries->count++;
	*row = entry;
	return row;
}

struct catalog_entry *catalog_entries_append(struct catalog_entries *entries, const char *key,
					     const void *value, size_t size)
{
	return insert(entries, entries->count, key, value, size);
}

struct catalog_entry *catalog_entries_put(struct catalog_entries *entries, const char *key,
					  const void *value, size_t size)
{
	size_t index = catalog_entries_from(entries, key);
	struct catalog_entry *entry;
	void *copy;

	if (index == entries->count || strcmp(entries->rows[index].key, key))
		return insert(entries, index, key, value, size);
	copy = copy_value(value, size);
	if (!copy)
		return NULL;
	entry = &entries->rows[index];
	free(entry->value);
	entry->value = copy;
	entry->size = size;
	return entry;
}

int catalog_entries_take(struct catalog_entries *entries, const struct catalog_result *result)
{
	*entries = (struct catalog_entries){ 0 };
	if (result->owner) {
		*entries = *result->owner;
		*result->owner = (struct catalog_entries){ 0 };
		return 0;
	}
	for (size_t i = 0; i < result->count; i++) {
		const struct catalog_entry *from = &result->entries[i];
		struct catalog_entry *entry = catalog_entries_append(entries, from->key,
								     from->value, from->size);

		if (!entry) {
			catalog_entries_clear(entries);
			return -ENOMEM;
		}
		entry->revision = from->revision;
		entry->lease = from->lease;
	}
	return 0;
}

bool catalog_has_prefix(const char *key, const char *prefix)
{
	return !strncmp(key, prefix, strlen(prefix));
}
