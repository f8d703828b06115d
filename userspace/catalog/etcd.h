/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the etcd store share: its requests (etcd.c), and what they say in
 * JSON (etcd_json.c), where answers are checked completely.
 */
#ifndef CATALOG_ETCD_H
#define CATALOG_ETCD_H

#include "entries.h"

#include <jansson.h>

/* What an answer said; entries are appended to. */
struct etcd_answer {
	uint64_t revision;
	uint64_t lease;
	bool succeeded; /* of a transaction */
	bool more;	/* of a range: there are keys after the last one */
	bool alive;	/* of a lease that was to be kept */
	bool canceled;	/* of a watch: by the server */
	struct catalog_entries entries;
};

/* Texts of requests, allocated; NULL: no memory. */
/* At most limit keys, those behind after, if that is not NULL, as of revision, if that is not 0. */
char *etcd_range_text(const char *key, enum catalog_scope scope, size_t limit, const char *after,
		      uint64_t revision);
char *etcd_txn_text(const struct catalog_txn *txn);
char *etcd_grant_text(unsigned int ttl_s);
char *etcd_lease_text(uint64_t lease);
char *etcd_alarm_text(void);
char *etcd_watch_text(const char *prefix, uint64_t from);

/* -EPROTO: not an answer that such a request can have; error says why. */
int etcd_range_parse(const char *text, size_t size, struct etcd_answer *answer, char *error);
int etcd_txn_parse(const char *text, size_t size, struct etcd_answer *answer, char *error);
int etcd_grant_parse(const char *text, size_t size, struct etcd_answer *answer, char *error);
int etcd_keep_parse(const char *text, size_t size, struct etcd_answer *answer, char *error);
int etcd_revoke_parse(const char *text, size_t size, struct etcd_answer *answer, char *error);
/* And if one is raised: -ENOSPC, -EBADMSG. */
int etcd_alarm_parse(const char *text, size_t size, struct etcd_answer *answer, char *error);
int etcd_watch_parse(const char *text, size_t size, struct etcd_answer *answer, char *error);

/* A refusal as an errno; -EAGAIN: another server, or the same one later, may do it. */
int etcd_refusal_parse(long status, const char *text, size_t size, char *error);

#endif
