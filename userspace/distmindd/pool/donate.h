/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this host holds for the pool. Nobody commands it: whenever the catalog changes, and
 * now and then, every donor works out for itself from the same facts which chunks are
 * whose, fetches those of its own that it lacks from whoever has them, and gives up what
 * nobody needs or others are to hold. Models that hosts read often have further copies
 * while there is room (replicas.h).
 */
#ifndef DISTMINDD_DONATE_H
#define DISTMINDD_DONATE_H

#include "giving.h"
#include "heat.h"
#include "peers.h"

struct donate {
	sd_event *loop;
	struct catalog *catalog; /* none of these four is owned */
	struct chunks *chunks;
	struct peers *peers;
	struct heat *heat; /* what the catalog is told of it is told by the pass */
	sd_event_source *timer;
	struct donate_pass *pass; /* under way */
	uint64_t passes;	  /* how many there were, with that one */
	struct donate_pull *pull; /* under way */
	uint64_t not_before_us;	  /* no pull, after one that failed */
	int unkept;		  /* why chunks of the last one were not kept; 0: all were */
	/* After one that failed each begins behind the last chunk of the one before, to the end. */
	bool rotates;
	uint8_t last[MEMORY_DIGEST_LEN];
	uint64_t pass_us;	  /* how much of the loop's time the last one took */
	struct giving giving;	  /* what is given up after a pass */
};

int donate_open(struct donate *donate, sd_event *loop, struct catalog *catalog,
		struct chunks *chunks, struct peers *peers, struct heat *heat);
/* Transfers have been stopped and the catalog is closed. */
void donate_close(struct donate *donate);

/* Something has changed. */
void donate_poke(struct donate *donate);
/*
 * The RDMA device has gone, and with it the numbers of donors and the key of the memory: what the
 * pass under way was to fetch is for one that begins when there is a device again.
 */
void donate_disconnect(struct donate *donate);

#endif
