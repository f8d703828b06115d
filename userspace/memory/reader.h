/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reader decides which READ goes to which donor, and when: loads in order
 * of class and arrival, the pieces of a load in the order in which they are
 * needed, several READs in flight to each donor. What fails is read again from
 * another donor, what is slower than the 99th percentile of recent reads is
 * raced by another, and a donor that has nothing to do takes work from one that
 * has too much. Who has lost a race is waited for, since it may still write; for
 * how long is limited, and then its connection ends.
 *
 * No I/O, no clock, no lock, no thread: links are behind memory_reader_ops, time
 * is an argument (nanoseconds of one clock), the owner (loader.h) has the lock.
 * Events only change state; memory_reader_run() then acts on all of it at once,
 * so that what can be posted together is.
 */
#ifndef DISTMIND_MEMORY_READER_H
#define DISTMIND_MEMORY_READER_H

#include "load.h"

#define MEMORY_DONORS_MAX 256
#define MEMORY_NAME_LEN 64

struct memory_reader;

/* One READ. */
struct memory_read {
	uint64_t local;
	uint64_t remote;
	uint32_t length;
	uint32_t lkey;
	uint32_t rkey;
	bool awaited; /* its completion is worth an interrupt: a group may wait for it */
};

/*
 * What a link does for the reader. None may call the reader. A link whose call
 * fails with anything but -EAGAIN goes down, and says so afterwards.
 */
struct memory_reader_ops {
	/* -EAGAIN: not now; the reader is run again when it is worth trying. */
	int (*resolve)(void *link, uint32_t id, const uint8_t (*digests)[MEMORY_DIGEST_LEN],
		       uint32_t count);
	int (*release)(void *link, const uint32_t *pins, uint32_t count);
	/* Tells the donor that what was read of these was damaged. */
	int (*suspect)(void *link, const uint8_t (*digests)[MEMORY_DIGEST_LEN], uint32_t count);
	/*
	 * At most depth are in flight; they complete in the order in which they
	 * were posted, several at a time if none of them is awaited, but the last
	 * of a call never waits for another call.
	 */
	int (*read)(void *link, const struct memory_read *reads, uint32_t count);
	/* The link goes down for that reason, and says so afterwards. */
	void (*abandon)(void *link, const char *reason);
};

struct memory_link_limits {
	uint32_t depth; /* READs in flight, at least 1 */
	uint32_t pins;
};

struct memory_reader_donor {
	char name[MEMORY_NAME_LEN];
	char reason[MEMORY_REASON_LEN]; /* why it is not connected */
	bool connected;
	uint32_t in_flight;
	uint32_t pins;
	uint64_t reads;
	uint64_t bytes;
	uint64_t hedges; /* of its reads that were raced */
	uint64_t failures; /* times that the connection was lost */
	uint64_t damaged;
	uint64_t bandwidth; /* bytes per second while it was read from; 0: not known yet */
	uint64_t latency_p50_ns, latency_p99_ns; /* 0: not known yet */
};

/* READs are of at most segment_size bytes. */
struct memory_reader *memory_reader_create(const struct memory_reader_ops *ops,
					   uint32_t segment_size);
/* No link may be up; loads are freed. */
void memory_reader_destroy(struct memory_reader *reader);

/* Its index, or -ENOSPC. */
int memory_reader_donor_add(struct memory_reader *reader, const char *name);
void memory_reader_donor_stats(struct memory_reader *reader, uint32_t donor,
			       struct memory_reader_donor *stats);

/* Events of links. -ENOMEM: the link cannot be used. */
int memory_reader_link_up(struct memory_reader *reader, uint32_t donor, void *link,
			  const struct memory_link_limits *limits);
/* None of its READs can touch memory any more. */
void memory_reader_link_down(struct memory_reader *reader, uint32_t donor, const char *reason,
			     uint64_t now);
/* NULL, or what is wrong with the answer: the link has to go down. */
const char *memory_reader_located(struct memory_reader *reader, uint32_t donor,
				  const struct memory_wire_message *message, uint64_t now);
/* The oldest READs of the link have succeeded. */
void memory_reader_read_done(struct memory_reader *reader, uint32_t donor, uint32_t count,
			     uint64_t now);

/* To be called after events; returns when to call it again without any. */
uint64_t memory_reader_run(struct memory_reader *reader, uint64_t now);

/* READs of a load of the latency class are in flight. */
bool memory_reader_urgent(const struct memory_reader *reader);

/* NULL with the reason. The reader has it until it is forgotten. */
struct memory_load *memory_reader_submit(struct memory_reader *reader,
					 const struct memory_load_request *request, uint64_t now,
					 char reason[MEMORY_REASON_LEN]);
/* The same, of one that was made before (memory_load_create()), which it takes. */
void memory_reader_start(struct memory_reader *reader, struct memory_load *load,
			 const struct memory_load_request *request, uint64_t now);
/* What such a one is made for: the donors and the longest read, as they are now. */
void memory_reader_shape(const struct memory_reader *reader, uint32_t *lane_count,
			 uint32_t *segment_size);
/* Groups below may be read from now on. */
void memory_reader_allow(struct memory_reader *reader, struct memory_load *load, uint32_t groups,
			 uint64_t now);
/* Somebody else wants it too: not less urgently, and not to end earlier, than that. */
void memory_reader_extend(struct memory_reader *reader, struct memory_load *load,
			  enum memory_class class, uint64_t deadline_ns, uint64_t now);
/* Ends it, if it has not ended; it becomes quiet later. */
void memory_reader_cancel(struct memory_reader *reader, struct memory_load *load, uint64_t now);
/* The same, for that reason. */
void memory_reader_abort(struct memory_reader *reader, struct memory_load *load, int err,
			 const char *reason, uint64_t now);
/* The load must be quiet; the caller does not have it any more. */
void memory_reader_forget(struct memory_reader *reader, struct memory_load *load);
/* A load whose progress has changed since it was last returned, or NULL. */
struct memory_load *memory_reader_news(struct memory_reader *reader);
bool memory_reader_has_news(const struct memory_reader *reader);
/* The pieces that are not there, and why they are not, as long as tell() wants more. */
void memory_reader_missing(struct memory_reader *reader, const struct memory_load *load,
			   bool (*tell)(void *arg, const uint8_t *digest, const char *donor,
					const char *reason),
			   void *arg);

/*
 * A piece that is to be checked: without the lock, as its load does not become quiet before
 * memory_reader_checked(). Several of one load come together, because to look at the network
 * between them costs more than to check a small one. A piece that completes its group comes at
 * once, with those before it.
 */
struct memory_reader_check {
	struct memory_load *load;
	uint32_t piece;
	enum memory_check kind;
	const void *data;
	uint64_t length;
	const uint8_t *digest;
	uint64_t checksum;
	bool good; /* the answer */
};
#define MEMORY_CHECKS_MAX 64
/* The number of them. */
uint32_t memory_reader_to_check(struct memory_reader *reader,
				struct memory_reader_check checks[MEMORY_CHECKS_MAX]);
/* One after the other, in their order. */
void memory_reader_checked(struct memory_reader *reader, const struct memory_reader_check *check,
			   uint64_t now);

/* A donor that had damaged bytes under a name; the last ones if nobody asks. False: none. */
struct memory_reader_report {
	uint32_t donor;
	uint8_t digest[MEMORY_DIGEST_LEN];
};
bool memory_reader_report(struct memory_reader *reader, struct memory_reader_report *report);

#endif
