/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of an embedded store: an SQLite database with a write-ahead log, PATH-wal beside it
 * while it is open, and nobody else's as long as it is.
 *
 * A transaction is on the disk before it is acknowledged (synchronous=FULL: the log is synced by
 * every commit). Keys with a lease live in a table in memory, since a lease ends with the
 * process: what is written often, hosts and chunk locations, costs no sync. Every row has a
 * checksum, which is looked at whenever it is read, and of all of them by
 * catalog_database_check(): damage is told, not hidden.
 *
 * Calls block, for as long as the disk takes. One thread.
 */
#ifndef CATALOG_DATABASE_H
#define CATALOG_DATABASE_H

#include "entries.h"

struct catalog_database;

/* error, in words and with the fix: room for CATALOG_ERROR_LEN. Takes no longer for a large file. */
int catalog_database_open(struct catalog_database **database, const char *path, char *error);
/*
 * Reads everything once, which takes its time: what is damaged is better told before anything else
 * is done than in the middle of the work. -EBADMSG: it is.
 */
int catalog_database_check(struct catalog_database *database, char *error);
/* NULL is fine. */
void catalog_database_close(struct catalog_database *database);

/* Of the last change. */
uint64_t catalog_database_revision(const struct catalog_database *database);

/* Appended to entries, which are empty before, in the order of keys. */
int catalog_database_range(struct catalog_database *database, const char *key,
			   enum catalog_scope scope, struct catalog_entries *entries, char *error);
/* The names of the keys that have that lease. */
int catalog_database_leased(struct catalog_database *database, uint64_t lease,
			    struct catalog_entries *entries, char *error);
/*
 * All or nothing, as of catalog_store_txn(). What has changed is appended to changes, which are
 * empty before.
 */
int catalog_database_txn(struct catalog_database *database, const struct catalog_txn *txn,
			 struct catalog_entries *changes, char *error);

#endif
