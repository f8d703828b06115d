// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients: open files of vgpus, be it /dev/distmind/vgpuN or the descriptor
 * that acquire returned. A client has the handles of its buffers, queues and
 * timelines; what it does not close itself, the end of the file releases.
 *
 * The handles of a client are guarded by the lock of its vgpu, so that killing
 * the vgpu can take them away. A handle holds a reference to its object, and a call
 * that has looked one up takes another, so it works on, whoever destroys it.
 */
#include <linux/anon_inodes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "buffer.h"
#include "client.h"
#include "compat.h"
#include "dmabuf.h"
#include "grant.h"
#include "ioctl.h"
#include "node.h"
#include "queue.h"
#include "submit.h"
#include "tenant.h"
#include "timeline.h"
#include "vgpu.h"

/* A map offset is a handle and an offset into its buffer, below those of queues. */
#define HANDLE_MAX	((DISTMIND_QUEUE_MAP_OFFSET >> DISTMIND_BUFFER_MAX_SHIFT) - 1)
#define QUEUE_PGOFF	(DISTMIND_QUEUE_MAP_OFFSET >> PAGE_SHIFT)
#define HANDLE_SHIFT	(DISTMIND_BUFFER_MAX_SHIFT - PAGE_SHIFT)

static atomic64_t last_id;

static struct distmind_client *client_create(struct distmind_vgpu *vgpu, bool holds_lease)
{
	struct distmind_client *client;
	int err = 0;

	client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);
	if (!client)
		return ERR_PTR(-ENOMEM);
	xa_init_flags(&client->buffers, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&client->queues, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&client->timelines, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	client->id = atomic64_inc_return(&last_id);
	client->vgpu = vgpu;
	client->holds_lease = holds_lease;
	mutex_lock(&vgpu->lock);
	if (vgpu->dead) {
		err = -ENODEV;
	} else {
		distmind_vgpu_get(vgpu);
		list_add_tail(&client->in_vgpu, &vgpu->clients);
		vgpu->client_count++;
	}
	mutex_unlock(&vgpu->lock);
	if (err) {
		kfree(client);
		return ERR_PTR(err);
	}
	return client;
}

static void *take_first(struct xarray *handles)
{
	unsigned long handle = 0;
	void *object = xa_find(handles, &handle, ULONG_MAX, XA_PRESENT);

	if (object)
		xa_erase(handles, handle);
	return object;
}

/* What was taken out of a client's handles, with its reference. */
struct taken {
	struct distmind_queue *queue;
	struct distmind_timeline *timeline;
	struct distmind_buffer *buffer;
};

/* One object, under the vgpu's lock. Queues go first: they hold the others. */
static bool take_one(struct distmind_client *client, struct taken *taken)
{
	lockdep_assert_held(&client->vgpu->lock);
	memset(taken, 0, sizeof(*taken));
	taken->queue = take_first(&client->queues);
	if (!taken->queue)
		taken->timeline = take_first(&client->timelines);
	if (!taken->queue && !taken->timeline)
		taken->buffer = take_first(&client->buffers);
	return taken->queue || taken->timeline || taken->buffer;
}

/* Without the lock. */
static void give_back(struct taken *taken)
{
	if (taken->queue) {
		distmind_queue_end(taken->queue, -ECANCELED);
		distmind_queue_put(taken->queue);
	}
	if (taken->timeline)
		distmind_timeline_put(taken->timeline);
	if (taken->buffer)
		distmind_buffer_put(taken->buffer);
	cond_resched();
}

static void client_destroy(struct distmind_client *client)
{
	struct distmind_vgpu *vgpu = client->vgpu;
	struct taken taken;

	if (client->holds_lease)
		distmind_vgpu_kill(vgpu);
	mutex_lock(&vgpu->lock);
	list_del(&client->in_vgpu);
	vgpu->client_count--;
	while (take_one(client, &taken)) {
		mutex_unlock(&vgpu->lock);
		give_back(&taken);
		mutex_lock(&vgpu->lock);
	}
	mutex_unlock(&vgpu->lock);
	xa_destroy(&client->buffers);
	xa_destroy(&client->queues);
	xa_destroy(&client->timelines);
	kfree(client);
	distmind_vgpu_put(vgpu);
}

/*
 * The vgpu is dead, so nobody adds clients or handles any more: who has none is done
 * with. A client that goes meanwhile leaves whichever of the two lists it is in.
 */
