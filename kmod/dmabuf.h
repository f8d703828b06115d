/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_DMABUF_H
#define _DISTMIND_DMABUF_H

#include <linux/types.h>

struct distmind_account;
struct distmind_buffer;
struct distmind_payment;

struct distmind_buffer *distmind_dmabuf_import(int fd, bool *writable,
					       struct distmind_payment **payment);
int distmind_dmabuf_export(struct distmind_account *account, struct distmind_buffer *buffer,
			   struct distmind_payment *payment, u32 flags);

#endif /* _DISTMIND_DMABUF_H */
