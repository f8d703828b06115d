/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The decisions: an answer for every claim, a gpu for every vgpu that has
 * lost its own (all of them by one plan), an end for gpus that stay lost. The
 * pool must be up to date.
 */
#ifndef DISTMINDD_DECIDE_H
#define DISTMINDD_DECIDE_H

#include "../common/config.h"
#include "inventory.h"

/*
 * Bind what has no gpu, then answer what waits. Returns whether there is more
 * to do than one turn of the event loop should take, or an error of
 * inventory_update().
 */
int decide(struct inventory *inventory, const struct config *config);

/*
 * Remove the gpus that have been lost for too long. Returns when to call
 * again, on the pool's clock; UINT64_MAX: not before the pool changes.
 */
uint64_t decide_expiry(struct inventory *inventory, const struct config *config);

#endif