void distmind_client_drop_handles(struct distmind_vgpu *vgpu)
{
	struct distmind_client *client;
	struct taken taken;
	LIST_HEAD(left);

	mutex_lock(&vgpu->lock);
	list_splice_init(&vgpu->clients, &left);
	while ((client = list_first_entry_or_null(&left, struct distmind_client, in_vgpu))) {
		bool found = take_one(client, &taken);

		if (!found)
			list_move_tail(&client->in_vgpu, &vgpu->clients);
		mutex_unlock(&vgpu->lock);
		if (found)
			give_back(&taken);
		mutex_lock(&vgpu->lock);
	}
	mutex_unlock(&vgpu->lock);
}

/* The file with which the vgpu lives and dies. */
struct file *distmind_client_open_lease(struct distmind_vgpu *vgpu)
{
	struct distmind_client *client;
	struct file *file;

	client = client_create(vgpu, true);
	if (IS_ERR(client))
		return ERR_CAST(client);
	file = anon_inode_getfile("[distmind-vgpu]", &distmind_client_fops, client, O_RDWR);
	if (IS_ERR(file))
		client_destroy(client);
	return file;
}

static int client_open(struct inode *inode, struct file *file)
{
	struct distmind_vgpu *vgpu = container_of(inode->i_cdev, struct distmind_vgpu, cdev);
	struct distmind_client *client;

	client = client_create(vgpu, false);
	if (IS_ERR(client))
		return PTR_ERR(client);
	file->private_data = client;
	return nonseekable_open(inode, file);
}

static int client_release(struct inode *inode, struct file *file)
{
	client_destroy(file->private_data);
	return 0;
}

/* Why there is no such handle; under the vgpu's lock. */
int distmind_client_missing(const struct distmind_client *client)
{
	lockdep_assert_held(&client->vgpu->lock);
	return client->vgpu->dead ? -ENODEV : -ENOENT;
}

/* Returns a reference. */
static struct distmind_buffer *find_buffer(struct distmind_client *client, u32 handle,
					   bool *writable)
{
	struct distmind_buffer *buffer;

	mutex_lock(&client->vgpu->lock);
	buffer = xa_load(&client->buffers, handle);
	*writable = xa_get_mark(&client->buffers, handle, DISTMIND_CLIENT_WRITABLE);
	if (buffer)
		distmind_buffer_get(buffer);
	else
		buffer = ERR_PTR(distmind_client_missing(client));
	mutex_unlock(&client->vgpu->lock);
	return buffer;
}

static u64 map_offset(u32 handle)
{
	return (u64)handle << DISTMIND_BUFFER_MAX_SHIFT;
}

static int vgpu_info(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_vgpu *vgpu = client->vgpu;
	struct distmind_vgpu_info *info = arg;
	int err = 0;

	memset(info, 0, sizeof(*info));
	mutex_lock(&vgpu->lock);
	if (vgpu->dead) {
		err = -ENODEV;
	} else {
		info->memory = vgpu->settings.memory;
		info->memory_used = vgpu->used;
		info->objective_ns = vgpu->settings.objective_ns;
		info->share = vgpu->settings.share;
		info->sched_class = vgpu->settings.class;
		info->gpu = vgpu->gpu ? vgpu->gpu->id : DISTMIND_GPU_NONE;
		info->state = distmind_vgpu_state(vgpu);
	}
	mutex_unlock(&vgpu->lock);
	info->id = vgpu->id;
	strscpy(info->name, vgpu->owner.name, sizeof(info->name));
	return err;
}

/* Takes over the reference to @buffer. */
static int add_buffer(struct distmind_client *client, struct distmind_buffer *buffer,
		      bool writable, u32 *handle)
{
	struct distmind_vgpu *vgpu = client->vgpu;
	int err = -ENODEV;

	mutex_lock(&vgpu->lock);
	if (!vgpu->dead)
		err = xa_alloc(&client->buffers, handle, buffer, XA_LIMIT(1, HANDLE_MAX),
			       GFP_KERNEL_ACCOUNT);
	if (!err && writable)
		xa_set_mark(&client->buffers, *handle, DISTMIND_CLIENT_WRITABLE);
	mutex_unlock(&vgpu->lock);
	if (err)
		distmind_buffer_put(buffer);
	return err == -EBUSY ? -ENOSPC : err;
}

static int buffer_create(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_buffer_create *create = arg;
	struct distmind_buffer *buffer;
	int err;

	if (create->flags || create->pad || create->kind >= DISTMIND_BUFFER__COUNT)
		return -EINVAL;
	if (!create->size || !IS_ALIGNED(create->size, PAGE_SIZE) ||
	    create->size > DISTMIND_BUFFER_MAX)
		return -EINVAL;
	buffer = distmind_buffer_create(client->vgpu, create->size, create->kind);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	err = add_buffer(client, buffer, true, &create->handle);
	create->map_offset = map_offset(create->handle);
	return err;
}

