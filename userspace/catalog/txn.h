/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Transactions of stores whose threads carry them out: who asked may free it all. */
#ifndef CATALOG_TXN_H
#define CATALOG_TXN_H

#include "store.h"

/* -ENOMEM: what there is of the copy is to be freed all the same. */
int catalog_txn_copy(struct catalog_txn *copy, const struct catalog_txn *txn);
/* Of a copy, and of one that is all zero. */
void catalog_txn_free(struct catalog_txn *copy);

#endif
