// SPDX-License-Identifier: GPL-2.0-only
/*
 * vgpus.
 *
 * A vgpu is held by the table until it is killed, by each open file, by each buffer
 * and by each tenant, so by its queues; its struct device counts the references. It
 * is killed when its lease ends: by the last close of the file that acquire
 * returned, or by an operator. From then on it has no number, no node and no gpu,
 * its handles cannot be found any more and its open files answer ENODEV. What remains is
 * the account of the buffers that mappings and dma-bufs keep.
 *
 * Its node comes and goes without a lock: devtmpfs takes its time, and everybody needs
 * the pool's lock. So the number is reserved first, then the vgpu is bound and gets its
 * node, and then it is in the table; it leaves the table before its node, and its number
 * is free after that. Nobody can kill it, or find it but by its node, before it is there.
 *
 * Charged to a vgpu are its buffers, and those of others that it pays for (payment.c), each
 * for as long as somebody holds it. That is limited by the vgpu's quota, and together with
 * what is charged to all vgpus of its user, also those that have ended, by the quotas of
 * those that have not (account.c).
 *
 * vgpu->lock is a spinlock inside distmind_pool_lock: whoever has the pool's waits for no
 * tenant that waits for memory.
 */
#include <linux/netlink.h>
#include <linux/slab.h>

#include "account.h"
#include "client.h"
#include "compat.h"
#include "ioctl.h"
#include "job.h"
#include "ledger.h"
#include "netlink.h"
#include "node.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

struct distmind_table distmind_vgpus = DISTMIND_TABLE_INIT(distmind_vgpus);

static void vgpu_release(struct device *dev)
{
	struct distmind_vgpu *vgpu = container_of(dev, struct distmind_vgpu, dev);

	WARN_ON(vgpu->gpu || vgpu->used || vgpu->client_count);
	if (vgpu->counted)
		distmind_account_uncharge(vgpu->account, DISTMIND_LIMIT_VGPU, 1);
	if (vgpu->account)
		distmind_account_put(vgpu->account);
	kfree(vgpu);
	distmind_ledger_destroyed(DISTMIND_OBJECT_VGPU);
}

static char *vgpu_path(devnode_device *dev, umode_t *mode, kuid_t *uid, kgid_t *gid)
{
	const struct distmind_vgpu *vgpu = container_of(dev, struct distmind_vgpu, dev);

	if (mode)
		*mode = 0600;
	if (uid)
		*uid = vgpu->owner.uid;
	if (gid)
		*gid = vgpu->owner.gid;
	return kasprintf(GFP_KERNEL, "distmind/%s", dev_name(dev));
}

static const struct device_type vgpu_type = {
	.name = "vgpu",
	.devnode = vgpu_path,
	.release = vgpu_release,
};

int distmind_vgpu_check_settings(const struct distmind_vgpu_settings *settings,
				 const char **problem)
{
	if (!settings->memory || !IS_ALIGNED(settings->memory, PAGE_SIZE) ||
	    settings->memory > S64_MAX)
		*problem = "memory must be a multiple of the page size and not 0";
	else if (!settings->share || settings->share > DISTMIND_SHARE_WHOLE)
		*problem = "share must be 1 to 1000 thousandths";
	else if (settings->class >= DISTMIND_CLASS__COUNT)
		*problem = "class must be 0 (best effort), 1 (standard) or 2 (latency)";
	else if (settings->class == DISTMIND_CLASS_LATENCY && !settings->objective_ns)
		*problem = "class latency needs an objective";
	else if (settings->class != DISTMIND_CLASS_LATENCY && settings->objective_ns)
		*problem = "an objective needs class latency";
	else
		return 0;
	return -EINVAL;
}

/* A gpu that new vgpus may be bound to. */
struct distmind_gpu *distmind_vgpu_bindable_gpu(u32 id, struct netlink_ext_ack *extack)
{
	struct distmind_gpu *gpu;

