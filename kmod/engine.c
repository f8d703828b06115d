// SPDX-License-Identifier: GPL-2.0-only
/*
 * Engines: open files of /dev/distmind/engine. Each registers at most one gpu
 * and holds it; closing the file is the engine's death and loses the gpu. An engine whose
 * gpu was lost or removed for another reason hears that by poll() and from its exchanges.
 *
 * The file's address space is an inode of its own rather than the node's, so
 * that taking a buffer out of one heap leaves other engines' mappings alone.
 *
 * engine->gpu is set once, under engine->lock, and cleared by nobody: other
 * calls read it with get_gpu().
 */
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "exchange.h"
#include "gpu.h"
#include "ioctl.h"
#include "lane.h"
#include "node.h"

struct distmind_engine {
	struct mutex lock; /* registration */
	struct inode *inode;
	struct distmind_gpu *gpu;
};

static struct distmind_gpu *get_gpu(struct file *file)
{
	struct distmind_engine *engine = file->private_data;

	/* Pairs with engine_register(). */
	return smp_load_acquire(&engine->gpu);
}

static int engine_open(struct inode *inode, struct file *file)
{
	struct distmind_engine *engine;
	int err;

	/* Whatever the node's mode has become. */
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	engine = kzalloc(sizeof(*engine), GFP_KERNEL);
	if (!engine)
		return -ENOMEM;
	mutex_init(&engine->lock);
	engine->inode = distmind_node_alloc_inode();
	if (IS_ERR(engine->inode)) {
		err = PTR_ERR(engine->inode);
		kfree(engine);
		return err;
	}
	file->private_data = engine;
	file->f_mapping = engine->inode->i_mapping;
	return nonseekable_open(inode, file);
}

static int engine_release(struct inode *inode, struct file *file)
{
	struct distmind_engine *engine = file->private_data;

	if (engine->gpu) {
		distmind_gpu_lose(engine->gpu);
		distmind_gpu_put(engine->gpu);
	}
	iput(engine->inode);
	kfree(engine);
	return 0;
}

static int engine_register(struct file *file, void *arg, void __user *user)
{
	struct distmind_engine *engine = file->private_data;
	struct distmind_engine_register *reg = arg;
	struct distmind_gpu *gpu;
	int err = 0;

	if (mutex_lock_killable(&engine->lock))
		return -EINTR;
	if (engine->gpu) {
		err = -EBUSY;
		goto out;
	}
	gpu = distmind_gpu_register(reg, engine->inode);
	if (IS_ERR(gpu)) {
		err = PTR_ERR(gpu);
		goto out;
	}
	reg->gpu = gpu->id;
	/* The gpu is complete before others see it: pairs with get_gpu(). */
	smp_store_release(&engine->gpu, gpu);
out:
	mutex_unlock(&engine->lock);
	return err;
}

static int engine_exchange(struct file *file, void *arg, void __user *user)
{
	struct distmind_gpu *gpu = get_gpu(file);

	return gpu ? distmind_exchange(&gpu->sched, arg) : -ENODEV;
}

/* Before engines had capabilities. */
#define FIRST_REGISTER _IOC(_IOC_READ | _IOC_WRITE, DISTMIND_IOC_MAGIC, \
			    _IOC_NR(DISTMIND_IOC_ENGINE_REGISTER), \
			    offsetof(struct distmind_engine_register, capabilities))

static const struct distmind_ioctl ioctls[] = {
	DISTMIND_IOCTL(DISTMIND_IOC_QUERY, distmind_query, distmind_ioctl_query),
	DISTMIND_IOCTL(DISTMIND_IOC_ENGINE_EXCHANGE, distmind_engine_exchange, engine_exchange),
	DISTMIND_IOCTL(FIRST_REGISTER, distmind_engine_register, engine_register),
};

static long engine_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return distmind_ioctl_dispatch(file, cmd, arg, ioctls, ARRAY_SIZE(ioctls));
}

static int engine_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct distmind_gpu *gpu = get_gpu(file);

	if (!gpu)
		return -ENODEV;
	if (vma->vm_pgoff >= DISTMIND_LANE_MAP_OFFSET >> PAGE_SHIFT)
		return distmind_lane_mmap(&gpu->sched, vma);
	return distmind_heap_mmap(&gpu->heap, vma);
}

static __poll_t engine_poll(struct file *file, poll_table *wait)
{
	struct distmind_gpu *gpu = get_gpu(file);

	if (!gpu)
		return EPOLLERR;
	poll_wait(file, &gpu->wait, wait);
	if (READ_ONCE(gpu->removed))
		return EPOLLHUP;
	return READ_ONCE(gpu->state) == DISTMIND_GPU_STATE_LOST ? EPOLLERR : 0;
}

const struct file_operations distmind_engine_fops = {
	.owner = THIS_MODULE,
	.open = engine_open,
	.release = engine_release,
	.unlocked_ioctl = engine_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = engine_mmap,
	.poll = engine_poll,
};
