/* SPDX-License-Identifier: MIT */
/* What a batch needs to know of the objects that jobs name. */
#ifndef LIBDISTMIND_HANDLE_H
#define LIBDISTMIND_HANDLE_H

#include "distmind.h"

uint32_t distmind_timeline_handle(const struct distmind_timeline *timeline);

#endif
