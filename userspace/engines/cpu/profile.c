// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* So that a cost of any block fits: a year of nanoseconds is 55 bits. */
#define RATE_MIN 0.001
#define RATE_MAX 1e6
#define LAUNCH_MAX_US 1e6
#define COST_MAX_NS 3e16

void profile_default(struct profile *profile)
{
	*profile = (struct profile){ .execute = true };
}

/* A file that is being read: only its first error is told. */
struct reading {
	FILE *file;
	const char *path;
	struct profile profile;
	char *error;
	int line;
	int error_line; /* 0: none */
	int execute_line;
	uint32_t given; /* bit per entry of keys[] */
};

__attribute__((format(printf, 2, 3))) static int complain(struct reading *reading,
							   const char *format, ...)
{
	va_list args;
	int len;

	if (reading->error_line)
		return -EINVAL;
	reading->error_line = reading->line;
	len = snprintf(reading->error, PROFILE_ERROR_LEN, "%s:%d: ", reading->path, reading->line);
	if (len < 0 || len >= PROFILE_ERROR_LEN)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(reading->error + len, PROFILE_ERROR_LEN - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

struct key;
static int read_number(struct reading *reading, const struct key *key, const char *value);
static int read_execute(struct reading *reading, const struct key *key, const char *value);

static const struct key {
	const char *section;
	const char *name;
	int (*read)(struct reading *reading, const struct key *key, const char *value);
	size_t field; /* a double of struct profile */
	double min, max;
} keys[] = {
	{ "compute", "gflops", read_number, offsetof(struct profile, gflops), RATE_MIN, RATE_MAX },
	{ "compute", "execute", read_execute, 0, 0, 0 },
	{ "memory", "gbps", read_number, offsetof(struct profile, memory_gbps), RATE_MIN,
	  RATE_MAX },
	{ "copy", "gbps", read_number, offsetof(struct profile, copy_gbps), RATE_MIN, RATE_MAX },
	{ "launch", "us", read_number, offsetof(struct profile, launch_us), 0, LAUNCH_MAX_US },
};

#define KEYS (sizeof(keys) / sizeof(keys[0]))

static int read_number(struct reading *reading, const struct key *key, const char *value)
{
	double number;
	char *end;

	errno = 0;
	number = strtod(value, &end);
	if (errno || end == value || *end || !(number >= key->min && number <= key->max))
		return complain(reading, "%s: \"%s\" is not possible: write a number from %g to %g",
				key->name, value, key->min, key->max);
	memcpy((char *)&reading->profile + key->field, &number, sizeof(number));
	return 0;
}

static int read_execute(struct reading *reading, const struct key *key, const char *value)
{
	if (strcmp(value, "yes") && strcmp(value, "no"))
		return complain(reading, "%s: \"%s\" is neither: write yes or no", key->name,
				value);
	reading->profile.execute = !strcmp(value, "yes");
	reading->execute_line = reading->line;
	return 0;
}

/* The sections, or the keys of one. */
static void list_known(const char *section, char *buf, size_t room)
{
	size_t len = 0;

	*buf = '\0';
	for (size_t i = 0; i < KEYS && len < room; i++) {
		if (section ? strcmp(keys[i].section, section) :
			      i && !strcmp(keys[i].section, keys[i - 1].section))
			continue;
		len += (size_t)snprintf(buf + len, room - len, section ? "%s%s" : "%s[%s]",
					len ? ", " : "", section ? keys[i].name : keys[i].section);
	}
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct reading *reading = user;
	bool section_known = false;
	char known[128];

	for (size_t i = 0; i < KEYS; i++) {
		if (strcmp(keys[i].section, section))
			continue;
		section_known = true;
		if (strcmp(keys[i].name, name))
			continue;
		if (reading->given & 1U << i)
			return !complain(reading, "%s is given twice: remove one of the two", name);
		reading->given |= 1U << i;
		return !keys[i].read(reading, &keys[i], value);
	}
	list_known(section_known ? section : NULL, known, sizeof(known));
	if (!*section)
		return !complain(reading,
				 "%s stands before the first section: put it under one of %s", name,
				 known);
	if (!section_known)
		return !complain(reading, "unknown section [%s]: there are %s", section, known);
	return !complain(reading, "unknown key %s in [%s]: there are %s", name, section, known);
}

/* inih's fgets(); it is here to count lines. */
static char *read_line(char *buf, int room, void *stream)
{
	struct reading *reading = stream;
	char *line = fgets(buf, room, reading->file);

	if (!line)
		return NULL;
	reading->line++;
	if (!strchr(line, '\n') && !feof(reading->file))
		complain(reading, "the line is too long: keep it below %d characters", room - 1);
	return line;
}

static void check_whole(struct reading *reading)
{
	if (reading->profile.execute || reading->profile.gflops > 0)
		return;
	reading->line = reading->execute_line;
	complain(reading, "execute = no without a rate would take no time: give gflops too");
}

int profile_read(const char *path, struct profile *profile, char *error)
{
	struct reading reading = { .path = path, .error = error };
	int line;

	profile_default(&reading.profile);
	reading.file = fopen(path, "re");
	if (!reading.file) {
		int err = -errno;

		snprintf(error, PROFILE_ERROR_LEN, "%s: %s", path, strerror(-err));
		return err;
	}
	line = ini_parse_stream(read_line, &reading, handle, &reading);
	if (ferror(reading.file)) {
		fclose(reading.file);
		snprintf(error, PROFILE_ERROR_LEN, "%s: cannot be read", path);
		return -EIO;
	}
	fclose(reading.file);
	/* inih knows of lines that are neither, and only says which is the first. */
	if (line > 0 && (!reading.error_line || line < reading.error_line)) {
		reading.error_line = 0;
		reading.line = line;
		complain(&reading,
			 "neither \"key = value\" nor \"[section]\": write one of the two");
	}
	check_whole(&reading);
	if (reading.error_line)
		return -EINVAL;
	if (line < 0) {
		snprintf(error, PROFILE_ERROR_LEN, "%s: %s", path, strerror(ENOMEM));
		return -ENOMEM;
	}
	*profile = reading.profile;
	return 0;
}

bool profile_is_paced(const struct profile *profile)
{
	return !profile->execute || profile->gflops > 0 || profile->memory_gbps > 0 ||
	       profile->copy_gbps > 0 || profile->launch_us > 0;
}

/* 10^9 per second is one per nanosecond. */
static double duration(uint64_t amount, double rate)
{
	return rate > 0 ? (double)amount / rate : 0;
}

uint64_t profile_cost(const struct profile *profile, const struct op_work *work)
{
	double ns = fmax(duration(work->flops, profile->gflops),
			 duration(work->bytes, profile->memory_gbps));

	ns += duration(work->copied, profile->copy_gbps) + (double)work->ns;
	return (uint64_t)llround(fmin(ns, COST_MAX_NS));
}

uint64_t profile_launch_cost(const struct profile *profile)
{
	return (uint64_t)llround(profile->launch_us * 1000);
}

int64_t op_cost(const struct profile *profile, const struct op_call *call, uint64_t first,
		uint64_t count)
{
	struct op_work work;
	int err = op_work(call, first, count, &work);

	return err ? err : (int64_t)profile_cost(profile, &work);
}