static int buffer_import(struct file *file, void *arg, void __user *user)
{
	struct distmind_buffer_import *import = arg;
	struct distmind_buffer *buffer;
	bool writable;
	int err;

	if (import->flags)
		return -EINVAL;
	buffer = distmind_dmabuf_import(import->fd, &writable);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	import->size = distmind_buffer_size(buffer);
	import->access = writable ? DISTMIND_EXPORT_RDWR : 0;
	err = add_buffer(file->private_data, buffer, writable, &import->handle);
	import->map_offset = map_offset(import->handle);
	return err;
}

static int buffer_destroy(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_buffer_destroy *destroy = arg;
	struct distmind_vgpu *vgpu = client->vgpu;
	struct distmind_buffer *buffer;
	int err;

	if (destroy->pad)
		return -EINVAL;
	mutex_lock(&vgpu->lock);
	buffer = xa_erase(&client->buffers, destroy->handle);
	err = buffer ? 0 : distmind_client_missing(client);
	mutex_unlock(&vgpu->lock);
	if (err)
		return err;
	distmind_buffer_put(buffer);
	return 0;
}

static int buffer_info(struct file *file, void *arg, void __user *user)
{
	struct distmind_buffer_info *info = arg;
	struct distmind_buffer *buffer;
	bool writable;

	if (info->pad)
		return -EINVAL;
	buffer = find_buffer(file->private_data, info->handle, &writable);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	info->id = buffer->id;
	info->size = distmind_buffer_size(buffer);
	info->map_offset = map_offset(info->handle);
	info->heap_offset = distmind_buffer_offset(buffer);
	info->kind = buffer->kind;
	info->gpu = buffer->gpu_id;
	info->pins = atomic_read(&buffer->pins);
	distmind_buffer_put(buffer);
	return 0;
}

static int buffer_export(struct file *file, void *arg, void __user *user)
{
	struct distmind_buffer_export *export = arg;
	struct distmind_buffer *buffer;
	int ret = -EACCES;
	bool writable;

	if (export->pad || export->flags & ~DISTMIND_EXPORT__ALL)
		return -EINVAL;
	buffer = find_buffer(file->private_data, export->handle, &writable);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	if (writable || !(export->flags & DISTMIND_EXPORT_RDWR))
		ret = distmind_dmabuf_export(buffer, export->flags);
	distmind_buffer_put(buffer);
	if (ret < 0)
		return ret;
	export->fd = ret;
	return 0;
}

/* Takes over the reference to @timeline. */
static int add_timeline(struct distmind_client *client, struct distmind_timeline *timeline,
			bool writable, u32 *handle)
{
	struct distmind_vgpu *vgpu = client->vgpu;
	int err = -ENODEV;

	mutex_lock(&vgpu->lock);
	if (!vgpu->dead)
		err = xa_alloc(&client->timelines, handle, timeline, XA_LIMIT(1, HANDLE_MAX),
			       GFP_KERNEL_ACCOUNT);
	if (!err && writable)
		xa_set_mark(&client->timelines, *handle, DISTMIND_CLIENT_WRITABLE);
	mutex_unlock(&vgpu->lock);
	if (err)
		distmind_timeline_put(timeline);
	return err == -EBUSY ? -ENOSPC : err;
}

static int timeline_create(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_timeline_create *create = arg;
	struct distmind_timeline *timeline;

	if (create->pad)
		return -EINVAL;
	timeline = distmind_timeline_create(create->value, client->vgpu->id);
	if (IS_ERR(timeline))
		return PTR_ERR(timeline);
	return add_timeline(client, timeline, true, &create->handle);
}

static int timeline_destroy(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_timeline_destroy *destroy = arg;
	struct distmind_timeline *timeline;
	int err;

	if (destroy->pad)
		return -EINVAL;
	mutex_lock(&client->vgpu->lock);
	timeline = xa_erase(&client->timelines, destroy->handle);
	err = timeline ? 0 : distmind_client_missing(client);
	mutex_unlock(&client->vgpu->lock);
	if (err)
		return err;
	distmind_timeline_put(timeline);
	return 0;
}

