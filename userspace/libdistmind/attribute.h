/* SPDX-License-Identifier: MIT */
#ifndef LIBDISTMIND_ATTRIBUTE_H
#define LIBDISTMIND_ATTRIBUTE_H

#include <stdint.h>

/* What the specification calls an attribute of a request. NULL: not known here. */
const char *distmind_attribute_name(uint8_t command, int attribute);

#endif
