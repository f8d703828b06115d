/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A donor lets readers of other hosts read the chunks of its arena. It answers
 * where they are, pins them while they are read, and forgets the pins of a
 * reader whose connection ends, however it ends. The bytes go without it: READs
 * are one-sided.
 *
 * The arena is registered for remote reading and nothing else, in a protection
 * domain of its own, so a reader's queue pair reaches nothing but chunks and
 * zeroes. Readers are limited in number, those of one host too so that it cannot
 * keep others out, and each in pins and questions; one that breaks the protocol
 * is disconnected, and so is one that after a minute still has a chunk pinned that
 * was freed, whose memory nobody else can have meanwhile.
 *
 * The donor does not own the arena, which must outlive it. Peers are touched by
 * the fabric's thread, with its lock; functions are the owner's.
 */
#ifndef DISTMIND_MEMORY_DONOR_H
#define DISTMIND_MEMORY_DONOR_H

#include "arena.h"
#include "fabric.h"

struct memory_donor;

struct memory_donor_options {
	struct sockaddr_storage address; /* of a local interface, or any */
	uint8_t id[MEMORY_DONOR_ID_LEN];
	uint32_t peers; /* readers at the same time */
	uint32_t host_peers; /* and of one host, by its address */
	uint32_t pins;	/* of each */
	/*
	 * May be NULL. A reader found the bytes of a chunk damaged: perhaps they are, perhaps
	 * the network did it. From memory_fabric_dispatch().
	 */
	void (*suspected)(void *arg, const uint8_t *digest);
	/* May be NULL. A reader was disconnected because of what it keeps. From there too. */
	void (*expelled)(void *arg, const struct sockaddr_storage *reader, const char *reason);
	void *arg;
};

struct memory_donor_stats {
	uint32_t peers;
	uint32_t pins;
	uint64_t accepted;
	uint64_t refused; /* connections: too many, in all or of a host, or by another device */
	uint64_t violations; /* connections that ended because of what the peer sent */
	uint64_t expelled; /* and because of chunks that it kept */
	uint64_t resolved; /* chunks */
	uint64_t missing;
	uint64_t suspected;
	char violation[MEMORY_REASON_LEN]; /* the last one */
};

/* A negative errno with the reason. */
int memory_donor_start(struct memory_donor **donor, struct memory_fabric *fabric,
		       struct memory_arena *arena, const struct memory_donor_options *options,
		       char reason[MEMORY_REASON_LEN]);
/* Disconnects all readers. */
void memory_donor_stop(struct memory_donor *donor);
void memory_donor_stats(struct memory_donor *donor, struct memory_donor_stats *stats);

#endif
