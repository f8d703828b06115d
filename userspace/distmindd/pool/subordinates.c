// SPDX-License-Identifier: GPL-2.0-or-later
#include "subordinates.h"

#include <ctype.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct subordinate_range {
	uint32_t first, count;
	uint32_t owner;
	char *name; /* of the owner; while it is looked for */
};

void subordinates_init(struct subordinates *subordinates, const char *path, const char *users)
{
	*subordinates = (struct subordinates){ .path = path, .users = users };
}

void subordinates_clear(struct subordinates *subordinates)
{
	for (size_t i = 0; i < subordinates->count; i++)
		free(subordinates->ranges[i].name);
	free(subordinates->ranges);
	subordinates->ranges = NULL;
	subordinates->count = 0;
}

/* All of a text, up to the highest uid there can be. */
static bool parse_number(const char *text, uint32_t *number)
{
	unsigned long long value;
	char *end;

	if (!text || !isdigit((unsigned char)*text))
		return false;
	value = strtoull(text, &end, 10);
	*number = (uint32_t)value;
	return !*end && value < UINT32_MAX;
}

/* NAME:FIRST:COUNT. What is something else is left out, as the tools do that use it. */
static void add_line(struct subordinates *subordinates, char *line)
{
	struct subordinate_range range = { 0 }, *ranges;
	char *name;

	line[strcspn(line, "\n")] = '\0';
	name = strsep(&line, ":");
	if (!*name || !parse_number(strsep(&line, ":"), &range.first) ||
	    !parse_number(line, &range.count))
		return;
	range.name = strdup(name);
	ranges = reallocarray(subordinates->ranges, subordinates->count + 1, sizeof(*ranges));
	if (ranges)
		subordinates->ranges = ranges;
	if (!ranges || !range.name) {
		free(range.name);
		return;
	}
	range.owner = range.first;
	parse_number(range.name, &range.owner);
	ranges[subordinates->count++] = range;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct subordinate_range *)a)->name,
		      ((const struct subordinate_range *)b)->name);
}

static void name_owner(struct subordinates *subordinates, const struct passwd *user)
{
	const struct subordinate_range wanted = { .name = user->pw_name };
	struct subordinate_range *ranges = subordinates->ranges, *range;
	size_t at;

	range = bsearch(&wanted, ranges, subordinates->count, sizeof(*ranges), by_name);
	if (!range)
		return;
	at = (size_t)(range - ranges);
	while (at && !by_name(&ranges[at - 1], &wanted))
		at--;
	for (; at < subordinates->count && !by_name(&ranges[at], &wanted); at++)
		ranges[at].owner = user->pw_uid;
}

static void find_owners(struct subordinates *subordinates)
{
	FILE *file = subordinates->count ? fopen(subordinates->users, "re") : NULL;
	const struct passwd *user;

	if (!file)
		return;
	qsort(subordinates->ranges, subordinates->count, sizeof(*subordinates->ranges), by_name);
	while ((user = fgetpwent(file)))
		name_owner(subordinates, user);
	fclose(file);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void refresh(struct subordinates *subordinates)
{
	struct stat now = { 0 };
	char *line = NULL;
	size_t room = 0;
	FILE *file;

	/* One that is not there is an empty one. */
	if (stat(subordinates->path, &now))
		now = (struct stat){ 0 };
	if (is_same(&now, &subordinates->seen))
		return;
	subordinates_clear(subordinates);
	subordinates->seen = now;
	file = fopen(subordinates->path, "re");
	if (!file)
		return;
	while (getline(&line, &room, file) >= 0)
		add_line(subordinates, line);
	free(line);
	fclose(file);
	find_owners(subordinates);
}

uint32_t subordinates_owner(struct subordinates *subordinates, uint32_t uid)
{
	refresh(subordinates);
	for (size_t i = 0; uid && i < subordinates->count; i++) {
		const struct subordinate_range *range = &subordinates->ranges[i];

		if (uid >= range->first && uid - range->first < range->count)
			return range->owner ? range->owner : uid;
	}
	return uid;
}
