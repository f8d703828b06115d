/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How this host's part of the memory pool fares, for whoever looks after it: does the catalog
 * answer, has the host joined, is there an RDMA device. What is wrong comes with its fix.
 */
#ifndef DISTMINDD_STATUS_H
#define DISTMINDD_STATUS_H

#include <jansson.h>

struct models;

#define STATUS_FIX_LEN 640

/* NULL: no memory. */
json_t *status_describe(struct models *models);
/* Of a catalog that does not answer; text has room for STATUS_FIX_LEN, and is returned. */
const char *status_catalog_fix(const struct models *models, char *text);

#endif
