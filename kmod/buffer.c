// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers.
 *
 * A buffer is held by each handle of it, its own client's and those of who has
 * imported it, by each job that uses it, each mapping of it and each dma-buf. With
 * the last of these its range goes back to the heap and its charge to the quota of
 * the vgpu. It holds its vgpu and its gpu. Others may pay for it as well, see payment.c.
 *
 * The table of buffers is read under RCU: what is found there may be on its way
 * out, so a reference must be taken with kref_get_unless_zero(). Nothing of a
 * buffer changes after its creation but its counters, its gpu and place there (see
 * residency.c), and its extents, which are set once (see extent.c).
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "account.h"
#include "buffer.h"
#include "compat.h"
#include "extent.h"
#include "gpu.h"
#include "ledger.h"
#include "payment.h"
#include "room.h"
#include "trace.h"
#include "vgpu.h"

struct distmind_table distmind_buffers = DISTMIND_TABLE_INIT(distmind_buffers);

static void buffer_release(struct kref *ref)
{
	struct distmind_buffer *buffer = container_of(ref, struct distmind_buffer, ref);

	trace_distmind_buffer_destroy(buffer);
	WARN_ON(!list_empty(&buffer->payments));
	distmind_table_del(&distmind_buffers, buffer->id);
	distmind_heap_del(&buffer->gpu->heap, buffer);
	distmind_room_freed(&buffer->gpu->sched);
	distmind_heap_free_pages(buffer->pages, buffer->count);
	distmind_extents_free(buffer->extents);
	distmind_vgpu_uncharge(buffer->vgpu, distmind_buffer_size(buffer));
	distmind_gpu_put(buffer->gpu);
	distmind_vgpu_put(buffer->vgpu);
	distmind_account_uncharge(buffer->account, DISTMIND_LIMIT_BUFFER, 1);
	distmind_account_put(buffer->account);
	kfree_rcu(buffer, rcu);
	distmind_ledger_destroyed(DISTMIND_OBJECT_BUFFER);
}

void distmind_buffer_get(struct distmind_buffer *buffer)
{
	kref_get(&buffer->ref);
}

void distmind_buffer_put(struct distmind_buffer *buffer)
{
	kref_put(&buffer->ref, buffer_release);
}

static void release_chore(struct distmind_chore *chore)
{
	buffer_release(&container_of(chore, struct distmind_buffer, chore)->ref);
}

static void release_later(struct kref *ref)
{
	struct distmind_buffer *buffer = container_of(ref, struct distmind_buffer, ref);

	distmind_account_post(buffer->account, &buffer->chore);
}

/*
 * By a job, or by who has only looked at it: if that is the last, its owner frees the pages,
 * and not who ends the job or looks.
 */
void distmind_buffer_put_later(struct distmind_buffer *buffer)
{
	kref_put(&buffer->ref, release_later);
}

/* The first buffer with a number of at least *id; returns a reference. */
struct distmind_buffer *distmind_buffer_from(unsigned long *id)
{
	struct distmind_buffer *buffer;

	rcu_read_lock();
	while ((buffer = distmind_table_from(&distmind_buffers, id))) {
		if (kref_get_unless_zero(&buffer->ref))
			break;
		++*id;
	}
	rcu_read_unlock();
	return buffer;
}

/* @size and @kind have been checked. It counts for @account. Returns a reference. */
struct distmind_buffer *distmind_buffer_create(struct distmind_vgpu *vgpu,
					       struct distmind_account *account, u64 size,
					       u32 kind)
{
	struct distmind_buffer *buffer;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_BUFFER, 1);
	if (err)
		return ERR_PTR(err);
	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL_ACCOUNT);
	if (!buffer) {
		err = -ENOMEM;
		goto err_account;
	}
	kref_init(&buffer->ref);
	distmind_chore_init(&buffer->chore, release_chore);
	buffer->kind = kind;
	buffer->count = size >> PAGE_SHIFT;
	buffer->vgpu = vgpu;
	INIT_LIST_HEAD(&buffer->mappings);
	mutex_init(&buffer->mappings_lock);
	INIT_LIST_HEAD(&buffer->payments);
	spin_lock_init(&buffer->payments_lock);

	buffer->gpu = distmind_vgpu_get_gpu(vgpu);
	if (IS_ERR(buffer->gpu)) {
		err = PTR_ERR(buffer->gpu);
		goto err_free;
	}
	buffer->gpu_id = buffer->gpu->id;
	err = distmind_vgpu_charge(vgpu, size);
	if (err == -EDQUOT) {
		/* What the user has given back may still be on its way. */
		distmind_account_help(account);
		err = distmind_vgpu_charge(vgpu, size);
	}
	if (err)
		goto err_gpu;
	/* Refuse what cannot be before memory is spent on it. */
	err = -ENOSPC;
	if (buffer->count > buffer->gpu->heap.pages)
		goto err_charge;
	buffer->pages = distmind_heap_alloc_pages(&buffer->gpu->heap, buffer->count);
	if (IS_ERR(buffer->pages)) {
		err = PTR_ERR(buffer->pages);
		goto err_charge;
	}
	err = distmind_heap_add(&buffer->gpu->heap, buffer);
	if (err)
		goto err_pages;
	err = distmind_table_add(&distmind_buffers, buffer, U32_MAX, &buffer->id);
	if (err)
		goto err_heap;
	distmind_vgpu_get(vgpu);
	distmind_account_get(account);
	buffer->account = account;
	distmind_ledger_created(DISTMIND_OBJECT_BUFFER);
	trace_distmind_buffer_create(buffer);
	return buffer;

