/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A load: chunks that are to be read into memory, in the order in which they
 * are needed. This file is its bookkeeping; which READ goes where and when is
 * the reader's (reader.h), which owns the load and whose lock covers it.
 *
 *   piece     a chunk and where it goes; read from one of its donors
 *   source    a piece on one of its donors: asked for, ready, missing...
 *   segment   a part of a piece that is one READ
 *   lane      the segments that wait for one donor, in the order of the load
 *
 * A segment is in at most one lane (queued), and may at the same time have been
 * posted to others (flying): a hedge. The first READ that succeeds makes it done.
 * A piece counts when its segments are done and no READ of it is in flight: one
 * that has lost a race can write over what came first until it is over, too.
 */
#ifndef DISTMIND_MEMORY_LOAD_H
#define DISTMIND_MEMORY_LOAD_H

#include "wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_REASON_LEN 320
#define MEMORY_REPLICAS_MAX 8
#define MEMORY_NONE UINT32_MAX

/* What a caller says of a chunk; addresses are valid for the lkey until the load is quiet. */
struct memory_piece {
	uint8_t digest[MEMORY_DIGEST_LEN];
	uint64_t checksum;
	uint64_t length;
	uint64_t address;
	uint32_t lkey;
	uint32_t group; /* never less than that of the piece before */
	uint32_t donor_count;
	uint32_t donors[MEMORY_REPLICAS_MAX]; /* indices, the preferred one first */
};

enum memory_class {
	MEMORY_LATENCY, /* before all background loads */
	MEMORY_BACKGROUND,
};
#define MEMORY_CLASSES 2

/*
 * What is done with bytes that have come, before they count. The addresses of a load must be
 * mapped for it. What is not right is read again from another donor.
 */
enum memory_check {
	MEMORY_CHECK_CHECKSUM,
	MEMORY_CHECK_DIGEST,
	MEMORY_CHECK_NOTHING, /* only to measure what checking costs */
};

struct memory_load_request {
	const struct memory_piece *pieces; /* copied */
	uint32_t piece_count;
	uint32_t group_count; /* one that has no piece is done when those before it are */
	uint32_t allowed; /* groups that may be read; others later. 0: all of them */
	uint64_t deadline_ns; /* from now */
	enum memory_class class;
	enum memory_check check;
	/*
	 * What no donor gives is left out: the load goes on without it, does not wait for donors to
	 * be connected, and fails with -ENOENT when the rest is there.
	 */
	bool partial;
};

enum memory_load_state {
	MEMORY_LOAD_RUNNING,
	MEMORY_LOAD_DONE,
	MEMORY_LOAD_FAILED,
};

struct memory_load_progress {
	enum memory_load_state state;
	int err; /* of a failed load: -ETIMEDOUT, -ENOENT, -ECANCELED, -ENODEV */
	bool quiet; /* it has ended and no READ can touch its memory any more */
	uint32_t groups_done; /* no READ can touch their memory any more */
	uint64_t bytes;	  /* that arrived and were needed */
	uint64_t wasted;  /* that arrived twice */
	uint32_t hedges;  /* slow READs that were raced */
	uint32_t hedges_won;
	uint32_t rereads; /* after an error, or bytes that were not those of the digest */
	uint32_t stolen;  /* READs that an idle donor took over from a busy one */
	uint64_t begun_ns, ended_ns;
	char reason[MEMORY_REASON_LEN]; /* of a failure */
};

enum memory_source_state {
	MEMORY_SOURCE_IDLE,
	MEMORY_SOURCE_ASKED,
	MEMORY_SOURCE_READY,
	MEMORY_SOURCE_MISSING,
	MEMORY_SOURCE_DAMAGED,
};

struct memory_source {
	uint64_t remote;
	uint32_t donor;
	uint32_t rkey;
	uint32_t pin;
	uint32_t users; /* READs in flight */
	bool pinned; /* the donor keeps it for us, under that pin */
	enum memory_source_state state;
};

