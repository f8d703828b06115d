// SPDX-License-Identifier: GPL-2.0-or-later
#include "quantity.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	enum sim_quantity quantity;
	const char *unit;
	double worth;
} units[] = {
	{ SIM_QUANTITY_BYTE_RATE, "MB/s", 1e6 },
	{ SIM_QUANTITY_BYTE_RATE, "GB/s", 1e9 },
	{ SIM_QUANTITY_BYTE_RATE, "TB/s", 1e12 },
	{ SIM_QUANTITY_BYTE_RATE, "Mbit/s", 1e6 / 8 },
	{ SIM_QUANTITY_BYTE_RATE, "Gbit/s", 1e9 / 8 },
	{ SIM_QUANTITY_BYTE_RATE, "Tbit/s", 1e12 / 8 },
	{ SIM_QUANTITY_FLOP_RATE, "G", 1e9 },
	{ SIM_QUANTITY_FLOP_RATE, "T", 1e12 },
	{ SIM_QUANTITY_FLOP_RATE, "P", 1e15 },
	{ SIM_QUANTITY_TIME, "ns", 1e-9 },
	{ SIM_QUANTITY_TIME, "us", 1e-6 },
	{ SIM_QUANTITY_TIME, "ms", 1e-3 },
	{ SIM_QUANTITY_TIME, "s", 1 },
};

int sim_quantity_parse(enum sim_quantity quantity, const char *text, double *value)
{
	char *unit;

	/* No hexadecimal numbers, infinities and signs, which strtod() would take. */
	if (!isdigit((unsigned char)*text) || text[strspn(text, "0123456789.")] == 'x')
		return -EINVAL;
	*value = strtod(text, &unit);
	if (!*unit && *value == 0)
		return 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].quantity == quantity && !strcmp(units[i].unit, unit)) {
			*value *= units[i].worth;
			return isfinite(*value) ? 0 : -EINVAL;
		}
	return -EINVAL;
}

const char *sim_quantity_example(enum sim_quantity quantity)
{
	static const char *const examples[] = { "12.5GB/s or 100Gbit/s", "14T", "20us or 1.5ms" };

	return examples[quantity];
}
