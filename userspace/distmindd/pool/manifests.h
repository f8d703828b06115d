/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifests of all models and uploads that the catalog knows, parsed: the catalog
 * has the text of each made into one when it learns of it, by a thread, and keeps it with its
 * model. An entry stays while the catalog or a reference has it; the last one who has it
 * has it freed by a thread, since that takes long, too.
 */
#ifndef DISTMINDD_MANIFESTS_H
#define DISTMINDD_MANIFESTS_H

#include "../common/errands.h"
#include "grouping.h"

#include "../../catalog/catalog.h"

struct manifest {
	struct model_manifest model;
	struct grouping placement; /* groups that all hosts agree on */
	struct grouping_recent groupings; /* of loads */
	uint32_t *by_digest; /* chunks, sorted; owned */
	unsigned int references; /* the catalog's is one */
	struct errand errand; /* that frees it */
};

/* Who frees them. NULL: whoever has the last reference. There is one in the process. */
void manifests_use(struct errands *errands);

/* The digests() and dropped() of struct catalog_options. */
int manifests_learn(const char *text, size_t size, uint8_t **digests, size_t *count, void **made);
void manifests_drop(void *made);

/* NULL: the catalog has not read it yet, or cannot. */
struct manifest *manifests_find(const struct catalog_model *model);
/* All references are the event loop's. */
struct manifest *manifest_get(struct manifest *manifest);
void manifest_put(struct manifest *manifest);
/* Its chunks in the order of their digests. */
const struct model_chunk *manifest_sorted(const struct manifest *manifest, uint32_t which);
/* A chunk of these bytes; UINT32_MAX: it has none. */
uint32_t manifest_chunk(const struct manifest *manifest, const uint8_t *digest);

#endif