err_heap:
	distmind_heap_del(&buffer->gpu->heap, buffer);
	distmind_room_freed(&buffer->gpu->sched);
err_pages:
	distmind_heap_free_pages(buffer->pages, buffer->count);
err_charge:
	distmind_vgpu_uncharge(vgpu, size);
err_gpu:
	distmind_gpu_put(buffer->gpu);
err_free:
	kfree(buffer);
err_account:
	distmind_account_uncharge(account, DISTMIND_LIMIT_BUFFER, 1);
	return ERR_PTR(err);
}

static unsigned long index_of(pgoff_t pgoff)
{
	return pgoff & ((DISTMIND_BUFFER_MAX >> PAGE_SHIFT) - 1);
}

static vm_fault_t fault(struct distmind_buffer *buffer, struct vm_fault *vmf)
{
	unsigned long index = index_of(vmf->pgoff);

	if (index >= buffer->count)
		return VM_FAULT_SIGBUS;
	return distmind_heap_insert(vmf, buffer->pages, buffer->count, index);
}

static vm_fault_t buffer_fault(struct vm_fault *vmf)
{
	return fault(vmf->vma->vm_private_data, vmf);
}

static void buffer_vma_open(struct vm_area_struct *vma)
{
	distmind_buffer_get(vma->vm_private_data);
}

static void buffer_vma_close(struct vm_area_struct *vma)
{
	distmind_buffer_put(vma->vm_private_data);
}

static const struct vm_operations_struct buffer_vm_ops = {
	.open = buffer_vma_open,
	.close = buffer_vma_close,
	.fault = buffer_fault,
};

/* One that somebody pays for: the payment knows the buffer. */
static vm_fault_t paid_fault(struct vm_fault *vmf)
{
	struct distmind_payment *payment = vmf->vma->vm_private_data;

	return fault(payment->buffer, vmf);
}

static void paid_vma_open(struct vm_area_struct *vma)
{
	struct distmind_payment *payment = vma->vm_private_data;

	distmind_buffer_get(payment->buffer);
	distmind_payment_get(payment);
}

static void paid_vma_close(struct vm_area_struct *vma)
{
	struct distmind_payment *payment = vma->vm_private_data;
	struct distmind_buffer *buffer = payment->buffer;

	distmind_payment_put(payment);
	distmind_buffer_put(buffer);
}

static const struct vm_operations_struct paid_vm_ops = {
	.open = paid_vma_open,
	.close = paid_vma_close,
	.fault = paid_fault,
};

/*
 * The low bits of the mapping's offset say where in the buffer it begins. The
 * pages are ordinary ones, inserted as such, so that RDMA devices can pin them. It holds
 * the buffer and @payment, which may be NULL.
 */
int distmind_buffer_mmap(struct distmind_buffer *buffer, struct distmind_payment *payment,
			 struct vm_area_struct *vma)
{
	unsigned long first = index_of(vma->vm_pgoff);

	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (first >= buffer->count || vma_pages(vma) > buffer->count - first)
		return -EINVAL;
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP);
	distmind_buffer_get(buffer);
	if (payment) {
		vma->vm_private_data = distmind_payment_get(payment);
		vma->vm_ops = &paid_vm_ops;
	} else {
		vma->vm_private_data = buffer;
		vma->vm_ops = &buffer_vm_ops;
	}
	return 0;
}
