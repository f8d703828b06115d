/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Settings from an ini file. Everything is checked: an unknown section or key, a
 * key that is there twice, a line that is neither. The first error in the file is
 * told as "file:line: what is wrong: the fix".
 */
#ifndef COMMON_INI_FILE_H
#define COMMON_INI_FILE_H

#include <stddef.h>
#include <stdint.h>

#define INI_FILE_ERROR_LEN 512
#define INI_FILE_MAX (1U << 20) /* bytes */

struct ini_file;

/* A key that a file may have. Those of a section stand together. */
struct ini_key {
	const char *section;
	const char *name;
	/* Puts the value into file->settings, or complains. */
	int (*read)(struct ini_file *file, const struct ini_key *key, const char *value);
	size_t field;	 /* where in the settings, for read */
	double min, max; /* of numbers, for read */
};

/* A file that is being read. */
struct ini_file {
	const char *path;
	const char *next, *end; /* what is still to be read */
	const struct ini_key *keys;
	size_t count;
	void *settings;
	char *error;
	int line;
	int error_line; /* 0: none */
	uint32_t given; /* bit per key */
};

/* Returns -EINVAL; only the first complaint is kept. */
int ini_file_complain(struct ini_file *file, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Reads path into settings, key by key; what was read before an error stays
 * there. check, if not NULL, is called at the end and may complain. error has
 * room for INI_FILE_ERROR_LEN.
 */
int ini_file_read(const char *path, const struct ini_key *keys, size_t count, void *settings,
		  void (*check)(struct ini_file *file), char *error);

#endif
