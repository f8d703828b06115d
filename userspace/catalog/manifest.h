/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What manifest.c and upload.c share. */
#ifndef CATALOG_MANIFEST_H
#define CATALOG_MANIFEST_H

#include "batch.h"
#include "state.h"

void catalog_parts_delete(const struct catalog *catalog, struct catalog_batch *batch,
			  const struct catalog_model *model);

#endif
