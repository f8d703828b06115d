/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Comparing the image of a model with its digests, where it is in memory: by a thread, a few
 * megabytes at a time.
 */
#ifndef DISTMINDD_AUDIT_H
#define DISTMINDD_AUDIT_H

#include "../common/worker.h"

#include "../../model/manifest.h"

struct audit;

/*
 * done() is called from the loop, and the audit is gone then; err is -EBADMSG if bytes are
 * not those of their digest, -ECANCELED if it was cancelled. Manifest and image stay until then, and do not change. NULL:
 * there is no memory for it.
 */
struct audit *audit_begin(struct worker *worker, const struct model_manifest *manifest,
			  const uint8_t *image, void (*done)(void *arg, int err), void *arg);
/*
 * Ends it soon: done() follows. True: the worker has been closed, the audit is gone, and nobody is
 * called. So too for NULL.
 */
bool audit_cancel(struct audit *audit);

#endif
