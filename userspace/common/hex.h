/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes as two hexadecimal digits each, in lower case, as digests are written everywhere.
 */
#ifndef DISTMIND_COMMON_HEX_H
#define DISTMIND_COMMON_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEX_LEN(size) (2 * (size) + 1) /* with the NUL */

/* text has room for HEX_LEN(size). */
static inline void hex_format(const uint8_t *bytes, size_t size, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	*text = '\0';
}

static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly so many bytes, else false. */
static inline bool hex_parse(const char *text, uint8_t *bytes, size_t size)
{
	if (strnlen(text, 2 * size + 1) != 2 * size)
		return false;
	for (size_t i = 0; i < size; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

#endif
