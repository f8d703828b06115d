// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tenants: a vgpu, as the scheduler of its gpu sees it.
 *
 * Everything here that can change is guarded by the lock of the gpu's scheduler. A
 * tenant belongs to one gpu for life: when the vgpu is bound elsewhere it ends, its
 * queues with it, and what they held fails. The vgpu holds it while it is bound, and
 * so does each queue; it holds its gpu and its vgpu.
 */
#include <linux/ktime.h>
#include <linux/slab.h>

#include "debt.h"
#include "gpu.h"
#include "queue.h"
#include "sched.h"
#include "tenant.h"
#include "vgpu.h"

/* Queues of a tenant that are ended before others get the lock. */
#define QUEUES_AT_ONCE 64

/* With the settings of now: whoever gives it to the vgpu sees to it that it has the last. */
struct distmind_tenant *distmind_tenant_create(struct distmind_gpu *gpu,
					       struct distmind_vgpu *vgpu)
{
	struct distmind_vgpu_settings settings;
	struct distmind_tenant *tenant;

	tenant = kzalloc(sizeof(*tenant), GFP_KERNEL_ACCOUNT);
	if (!tenant)
		return ERR_PTR(-ENOMEM);
	kref_init(&tenant->ref);
	distmind_gpu_get(gpu);
	tenant->gpu = gpu;
	distmind_vgpu_get(vgpu);
	tenant->vgpu = vgpu;
	INIT_LIST_HEAD(&tenant->queues);
	INIT_LIST_HEAD(&tenant->room_queues);
	INIT_LIST_HEAD(&tenant->guests);
	INIT_LIST_HEAD(&tenant->in_barred);
	spin_lock(&vgpu->lock);
	settings = vgpu->settings;
	spin_unlock(&vgpu->lock);
	tenant->error = distmind_sched_add(&gpu->sched, tenant, &settings);
	if (tenant->error) {
		int err = tenant->error;

		distmind_tenant_put(tenant);
		return ERR_PTR(err);
	}
	return tenant;
}

static void tenant_release(struct kref *ref)
{
	struct distmind_tenant *tenant = container_of(ref, struct distmind_tenant, ref);

	distmind_sched_del(&tenant->gpu->sched, tenant);
	distmind_gpu_put(tenant->gpu);
	distmind_vgpu_put(tenant->vgpu);
	kfree(tenant);
}

void distmind_tenant_put(struct distmind_tenant *tenant)
{
	kref_put(&tenant->ref, tenant_release);
}

/*
 * All its queues end, and no new ones begin; under the pool's lock, so by one at a time.
 * A queue that is released meanwhile leaves whichever of the two lists it is in.
 */
void distmind_tenant_end(struct distmind_tenant *tenant, int error, struct list_head *ended)
{
	struct distmind_sched *sched = &tenant->gpu->sched;
	struct distmind_queue *queue;
	LIST_HEAD(left);
	u32 count = 0;

	lockdep_assert_held(&distmind_pool_lock);
	spin_lock(&sched->lock);
	if (!tenant->error)
		tenant->error = error;
	list_splice_init(&tenant->queues, &left);
	while ((queue = list_first_entry_or_null(&left, struct distmind_queue, in_tenant))) {
		list_move_tail(&queue->in_tenant, &tenant->queues);
		distmind_queue_drop_jobs(queue, error, ended);
		if (++count % QUEUES_AT_ONCE == 0) {
			spin_unlock(&sched->lock);
			cond_resched();
			spin_lock(&sched->lock);
		}
	}
	/* Before its user can have another: what is on a lane may stay there for a while. */
	distmind_debt_note(sched, tenant, ktime_get_ns());
	distmind_sched_dispatch(sched, ktime_get_ns());
	spin_unlock(&sched->lock);
}
