// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
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

/* What is read; the profile comes first, so that its fields are the keys'. */
struct reading {
	struct profile profile;
	int execute_line;
};

static int read_number(struct ini_file *file, const struct ini_key *key, const char *value)
{
	double number;
	char *end;

	errno = 0;
	number = strtod(value, &end);
	if (errno || end == value || *end || !(number >= key->min && number <= key->max))
		return ini_file_complain(file, "%s: \"%s\" is not possible: write a number from %g to %g",
				key->name, value, key->min, key->max);
	memcpy((char *)file->settings + key->field, &number, sizeof(number));
	return 0;
}

static int read_execute(struct ini_file *file, const struct ini_key *key, const char *value)
{
	struct reading *reading = file->settings;

	if (strcmp(value, "yes") && strcmp(value, "no"))
		return ini_file_complain(file, "%s: \"%s\" is neither: write yes or no", key->name,
				value);
	reading->profile.execute = !strcmp(value, "yes");
	reading->execute_line = file->line;
	return 0;
}

static const struct ini_key keys[] = {
	{ "compute", "gflops", read_number, offsetof(struct profile, gflops), RATE_MIN, RATE_MAX },
	{ "compute", "execute", read_execute, 0, 0, 0 },
	{ "memory", "gbps", read_number, offsetof(struct profile, memory_gbps), RATE_MIN,
	  RATE_MAX },
	{ "copy", "gbps", read_number, offsetof(struct profile, copy_gbps), RATE_MIN, RATE_MAX },
	{ "launch", "us", read_number, offsetof(struct profile, launch_us), 0, LAUNCH_MAX_US },
};

static void check_whole(struct ini_file *file)
{
	const struct reading *reading = file->settings;

	if (reading->profile.execute || reading->profile.gflops > 0)
		return;
	file->line = reading->execute_line;
	ini_file_complain(file, "execute = no without a rate would take no time: give gflops too");
}

int profile_read(const char *path, struct profile *profile, char *error)
{
	struct reading reading = { 0 };
	int err;

	profile_default(&reading.profile);
	err = ini_file_read(path, keys, sizeof(keys) / sizeof(keys[0]), &reading, check_whole,
			    error);
	if (!err)
		*profile = reading.profile;
	return err;
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
