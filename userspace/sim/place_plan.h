/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What can be asked of a cluster at the end of a run: why a claim would be placed
 * where it would be, what would become of it if something failed, and which moves would
 * free gpus. Nothing of it is carried out. Answers are JSON, and text made from that, so
 * that both say the same.
 */
#ifndef DISTMIND_SIM_PLACE_PLAN_H
#define DISTMIND_SIM_PLACE_PLAN_H

#include "../placement/plan.h"

#include <jansson.h>
#include <stdio.h>

/* The best places and their scores, term by term: places, or the reason for none. */
int place_plan_explain(struct placement *placement, const struct placement_need *need,
		       uint32_t places, json_t **answer);
void place_plan_print_places(FILE *stream, const json_t *answer);

/*
 * what is gpu:N, box:N, host:N or repack:N, N a number or of moves. -EINVAL: it is not
 * that, or there is no such thing.
 */
int place_plan_make(struct placement *placement, const char *what, json_t **answer);
void place_plan_print_moves(FILE *stream, const json_t *answer);

#endif
