/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The models of the pool, as this host sees and serves them: its catalog, its chunks, the
 * hosts that it reads from, the weights on its gpus, and the socket on which all that is
 * asked for. What the daemon decides about gpus works without.
 */
#ifndef DISTMINDD_MODELS_H
#define DISTMINDD_MODELS_H

#include "chunks.h"
#include "donate.h"
#include "listing.h"
#include "manifests.h"
#include "peers.h"
#include "service.h"
#include "showing.h"
#include "survey.h"
#include "weights.h"

struct models {
	sd_event *loop;		      /* not owned */
	struct distmind_pool *kernel; /* not owned */
	struct errands *errands;      /* what may take long */
	struct catalog *catalog;
	bool joined;	 /* the pool, since the daemon started */
	bool former_looked_for; /* names of this host, since it joined */
	bool etcd;	 /* is where the catalog is kept */
	char store[512]; /* its servers, or the file */
	struct chunks chunks;
	struct peers peers;
	struct heat heat;
	struct donate donate;
	struct weights weights;
	struct survey survey;
	struct showings showings;
	struct listings listings;
	struct service service;
	struct verify *verifies; /* under way, or waiting for others of the same user */
};

/*
 * Are the files that the configuration names what they have to be? It is only asked for by
 * distmindd --check: at a start models_open() looks itself. error has room for
 * CATALOG_ERROR_LEN. Negative errno.
 */
int models_check(const struct config_models *config, char *error);

/* NULL: there is no memory pool on this host; why has been logged. */
struct models *models_open(sd_event *loop, struct distmind_pool *kernel,
			   const struct config_models *config);
/* NULL is fine. */
void models_close(struct models *models);

/* Tells the pool that this host goes, so that it need not find out; done() comes later. */
int models_leave(struct models *models, catalog_done done, void *arg);

#endif
