// SPDX-License-Identifier: GPL-2.0-only
/*
 * gpus, and the lock of the pool.
 *
 * A gpu is held by the table until it is removed, by the engine file that
 * registered it, by each vgpu bound to it, by each tenant of its scheduler, by each buffer
 * that is for its heap and by each call of a vendor's hook. It becomes lost when the engine's
 * file is closed, or when the engine does not answer any more. A lost gpu stays in the table,
 * for operators to see, until one removes it or an engine registers the same name
 * again; its memory stays with those who have buffers there.
 *
 * distmind_pool_lock guards the tables of gpus and vgpus, the state of gpus and
 * which vgpu is bound to which gpu. Lock order: distmind_pool_lock, then a vgpu's lock;
 * distmind_claim_lock is held with neither. Everybody needs it now and then, so it is
 * not held around a vendor's hook, nor while a node comes or goes: the jobs of what goes
 * end after it was released, and only then is the work item of a scheduler waited for.
 */
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "gpu.h"
#include "ioctl.h"
#include "job.h"
#include "ledger.h"
#include "netlink.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

/* See above. */
DEFINE_MUTEX(distmind_pool_lock);
struct distmind_table distmind_gpus = DISTMIND_TABLE_INIT(distmind_gpus);

static void gpu_release(struct kref *ref)
{
	struct distmind_gpu *gpu = container_of(ref, struct distmind_gpu, ref);

	distmind_sched_destroy(&gpu->sched);
	distmind_heap_destroy(&gpu->heap);
	kfree(gpu);
	distmind_ledger_destroyed(DISTMIND_OBJECT_GPU);
}

void distmind_gpu_get(struct distmind_gpu *gpu)
{
	kref_get(&gpu->ref);
}

void distmind_gpu_put(struct distmind_gpu *gpu)
{
	kref_put(&gpu->ref, gpu_release);
}

static struct distmind_gpu *find_name(const char *name)
{
	struct distmind_gpu *gpu;
	unsigned long id;

	lockdep_assert_held(&distmind_pool_lock);
	distmind_table_for_each(&distmind_gpus, id, gpu) {
		if (!strcmp(gpu->name, name))
			return gpu;
	}
	return NULL;
}

/* The table's reference becomes the caller's, for finish_removal(). */
static void remove_locked(struct distmind_gpu *gpu, struct list_head *ended)
{
	struct distmind_vgpu *vgpu, *next;

	lockdep_assert_held(&distmind_pool_lock);
	/* First: its engine must not take this for a loss. */
	WRITE_ONCE(gpu->removed, true);
	distmind_sched_end(&gpu->sched, -EOWNERDEAD, ended);
	list_for_each_entry_safe(vgpu, next, &gpu->vgpus, on_gpu)
		distmind_vgpu_bind(vgpu, NULL, ended);
	WRITE_ONCE(gpu->state, DISTMIND_GPU_STATE_LOST);
	distmind_table_del(&distmind_gpus, gpu->id);
	wake_up_interruptible(&gpu->wait);
	trace_distmind_gpu_remove(gpu);
	distmind_netlink_notify_gpu(DISTMIND_CMD_GPU_DEL_NTF, gpu);
}

/*
 * After the scheduler's end, without the lock: the engine reaches no memory any more, and
 * only then are those told who wait for the jobs that it had.
 */
static void disarm_engine(struct distmind_gpu *gpu, struct list_head *ended)
{
	distmind_heap_close(&gpu->heap);
	distmind_sched_reclaim(&gpu->sched);
	distmind_job_end_all(ended);
}

/* Without the lock. */
static void finish_removal(struct distmind_gpu *gpu, struct list_head *ended)
{
	disarm_engine(gpu, ended);
	distmind_sched_quiesce(&gpu->sched);
	distmind_gpu_put(gpu);
}

/* The engine's view: @inode is where it will map the heap. Returns a reference. */
struct distmind_gpu *distmind_gpu_register(struct distmind_engine_register *arg,
					   struct inode *inode)
{
	struct distmind_gpu *gpu, *old;
	unsigned long pages;
	LIST_HEAD(ended);
	int err;

