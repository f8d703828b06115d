// SPDX-License-Identifier: GPL-2.0-or-later
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/distmind.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "h", 3600 * NSEC_PER_SEC },
	{ "min", 60 * NSEC_PER_SEC },
	{ "s", NSEC_PER_SEC },
	{ "ms", NSEC_PER_MSEC },
	{ "us", 1000 },
	{ "ns", 1 },
};

/*
 * "12.5" in units of 1/scale, a power of ten. Not strtod(): that takes signs, blanks, "inf"
 * and hexadecimals, follows the locale, and rounds.
 */
static int decimal(const char **text, uint64_t scale, uint64_t *value)
{
	const char *c = *text;
	uint64_t number = 0;

	if (!isdigit((unsigned char)*c))
		return -EINVAL;
	for (; isdigit((unsigned char)*c); c++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*c - '0'), &number))
			return -ERANGE;
	}
	if (__builtin_mul_overflow(number, scale, &number))
		return -ERANGE;
	if (*c == '.') {
		c++;
		if (!isdigit((unsigned char)*c))
			return -EINVAL;
		for (; isdigit((unsigned char)*c); c++) {
			/* More digits than the unit has: not what was meant. */
			if (scale < 10 && *c != '0')
				return -EINVAL;
			scale /= 10;
			if (__builtin_add_overflow(number, scale * (*c - '0'), &number))
				return -ERANGE;
		}
	}
	*text = c;
	*value = number;
	return 0;
}

int duration_parse(const char *text, uint64_t *ns)
{
	size_t digits = strspn(text, "0123456789.");
	const char *c = text;
	uint64_t value;
	size_t i;
	int ret;

	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(text + digits, units[i].name))
			continue;
		/* Hours and minutes have no decimal fractions: as seconds. */
		if (units[i].ns > NSEC_PER_SEC) {
			ret = decimal(&c, NSEC_PER_SEC, &value);
			if (!ret &&
			    __builtin_mul_overflow(value, units[i].ns / NSEC_PER_SEC, &value))
				ret = -ERANGE;
		} else {
			ret = decimal(&c, units[i].ns, &value);
		}
		if (ret)
			return ret;
		if (c != text + digits)
			return -EINVAL;
		*ns = value;
		return 0;
	}
	return -EINVAL;
}

void duration_format(uint64_t ns, char *buf, size_t len)
{
	uint64_t tenths;
	size_t i;

	if (!ns) {
		snprintf(buf, len, "0");
		return;
	}
	for (i = 0; i < sizeof(units) / sizeof(units[0]) - 1; i++) {
		if (ns >= units[i].ns)
			break;
	}
	tenths = ns % units[i].ns * 10 / units[i].ns;
	if (tenths)
		snprintf(buf, len, "%" PRIu64 ".%" PRIu64 "%s", ns / units[i].ns, tenths,
			 units[i].name);
	else
		snprintf(buf, len, "%" PRIu64 "%s", ns / units[i].ns, units[i].name);
}

int share_parse(const char *text, uint32_t *thousandths)
{
	const char *c = text;
	uint64_t value;
	int ret;

	ret = decimal(&c, DISTMIND_SHARE_WHOLE / 100, &value);
	if (ret)
		return ret;
	if (*c == '%')
		c++;
	if (*c)
		return -EINVAL;
	if (value < 1 || value > DISTMIND_SHARE_WHOLE)
		return -ERANGE;
	*thousandths = value;
	return 0;
}

void share_format(uint32_t thousandths, char *buf, size_t len)
{
	if (thousandths % 10)
		snprintf(buf, len, "%u.%u%%", thousandths / 10, thousandths % 10);
	else
		snprintf(buf, len, "%u%%", thousandths / 10);
}

int number_parse(const char *text, uint32_t min, uint32_t max, uint32_t *number)
{
	const char *c = text;
	uint64_t value;
	int ret;

	if (strchr(text, '.'))
		return -EINVAL;
	ret = decimal(&c, 1, &value);
	if (ret)
		return ret;
	if (*c)
		return -EINVAL;
	if (value < min || value > max)
		return -ERANGE;
	*number = value;
	return 0;
}

int label_check(const char *text)
{
	const char *c;

	if (!*text)
		return -EINVAL;
	for (c = text; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			return -EINVAL;
	}
	return c - text < DISTMIND_NAME_LEN ? 0 : -ERANGE;
}

int user_parse(const char *text, uint32_t *uid)
{
	const struct passwd *user;

	/* UINT32_MAX is what "nobody at all" is called in system calls. */
	if (!number_parse(text, 0, UINT32_MAX - 1, uid))
		return 0;
	user = getpwnam(text);
	if (!user)
		return -ENOENT;
	*uid = user->pw_uid;
	return 0;
}

int group_parse(const char *text, uint32_t *gid)
{
	const struct group *group;

	if (!number_parse(text, 0, UINT32_MAX - 1, gid))
		return 0;
	group = getgrnam(text);
	if (!group)
		return -ENOENT;
	*gid = group->gr_gid;
	return 0;
}
