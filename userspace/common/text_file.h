/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file that somebody has written and that is read whole: settings, orders, indices. It is a
 * regular file and has at most so many bytes, or it is not read: who names a device or a pipe by
 * mistake is told so, instead of waiting for an end that does not come.
 */
#ifndef COMMON_TEXT_FILE_H
#define COMMON_TEXT_FILE_H

#include <stddef.h>

#define TEXT_FILE_ERROR_LEN 256

/*
 * The text is the caller's to free, and has a 0 after its size bytes. error has room for
 * TEXT_FILE_ERROR_LEN: what is wrong and the fix, without the path. -EINVAL: no regular file;
 * -EFBIG: a larger one.
 */
int text_file_read(const char *path, size_t max, char **text, size_t *size, char *error);

#endif
