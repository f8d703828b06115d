/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DISTMINDCTL_POOL_H
#define DISTMINDCTL_POOL_H

#include "ctl.h"

/* What distmindctl without a command shows: everything, briefly. */
int pool_show(struct ctl *ctl);

#endif /* DISTMINDCTL_POOL_H */
