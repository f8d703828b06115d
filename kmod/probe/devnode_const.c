// SPDX-License-Identifier: GPL-2.0-only
/* 6.2: the devnode callbacks take const devices. */
#include <linux/device.h>

static char *devnode(const struct device *dev, umode_t *mode)
{
	return NULL;
}

const struct class probe = { .devnode = devnode };