static int timeline_export(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_timeline_export *export = arg;
	struct distmind_timeline *timeline;
	bool writable;
	int fd;

	if (export->pad || export->flags & ~DISTMIND_EXPORT__ALL)
		return -EINVAL;
	mutex_lock(&client->vgpu->lock);
	timeline = xa_load(&client->timelines, export->handle);
	writable = xa_get_mark(&client->timelines, export->handle, DISTMIND_CLIENT_WRITABLE);
	fd = timeline ? 0 : distmind_client_missing(client);
	if (timeline)
		distmind_timeline_get(timeline);
	mutex_unlock(&client->vgpu->lock);
	if (fd)
		return fd;
	fd = -EACCES;
	if (writable || !(export->flags & DISTMIND_EXPORT_RDWR))
		fd = distmind_timeline_export(timeline, export->flags);
	distmind_timeline_put(timeline);
	if (fd < 0)
		return fd;
	export->fd = fd;
	return 0;
}

static int timeline_import(struct file *file, void *arg, void __user *user)
{
	struct distmind_timeline_import *import = arg;
	struct distmind_timeline *timeline;
	bool writable;

	timeline = distmind_timeline_import(import->fd, &writable);
	if (IS_ERR(timeline))
		return PTR_ERR(timeline);
	return add_timeline(file->private_data, timeline, writable, &import->handle);
}

static int queue_create(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_queue_create *create = arg;
	struct distmind_vgpu *vgpu = client->vgpu;
	struct distmind_queue *queue = NULL;
	struct distmind_tenant *tenant;
	int err;

	if (create->flags || create->kind >= DISTMIND_LANE__COUNT || !create->depth ||
	    create->depth > DISTMIND_QUEUE_DEPTH_MAX)
		return -EINVAL;
	mutex_lock(&vgpu->lock);
	tenant = distmind_vgpu_get_tenant(vgpu);
	err = PTR_ERR_OR_ZERO(tenant);
	if (!err) {
		queue = distmind_queue_create(tenant, create->kind, create->depth);
		err = PTR_ERR_OR_ZERO(queue);
	}
	if (!err) {
		err = xa_alloc(&client->queues, &create->handle, queue, XA_LIMIT(1, HANDLE_MAX),
			       GFP_KERNEL_ACCOUNT);
		if (err)
			distmind_queue_put(queue);
	}
	mutex_unlock(&vgpu->lock);
	return err == -EBUSY ? -ENOSPC : err;
}

/* Returns a reference. */
struct distmind_queue *distmind_client_queue(struct distmind_client *client, unsigned long handle)
{
	struct distmind_queue *queue;

	mutex_lock(&client->vgpu->lock);
	queue = xa_load(&client->queues, handle);
	if (queue)
		distmind_queue_get(queue);
	else
		queue = ERR_PTR(distmind_client_missing(client));
	mutex_unlock(&client->vgpu->lock);
	return queue;
}

static int queue_watch(struct file *file, void *arg, void __user *user)
{
	struct distmind_queue_watch *watch = arg;
	struct distmind_queue *queue;
	int err;

	if (watch->eventfd < -1)
		return -EINVAL;
	queue = distmind_client_queue(file->private_data, watch->queue);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	err = distmind_queue_watch(queue, watch->eventfd);
	distmind_queue_put(queue);
	watch->map_offset = DISTMIND_QUEUE_MAP_OFFSET + ((u64)watch->queue << PAGE_SHIFT);
	return err;
}

static int grant_end(struct file *file, void *arg, void __user *user)
{
	struct distmind_grant_end *end = arg;
	struct distmind_queue *queue;
	int err;

	if (end->flags & ~DISTMIND_GRANT__ALL || !end->grant)
		return -EINVAL;
	queue = distmind_client_queue(file->private_data, end->queue);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	err = distmind_grant_return(&queue->tenant->gpu->sched, queue, end->grant,
				    end->flags & DISTMIND_GRANT_AGAIN);
	distmind_queue_put(queue);
	return err;
}

static int queue_destroy(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_queue_destroy *destroy = arg;
	struct distmind_queue *queue;
	int err;

	if (destroy->pad)
		return -EINVAL;
	mutex_lock(&client->vgpu->lock);
	queue = xa_erase(&client->queues, destroy->handle);
	err = queue ? 0 : distmind_client_missing(client);
	mutex_unlock(&client->vgpu->lock);
	if (err)
		return err;
	distmind_queue_end(queue, -ECANCELED);
	distmind_queue_put(queue);
	return 0;
}

