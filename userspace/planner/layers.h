/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The layers of a model from a file, in execution order. A line per layer, with
 * tabs between its fields; the first line is their names:
 *
 *	layer	param_bytes	forward_flops
 */
#ifndef DISTMIND_PLANNER_LAYERS_H
#define DISTMIND_PLANNER_LAYERS_H

#include "planner.h"

#define PLANNER_ERROR_LEN 512

struct planner_layers {
	size_t count;
	struct planner_layer *layers; /* owned */
	char **names;		      /* owned, as are the names */
};

/*
 * A negative errno leaves "file:line: field: what is wrong: the fix" in error,
 * which has room for PLANNER_ERROR_LEN.
 */
int planner_layers_read(const char *path, struct planner_layers *layers, char *error);
void planner_layers_destroy(struct planner_layers *layers);

#endif
