/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What distmindd says of one model, checked: its manifest, its groups, who keeps what. */
#ifndef DISTMINDCTL_MODEL_VIEW_H
#define DISTMINDCTL_MODEL_VIEW_H

#include "../model/manifest.h"
#include "model.h"

struct model_view_group {
	uint32_t first_layer, end_layer;
	uint32_t first_chunk, end_chunk;
	uint64_t bytes;
};

struct model_view {
	struct model_manifest manifest;
	struct model_view_group *groups; /* owned; all chunks, in order */
	uint32_t group_count;
	uint64_t replicas, extra_replicas; /* wanted: always, and while it is hot */
	uint64_t copies; /* that there are of every chunk */
	uint32_t uid, gid; /* whose it is */
	unsigned int mode;
	uint64_t predicted_ns, greedy_ns, bound_ns; /* 0: not known */
	const char **hosts; /* owned, the names are in document; in the order of their names */
	uint32_t host_count;
	/* Of chunk i: holders[holder_start[i]] to before holders[holder_start[i + 1]]. */
	uint32_t *holder_start;
	uint32_t *holders; /* indices of hosts */
	json_t *document;
};

/* Takes over document, also on failure; the service gets the reason. */
int model_view_create(struct model_view *view, struct distmind_service *service,
		      json_t *document);
void model_view_destroy(struct model_view *view);

/* Bytes and chunks of a group that a host keeps. */
uint64_t model_view_share(const struct model_view *view, uint32_t group, uint32_t host,
			  uint32_t *chunks);

/* Who keeps what, a row per group: for people, or as the list "map" of print. */
void model_map_draw(const struct model_view *view, FILE *out, bool colour);
void model_map_print(const struct model_view *view, struct print *print);
/* The same as a picture. */
void model_map_svg(const struct model_view *view, FILE *out);

#endif /* DISTMINDCTL_MODEL_VIEW_H */