	if (arg->flags || arg->pad || !distmind_ioctl_name_valid(arg->name) || !arg->name[0] ||
	    !distmind_ioctl_name_valid(arg->kind) || !arg->kind[0])
		return ERR_PTR(-EINVAL);
	if (!arg->heap_size || !IS_ALIGNED(arg->heap_size, PAGE_SIZE))
		return ERR_PTR(-EINVAL);
	if (arg->numa_node != DISTMIND_NUMA_ANY &&
	    (arg->numa_node < 0 || arg->numa_node >= MAX_NUMNODES ||
	     !node_state(arg->numa_node, N_MEMORY)))
		return ERR_PTR(-EINVAL);
	if (arg->compute_lanes > DISTMIND_LANES_MAX ||
	    arg->copy_lanes > DISTMIND_LANES_MAX - arg->compute_lanes)
		return ERR_PTR(-EINVAL);
	if (arg->heap_size >> PAGE_SHIFT > totalram_pages())
		return ERR_PTR(-ENOMEM);
	pages = arg->heap_size >> PAGE_SHIFT;

	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu)
		return ERR_PTR(-ENOMEM);
	arg->capabilities &= DISTMIND_ENGINE__ALL;
	err = distmind_sched_init(&gpu->sched, arg->compute_lanes, arg->copy_lanes,
				  arg->capabilities);
	if (err) {
		kfree(gpu);
		return ERR_PTR(err);
	}
	distmind_ledger_created(DISTMIND_OBJECT_GPU);
	kref_init(&gpu->ref);
	strscpy(gpu->name, arg->name, sizeof(gpu->name));
	strscpy(gpu->kind, arg->kind, sizeof(gpu->kind));
	gpu->box = arg->box;
	gpu->engine_pid = task_tgid_nr(current);
	gpu->state = DISTMIND_GPU_STATE_READY;
	INIT_LIST_HEAD(&gpu->vgpus);
	init_waitqueue_head(&gpu->wait);
	distmind_heap_init(&gpu->heap, pages, arg->numa_node, inode);

	/* Before the lock: it may wait for memory of the engine's cgroup. */
	err = distmind_table_reserve(&distmind_gpus, U32_MAX, &gpu->id);
	if (err)
		goto err_put;
	err = -EINTR;
	if (mutex_lock_killable(&distmind_pool_lock))
		goto err_release;
	old = find_name(gpu->name);
	err = -EEXIST;
	if (old && old->state != DISTMIND_GPU_STATE_LOST)
		goto err_unlock;
	distmind_table_publish(&distmind_gpus, gpu->id, gpu);
	if (old)
		remove_locked(old, &ended);
	distmind_gpu_get(gpu);
	trace_distmind_gpu_register(gpu);
	distmind_netlink_notify_gpu(DISTMIND_CMD_GPU_ADD_NTF, gpu);
	mutex_unlock(&distmind_pool_lock);
	if (old)
		finish_removal(old, &ended);
	return gpu;

err_unlock:
	mutex_unlock(&distmind_pool_lock);
err_release:
	distmind_table_release(&distmind_gpus, gpu->id);
err_put:
	distmind_gpu_put(gpu);
	return ERR_PTR(err);
}

/* Its engine is gone, or does not answer any more. */
void distmind_gpu_lose(struct distmind_gpu *gpu)
{
	LIST_HEAD(ended);

	mutex_lock(&distmind_pool_lock);
	if (gpu->state != DISTMIND_GPU_STATE_LOST) {
		WRITE_ONCE(gpu->state, DISTMIND_GPU_STATE_LOST);
		distmind_sched_end(&gpu->sched, -EOWNERDEAD, &ended);
		wake_up_interruptible(&gpu->wait);
		trace_distmind_gpu_lose(gpu);
		distmind_netlink_notify_gpu(DISTMIND_CMD_GPU_CHANGE_NTF, gpu);
	}
	mutex_unlock(&distmind_pool_lock);
	disarm_engine(gpu, &ended);
}

/* Something of it has changed by itself: whoever watches hears of it. */
void distmind_gpu_tell(struct distmind_gpu *gpu)
{
	mutex_lock(&distmind_pool_lock);
	if (!gpu->removed)
		distmind_netlink_notify_gpu(DISTMIND_CMD_GPU_CHANGE_NTF, gpu);
	mutex_unlock(&distmind_pool_lock);
}

int distmind_gpu_set(u32 id, const struct distmind_gpu_change *change,
		     struct netlink_ext_ack *extack)
{
	struct distmind_gpu *gpu;
	int err = 0;

	mutex_lock(&distmind_pool_lock);
	gpu = distmind_table_find(&distmind_gpus, id);
	if (!gpu) {
		NL_SET_ERR_MSG(extack, "no such gpu");
		err = -ENOENT;
	} else if (gpu->state == DISTMIND_GPU_STATE_LOST) {
		NL_SET_ERR_MSG(extack, "the gpu is lost: remove it, or start its engine again");
		err = -EOWNERDEAD;
	} else {
		bool schedules = change->policy || change->grace_ns || change->hang_ns;
		u32 state = gpu->state;

		if (change->drain)
			state = *change->drain ? DISTMIND_GPU_STATE_DRAINING :
						 DISTMIND_GPU_STATE_READY;
		if (schedules)
			distmind_sched_configure(&gpu->sched, change->policy, change->grace_ns,
						 change->hang_ns);
		if (state != gpu->state || schedules) {
			gpu->state = state;
			distmind_netlink_notify_gpu(DISTMIND_CMD_GPU_CHANGE_NTF, gpu);
		}
	}
	mutex_unlock(&distmind_pool_lock);
	return err;
}

int distmind_gpu_remove(u32 id, struct netlink_ext_ack *extack)
{
	struct distmind_gpu *gpu;
	LIST_HEAD(ended);
	int err = 0;

	mutex_lock(&distmind_pool_lock);
	gpu = distmind_table_find(&distmind_gpus, id);
	if (!gpu) {
		NL_SET_ERR_MSG(extack, "no such gpu");
		err = -ENOENT;
	} else if (gpu->state != DISTMIND_GPU_STATE_LOST && gpu->vgpu_count) {
		NL_SET_ERR_MSG(extack, "vgpus use it: drain it and wait, or bind them elsewhere");
		err = -EBUSY;
	} else {
		remove_locked(gpu, &ended);
	}
	mutex_unlock(&distmind_pool_lock);
	if (!err)
		finish_removal(gpu, &ended);
	return err;
}

/* Nothing is open any more, so these are all lost. */
void distmind_gpu_exit(void)
{
	struct distmind_gpu *gpu;
	unsigned long id;
	LIST_HEAD(ended);

	distmind_table_for_each(&distmind_gpus, id, gpu) {
		mutex_lock(&distmind_pool_lock);
		remove_locked(gpu, &ended);
		mutex_unlock(&distmind_pool_lock);
		finish_removal(gpu, &ended);
	}
	xa_destroy(&distmind_gpus.objects);
}
