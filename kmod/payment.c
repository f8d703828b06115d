// SPDX-License-Identifier: GPL-2.0-only
/*
 * Payments: what a vgpu is charged for a buffer that is not its own.
 *
 * Weights are loaded once for all who use them, into a buffer of the daemon's, which is
 * given on as a dma-buf. Whoever is privileged can export one that somebody pays for: a
 * vgpu is charged the full size of the buffer, whoever else pays for the same one. So
 * what a tenant can have does not depend on what others do, and nobody has to pay more
 * because another one leaves.
 *
 * The payment is held by the dma-buf and by all that comes of it: the handles of who
 * imports it, whosever vgpu that is, mappings through these, jobs with such arguments,
 * and the dma-bufs that are exported in turn. The charge goes with the last of them. A
 * vgpu pays once for one buffer, however often it was exported for it.
 *
 * Whoever has a payment holds the buffer as well, and lets go of the payment first. The
 * list of a buffer's payments is guarded by its payments_lock, under which the last
 * reference goes and the charge with it, so that the next one does not find both. The
 * lock of the vgpu nests inside.
 */
#include <linux/err.h>
#include <linux/slab.h>

#include "buffer.h"
#include "ledger.h"
#include "payment.h"
#include "vgpu.h"

static struct distmind_payment *payment_find(struct distmind_buffer *buffer,
					     const struct distmind_vgpu *vgpu)
{
	struct distmind_payment *payment;

	lockdep_assert_held(&buffer->payments_lock);
	list_for_each_entry(payment, &buffer->payments, in_buffer) {
		if (payment->vgpu == vgpu)
			return payment;
	}
	return NULL;
}

/* The caller holds both. Returns a reference. */
struct distmind_payment *distmind_payment_create(struct distmind_buffer *buffer,
						 struct distmind_vgpu *vgpu)
{
	struct distmind_payment *payment, *made;
	int err = 0;

	made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT);
	if (!made)
		return ERR_PTR(-ENOMEM);
	refcount_set(&made->ref, 1);
	made->buffer = buffer;
	made->vgpu = vgpu;
	spin_lock(&buffer->payments_lock);
	payment = payment_find(buffer, vgpu);
	if (payment) {
		refcount_inc(&payment->ref);
	} else {
		err = distmind_vgpu_charge(vgpu, distmind_buffer_size(buffer));
		if (!err) {
			distmind_vgpu_get(vgpu);
			list_add_tail(&made->in_buffer, &buffer->payments);
			payment = made;
		}
	}
	spin_unlock(&buffer->payments_lock);
	if (payment == made)
		distmind_ledger_created(DISTMIND_OBJECT_PAYMENT);
	else
		kfree(made);
	return err ? ERR_PTR(err) : payment;
}

/* NULL is nobody's. */
struct distmind_payment *distmind_payment_get(struct distmind_payment *payment)
{
	if (payment)
		refcount_inc(&payment->ref);
	return payment;
}

void distmind_payment_put(struct distmind_payment *payment)
{
	struct distmind_buffer *buffer;

	if (!payment)
		return;
	buffer = payment->buffer;
	if (!refcount_dec_and_lock(&payment->ref, &buffer->payments_lock))
		return;
	list_del(&payment->in_buffer);
	distmind_vgpu_uncharge(payment->vgpu, distmind_buffer_size(buffer));
	spin_unlock(&buffer->payments_lock);
	distmind_vgpu_put(payment->vgpu);
	kfree(payment);
	distmind_ledger_destroyed(DISTMIND_OBJECT_PAYMENT);
}
