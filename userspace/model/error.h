/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the functions of this directory say what is wrong: in a text of the caller's. */
#ifndef DISTMIND_MODEL_ERROR_H
#define DISTMIND_MODEL_ERROR_H

#define MODEL_ERROR_LEN 1024

/* Returns code. error has room for MODEL_ERROR_LEN. */
int model_error(char *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
