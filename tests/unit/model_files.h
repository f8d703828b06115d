/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of models, in a directory of the test's own. */
#ifndef TESTS_UNIT_MODEL_FILES_H
#define TESTS_UNIT_MODEL_FILES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char files_directory[] = "/tmp/distmind-model-XXXXXX";

static inline int files_setup(void **state)
{
	(void)state;
	return mkdtemp(files_directory) ? 0 : -1;
}

static inline int files_teardown(void **state)
{
	DIR *directory = opendir(files_directory);
	struct dirent *entry;

	(void)state;
	if (!directory)
		return -1;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	return rmdir(files_directory);
}

static inline const char *files_path(const char *name)
{
	static char path[4][256];
	static int next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", files_directory, name);
	return path[next];
}

static inline const char *files_write(const char *name, const void *data, size_t size)
{
	const char *path = files_path(name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
	return path;
}

/* A safetensors file of a header and so many bytes of data, the caller's to free. */
static inline uint8_t *files_safetensors(const char *header, size_t data, size_t *size)
{
	uint64_t length = strlen(header);
	uint8_t *file;

	*size = 8 + length + data;
	file = malloc(*size);
	assert_non_null(file);
	for (int i = 0; i < 8; i++)
		file[i] = (uint8_t)(length >> 8 * i);
	memcpy(file + 8, header, length);
	for (size_t i = 0; i < data; i++)
		file[8 + length + i] = (uint8_t)(i * 31 + (i >> 8));
	return file;
}

#endif
