/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_PAYMENT_H
#define _DISTMIND_PAYMENT_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/types.h>

struct distmind_buffer;
struct distmind_vgpu;

/**
 * struct distmind_payment - a vgpu pays for a buffer that is not its own
 * @ref: see the top of payment.c
 * @in_buffer: in the buffer's list; under its payments_lock
 * @buffer: for which; whoever has the payment holds it
 * @vgpu: which is charged; held
 */
struct distmind_payment {
	refcount_t ref;
	struct list_head in_buffer;
	struct distmind_buffer *buffer;
	struct distmind_vgpu *vgpu;
};

struct distmind_payment *distmind_payment_create(struct distmind_buffer *buffer,
						 struct distmind_vgpu *vgpu);
struct distmind_payment *distmind_payment_get(struct distmind_payment *payment);
void distmind_payment_put(struct distmind_payment *payment);

#endif /* _DISTMIND_PAYMENT_H */
