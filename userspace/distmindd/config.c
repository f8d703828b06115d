// SPDX-License-Identifier: GPL-2.0-or-later
#include "config.h"

#include "log.h"

#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERCENT_MAX 10000

void config_default(struct config *config)
{
	*config = (struct config){
		.policy = &placement_best_fit,
		.share_overcommit = 100,
		.memory_overcommit = 100,
		.lost_gpu_keep_us = 600000000,
		.log_level = LOG_INFO,
	};
}

/* A file that is being read: only its first error is told. */
struct reading {
	FILE *file;
	const char *path;
	struct config config;
	char *error;
	int line;
	int error_line; /* 0: none */
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
	len = snprintf(reading->error, CONFIG_ERROR_LEN, "%s:%d: ", reading->path, reading->line);
	if (len < 0 || len >= CONFIG_ERROR_LEN)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(reading->error + len, CONFIG_ERROR_LEN - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

static int read_policy(struct reading *reading, const char *value)
{
	const struct placement_policy *policy = placement_policy_find(value);

	if (!policy)
		return complain(reading, "policy: there is no policy \"%s\": write best-fit",
				value);
	reading->config.policy = policy;
	return 0;
}

static int read_percent(struct reading *reading, const char *key, const char *value,
			uint32_t *percent)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(value, &end, 10);
	if (errno || end == value || strcmp(end, "%") || *value == '-' || !number ||
	    number > PERCENT_MAX)
		return complain(reading,
				"%s: \"%s\" is not a percentage: write 1%% to %d%%, such as 150%%",
				key, value, PERCENT_MAX);
	*percent = (uint32_t)number;
	return 0;
}

static int read_share(struct reading *reading, const char *value)
{
	return read_percent(reading, "share-overcommit", value, &reading->config.share_overcommit);
}

static int read_memory(struct reading *reading, const char *value)
{
	return read_percent(reading, "memory-overcommit", value,
			    &reading->config.memory_overcommit);
}

static int read_keep(struct reading *reading, const char *value)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {
		{ "ms", 1000 },		 { "s", 1000000 },	 { "min", 60000000 },
		{ "h", 3600000000ULL },	 { "d", 86400000000ULL },
	};
	uint64_t number, us;
	char *end;

	if (!strcmp(value, "forever")) {
		reading->config.lost_gpu_keep_us = CONFIG_FOREVER;
		return 0;
	}
	errno = 0;
	number = strtoull(value, &end, 10);
	if (errno || end == value || *value == '-')
		goto err;
	end += strspn(end, " ");
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name))
			continue;
		if (__builtin_mul_overflow(number, units[i].us, &us) || us > INT64_MAX)
			break;
		reading->config.lost_gpu_keep_us = us;
		return 0;
	}
err:
	return complain(reading,
			"lost-gpu-keep: \"%s\" is not a time: write a number and ms, s, min, h or "
			"d, such as 10min, or forever",
			value);
}

static int read_level(struct reading *reading, const char *value)
{
	int level = log_level_parse(value);

	if (level < 0)
		return complain(reading,
				"level: there is no level \"%s\": write error, warning, info or "
				"debug",
				value);
	reading->config.log_level = level;
	return 0;
}

static const struct {
	const char *section;
	const char *name;
	int (*read)(struct reading *reading, const char *value);
} keys[] = {
	{ "placement", "policy", read_policy },
	{ "placement", "share-overcommit", read_share },
	{ "placement", "memory-overcommit", read_memory },
	{ "pool", "lost-gpu-keep", read_keep },
	{ "log", "level", read_level },
};

#define KEYS (sizeof(keys) / sizeof(keys[0]))

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
		return !keys[i].read(reading, value);
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

int config_read(const char *path, struct config *config, char *error)
{
	struct reading reading = { .path = path, .error = error };
	int line;

	config_default(&reading.config);
	reading.file = fopen(path, "re");
	if (!reading.file) {
		int err = -errno;

		snprintf(error, CONFIG_ERROR_LEN, "%s: %s", path, strerror(-err));
		return err;
	}
	line = ini_parse_stream(read_line, &reading, handle, &reading);
	if (ferror(reading.file)) {
		fclose(reading.file);
		snprintf(error, CONFIG_ERROR_LEN, "%s: cannot be read", path);
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
	if (reading.error_line)
		return -EINVAL;
	if (line < 0) {
		snprintf(error, CONFIG_ERROR_LEN, "%s: %s", path, strerror(ENOMEM));
		return -ENOMEM;
	}
	*config = reading.config;
	return 0;
}
