/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifests of all models and uploads that the catalog knows, parsed: the catalog
 * hands over the text of each when it learns of it, and names it by its SHA-256.
 *
 * There is one collection in the process, as the catalog's callback knows of nothing
 * else. An entry stays while the catalog or a reference has it.
 */
#ifndef DISTMINDD_MANIFESTS_H
#define DISTMINDD_MANIFESTS_H

#include "grouping.h"

#include "../../catalog/catalog.h"

struct manifest {
	struct model_manifest model;
	struct grouping placement; /* groups that all hosts agree on */
	struct grouping_cache groupings; /* of loads */
	uint32_t *by_digest; /* chunks, sorted; owned */
	uint8_t sha256[CATALOG_DIGEST];
	unsigned int references;
	bool listed; /* by the sweep under way */
	struct manifest *next;
};

/* The digests() of struct catalog_options. */
int manifests_learn(const char *text, size_t size, uint8_t **digests, size_t *count);

/* NULL: the catalog has not read it yet, or cannot. */
struct manifest *manifests_find(const struct catalog_model *model);
struct manifest *manifest_get(struct manifest *manifest);
void manifest_put(struct manifest *manifest);
/* Its chunks in the order of their digests. */
const struct model_chunk *manifest_sorted(const struct manifest *manifest, uint32_t which);
/* A chunk of these bytes; UINT32_MAX: it has none. */
uint32_t manifest_chunk(const struct manifest *manifest, const uint8_t *digest);

/* Forgets what neither the catalog nor a reference has. NULL: everything. */
void manifests_sweep(const struct catalog *catalog);

#endif
