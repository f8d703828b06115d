// SPDX-License-Identifier: GPL-2.0-or-later
#include "config.h"

#include "../../common/ini_file.h"
#include "../../common/size.h"
#include "log.h"

#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PERCENT_MAX 10000

void config_default(struct config *config)
{
	*config = (struct config){
		.policy = &placement_policies[0],
		.share_overcommit = 100,
		.memory_overcommit = 100,
		.lost_gpu_keep_us = 600000000,
		.log_level = LOG_INFO,
		.models = {
			.donor_memory = 64ULL << 20,
			.rdma_port = 7471,
			.catalog = "/var/lib/distmind/catalog",
			.pool = "default",
			.socket = "/run/distmind/distmindd.sock",
			.hot_half_life_us = 60000000,
		},
	};
}

static int read_policy(struct ini_file *file, const struct ini_key *key, const char *value)
{
	const struct placement_policy *policy = placement_policy_by_name(value);
	struct config *config = file->settings;

	/* Some are for the comparison on a trace that is known beforehand. */
	if (!policy || policy->knows_demand || policy->fractions)
		return ini_file_complain(file,
					 "%s: there is no policy \"%s\": write distmind, or "
					 "best-fit, first-fit or packing",
					 key->name, value);
	config->policy = policy;
	return 0;
}

/* Without a sign; unit is what follows it. */
static bool parse_number(const char *value, uint64_t *number, const char **unit)
{
	char *end;

	errno = 0;
	*number = strtoull(value, &end, 10);
	*unit = end;
	return !errno && end != value && *value != '-';
}

static void set_number(struct ini_file *file, const struct ini_key *key, uint64_t number)
{
	memcpy((char *)file->settings + key->field, &(uint32_t){ (uint32_t)number },
	       sizeof(uint32_t));
}

static int read_percent(struct ini_file *file, const struct ini_key *key, const char *value)
{
	const char *unit;
	uint64_t number;

	if (!parse_number(value, &number, &unit) || strcmp(unit, "%") || !number ||
	    number > PERCENT_MAX)
		return ini_file_complain(file,
					 "%s: \"%s\" is not a percentage: write 1%% to %d%%, such "
					 "as 150%%",
					 key->name, value, PERCENT_MAX);
	set_number(file, key, number);
	return 0;
}

static int read_spares(struct ini_file *file, const struct ini_key *key, const char *value)
{
	struct config *config = file->settings;
	size_t len = strlen(value);

	if (!len || len >= sizeof(config->spares) || strpbrk(value, " \t/") || value[0] == ',' ||
	    value[len - 1] == ',' || strstr(value, ",,"))
		return ini_file_complain(file,
					 "%s: \"%s\" is not a list of gpus: write their names, "
					 "separated by commas without blanks, such as cpu2,cpu3",
					 key->name, value);
	strcpy(config->spares, value);
	return 0;
}

static int read_port(struct ini_file *file, const struct ini_key *key, const char *value)
{
	const char *unit;
	uint64_t number;

	if (!parse_number(value, &number, &unit) || *unit || !number || number > UINT16_MAX)
		return ini_file_complain(file, "%s: \"%s\" is not a port: write 1 to 65535",
					 key->name, value);
	set_number(file, key, number);
	return 0;
}

/* A number and a unit. */
static bool parse_time(const char *value, uint64_t *time_us)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {
		{ "ms", 1000 },		 { "s", 1000000 },	 { "min", 60000000 },
		{ "h", 3600000000ULL },	 { "d", 86400000000ULL },
	};
	const char *unit;
	uint64_t number;

	if (!parse_number(value, &number, &unit))
		return false;
	unit += strspn(unit, " ");
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(unit, units[i].name))
			return !__builtin_mul_overflow(number, units[i].us, time_us) &&
			       *time_us <= INT64_MAX;
	return false;
}

static int read_keep(struct ini_file *file, const struct ini_key *key, const char *value)
{
	struct config *config = file->settings;
	uint64_t us = CONFIG_FOREVER;

	if (strcmp(value, "forever") && !parse_time(value, &us))
		return ini_file_complain(file,
					 "%s: \"%s\" is not a time: write a number and ms, s, "
					 "min, h or d, such as 10min, or forever",
					 key->name, value);
	config->lost_gpu_keep_us = us;
	return 0;
}

static int read_half_life(struct ini_file *file, const struct ini_key *key, const char *value)
{
	uint64_t us;

	if (!parse_time(value, &us) || !us)
		return ini_file_complain(file,
					 "%s: \"%s\" is not a time: write a number and ms, s, "
					 "min, h or d, such as 60s",
					 key->name, value);
	((struct config *)file->settings)->models.hot_half_life_us = us;
	return 0;
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

/* min: room in the settings; max: 1 if it is a name, which keys of the catalog contain. */
static int read_text(struct ini_file *file, const struct ini_key *key, const char *value)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";

	if (!*value || strlen(value) >= (size_t)key->min)
		return ini_file_complain(file, "%s: write 1 to %d characters", key->name,
					 (int)key->min - 1);
	if (key->max && value[strspn(value, letters)])
		return ini_file_complain(file,
					 "%s: \"%s\" is not a name: write letters, digits, dot, "
					 "underscore and dash",
					 key->name, value);
	strcpy((char *)file->settings + key->field, value);
	return 0;
}

