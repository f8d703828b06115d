/* SPDX-License-Identifier: MIT */
/* What the parts of the library know of each other's objects beyond the API. */
#ifndef LIBDISTMIND_HANDLE_H
#define LIBDISTMIND_HANDLE_H

#include "distmind.h"

uint32_t distmind_timeline_handle(const struct distmind_timeline *timeline);
uint32_t distmind_queue_handle(const struct distmind_queue *queue);
void distmind_batch_grant(struct distmind_batch *batch);

#endif