struct memory_load_piece {
	uint8_t digest[MEMORY_DIGEST_LEN];
	uint64_t checksum;
	uint64_t length;
	uint64_t address;
	uint32_t lkey;
	uint32_t group;
	uint32_t segment; /* its first one */
	uint32_t segments;
	uint32_t left; /* segments that are not done */
	uint32_t source; /* its first one */
	uint32_t sources;
	uint32_t next; /* to check */
	/*
	 * A bit for each source: READs that were in flight since it was begun, or begun anew. Any
	 * of them may have written, completed or not.
	 */
	uint8_t touched;
	bool single; /* is to be read from one source, to know whose bytes are wrong */
	bool done;
};

struct memory_segment {
	uint32_t piece;
	uint32_t next; /* in the lane */
	uint8_t flying;
	uint8_t replica; /* source for which it is queued */
	bool queued;
	bool done;
	bool hedged;
};

struct memory_lane {
	uint32_t first, last;
	uint32_t count;
	uint32_t hint; /* where the last one was put between others */
	uint32_t unasked; /* the first whose source may have to be asked for */
	bool named; /* the donor has a piece of the load */
};

struct memory_load {
	struct memory_load *next; /* of its class, in order of arrival */
	struct memory_load *news_next;
	bool has_news, forgotten;
	enum memory_class class;
	enum memory_check check;
	bool replicated; /* some piece has more than one donor */
	bool partial;
	uint64_t deadline;
	uint32_t segment_size;
	struct memory_load_piece *pieces;
	struct memory_source *sources;
	struct memory_segment *segments;
	uint32_t *group_left; /* pieces */
	uint32_t *group_unread; /* pieces that are not queued to be checked, nor done */
	struct memory_lane *lanes; /* one for each donor of the reader */
	uint32_t piece_count, source_count, segment_count, group_count, lane_count;
	uint32_t allowed; /* segments, from the first on; others are in no lane */
	uint32_t flying; /* READs */
	uint32_t asks;	 /* questions without an answer */
	uint32_t stranded; /* segments that no donor of theirs can serve now */
	uint32_t check_first, check_last;
	uint64_t check_bytes; /* of these */
	bool check_due; /* they are checked now: a group waits for that, or they are many */
	uint32_t checking; /* pieces that someone looks at, without the lock */
	struct memory_load_progress progress;
	void *owner; /* the loader's */
};

/* NULL with the reason, which names the piece. Donors are below lane_count. */
struct memory_load *memory_load_create(const struct memory_load_request *request,
				       uint32_t lane_count, uint32_t segment_size,
				       char reason[MEMORY_REASON_LEN]);
void memory_load_destroy(struct memory_load *load);

/* Nothing is queued any more. */
void memory_load_empty(struct memory_load *load);

/* May it still give the piece, now or later? */
static inline bool memory_source_hopeful(const struct memory_source *source)
{
	return source->state != MEMORY_SOURCE_MISSING && source->state != MEMORY_SOURCE_DAMAGED;
}

/* Where a segment begins in its piece, and how long it is. */
uint64_t memory_load_offset(const struct memory_load *load, uint32_t segment);
uint32_t memory_load_length(const struct memory_load *load, uint32_t segment);
struct memory_source *memory_load_source(const struct memory_load *load, uint32_t segment);

/* Into the lane of the donor of one of its replicas, before those that are needed later. */
void memory_load_queue(struct memory_load *load, uint32_t segment, uint8_t replica);
/* Out of the lane that it is in; before is the one before it there, or MEMORY_NONE. */
void memory_load_unqueue(struct memory_load *load, uint32_t segment, uint32_t before);
/* The same, of one that may be in a lane, anywhere in it. */
void memory_load_withdraw(struct memory_load *load, uint32_t segment);

/* A READ of a segment begins, or is over, well or not. */
void memory_load_fly(struct memory_load *load, uint32_t segment);
void memory_load_unfly(struct memory_load *load, uint32_t segment);

/* A piece is there: groups that have thereby become complete are counted. */
void memory_load_piece_done(struct memory_load *load, struct memory_load_piece *piece);

#endif
