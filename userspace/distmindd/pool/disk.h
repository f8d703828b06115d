/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the disk that the spool is on fares, for whoever looks after it. Each change is a line in
 * the log, not each chunk: a disk that is full is full for all of them.
 */
#ifndef DISTMINDD_DISK_H
#define DISTMINDD_DISK_H

#include <jansson.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct chunks;

struct disk {
	char path[256]; /* of the spool; empty: there is none */
	int err; /* why the last chunk was not stored; 0: it was */
	uint64_t refused; /* chunks, since one was stored */
	uint64_t length; /* of the last of these */
	sd_event_source *probe; /* looks whether it works again */
	uint64_t damaged; /* files that were put aside, also by those who ran before */
};

/*
 * What came of a chunk of that length that was to be stored. While the disk takes none this host
 * offers no memory, so that nobody counts on it, and looks now and then whether one would be taken.
 */
void disk_stored(struct chunks *chunks, uint64_t length, int err);
/* Before anything is stored. */
int disk_open(struct chunks *chunks, const char *path);
void disk_close(struct chunks *chunks);
/* Of the spool: where, how much is restored, what is wrong, and the fix. NULL: no memory. */
json_t *disk_describe(const struct chunks *chunks);

#endif
