/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pool as placement sees it, and the brain that decides on it. The view is made
 * anew after every change, from what the kernel reports; what has been asked for so far
 * is remembered across views, and with it the numbers of the kinds.
 */
#ifndef DISTMINDD_VIEW_H
#define DISTMINDD_VIEW_H

#include "../common/config.h"

#include "../../placement/plan.h"

struct inventory;

struct view {
	struct placement_pool *pool; /* owned; NULL: none was made yet */
	uint32_t *vgpus;	     /* owned: the kernel's id of each grant */
	struct placement placement;
	bool fresh;
};

/* A vgpu of a lost gpu, and where to put it. Ids are the kernel's. */
struct view_move {
	uint32_t vgpu, from, to;
	char why[DISTMIND_REASON_LEN];
};

struct view_recovery {
	struct view_move *moves;
	uint32_t count;
	uint32_t waiting; /* vgpus of lost gpus that there is no room for */
};

void view_free(struct view *view);

/* Something changed: what was seen before is no longer true. */
void view_forget(struct view *view);

/*
 * Where to put what is asked for: the answer's gpus are the kernel's ids. As
 * placement_decide(), with a reason for every error. With observe it is counted.
 */
int view_place(struct view *view, const struct inventory *inventory, const struct config *config,
	       const struct placement_claim *claim, const char *kind, bool observe,
	       struct placement_answer *answer);

/*
 * Where to put all vgpus of all lost gpus, decided at once; but for those that are stuck. A
 * box without a gpu that is well is lost as a whole. The caller frees the moves. 0 or -ENOMEM.
 */
int view_recover(struct view *view, const struct inventory *inventory, const struct config *config,
		 struct view_recovery *recovery);

#endif
