// SPDX-License-Identifier: GPL-2.0-or-later
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

int model_error(char *error, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, MODEL_ERROR_LEN, format, args);
	va_end(args);
	return code;
}
