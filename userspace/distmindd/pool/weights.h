/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The models in the memory of this host's gpus, its residents. All who use a model on a gpu share
 * one copy. Without uses a copy stays until room is needed; then the one goes first whose
 * loss costs least: time to load it again x how often it was asked for / its bytes. What
 * was read for it goes into the host's cache (keep.h), if there is one, so that
 * it need not be read again.
 *
 * The copies of a gpu belong to a vgpu of the daemon's own, "weights-GPU", whose quota is
 * what they need. It is deleted when the gpu is lost; those of a daemon that died are
 * deleted when the next one starts.
 *
 * Whoever uses a model pays for all of it, also if others use the same copy. The kernel
 * charges the vgpu for the dma-buf that it gets, as long as anybody has it; the use has it,
 * too, so that who closes his own does not keep a copy for nothing. So what is in use is
 * never more than tenants were promised, and the residents that nobody uses go when somebody
 * needs the room.
 *
 * Nobody is charged for memory that is still being made, or that a load which failed or which
 * nobody wants any more has not given back yet. So that this is not more than was promised
 * either, a load waits as long as its user has such a one that failed or was left, and while
 * another one of that user is being prepared on the same gpu. One that several users wait for
 * begins as soon as it may for one of them.
 */
#ifndef DISTMINDD_WEIGHTS_H
#define DISTMINDD_WEIGHTS_H

#include "client.h"
#include "heat.h"
#include "keep.h"
#include "../gpus/inventory.h"
#include "resident.h"

struct weights {
	sd_event *loop;
	struct distmind_pool *kernel; /* none of these is owned */
	struct chunks *chunks;
	struct peers *peers;
	struct heat *heat; /* told of every load */
	struct weights_device *devices; /* owned */
	struct errands *errands; /* of the gpus; owned */
	bool closing;
	struct resident *leaving; /* no longer found, but not quiet; owned */
	/*
	 * In the order in which they were asked for: those that are not loaded yet, and those that
	 * never will be and still have memory.
	 */
	TAILQ_HEAD(resident_loads, resident) loads;
	uint64_t changes; /* another number when who uses what may have changed */
	struct keep keep;
	/* Measured over loads, bytes/s, seconds for each group and each byte; 0: not yet. */
	double read_rate, read_spread, copy_rate, group_cost, begin_cost;
};

struct weights_request {
	struct manifest *manifest;
	uint32_t gpu;
	uint32_t vgpu, uid; /* who uses it; none for a preload */
	uint64_t quota; /* what is left of the vgpu's */
	struct resident_request load;
	uint64_t compute_ns;
	bool wait; /* answer when all is there */
	bool preload; /* for later: it has no use */
};

int weights_open(struct weights *weights, sd_event *loop, struct distmind_pool *kernel,
		 struct chunks *chunks, struct peers *peers, struct heat *heat);
/* Transfers have been stopped, and all clients are gone. */
void weights_close(struct weights *weights);

/* Answers the client, now or later; the client then has a use, unless it is a preload. */
void weights_load(struct weights *weights, struct client *client,
		  const struct weights_request *request);
void weights_use_end(struct weights_use *use);
/* 0: all is there; -EAGAIN: not yet; else why there is nothing to use, in words too. */
int weights_use_state(const struct weights_use *use, const char **reason);

/*
 * Evicts what nobody uses: of a model (NULL: any) on a gpu (DISTMIND_GPU_NONE: all).
 * Returns the bytes; *busy counts uses of what had to stay.
 */
uint64_t weights_evict(struct weights *weights, const char *model, uint32_t gpu, uint32_t *busy);

/* Weights that are there for others, and where. */
struct weights_place {
	const struct manifest *manifest;
	uint32_t gpu;
};

/* How many there are, if there is room for them. */
size_t weights_places(const struct weights *weights, struct weights_place *places, size_t room);

struct weights_user {
	uint32_t gpu, vgpu, uid;
	unsigned int uses;
	bool loading;
};

/* Who uses a model, each vgpu once. */
void weights_each_user(const struct weights *weights, const struct manifest *manifest,
		       void (*each)(const struct weights_user *user, void *arg), void *arg);
/* What was measured, for the next load. */
void weights_rates(const struct weights *weights, bool staged, struct grouping_rates *rates);

/*
 * The pool has changed: leaves gpus that are gone, and evicts for claims that nothing has
 * room for otherwise. True: that changed the pool.
 */
bool weights_follow(struct weights *weights, const struct inventory *inventory);

#endif
