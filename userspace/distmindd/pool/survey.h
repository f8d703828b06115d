/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What only a look at all chunks of all models of the pool tells about one of them. That
 * takes long, and everybody may ask: it is done in turns of the event loop, and kept until
 * the catalog changes.
 *
 * Whoever asks gets a survey that was begun after it asked, or one since which nothing has
 * changed. If the catalog changes while it is made it is made again, but not for ever: then
 * every part of it is as of when it was looked at.
 */
#ifndef DISTMINDD_SURVEY_H
#define DISTMINDD_SURVEY_H

#include "manifests.h"
#include "replicas.h"

#include <sys/queue.h>
#include <systemd/sd-event.h>

struct survey_model {
	char name[CATALOG_MODEL_LEN];
	uint64_t revision; /* of that model, or upload */
	unsigned int replicas;
	struct catalog_access access;
	struct manifest *manifest; /* a reference; NULL: the catalog has not read it, or cannot */
	const char *state;
	char error[sizeof((struct catalog_model){ 0 }.error)]; /* why it cannot be read; "" */
	uint32_t copies; /* of every chunk */
	uint32_t extra;	 /* replicas that it has at the moment beyond its own */
	uint64_t shared; /* bytes that others have too */
	uint64_t own;	 /* bytes that no other has, each chunk once */
	/* While it is made: */
	uint32_t next; /* chunk, by digest */
	bool uploading, known;
	bool missing, away, scarce; /* some chunk is */
};

#define SURVEY_SHARES 64

struct survey_rows {
	struct survey_model *models; /* owned */
	size_t count, room;
	uint64_t stored; /* bytes of all, what they have in common once */
	uint64_t changes; /* of the catalog when it was begun */
	/* While it is made: bytes of chunks that so many models need, once for each of them. */
	uint64_t shares[SURVEY_SHARES];
};

/* Somebody who asked; his until ready() is called. */
struct survey_wait {
	void (*ready)(struct survey_wait *wait, int err);
	/* Private: */
	uint64_t changes; /* of the catalog when he asked */
	TAILQ_ENTRY(survey_wait) link;
};

struct survey {
	struct catalog *catalog;
	sd_event_source *turn;
	struct survey_rows rows; /* the last one that was made */
	bool made;
	/* The one that is being made: */
	struct survey_rows making;
	struct replicas replicas;
	bool busy;
	size_t bucket, row;
	unsigned int tries;
	uint64_t begun_us; /* the first of these */
	TAILQ_HEAD(survey_waits, survey_wait) waits;
};

int survey_open(struct survey *survey, sd_event *loop, struct catalog *catalog);
/* Nobody waits any more. */
void survey_close(struct survey *survey);

/*
 * ready() is called when there is a survey, at once if there is one: survey->rows is good until
 * it returns. -ENOMEM.
 */
void survey_ask(struct survey *survey, struct survey_wait *wait);
/* He does not want to know any more. */
void survey_forget(struct survey *survey, struct survey_wait *wait);

/* NULL: the catalog did not have it. */
const struct survey_model *survey_find(const struct survey *survey,
				       const struct catalog_model *model);

#endif
