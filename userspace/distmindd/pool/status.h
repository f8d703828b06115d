/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How this host's part of the memory pool fares, for whoever looks after it: does the catalog
 * answer, has the host joined, does the spool take chunks, is there an RDMA device. What is
 * wrong comes with its fix.
 */
#ifndef DISTMINDD_STATUS_H
#define DISTMINDD_STATUS_H

#include <jansson.h>

struct catalog_model;
struct models;

#define STATUS_FIX_LEN 768

/* NULL: no memory. */
json_t *status_describe(struct models *models);
/*
 * The memory that this host gives, null: none. What is kept was freed, but somebody who reads it
 * has not released it.
 */
json_t *status_memory(const struct models *models);
/* Of a catalog that does not answer; text has room for STATUS_FIX_LEN, and is returned. */
const char *status_catalog_fix(const struct models *models, char *text);
/* Of one that answers and has raised an alarm; so too. */
const char *status_alarm_fix(const struct models *models, int alarm, char *text);

/* Of a model that cannot be read; so too. */
const char *status_unreadable_fix(const struct catalog_model *model, char *text);

/*
 * An embedded catalog has one host: what another name has in it this host had under that name.
 * name has room for CATALOG_HOST_LEN, and is returned; "": there is none.
 */
const char *status_former(const struct models *models, char *name);
/* Of that; text as above. */
const char *status_former_fix(const char *former, char *text);

#endif
