/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DISTMINDD_CONFIG_H
#define DISTMINDD_CONFIG_H

#include "../../common/ini_file.h"
#include "../../placement/decision.h"

#include <stdbool.h>
#include <stdint.h>

#define CONFIG_FILE SYSCONFDIR "/distmind/distmindd.conf"
#define CONFIG_FOREVER UINT64_MAX
#define CONFIG_ERROR_LEN INI_FILE_ERROR_LEN

/* The memory pool; what is empty is found out. In force from the next start on. */
struct config_models {
	char host[64];
	char address[64]; /* of this host for others */
	uint64_t donor_memory;
	char spool[256];       /* empty: none */
	char rdma_device[64];
	uint32_t rdma_port;
	uint64_t cache_memory; /* 0: none */
	bool etcd;	       /* else the catalog is a file */
	char catalog[256];     /* the file */
	char endpoints[512];   /* of etcd */
	char ca[256];	       /* of its certificates; empty: the system's */
	char certificate[256]; /* of this host for etcd, and its key; empty: none */
	char key[256];
	char pool[64];
	char socket[108];
	uint64_t hot_half_life_us; /* of the count of a model's loads */
};

struct config {
	const struct placement_policy *policy;
	uint32_t share_overcommit;  /* percent */
	uint32_t memory_overcommit; /* percent */
	char spares[256];	    /* names of gpus, separated by commas */
	uint64_t lost_gpu_keep_us;  /* or CONFIG_FOREVER */
	int log_level;		    /* syslog's */
	struct config_models models;
};

void config_default(struct config *config);

/*
 * Reads a file over the defaults. On failure config is untouched and error,
 * which has room for CONFIG_ERROR_LEN, says "file:line: what: the fix".
 * -ENOENT: no such file; -EINVAL: it is wrong.
 */
int config_read(const char *path, struct config *config, char *error);

#endif
