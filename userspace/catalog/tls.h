/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a connection to etcd is secured with. */
#ifndef CATALOG_TLS_H
#define CATALOG_TLS_H

#include "store.h"

/*
 * Are the files what they have to be? libcurl would only say so when it connects, and of
 * which file it speaks would be left to guess. error names the setting and the fix, and has
 * room for CATALOG_ERROR_LEN. Negative errno.
 */
int catalog_tls_check(const struct catalog_tls *tls, char *error);

#endif
