/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the two halves of the reader share: reader.c handles events,
 * reader_schedule.c decides what to post. Nobody else includes it.
 */
#ifndef DISTMIND_MEMORY_READER_STATE_H
#define DISTMIND_MEMORY_READER_STATE_H

#include "rate.h"
#include "reader.h"

#define ASKS_MAX 4
#define SUSPECTS_MAX 16
#define REPORTS_MAX 64

/* A READ in flight. */
struct reader_slot {
	struct memory_load *load;
	uint32_t segment;
	uint8_t replica;
	bool hedge; /* the second READ of its segment */
	uint64_t posted;
};

/* A question on its way: sources of one load. */
struct reader_ask {
	struct memory_load *load;
	uint64_t asked;
	uint32_t id;
	uint32_t count;
	uint32_t sources[MEMORY_WIRE_RESOLVE_MAX];
	uint32_t pieces[MEMORY_WIRE_RESOLVE_MAX];
};

struct reader_donor {
	void *link; /* NULL: down */
	uint32_t depth;
	uint32_t pins_allowed;
	uint32_t pins;
	struct reader_slot *slots; /* a ring of depth; READs of a link complete in order */
	uint64_t posted, completed;
	struct reader_ask asks[ASKS_MAX]; /* a ring; answers come in order */
	uint32_t asked, answered;
	uint32_t *releases; /* pins that are not needed any more, but still counted */
	uint32_t release_count;
	uint8_t suspects[SUSPECTS_MAX][MEMORY_DIGEST_LEN]; /* that it has not been told of */
	uint32_t suspect_count;
	uint64_t busy_until; /* it said that we have too many pins */
	struct memory_rate rate;
	struct memory_reader_donor stats;
};

struct memory_reader {
	const struct memory_reader_ops *ops;
	uint32_t segment_size;
	uint32_t donor_count;
	struct reader_donor *donors[MEMORY_DONORS_MAX];
	struct memory_load *loads[MEMORY_CLASSES]; /* in order of arrival */
	struct memory_load *news;
	struct memory_reader_report reports[REPORTS_MAX]; /* a ring */
	uint32_t reported, report_taken;
	bool moved; /* a segment has come to a lane that may have been looked at already */
};

static inline uint32_t reader_in_flight(const struct reader_donor *donor)
{
	return donor->posted - donor->completed;
}

static inline uint32_t reader_room(const struct reader_donor *donor)
{
	return donor->link ? donor->depth - reader_in_flight(donor) : 0;
}

/* Of reader.c */
/* The donor may forget about a pin; it is told when enough have come together. */
void reader_release(struct memory_reader *reader, struct memory_source *source);
void reader_tell(struct memory_reader *reader, struct memory_load *load);
void reader_fail(struct memory_reader *reader, struct memory_load *load, int err, uint64_t now);
/*
 * For which replica to queue a segment of the piece: the preferred one of those
 * that are connected and may have it, but not on the donor named; or -1.
 */
int reader_choose(const struct memory_reader *reader, const struct memory_load *load,
		  const struct memory_load_piece *piece, uint32_t not_donor);
/* A segment that is not in any lane, to wherever it can be read from. */
void reader_place(struct memory_reader *reader, struct memory_load *load, uint32_t segment,
		  uint64_t now);

#endif
