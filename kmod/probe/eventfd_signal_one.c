// SPDX-License-Identifier: GPL-2.0-only
/* 6.8: eventfd_signal() adds one and has no count. */
#include <linux/eventfd.h>

void probe(struct eventfd_ctx *ctx);
void probe(struct eventfd_ctx *ctx)
{
	eventfd_signal(ctx);
}