static int read_path(struct ini_file *file, const struct ini_key *key, const char *value)
{
	if (*value != '/')
		return ini_file_complain(file,
					 "%s: \"%s\" is not a path from the root: begin it "
					 "with /",
					 key->name, value);
	return read_text(file, key, value);
}

static int read_address(struct ini_file *file, const struct ini_key *key, const char *value)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *found;

	if (!*value || getaddrinfo(value, NULL, &hints, &found))
		return ini_file_complain(file,
					 "%s: \"%s\" is not an address in numbers: write one such "
					 "as 10.0.0.12",
					 key->name, value);
	freeaddrinfo(found);
	return read_text(file, key, value);
}

static int read_memory(struct ini_file *file, const struct ini_key *key, const char *value)
{
	uint64_t bytes;

	if (size_parse(value, &bytes) || (bytes && bytes < 1U << 20) || bytes >> 50)
		return ini_file_complain(file,
					 "%s: \"%s\" is not an amount of memory: write a number "
					 "and M, G or T, such as 8G, or 0",
					 key->name, value);
	memcpy((char *)file->settings + key->field, &bytes, sizeof(bytes));
	return 0;
}

static int read_catalog(struct ini_file *file, const struct ini_key *key, const char *value)
{
	struct config *config = file->settings;

	config->models.etcd = !strcmp(value, "etcd");
	if (!config->models.etcd && strcmp(value, "embedded"))
		return ini_file_complain(file,
					 "%s: \"%s\" is no kind of catalog: write embedded, or "
					 "etcd",
					 key->name, value);
	return 0;
}

/* What certificates are for is lost on a server that is spoken to in the clear. */
static void check_tls(struct ini_file *file, const struct config_models *models)
{
	const char *given = models->certificate[0] ? "certificate" : models->key[0] ? "key" :
			    models->ca[0] ? "ca" : NULL;
	const char *plain = strstr(models->endpoints, "http://");

	if (!models->certificate[0] != !models->key[0])
		ini_file_complain(file, "%s: there is no %s for it: write both in [catalog], or "
					"neither",
				  models->key[0] ? "key" : "certificate",
				  models->key[0] ? "certificate" : "key");
	if (given && plain)
		ini_file_complain(file, "endpoints: %.*s does without the %s that is given: write "
					"https://",
				  (int)strcspn(plain, ","), plain, given);
}

static void check(struct ini_file *file)
{
	const struct config_models *models = &((struct config *)file->settings)->models;

	if (!models->etcd)
		return;
	if (!models->endpoints[0])
		ini_file_complain(file, "endpoints: kind = etcd needs them: write http://host:2379 "
					"in [catalog]");
	check_tls(file, models);
}

#define TEXT(section_, name_, read_, field_, is_name_)                                      \
	{                                                                                   \
		section_, name_, read_, offsetof(struct config, models.field_),             \
			sizeof(((struct config *)NULL)->models.field_), is_name_            \
	}

static const struct ini_key keys[] = {
	{ "placement", "policy", read_policy, 0, 0, 0 },
	{ "placement", "share-overcommit", read_percent, offsetof(struct config, share_overcommit),
	  0, 0 },
	{ "placement", "memory-overcommit", read_percent,
	  offsetof(struct config, memory_overcommit), 0, 0 },
	{ "placement", "spares", read_spares, 0, 0, 0 },
	{ "pool", "lost-gpu-keep", read_keep, 0, 0, 0 },
	{ "log", "level", read_level, 0, 0, 0 },
	TEXT("host", "name", read_text, host, 1),
	TEXT("host", "address", read_address, address, 0),
	{ "donor", "memory", read_memory, offsetof(struct config, models.donor_memory), 0, 0 },
	TEXT("donor", "spool", read_path, spool, 0),
	TEXT("donor", "rdma-device", read_text, rdma_device, 1),
	{ "donor", "rdma-port", read_port, offsetof(struct config, models.rdma_port), 0, 0 },
	{ "cache", "memory", read_memory, offsetof(struct config, models.cache_memory), 0, 0 },
	{ "catalog", "kind", read_catalog, 0, 0, 0 },
	TEXT("catalog", "path", read_path, catalog, 0),
	TEXT("catalog", "endpoints", read_text, endpoints, 0),
	TEXT("catalog", "ca", read_path, ca, 0),
	TEXT("catalog", "certificate", read_path, certificate, 0),
	TEXT("catalog", "key", read_path, key, 0),
	TEXT("catalog", "pool", read_text, pool, 1),
	TEXT("models", "socket", read_path, socket, 0),
	{ "models", "hot-half-life", read_half_life, 0, 0, 0 },
};

int config_read(const char *path, struct config *config, char *error)
{
	struct config read;
	int err;

	config_default(&read);
	err = ini_file_read(path, keys, sizeof(keys) / sizeof(keys[0]), &read, check, error);
	if (!err)
		*config = read;
	return err;
}
