/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of an embedded store: lines of "checksum JSON", the first
 *
 *   {"format":"distmind-catalog-1","revision":12}
 *
 * then one for each transaction, {"revision":13,"put":[[key,base64],…],"delete":[key,…]}.
 *
 * A transaction is in the file, and on the disk, before it is acknowledged. What a crash
 * leaves of the last line is cut off by the next start; damage anywhere else is an error,
 * since what was acknowledged would be lost. When most of the file is history it is
 * written anew beside the old one, synced, and renamed over it.
 *
 * A second file, path.lock, is locked as long as the journal is open.
 */
#ifndef CATALOG_JOURNAL_H
#define CATALOG_JOURNAL_H

#include "entries.h"

struct catalog_journal {
	char *path;
	int fd;
	int lock;
	uint64_t bytes; /* of complete lines */
	uint64_t fresh_bytes; /* when it was last written anew */
	bool broken;	/* a failed write could not be undone: nothing more is written */
};

/* Reads what there is into entries (empty before) and revision. */
int catalog_journal_open(struct catalog_journal *journal, const char *path,
			 struct catalog_entries *entries, uint64_t *revision, char *error);
void catalog_journal_close(struct catalog_journal *journal);

/* 0: it is on the disk. Leases are ignored. */
int catalog_journal_append(struct catalog_journal *journal, uint64_t revision,
			   const struct catalog_write *writes, size_t count, char *error);

/* Is it worth writing anew? */
bool catalog_journal_is_long(const struct catalog_journal *journal);
/* Entries without a lease, as the whole of the file. On an error the old file stays. */
int catalog_journal_rewrite(struct catalog_journal *journal, uint64_t revision,
			    const struct catalog_entries *entries, char *error);

#endif
