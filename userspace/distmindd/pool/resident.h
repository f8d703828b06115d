/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model in the memory of a gpu: one buffer, which all who use the model on that gpu
 * share, and the timeline that says how much of it is there.
 *
 * Two forms of loading. Direct: chunks arrive in the buffer itself, and who fills it signals
 * the timeline. Staged: they arrive in pinned memory, a small ring of it (staging.h), from
 * where the engine's copy lane brings them into the buffer and signals the timeline; that in
 * turn says which groups may arrive next.
 *
 * struct weights owns it. A load that fails, or that nobody wants, is taken out of its lists
 * at once, and destroyed when nothing touches its memory any more.
 */
#ifndef DISTMINDD_RESIDENT_H
#define DISTMINDD_RESIDENT_H

#include "../common/errands.h"
#include "audit.h"
#include "fill.h"
#include "manifests.h"
#include "staging.h"

#include <distmind.h>
#include <sys/queue.h>

struct preparation;
struct resident;
struct weights_device;

#define RESIDENT_LENDERS 8

/* What a load is to be like. */
struct resident_request {
	enum memory_class class;
	uint64_t deadline_ns;
	bool verify;
	bool staged;
	struct grouping_rates rates;
};

struct resident_ops {
	/* Bytes that another resident of the gpu has, and whose; NULL: none has. */
	const void *(*find)(struct weights_device *device, const struct model_chunk *chunk,
			    struct resident **lender);
	/*
	 * There is memory for it, and what it needs is on its way; or not: then it is not
	 * loaded, and to be destroyed. The reason has MEMORY_REASON_LEN.
	 */
	void (*prepared)(struct resident *resident, int err, const char *reason);
	void (*ended)(struct resident *resident);
	void (*quiet)(struct resident *resident); /* may be destroyed, and must if it failed */
	/* What resident_verify() found; may be destroyed. */
	void (*verified)(struct resident *resident, int err);
	/* One that was destroyed has given back its memory; it is freed after this. */
	void (*gone)(struct resident *resident);
};

enum resident_state { RESIDENT_LOADING, RESIDENT_READY, RESIDENT_FAILED };

struct resident {
	struct weights_device *device;
	const struct resident_ops *ops;
	/*
	 * Memory of a gpu is made and given back by errands of the gpu, for that takes
	 * long. One at a time: while one is under way the resident has
	 * another state than those below. What gives back goes before what makes.
	 */
	struct errands *errands;
	struct errand errand;
	uint64_t payer;
	struct preparation *preparation; /* owned */
	bool begun, preparing, settled;
	struct chunks *chunks;
	struct manifest *manifest; /* a reference */
	struct grouping grouping;
	enum resident_state state;
	_Atomic bool cancelled; /* the loop's; errands look at it */
	bool quiet;
	bool ending; /* it is being destroyed */
	bool verified; /* the bytes that are there are those of their digests */
	bool damaged; /* some are not: those who have it keep it, and nobody else gets it */
	int err;
	char reason[MEMORY_REASON_LEN];
	bool staged;
	uint64_t size; /* of the buffer */
	uint64_t read_bytes, copied_bytes;
	uint64_t begun_us, load_us; /* all of it */
	uint64_t moving_us; /* of these, bytes moved: without what comes before the first */
	uint64_t signals, signal_us; /* of the timeline, and how long that took in all */
	struct distmind_buffer *buffer;
	uint8_t *address;
	struct distmind_timeline *timeline;
	int tensors; /* a sealed list of them, for all who load it; negative: none */
	struct memory_registration registration;
	struct memory_fabric *held; /* while an errand registers memory with it, or ends that */
	struct fill *fill; /* while it is under way */
	struct audit *audit; /* so too */
	/* Of the staged form, until the load has ended. */
	struct staging *staging;
	sd_event_source *copied_source; /* groups have been copied */
	uint32_t copied; /* groups that have */
	uint32_t awaited; /* the value of the timeline that the source waits for */
	/* Who the load copies from: they stay until it is quiet. */
	struct resident *lenders[RESIDENT_LENDERS];
	uint32_t lender_count;
	/* Of weights.c: */
	uint32_t borrowers;
	uint64_t owner; /* who it was begun for; before that, who asked first */
	bool listed; /* in the list of loads */
	TAILQ_ENTRY(resident) load;
	LIST_HEAD(, weights_use) uses;
	uint64_t loads;
	uint64_t used_us;
	struct resident *next;
};

/* Bytes of a vgpu's quota that it needs while it is loaded, and after. */
uint64_t resident_quota(const struct model_manifest *model, bool staged, bool loading);

/* Where a resident is to be, and what it is made from. */
struct resident_place {
	struct weights_device *device;
	struct distmind_vgpu *vgpu;
	struct distmind_pool *kernel;
	sd_event *loop;
	struct chunks *chunks;
	struct peers *peers;
	struct errands *errands;
	uint64_t payer; /* of these */
};

/* To be loaded; it has no memory yet. NULL: none for itself. */
struct resident *resident_create(const struct resident_place *place, struct manifest *manifest,
				 const struct resident_request *request,
				 const struct resident_ops *ops);
/*
 * Begins to load; nothing is called back from within, prepared() is called later. The vgpu has
 * quota for it.
 */
void resident_begin(struct resident *resident);
/*
 * Ends a load that has not ended: prepared() follows with -ECANCELED if it is not prepared yet,
 * else quiet(). One that no errand has begun to prepare gets no memory.
 */
void resident_cancel(struct resident *resident);
/* Somebody else wants it too: not less urgently, and not to end earlier, than that. */
void resident_extend(struct resident *resident, const struct resident_request *request);
/* Of one that is quiet and was loaded without: verified() follows, from the loop. */
int resident_verify(struct resident *resident);
/*
 * It must be quiet, or not have been prepared, or the transfers of all the chunks stopped and
 * no errand under way. gone() follows, and the resident is no more.
 */
void resident_destroy(struct resident *resident);

uint64_t resident_final(const struct resident *resident);
/*
 * A dma-buf of the buffer, read-only, for which that vgpu pays as long as somebody has it, be
 * it this process; the caller's. -EDQUOT: it has not enough left. Not while it is prepared.
 */
int resident_lend(struct resident *resident, uint32_t payer);
/* What goes with it: fds gets the timeline, read-only, and the list of tensors; the caller's. */
int resident_export(struct resident *resident, int fds[2]);

#endif
