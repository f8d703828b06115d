// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tenants: a vgpu, as the scheduler of its gpu sees it.
 *
 * Everything here that can change is guarded by the lock of the gpu's scheduler. A
 * tenant belongs to one gpu for life: when the vgpu is bound elsewhere it ends, its
 * queues with it, and what they held fails. The vgpu holds it while it is bound, and
 * so does each queue; it holds its gpu and its vgpu.
 *
 * Whoever ends it has the pool's lock, which everybody needs, and it may have thousands of
 * queues. So it is barred, and the first of its queues end, with those that are on lanes; the
 * others are a chore of who has made them, which holds the tenant.
 */
#include <linux/ktime.h>
#include <linux/slab.h>

#include "account.h"
#include "debt.h"
#include "gpu.h"
#include "job.h"
#include "queue.h"
#include "sched.h"
#include "tenant.h"
#include "vgpu.h"

/* Queues of a tenant that are ended at a time: at least as many as can be on lanes. */
#define QUEUES_AT_ONCE 32
static_assert(QUEUES_AT_ONCE >= DISTMIND_LANES_MAX);

static void end_rest(struct distmind_chore *chore);

/* With the settings of now: whoever gives it to the vgpu sees to it that it has the last. */
struct distmind_tenant *distmind_tenant_create(struct distmind_gpu *gpu,
					       struct distmind_vgpu *vgpu)
{
	struct distmind_vgpu_settings settings;
	struct distmind_tenant *tenant;
	u32 i;

	tenant = kzalloc(sizeof(*tenant), GFP_KERNEL_ACCOUNT);
	if (!tenant)
		return ERR_PTR(-ENOMEM);
	kref_init(&tenant->ref);
	distmind_gpu_get(gpu);
	tenant->gpu = gpu;
	distmind_vgpu_get(vgpu);
	tenant->vgpu = vgpu;
	INIT_LIST_HEAD(&tenant->queues);
	INIT_LIST_HEAD(&tenant->ending);
	distmind_chore_init(&tenant->end, end_rest);
	for (i = 0; i < DISTMIND_ROOM_LISTS; i++)
		INIT_LIST_HEAD(&tenant->room_queues[i]);
	INIT_LIST_HEAD(&tenant->guests);
	INIT_LIST_HEAD(&tenant->in_barred);
	INIT_LIST_HEAD(&tenant->in_spent);
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

/* Returns whether some are left: then the chore is posted, with the caller's reference. */
static bool end_some(struct distmind_tenant *tenant, struct list_head *ended)
{
	struct distmind_sched *sched = &tenant->gpu->sched;
	struct distmind_queue *queue;
	u32 i;

	lockdep_assert_held(&sched->lock);
	for (i = 0; i < QUEUES_AT_ONCE && !list_empty(&tenant->ending); i++) {
		queue = list_first_entry(&tenant->ending, struct distmind_queue, in_tenant);
		list_move_tail(&queue->in_tenant, &tenant->queues);
		distmind_queue_drop_jobs(queue, tenant->error, ended);
	}
	queue = list_first_entry_or_null(&tenant->ending, struct distmind_queue, in_tenant);
	/* It holds its account, and cannot be released under the lock. */
	return queue && distmind_account_post(queue->account, &tenant->end);
}

static void end_rest(struct distmind_chore *chore)
{
	struct distmind_tenant *tenant = container_of(chore, struct distmind_tenant, end);
	struct distmind_sched *sched = &tenant->gpu->sched;
	LIST_HEAD(ended);
	bool left;

	spin_lock(&sched->lock);
	kref_get(&tenant->ref);
	left = end_some(tenant, &ended);
	distmind_sched_dispatch(sched, ktime_get_ns());
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	if (!left)
		distmind_tenant_put(tenant);
	distmind_tenant_put(tenant);
}

/* Those first whose jobs have lanes that others may want. */
static void line_up(struct distmind_sched *sched, struct distmind_tenant *tenant)
{
	u32 i;

	list_splice_init(&tenant->queues, &tenant->ending);
	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_job *job = sched->lanes[i].job;

		if (job && job->queue->tenant == tenant)
			list_move(&job->queue->in_tenant, &tenant->ending);
	}
}

/*
 * All its queues end, now or soon, nothing of theirs begins any more, and there are no new
 * ones. A queue that is released meanwhile leaves whichever of the two lists it is in.
 */
void distmind_tenant_end(struct distmind_tenant *tenant, int error, struct list_head *ended)
{
	struct distmind_sched *sched = &tenant->gpu->sched;
	u64 now;

	spin_lock(&sched->lock);
	if (tenant->error) {
		spin_unlock(&sched->lock);
		return;
	}
	now = ktime_get_ns();
	tenant->error = error;
	distmind_sched_retire(sched, tenant, now);
	line_up(sched, tenant);
	kref_get(&tenant->ref);
	if (!end_some(tenant, ended))
		/* Not the last one: the caller has another. */
		distmind_tenant_put(tenant);
	/* Before its user can have another: what is on a lane may stay there for a while. */
	distmind_debt_note(sched, tenant, now);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}
