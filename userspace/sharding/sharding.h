/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sharding: how many copies of a model there are to be, which donor holds which
 * chunk of it, and in which order a load reads them. The unit of parallel reading
 * is the group: each group's chunks are spread over the donors in proportion to
 * their bandwidth, so that every group is read from all of them at once.
 *
 * Without I/O and without state: the same input gives the same answer. What is
 * there stays where it is unless a group has become uneven by it; so a donor that
 * joins gets its part of each group, a donor that leaves gives up its own, and
 * nothing else moves.
 */
#ifndef DISTMIND_SHARDING_H
#define DISTMIND_SHARDING_H

#include <stddef.h>
#include <stdint.h>

#define SHARDING_COPIES_MAX 8
#define SHARDING_BANDWIDTH_MAX 1e18
/* Relative deviation of a donor's bytes of a group from its part at which chunks move. */
#define SHARDING_TOLERANCE 0.05

struct sharding_donor {
	uint64_t id;
	double bandwidth; /* measured, bytes/s; only the proportion matters */
	uint64_t room;	  /* bytes that it can take in beside what it holds */
};

struct sharding_chunk {
	uint64_t key;	/* of its content, such as the first bytes of its digest */
	uint32_t size;	/* not 0 */
	uint32_t group; /* not less than that of the chunk before */
	/*
	 * Donors that hold it, by id; before: as it is, after: as it should be.
	 * Donors that are not in the list of donors are gone.
	 */
	uint32_t copies;
	uint64_t donors[SHARDING_COPIES_MAX];
};

/* What has to be done to get there. */
struct sharding_change {
	uint64_t new_copies, new_bytes; /* of chunks that had fewer than they should have */
	uint64_t moves, moved_bytes;	/* copies that change places */
	uint64_t short_copies;		/* that no donor has room for, or none is left for */
};

/*
 * Each chunk on that many different donors. -EINVAL: no donors, or one with a
 * bandwidth that is not positive or not possible, or an id that another has; no
 * copies wanted or more than SHARDING_COPIES_MAX; a chunk of size 0, out of order
 * or with too many copies. -ENOSPC: a chunk has no copy at all, *change says how
 * many lack; what could be placed is placed. -ENOMEM.
 */
int sharding_place(const struct sharding_donor *donors, size_t donor_count,
		   struct sharding_chunk *chunks, size_t chunk_count, uint32_t copies,
		   struct sharding_change *change);

/* One part in so many of the donors' memory stays free: when a further copy is made, ... */
#define SHARDING_FREE_TO_GROW 2
/* ... and while it may stay. The distance between the two keeps copies from coming and going. */
#define SHARDING_FREE_TO_STAY 4

/* A model of which more copies than its replicas are asked for. */
struct sharding_model {
	uint64_t bytes;	   /* of one copy */
	uint32_t replicas; /* which it has in any case */
	uint32_t copies;   /* that there are of every chunk */
	uint32_t asked;	   /* for, beyond the replicas */
	uint32_t extra;	   /* the answer: that there is room for, of these */
};

/*
 * How many more copies each model is to have, if the donors have so much memory, of which
 * the replicas of all models, also of those that are not listed, need a part: not what they
 * take at the moment, so that the answer does not change by being acted on. Every model
 * gets one before one gets two; copies that are there come before new ones.
 */
void sharding_extra(struct sharding_model *models, size_t count, uint32_t donors,
		    uint64_t memory, uint64_t needed);

struct sharding_read {
	uint32_t chunk; /* index */
	uint32_t donor; /* index */
};

/*
 * The order of a load: group after group; within one, the donors take turns so
 * that all have the same part of their bytes behind them, each in the order of
 * the chunks. Of several copies the one is read whose donor has least to do.
 * reads has room for one per chunk. -ENODATA: no donor in the list has chunk
 * reads[0].chunk. Errors otherwise as above.
 */
int sharding_read_order(const struct sharding_donor *donors, size_t donor_count,
			const struct sharding_chunk *chunks, size_t chunk_count,
			struct sharding_read *reads);

#endif
