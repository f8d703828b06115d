/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Comparing the image of a model with its digests, where it is in memory: by the event
 * loop, a few megabytes in each turn.
 */
#ifndef DISTMINDD_AUDIT_H
#define DISTMINDD_AUDIT_H

#include "../../model/manifest.h"

#include <systemd/sd-event.h>

struct audit;

/*
 * done() is called from the loop, and the audit is gone then; err is -EBADMSG if bytes are
 * not those of their digest. Manifest and image stay until then, and do not change. NULL:
 * *err.
 */
struct audit *audit_begin(sd_event *loop, const struct model_manifest *manifest,
			  const uint8_t *image, void (*done)(void *arg, int err), void *arg,
			  int *err);
/* Nobody is called. NULL is fine. */
void audit_cancel(struct audit *audit);

#endif
