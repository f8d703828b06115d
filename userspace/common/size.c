// SPDX-License-Identifier: GPL-2.0-or-later
#include "size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char units[] = "BKMGT";

/* 2^40 * 10^6 still fits 64 bits; later digits are worth less than a byte of a M */
#define FRACTION_SCALE_MAX 1000000

static int parse_suffix(const char *text, unsigned int *shift)
{
	const char *unit;

	*shift = 0;
	if (*text && toupper((unsigned char)*text) != 'B') {
		unit = strchr(units, toupper((unsigned char)*text));
		if (!unit)
			return -EINVAL;
		*shift = 10 * (unsigned int)(unit - units);
		text++;
		if (!strcasecmp(text, "iB"))
			return 0;
	}
	return !*text || !strcasecmp(text, "B") ? 0 : -EINVAL;
}

int size_parse(const char *text, uint64_t *bytes)
{
	uint64_t whole = 0, fraction = 0, scale = 1;
	bool overflow = false, point = false;
	unsigned int shift;
	int err;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	for (; isdigit((unsigned char)*text); text++)
		overflow |= __builtin_mul_overflow(whole, 10, &whole) ||
			    __builtin_add_overflow(whole, *text - '0', &whole);
	if (*text == '.') {
		point = true;
		if (!isdigit((unsigned char)*++text))
			return -EINVAL;
		for (; isdigit((unsigned char)*text); text++) {
			if (scale == FRACTION_SCALE_MAX)
				continue;
			fraction = fraction * 10 + (uint64_t)(*text - '0');
			scale *= 10;
		}
	}
	err = parse_suffix(text, &shift);
	if (err)
		return err;
	if (point && !shift)
		return -EINVAL;
	if (overflow || __builtin_mul_overflow(whole, 1ULL << shift, &whole) ||
	    __builtin_add_overflow(whole, (fraction << shift) / scale, &whole))
		return -ERANGE;
	*bytes = whole;
	return 0;
}

void size_format(uint64_t bytes, char *buf, size_t len)
{
	unsigned int unit = 0, shift;
	uint64_t whole, tenths;

	while (unit + 2 < sizeof(units) && bytes >> 10 * (unit + 1))
		unit++;
	shift = 10 * unit;
	whole = bytes >> shift;
	if (!(bytes & ((1ULL << shift) - 1))) {
		snprintf(buf, len, "%" PRIu64 "%.*s", whole, bytes ? 1 : 0, &units[unit]);
		return;
	}

	tenths = ((bytes & ((1ULL << shift) - 1)) * 10 + (1ULL << shift) / 2) >> shift;
	whole += tenths / 10;
	tenths %= 10;
	/* 1023.96M is 1.0G rather than 1024.0M */
	if (whole == 1024 && unit + 2 < sizeof(units)) {
		whole = 1;
		unit++;
	}
	snprintf(buf, len, "%" PRIu64 ".%" PRIu64 "%c", whole, tenths, units[unit]);
}
