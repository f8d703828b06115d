// SPDX-License-Identifier: GPL-2.0-or-later
#include "config.h"

#include "../common/ini_file.h"
#include "log.h"

#include <errno.h>
#include <stddef.h>
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

static int read_policy(struct ini_file *file, const struct ini_key *key, const char *value)
{
	const struct placement_policy *policy = placement_policy_find(value);
	struct config *config = file->settings;

	if (!policy)
		return ini_file_complain(file, "%s: there is no policy \"%s\": write best-fit",
					 key->name, value);
	config->policy = policy;
	return 0;
}

static int read_percent(struct ini_file *file, const struct ini_key *key, const char *value)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(value, &end, 10);
	if (errno || end == value || strcmp(end, "%") || *value == '-' || !number ||
	    number > PERCENT_MAX)
		return ini_file_complain(file,
					 "%s: \"%s\" is not a percentage: write 1%% to %d%%, such "
					 "as 150%%",
					 key->name, value, PERCENT_MAX);
	memcpy((char *)file->settings + key->field, &(uint32_t){ (uint32_t)number },
	       sizeof(uint32_t));
	return 0;
}

static int read_keep(struct ini_file *file, const struct ini_key *key, const char *value)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {
		{ "ms", 1000 },		 { "s", 1000000 },	 { "min", 60000000 },
		{ "h", 3600000000ULL },	 { "d", 86400000000ULL },
	};
	struct config *config = file->settings;
	uint64_t number, us;
	char *end;

	if (!strcmp(value, "forever")) {
		config->lost_gpu_keep_us = CONFIG_FOREVER;
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
		config->lost_gpu_keep_us = us;
		return 0;
	}
err:
	return ini_file_complain(file,
				 "%s: \"%s\" is not a time: write a number and ms, s, min, h or "
				 "d, such as 10min, or forever",
				 key->name, value);
}

static int read_level(struct ini_file *file, const struct ini_key *key, const char *value)
{
	int level = log_level_parse(value);

	if (level < 0)
		return ini_file_complain(file,
					 "%s: there is no level \"%s\": write error, warning, "
					 "info or debug",
					 key->name, value);
	((struct config *)file->settings)->log_level = level;
	return 0;
}

static const struct ini_key keys[] = {
	{ "placement", "policy", read_policy, 0, 0, 0 },
	{ "placement", "share-overcommit", read_percent, offsetof(struct config, share_overcommit),
	  0, 0 },
	{ "placement", "memory-overcommit", read_percent,
	  offsetof(struct config, memory_overcommit), 0, 0 },
	{ "pool", "lost-gpu-keep", read_keep, 0, 0, 0 },
	{ "log", "level", read_level, 0, 0, 0 },
};

int config_read(const char *path, struct config *config, char *error)
{
	struct config read;
	int err;

	config_default(&read);
	err = ini_file_read(path, keys, sizeof(keys) / sizeof(keys[0]), &read, NULL, error);
	if (!err)
		*config = read;
	return err;
}