static const struct distmind_ioctl ioctls[] = {
	DISTMIND_IOCTL(DISTMIND_IOC_QUERY, distmind_query, distmind_ioctl_query),
	DISTMIND_IOCTL(DISTMIND_IOC_VGPU_INFO, distmind_vgpu_info, vgpu_info),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_CREATE, distmind_buffer_create, buffer_create),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_DESTROY, distmind_buffer_destroy, buffer_destroy),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_INFO, distmind_buffer_info, buffer_info),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_EXPORT, distmind_buffer_export, buffer_export),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_IMPORT, distmind_buffer_import, buffer_import),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_CREATE, distmind_timeline_create, timeline_create),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_DESTROY, distmind_timeline_destroy, timeline_destroy),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_EXPORT, distmind_timeline_export, timeline_export),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_IMPORT, distmind_timeline_import, timeline_import),
	DISTMIND_IOCTL(DISTMIND_IOC_QUEUE_CREATE, distmind_queue_create, queue_create),
	DISTMIND_IOCTL(DISTMIND_IOC_QUEUE_DESTROY, distmind_queue_destroy, queue_destroy),
	DISTMIND_IOCTL(DISTMIND_IOC_QUEUE_WATCH, distmind_queue_watch, queue_watch),
	DISTMIND_IOCTL(DISTMIND_IOC_SUBMIT, distmind_submit, distmind_submit_call),
	DISTMIND_IOCTL(DISTMIND_IOC_GRANT_END, distmind_grant_end, grant_end),
};

static long client_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return distmind_ioctl_dispatch(file, cmd, arg, ioctls, ARRAY_SIZE(ioctls));
}

static int mmap_queue(struct file *file, struct vm_area_struct *vma)
{
	struct distmind_queue *queue;
	int err;

	queue = distmind_client_queue(file->private_data, vma->vm_pgoff - QUEUE_PGOFF);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	err = distmind_queue_mmap(queue, vma);
	distmind_queue_put(queue);
	return err;
}

static int client_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct distmind_buffer *buffer;
	bool writable;
	int err;

	if (vma->vm_pgoff >= QUEUE_PGOFF)
		return mmap_queue(file, vma);
	if (vma->vm_pgoff >> HANDLE_SHIFT > HANDLE_MAX)
		return -EINVAL;
	buffer = find_buffer(file->private_data, vma->vm_pgoff >> HANDLE_SHIFT, &writable);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	err = -EACCES;
	if (writable || !(vma->vm_flags & VM_WRITE))
		err = distmind_buffer_mmap(buffer, vma);
	if (!writable)
		vm_flags_mod(vma, 0, VM_MAYWRITE);
	distmind_buffer_put(buffer);
	return err;
}

#ifdef CONFIG_PROC_FS
/* The keys of Documentation/gpu/drm-usage-stats.rst, so that its readers work. */
static void client_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct distmind_client *client = file->private_data;
	struct distmind_vgpu *vgpu = client->vgpu;
	u64 total = 0, shared = 0, resident = 0, active = 0;
	struct distmind_buffer *buffer;
	unsigned long handle;
	u32 gpu;

	mutex_lock(&vgpu->lock);
	gpu = vgpu->gpu ? vgpu->gpu->id : DISTMIND_GPU_NONE;
	xa_for_each(&client->buffers, handle, buffer) {
		u64 size = distmind_buffer_size(buffer);

		total += size;
		if (atomic_read(&buffer->exports))
			shared += size;
		if (READ_ONCE(buffer->resident))
			resident += size;
		if (atomic_read(&buffer->pins) || atomic_read(&buffer->active))
			active += size;
	}
	mutex_unlock(&vgpu->lock);

	seq_puts(m, "drm-driver:\tdistmind\n");
	seq_printf(m, "drm-client-id:\t%llu\n", client->id);
	seq_printf(m, "drm-total-heap:\t%llu KiB\n", total >> 10);
	seq_printf(m, "drm-shared-heap:\t%llu KiB\n", shared >> 10);
	seq_printf(m, "drm-resident-heap:\t%llu KiB\n", resident >> 10);
	seq_printf(m, "drm-active-heap:\t%llu KiB\n", active >> 10);
	seq_printf(m, "distmind-vgpu:\t%u\n", vgpu->id);
	if (gpu == DISTMIND_GPU_NONE)
		seq_puts(m, "distmind-gpu:\tnone\n");
	else
		seq_printf(m, "distmind-gpu:\t%u\n", gpu);
	seq_printf(m, "distmind-quota:\t%llu KiB\n", vgpu->settings.memory >> 10);
}
#endif

const struct file_operations distmind_client_fops = {
	.owner = THIS_MODULE,
	.open = client_open,
	.release = client_release,
	.unlocked_ioctl = client_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = client_mmap,
#ifdef CONFIG_PROC_FS
	.show_fdinfo = client_show_fdinfo,
#endif
};