	lockdep_assert_held(&distmind_pool_lock);
	gpu = distmind_table_find(&distmind_gpus, id);
	if (!gpu) {
		NL_SET_ERR_MSG(extack, "no such gpu");
		return ERR_PTR(-ENOENT);
	}
	if (gpu->state == DISTMIND_GPU_STATE_LOST) {
		NL_SET_ERR_MSG(extack, "the gpu is lost");
		return ERR_PTR(-EOWNERDEAD);
	}
	if (gpu->state == DISTMIND_GPU_STATE_DRAINING) {
		NL_SET_ERR_MSG(extack, "the gpu is draining: undrain it first");
		return ERR_PTR(-EBUSY);
	}
	return gpu;
}

/*
 * Bind to another gpu, or to none. The jobs that it had go to @ended: they end when the
 * caller has released the pool's lock.
 */
void distmind_vgpu_bind(struct distmind_vgpu *vgpu, struct distmind_gpu *gpu,
			struct list_head *ended)
{
	struct distmind_gpu *old = vgpu->gpu;
	struct distmind_tenant *tenant;

	lockdep_assert_held(&distmind_pool_lock);
	if (old == gpu)
		return;
	if (old) {
		list_del_init(&vgpu->on_gpu);
		old->vgpu_count--;
	}
	if (gpu) {
		distmind_gpu_get(gpu);
		list_add_tail(&vgpu->on_gpu, &gpu->vgpus);
		gpu->vgpu_count++;
	}
	spin_lock(&vgpu->lock);
	vgpu->gpu = gpu;
	tenant = vgpu->tenant;
	vgpu->tenant = NULL;
	spin_unlock(&vgpu->lock);
	if (tenant) {
		distmind_tenant_end(tenant, vgpu->dead ? -ENODEV : -ESTALE, ended);
		distmind_tenant_put(tenant);
	}
	trace_distmind_vgpu_bind(vgpu);
	if (old)
		distmind_gpu_put(old);
}

static void promise(struct distmind_vgpu *vgpu, s64 bytes)
{
	if (vgpu->account)
		distmind_account_promise(vgpu->account, bytes);
}

/* On a gpu if it is to have one; it is in no table yet. */
static int enroll(struct distmind_vgpu *vgpu, u32 gpu_id, struct netlink_ext_ack *extack)
{
	struct distmind_gpu *gpu = NULL;

	lockdep_assert_held(&distmind_pool_lock);
	if (gpu_id != DISTMIND_GPU_NONE) {
		gpu = distmind_vgpu_bindable_gpu(gpu_id, extack);
		if (IS_ERR(gpu))
			return PTR_ERR(gpu);
	}
	/* Before somebody can open it. */
	promise(vgpu, vgpu->settings.memory);
	/* It is new: it has no jobs. */
	distmind_vgpu_bind(vgpu, gpu, NULL);
	return 0;
}

/* It is dead for whoever has it open. Returns false if it was so before. */
static bool mark_dead(struct distmind_vgpu *vgpu)
{
	bool was_dead;

	lockdep_assert_held(&distmind_pool_lock);
	spin_lock(&vgpu->lock);
	was_dead = vgpu->dead;
	WRITE_ONCE(vgpu->dead, true);
	if (!was_dead)
		promise(vgpu, -(s64)vgpu->settings.memory);
	spin_unlock(&vgpu->lock);
	return !was_dead;
}

/* It has got no node, and was in no table; who has made a node itself may have it open. */
static void give_up(struct distmind_vgpu *vgpu)
{
	LIST_HEAD(ended);

	mutex_lock(&distmind_pool_lock);
	mark_dead(vgpu);
	distmind_vgpu_bind(vgpu, NULL, &ended);
	mutex_unlock(&distmind_pool_lock);
	distmind_table_release(&distmind_vgpus, vgpu->id);
	distmind_job_end_all(&ended);
	distmind_client_drop_handles(vgpu);
}

/*
 * @owner and @settings have been checked; @gpu_id is where to bind it, or
 * DISTMIND_GPU_NONE; its memory counts for @account, unless that is NULL. Returns a
 * reference.
 */
struct distmind_vgpu *distmind_vgpu_create(const struct distmind_vgpu_owner *owner,
					   const struct distmind_vgpu_settings *settings,
					   u32 gpu_id, struct distmind_account *account,
					   struct netlink_ext_ack *extack)
{
	struct distmind_vgpu *vgpu;
	int err;

