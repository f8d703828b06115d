/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the catalog is kept: keys, values, and the revision at which each key was
 * last written. Every change raises the store's revision by one; all writes of a
 * transaction have the same one. Two backends: a file on this host, and etcd.
 *
 * Nothing blocks. A request that was accepted (0) ends in exactly one call of its
 * done(), from the event loop and never from within the request itself; one that
 * was refused (negative errno) calls nothing. Closing a store ends what is pending
 * with -ECANCELED. What a result points to is the store's, and gone after done().
 *
 * What a result's err can be:
 *   -ESTALE        a compare of a transaction failed, nothing was written; of a
 *                  watch: changes were missed, list again
 *   -ENOENT        there is no such lease (any more)
 *   -EMSGSIZE      the request is larger than the store takes
 *   -EHOSTUNREACH  no server answers; nothing was written
 *   -ETIMEDOUT     the answer did not come: a transaction may have been carried out
 *   -EIO           the file cannot be written, or is damaged; nothing was written
 *   -EPROTO        the server's answer or refusal makes no sense here
 *   -ENOSPC        the server has no space left; nothing was written
 */
#ifndef CATALOG_STORE_H
#define CATALOG_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sd_event;
struct catalog_entries;
struct catalog_store;
struct catalog_watch;

/* What both backends take: below etcd's own limits of 1.5 MiB and 128 operations. */
#define CATALOG_VALUE_MAX (1024 * 1024)
#define CATALOG_TXN_BYTES (1024 * 1024)
#define CATALOG_TXN_MAX 120
#define CATALOG_KEY_MAX 512
#define CATALOG_ERROR_LEN 512

struct catalog_entry {
	char *key;
	void *value;	   /* NULL in a change: the key was deleted */
	size_t size;	   /* of the value; a NUL that does not count follows it */
	uint64_t revision; /* of the last write */
	uint64_t lease;	   /* 0: none */
	void *noun;	   /* of whoever keeps the entry */
};

struct catalog_result {
	int err;
	const char *error; /* in words; "" if there is none */
	uint64_t revision; /* of the store when it answered */
	const struct catalog_entry *entries; /* sorted by key; of a watch: in order of change */
	size_t count;
	uint64_t lease;
	struct catalog_entries *owner; /* of the entries, or NULL; see catalog_entries_take() */
};

typedef void (*catalog_done)(const struct catalog_result *result, void *arg);

/* The key's last write was at this revision; 0: the key does not exist. */
struct catalog_compare {
	const char *key;
	uint64_t revision;
};

struct catalog_write {
	const char *key;
	const void *value; /* NULL: delete */
	size_t size;
	uint64_t lease;
};

/* All writes if all compares hold, else none. No key may be written twice. */
struct catalog_txn {
	const struct catalog_compare *compares;
	size_t compare_count;
	const struct catalog_write *writes;
	size_t write_count;
};

enum catalog_scope {
	CATALOG_ONE,	/* that key */
	CATALOG_BELOW,	/* all that begin with it */
	CATALOG_NAMES,	/* the same, without their values, which may be large */
};

struct catalog_store_ops {
	int (*range)(struct catalog_store *store, const char *key, enum catalog_scope scope,
		     catalog_done done, void *arg);
	int (*txn)(struct catalog_store *store, const struct catalog_txn *txn, catalog_done done,
		   void *arg);
	int (*lease_grant)(struct catalog_store *store, unsigned int ttl_s, catalog_done done,
			   void *arg);
	int (*lease_keep)(struct catalog_store *store, uint64_t lease, catalog_done done,
			  void *arg);
	int (*lease_revoke)(struct catalog_store *store, uint64_t lease, catalog_done done,
			    void *arg);
	struct catalog_watch *(*watch)(struct catalog_store *store, const char *prefix,
				       uint64_t from, catalog_done changed, void *arg);
	void (*unwatch)(struct catalog_watch *watch);
	/* NULL: it raises none. */
	int (*alarm)(struct catalog_store *store, catalog_done done, void *arg);
	void (*close)(struct catalog_store *store);
};

/* The beginning of every backend's own struct. */
struct catalog_store {
	const struct catalog_store_ops *ops;
};

/*
 * A file that only one process has open (database.h). What was acknowledged survives a crash,
 * except keys with a lease, since a lease ends with the process. Opening reads the beginning of
 * the file, and so waits for the disk; nothing else does. error: in words, room for
 * CATALOG_ERROR_LEN. NULL: see errno.
 */
struct catalog_store *catalog_embedded_open(struct sd_event *loop, const char *path, char *error);

/*
 * Paths of files in PEM, NULL: none. Servers at https:// are always verified: by the
 * authorities in ca, or those that the system knows if there is none. certificate and key,
 * both or neither, are what this host shows to them. They are read again for every new
 * connection, so a certificate can be renewed under way.
 */
struct catalog_tls {
	const char *ca;
	const char *certificate;
	const char *key;
};

/*
 * Servers of one etcd cluster, "http://host:port" or "https://host:port" each, separated by
 * commas. Opening looks at the files of tls and makes no connection. timeout_ms is what one
 * try at one server may take.
 */
struct catalog_store *catalog_etcd_open(struct sd_event *loop, const char *endpoints,
					const struct catalog_tls *tls, unsigned int timeout_ms,
					char *error);

/* Whether these can be addresses of servers. -EINVAL: error says which is not, and the fix. */
int catalog_etcd_check(const char *endpoints, char *error);

/* NULL is fine. */
void catalog_store_close(struct catalog_store *store);

/* Keys as they were together at one moment. */
int catalog_store_range(struct catalog_store *store, const char *key, enum catalog_scope scope,
			catalog_done done, void *arg);

int catalog_store_txn(struct catalog_store *store, const struct catalog_txn *txn,
		      catalog_done done, void *arg);

/* Keys written with the lease vanish when it was not kept for ttl_s (1 to 86400). */
int catalog_store_lease_grant(struct catalog_store *store, unsigned int ttl_s, catalog_done done,
			      void *arg);
int catalog_store_lease_keep(struct catalog_store *store, uint64_t lease, catalog_done done,
			     void *arg);
int catalog_store_lease_revoke(struct catalog_store *store, uint64_t lease, catalog_done done,
			       void *arg);

/*
 * Has the store raised an alarm, until an operator ends it? done() gets 0: none; -ENOSPC: it takes
 * no writes for lack of space; -EBADMSG: it has found that its data are damaged; others: that
 * cannot be told. -EOPNOTSUPP: it never does.
 */
int catalog_store_alarm(struct catalog_store *store, catalog_done done, void *arg);

/*
 * Changes below prefix from that revision on, in order. changed() is called again and
 * again, until it is called with an error: then the watch is dead, and the caller
 * still has to give it to unwatch, from within changed() if it likes. Watches may be slow
 * or silently broken: who relies on them lists now and then. NULL: no memory.
 */
struct catalog_watch *catalog_store_watch(struct catalog_store *store, const char *prefix,
					  uint64_t from, catalog_done changed, void *arg);
/* No call of changed() after this. NULL is fine. */
void catalog_store_unwatch(struct catalog_store *store, struct catalog_watch *watch);

#endif
