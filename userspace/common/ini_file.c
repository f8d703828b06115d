// SPDX-License-Identifier: GPL-2.0-or-later
#include "ini_file.h"

#include "text_file.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ini_file_complain(struct ini_file *file, const char *format, ...)
{
	va_list args;
	int len;

	if (file->error_line)
		return -EINVAL;
	file->error_line = file->line;
	len = snprintf(file->error, INI_FILE_ERROR_LEN, "%s:%d: ", file->path, file->line);
	if (len < 0 || len >= INI_FILE_ERROR_LEN)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(file->error + len, INI_FILE_ERROR_LEN - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

/* The sections, or the keys of one. */
static void list_known(const struct ini_file *file, const char *section, char *buf, size_t room)
{
	const struct ini_key *keys = file->keys;
	size_t len = 0;

	*buf = '\0';
	for (size_t i = 0; i < file->count && len < room; i++) {
		if (section ? strcmp(keys[i].section, section) :
			      i && !strcmp(keys[i].section, keys[i - 1].section))
			continue;
		len += (size_t)snprintf(buf + len, room - len, section ? "%s%s" : "%s[%s]",
					len ? ", " : "", section ? keys[i].name : keys[i].section);
	}
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct ini_file *file = user;
	bool section_known = false;
	char known[128];

	for (size_t i = 0; i < file->count; i++) {
		const struct ini_key *key = &file->keys[i];

		if (strcmp(key->section, section))
			continue;
		section_known = true;
		if (strcmp(key->name, name))
			continue;
		if (file->given & 1U << i)
			return !ini_file_complain(file, "%s is given twice: remove one of the two",
						  name);
		file->given |= 1U << i;
		return !key->read(file, key, value);
	}
	list_known(file, section_known ? section : NULL, known, sizeof(known));
	if (!*section)
		return !ini_file_complain(
			file, "%s stands before the first section: put it under one of %s", name,
			known);
	if (!section_known)
		return !ini_file_complain(file, "unknown section [%s]: there are %s", section,
					  known);
	return !ini_file_complain(file, "unknown key %s in [%s]: there are %s", name, section,
				  known);
}

/* As fgets(), which inih expects; it is here to count lines. */
static char *read_line(char *buf, int room, void *stream)
{
	struct ini_file *file = stream;
	size_t left = (size_t)(file->end - file->next), len = (size_t)room - 1;
	const char *newline;

	if (!left)
		return NULL;
	len = len < left ? len : left;
	newline = memchr(file->next, '\n', len);
	if (newline)
		len = (size_t)(newline + 1 - file->next);
	memcpy(buf, file->next, len);
	buf[len] = '\0';
	file->next += len;
	file->line++;
	if (!newline && file->next != file->end)
		ini_file_complain(file, "the line is too long: keep it below %d characters",
				  room - 1);
	return buf;
}

int ini_file_read(const char *path, const struct ini_key *keys, size_t count, void *settings,
		  void (*check)(struct ini_file *file), char *error)
{
	struct ini_file file = {
		.path = path, .keys = keys, .count = count, .settings = settings, .error = error,
	};
	char why[TEXT_FILE_ERROR_LEN], *text;
	size_t size;
	int err = text_file_read(path, INI_FILE_MAX, &text, &size, why), line;

	if (err) {
		snprintf(error, INI_FILE_ERROR_LEN, "%s: %s", path, why);
		return err;
	}
	file.next = text;
	file.end = text + size;
	line = ini_parse_stream(read_line, &file, handle, &file);
	free(text);
	/* inih knows of lines that are neither, and only says which is the first. */
	if (line > 0 && (!file.error_line || line < file.error_line)) {
		file.error_line = 0;
		file.line = line;
		ini_file_complain(&file,
				  "neither \"key = value\" nor \"[section]\": write one of the two");
	}
	if (check)
		check(&file);
	if (file.error_line)
		return -EINVAL;
	if (line < 0) {
		snprintf(error, INI_FILE_ERROR_LEN, "%s: %s", path, strerror(ENOMEM));
		return -ENOMEM;
	}
	return 0;
}