	vgpu = kzalloc(sizeof(*vgpu), GFP_KERNEL_ACCOUNT);
	if (!vgpu)
		return ERR_PTR(-ENOMEM);
	distmind_ledger_created(DISTMIND_OBJECT_VGPU);
	distmind_node_init_vgpu(&vgpu->dev, &vgpu->cdev, &vgpu_type);
	spin_lock_init(&vgpu->lock);
	distmind_requests_init(&vgpu->requests);
	INIT_LIST_HEAD(&vgpu->on_gpu);
	INIT_LIST_HEAD(&vgpu->clients);
	vgpu->owner = *owner;
	vgpu->settings = *settings;
	if (account)
		distmind_account_get(account);
	vgpu->account = account;

	/* Before the lock: it may wait for memory of the caller's cgroup. */
	err = distmind_table_reserve(&distmind_vgpus, DISTMIND_VGPU_MAX, &vgpu->id);
	if (err) {
		if (err == -EBUSY)
			NL_SET_ERR_MSG(extack, "there are too many vgpus");
		goto err_put;
	}
	mutex_lock(&distmind_pool_lock);
	err = enroll(vgpu, gpu_id, extack);
	mutex_unlock(&distmind_pool_lock);
	if (err) {
		distmind_table_release(&distmind_vgpus, vgpu->id);
		goto err_put;
	}
	err = distmind_node_add_vgpu(&vgpu->dev, &vgpu->cdev, vgpu->id);
	if (err) {
		give_up(vgpu);
		goto err_put;
	}
	/* Whatever has become of its gpu meanwhile has become of the vgpu, too. */
	mutex_lock(&distmind_pool_lock);
	distmind_table_publish(&distmind_vgpus, vgpu->id, vgpu);
	distmind_vgpu_get(vgpu);
	trace_distmind_vgpu_create(vgpu);
	distmind_netlink_notify_vgpu(DISTMIND_CMD_VGPU_ADD_NTF, vgpu);
	mutex_unlock(&distmind_pool_lock);
	return vgpu;

err_put:
	distmind_vgpu_put(vgpu);
	return ERR_PTR(err);
}

/* Under distmind_pool_lock; @settings have been checked. */
void distmind_vgpu_change(struct distmind_vgpu *vgpu,
			  const struct distmind_vgpu_settings *settings)
{
	lockdep_assert_held(&distmind_pool_lock);
	spin_lock(&vgpu->lock);
	promise(vgpu, settings->memory - vgpu->settings.memory);
	vgpu->settings = *settings;
	if (vgpu->tenant)
		distmind_sched_change(&vgpu->gpu->sched, vgpu->tenant, settings);
	spin_unlock(&vgpu->lock);
}

/*
 * End it. The caller holds a reference, which it keeps. A second call does
 * nothing.
 */
void distmind_vgpu_kill(struct distmind_vgpu *vgpu)
{
	LIST_HEAD(ended);
	bool ends;

	mutex_lock(&distmind_pool_lock);
	ends = mark_dead(vgpu);
	if (ends) {
		distmind_netlink_notify_vgpu(DISTMIND_CMD_VGPU_DEL_NTF, vgpu);
		trace_distmind_vgpu_kill(vgpu);
		distmind_vgpu_bind(vgpu, NULL, &ended);
		distmind_table_withdraw(&distmind_vgpus, vgpu->id);
	}
	mutex_unlock(&distmind_pool_lock);
	if (!ends)
		return;
	/* In this order: a number that is free must have no device. */
	cdev_device_del(&vgpu->cdev, &vgpu->dev);
	distmind_table_release(&distmind_vgpus, vgpu->id);
	distmind_job_end_all(&ended);
	distmind_client_drop_handles(vgpu);
	distmind_vgpu_put(vgpu);
}

/* Returns a reference. */
struct distmind_vgpu *distmind_vgpu_find(u32 id)
{
	struct distmind_vgpu *vgpu;

	mutex_lock(&distmind_pool_lock);
	vgpu = distmind_table_find(&distmind_vgpus, id);
	if (vgpu)
		distmind_vgpu_get(vgpu);
	mutex_unlock(&distmind_pool_lock);
	return vgpu;
}

/* The gpu that backs it, with a reference, or why there is none. */
struct distmind_gpu *distmind_vgpu_get_gpu(struct distmind_vgpu *vgpu)
{
	struct distmind_gpu *gpu;

	spin_lock(&vgpu->lock);
	gpu = vgpu->gpu;
	if (vgpu->dead)
		gpu = ERR_PTR(-ENODEV);
	else if (!gpu)
		gpu = ERR_PTR(-ENXIO);
	else if (READ_ONCE(gpu->state) == DISTMIND_GPU_STATE_LOST)
		gpu = ERR_PTR(-EOWNERDEAD);
	else
		distmind_gpu_get(gpu);
	spin_unlock(&vgpu->lock);
	return gpu;
}

/*
 * What its gpu's scheduler knows of it, with a reference. It is made without the lock:
 * whoever has the pool's lock may wait for this one, and must not wait for memory.
 */
struct distmind_tenant *distmind_vgpu_get_tenant(struct distmind_vgpu *vgpu)
{
	struct distmind_tenant *tenant = NULL, *made = NULL;
	struct distmind_gpu *gpu = NULL, *before;
	int err;

	for (;;) {
		before = gpu;
		spin_lock(&vgpu->lock);
		err = vgpu->dead ? -ENODEV : vgpu->gpu ? 0 : -ENXIO;
		/* Made for the gpu that it is still bound to? */
		if (!err && !vgpu->tenant && made && before == vgpu->gpu) {
			/* Others may have been promised since it was made. */
			distmind_sched_change(&before->sched, made, &vgpu->settings);
			vgpu->tenant = made;
			made = NULL;
		}
		tenant = err ? ERR_PTR(err) : vgpu->tenant;
		if (!IS_ERR_OR_NULL(tenant))
			kref_get(&tenant->ref);
		gpu = tenant ? NULL : vgpu->gpu;
		if (gpu)
			distmind_gpu_get(gpu);
		spin_unlock(&vgpu->lock);
		if (made)
			distmind_tenant_put(made);
		if (before)
			distmind_gpu_put(before);
		if (tenant)
			return tenant;
		made = distmind_tenant_create(gpu, vgpu);
		if (IS_ERR(made)) {
			distmind_gpu_put(gpu);
			return made;
		}
	}
}

/* Under distmind_pool_lock or vgpu->lock. */
u32 distmind_vgpu_state(const struct distmind_vgpu *vgpu)
{
	if (!vgpu->gpu)
		return DISTMIND_VGPU_STATE_PARKED;
	return READ_ONCE(vgpu->gpu->state) == DISTMIND_GPU_STATE_LOST ? DISTMIND_VGPU_STATE_LOST :
								    DISTMIND_VGPU_STATE_BOUND;
}

int distmind_vgpu_charge(struct distmind_vgpu *vgpu, u64 bytes)
{
	int err = 0;

	spin_lock(&vgpu->lock);
	/* A quota that was lowered may be below what is used. */
	if (vgpu->dead)
		err = -ENODEV;
	else if (vgpu->used > vgpu->settings.memory ||
		 bytes > vgpu->settings.memory - vgpu->used)
		err = -EDQUOT;
	else if (vgpu->account)
		err = distmind_account_take(vgpu->account, bytes);
	if (!err) {
		vgpu->used += bytes;
		vgpu->buffer_count++;
	}
	spin_unlock(&vgpu->lock);
	return err;
}

void distmind_vgpu_uncharge(struct distmind_vgpu *vgpu, u64 bytes)
{
	spin_lock(&vgpu->lock);
	vgpu->used -= bytes;
	vgpu->buffer_count--;
	if (vgpu->account)
		distmind_account_give_back(vgpu->account, bytes);
	spin_unlock(&vgpu->lock);
}

/* Nothing is open any more, so these are all an operator's. */
void distmind_vgpu_exit(void)
{
	struct distmind_vgpu *vgpu;
	unsigned long id;

	distmind_table_for_each(&distmind_vgpus, id, vgpu) {
		distmind_vgpu_get(vgpu);
		distmind_vgpu_kill(vgpu);
		distmind_vgpu_put(vgpu);
	}
	xa_destroy(&distmind_vgpus.objects);
}
