// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients: open files of vgpus, be it /dev/distmind/vgpuN or the descriptor
 * that acquire returned. A client has the handles of its buffers, queues and
 * timelines, see handle.c; what it does not close itself, the end of the file releases.
 *
 * The list of a vgpu's clients is guarded by the lock of the vgpu, so that killing it
 * can take their handles away. That is for the account of each client to do: what it has
 * made may be much, and who kills the vgpu may be the daemon.
 */
#include <linux/anon_inodes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "account.h"
#include "buffer.h"
#include "client.h"
#include "compat.h"
#include "dmabuf.h"
#include "grant.h"
#include "handle.h"
#include "ioctl.h"
#include "node.h"
#include "payment.h"
#include "queue.h"
#include "request.h"
#include "room.h"
#include "submit.h"
#include "tenant.h"
#include "timeline.h"
#include "vgpu.h"

#define QUEUE_PGOFF	(DISTMIND_QUEUE_MAP_OFFSET >> PAGE_SHIFT)
#define HANDLE_SHIFT	(DISTMIND_BUFFER_MAX_SHIFT - PAGE_SHIFT)

/* Handles that a chore takes away, and clients that are told to, before others go on. */
#define HANDLES_AT_ONCE	16
#define CLIENTS_AT_ONCE	64

static atomic64_t last_id;

static void client_release(struct kref *ref)
{
	struct distmind_client *client = container_of(ref, struct distmind_client, ref);

	xa_destroy(&client->handles);
	distmind_vgpu_put(client->vgpu);
	distmind_account_uncharge(client->account, DISTMIND_LIMIT_FILE, 1);
	distmind_account_put(client->account);
	kfree(client);
}

static void client_put(struct distmind_client *client)
{
	kref_put(&client->ref, client_release);
}

/* Some of its handles, and again until it has none. */
static void drop_some(struct distmind_chore *chore)
{
	struct distmind_client *client = container_of(chore, struct distmind_client, drop);
	u32 i;

	for (i = 0; i < HANDLES_AT_ONCE && distmind_handle_drop_one(client); i++)
		cond_resched();
	/* The chore's reference goes with it. */
	if (i == HANDLES_AT_ONCE && distmind_account_post(client->account, chore))
		return;
	client_put(client);
}

static struct distmind_client *client_create(struct distmind_vgpu *vgpu, bool holds_lease)
{
	struct distmind_client *client;
	int err = 0;

	client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);
	if (!client)
		return ERR_PTR(-ENOMEM);
	client->account = distmind_account_find();
	if (IS_ERR(client->account)) {
		err = PTR_ERR(client->account);
		goto err_free;
	}
	err = distmind_account_charge(client->account, DISTMIND_LIMIT_FILE, 1);
	if (err)
		goto err_account;
	xa_init_flags(&client->handles, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	kref_init(&client->ref);
	distmind_chore_init(&client->drop, drop_some);
	client->id = atomic64_inc_return(&last_id);
	client->vgpu = vgpu;
	client->holds_lease = holds_lease;
	spin_lock(&vgpu->lock);
	if (vgpu->dead) {
		err = -ENODEV;
	} else {
		distmind_vgpu_get(vgpu);
		list_add_tail(&client->in_vgpu, &vgpu->clients);
		vgpu->client_count++;
	}
	spin_unlock(&vgpu->lock);
	if (err)
		goto err_uncharge;
	return client;

err_uncharge:
	distmind_account_uncharge(client->account, DISTMIND_LIMIT_FILE, 1);
err_account:
	distmind_account_put(client->account);
err_free:
	kfree(client);
	return ERR_PTR(err);
}

static void client_destroy(struct distmind_client *client)
{
	struct distmind_vgpu *vgpu = client->vgpu;

	/*
	 * Before the vgpu ends, or a worker would drop some of its handles: what a client had
	 * is given back when its close() returns.
	 */
	spin_lock(&vgpu->lock);
	list_del(&client->in_vgpu);
	vgpu->client_count--;
	spin_unlock(&vgpu->lock);
	if (client->holds_lease)
		distmind_vgpu_kill(vgpu);
	while (distmind_handle_drop_one(client))
		cond_resched();
	distmind_requests_close(vgpu, client->id);
	client_put(client);
}

/*
 * The vgpu is dead, so nobody adds clients or handles any more: each client's account takes
 * its handles away. A client that goes meanwhile leaves whichever of the two lists it is
 * in, and drops the rest of its handles itself.
 */
void distmind_client_drop_handles(struct distmind_vgpu *vgpu)
{
	struct distmind_client *client;
	LIST_HEAD(left);
	u32 count = 0;

	spin_lock(&vgpu->lock);
	list_splice_init(&vgpu->clients, &left);
	while ((client = list_first_entry_or_null(&left, struct distmind_client, in_vgpu))) {
		list_move_tail(&client->in_vgpu, &vgpu->clients);
		/* Who is in the list is held by its file, so that this is not the last. */
		kref_get(&client->ref);
		if (!distmind_account_post(client->account, &client->drop))
			client_put(client);
		if (++count % CLIENTS_AT_ONCE)
			continue;
		spin_unlock(&vgpu->lock);
		cond_resched();
		spin_lock(&vgpu->lock);
	}
	spin_unlock(&vgpu->lock);
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

static int client_close(struct inode *inode, struct file *file)
{
	client_destroy(file->private_data);
	return 0;
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
	spin_lock(&vgpu->lock);
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
	spin_unlock(&vgpu->lock);
	info->id = vgpu->id;
	strscpy(info->name, vgpu->owner.name, sizeof(info->name));
	return err;
}

static int handle_destroy(struct file *file, enum distmind_handle_type type,
			  const struct distmind_handle_destroy *destroy)
{
	if (destroy->pad)
		return -EINVAL;
	return distmind_handle_destroy(file->private_data, type, destroy->handle);
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
	buffer = distmind_buffer_create(client->vgpu, client->account, create->size, create->kind);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	err = distmind_handle_add(client, DISTMIND_HANDLE_BUFFER, buffer, true, &create->handle);
	create->map_offset = map_offset(create->handle);
	return err;
}

static int buffer_import(struct file *file, void *arg, void __user *user)
{
	struct distmind_buffer_import *import = arg;
	struct distmind_payment *payment;
	struct distmind_buffer *buffer;
	bool writable;
	int err;

	if (import->flags)
		return -EINVAL;
	buffer = distmind_dmabuf_import(import->fd, &writable, &payment);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	import->size = distmind_buffer_size(buffer);
	import->access = writable ? DISTMIND_EXPORT_RDWR : 0;
	err = distmind_handle_add_import(file->private_data, buffer, payment, writable,
					 &import->handle);
	import->map_offset = map_offset(import->handle);
	return err;
}

static int buffer_destroy(struct file *file, void *arg, void __user *user)
{
	return handle_destroy(file, DISTMIND_HANDLE_BUFFER, arg);
}

static int buffer_info(struct file *file, void *arg, void __user *user)
{
	struct distmind_buffer_info *info = arg;
	struct distmind_buffer *buffer;

	if (info->pad)
		return -EINVAL;
	buffer = distmind_handle_get(file->private_data, DISTMIND_HANDLE_BUFFER, info->handle,
				     NULL);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	info->id = buffer->id;
	info->size = distmind_buffer_size(buffer);
	info->map_offset = map_offset(info->handle);
	info->heap_offset = distmind_buffer_offset(buffer);
	info->kind = buffer->kind;
	info->gpu = buffer->gpu_id;
	info->pins = READ_ONCE(buffer->pins);
	distmind_buffer_put(buffer);
	return 0;
}

/* Who is to pay, instead of who pays for what the handle was imported from. */
static struct distmind_payment *name_payer(struct distmind_buffer *buffer, u32 id)
{
	struct distmind_payment *payment;
	struct distmind_vgpu *vgpu;

	if (!capable(CAP_NET_ADMIN))
		return ERR_PTR(-EPERM);
	vgpu = distmind_vgpu_find(id);
	if (!vgpu)
		return ERR_PTR(-ENXIO);
	payment = distmind_payment_create(buffer, vgpu);
	distmind_vgpu_put(vgpu);
	return payment;
}

static int buffer_export(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_account *account = client->account;
	struct distmind_buffer_export *export = arg;
	struct distmind_payment *payment;
	struct distmind_buffer *buffer;
	int ret = -EACCES;
	bool writable;

	if (export->flags & ~(DISTMIND_EXPORT__ALL | DISTMIND_EXPORT_PAID) ||
	    (export->payer && !(export->flags & DISTMIND_EXPORT_PAID)))
		return -EINVAL;
	buffer = distmind_handle_get_buffer(client, export->handle, &writable, &payment);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	if (!writable && export->flags & DISTMIND_EXPORT_RDWR)
		goto out;
	if (export->flags & DISTMIND_EXPORT_PAID) {
		distmind_payment_put(payment);
		payment = name_payer(buffer, export->payer);
		if (IS_ERR(payment)) {
			ret = PTR_ERR(payment);
			payment = NULL;
			goto out;
		}
		/* An operator's vgpu is nobody's. */
		if (payment->vgpu->account)
			account = payment->vgpu->account;
	}
	ret = distmind_dmabuf_export(account, buffer, payment, export->flags);
out:
	distmind_payment_put(payment);
	distmind_buffer_put(buffer);
	if (ret < 0)
		return ret;
	export->fd = ret;
	return 0;
}

static int timeline_create(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_timeline_create *create = arg;
	struct distmind_timeline *timeline;

	if (create->pad)
		return -EINVAL;
	timeline = distmind_timeline_create(client->account, create->value, client->vgpu->id);
	if (IS_ERR(timeline))
		return PTR_ERR(timeline);
	return distmind_handle_add(client, DISTMIND_HANDLE_TIMELINE, timeline, true,
				   &create->handle);
}

static int timeline_destroy(struct file *file, void *arg, void __user *user)
{
	return handle_destroy(file, DISTMIND_HANDLE_TIMELINE, arg);
}

static int timeline_export(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_timeline_export *export = arg;
	struct distmind_timeline *timeline;
	int fd = -EACCES;
	bool writable;

	if (export->pad || export->flags & ~DISTMIND_EXPORT__ALL)
		return -EINVAL;
	timeline = distmind_handle_get(client, DISTMIND_HANDLE_TIMELINE, export->handle,
				       &writable);
	if (IS_ERR(timeline))
		return PTR_ERR(timeline);
	if (writable || !(export->flags & DISTMIND_EXPORT_RDWR))
		fd = distmind_timeline_export(client->account, timeline, export->flags);
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
	return distmind_handle_add(file->private_data, DISTMIND_HANDLE_TIMELINE, timeline, writable,
				   &import->handle);
}

static int queue_create(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_queue_create *create = arg;
	struct distmind_tenant *tenant;
	struct distmind_queue *queue;

	if (create->flags || create->kind >= DISTMIND_LANE__COUNT || !create->depth ||
	    create->depth > DISTMIND_QUEUE_DEPTH_MAX)
		return -EINVAL;
	tenant = distmind_vgpu_get_tenant(client->vgpu);
	if (IS_ERR(tenant))
		return PTR_ERR(tenant);
	queue = distmind_queue_create(tenant, client->account, create->kind, create->depth);
	distmind_tenant_put(tenant);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	return distmind_handle_add(client, DISTMIND_HANDLE_QUEUE, queue, true, &create->handle);
}

static struct distmind_queue *get_queue(struct file *file, unsigned long handle)
{
	return distmind_handle_get(file->private_data, DISTMIND_HANDLE_QUEUE, handle, NULL);
}

static int queue_watch(struct file *file, void *arg, void __user *user)
{
	struct distmind_queue_watch *watch = arg;
	struct distmind_queue *queue;
	int err;

	if (watch->eventfd < -1)
		return -EINVAL;
	queue = get_queue(file, watch->queue);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	err = distmind_queue_watch(queue, watch->eventfd);
	distmind_queue_put(queue);
	watch->map_offset = DISTMIND_QUEUE_MAP_OFFSET + ((u64)watch->queue << PAGE_SHIFT);
	return err;
}

static int queue_room(struct file *file, void *arg, void __user *user)
{
	struct distmind_queue_room *room = arg;
	struct distmind_queue *queue = get_queue(file, room->queue);

	if (IS_ERR(queue))
		return PTR_ERR(queue);
	distmind_room_show(queue, room);
	distmind_queue_put(queue);
	return 0;
}

static int grant_end(struct file *file, void *arg, void __user *user)
{
	struct distmind_grant_end *end = arg;
	struct distmind_queue *queue;
	int err;

	if (end->flags & ~DISTMIND_GRANT__ALL || !end->grant)
		return -EINVAL;
	queue = get_queue(file, end->queue);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	err = distmind_grant_return(&queue->tenant->gpu->sched, queue, end->grant,
				    end->flags & DISTMIND_GRANT_AGAIN);
	distmind_queue_put(queue);
	return err;
}

static int request_end(struct file *file, void *arg, void __user *user)
{
	struct distmind_client *client = file->private_data;
	struct distmind_request_end *end = arg;

	if (end->flags || end->pad || !end->request)
		return -EINVAL;
	return distmind_request_close(client->vgpu, client->id, end->request);
}

static int queue_destroy(struct file *file, void *arg, void __user *user)
{
	return handle_destroy(file, DISTMIND_HANDLE_QUEUE, arg);
}

static const struct distmind_ioctl ioctls[] = {
	DISTMIND_IOCTL(DISTMIND_IOC_QUERY, distmind_query, distmind_ioctl_query),
	DISTMIND_IOCTL(DISTMIND_IOC_VGPU_INFO, distmind_vgpu_info, vgpu_info),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_CREATE, distmind_buffer_create, buffer_create),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_DESTROY, distmind_handle_destroy, buffer_destroy),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_INFO, distmind_buffer_info, buffer_info),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_EXPORT, distmind_buffer_export, buffer_export),
	DISTMIND_IOCTL(DISTMIND_IOC_BUFFER_IMPORT, distmind_buffer_import, buffer_import),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_CREATE, distmind_timeline_create, timeline_create),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_DESTROY, distmind_handle_destroy, timeline_destroy),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_EXPORT, distmind_timeline_export, timeline_export),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_IMPORT, distmind_timeline_import, timeline_import),
	DISTMIND_IOCTL(DISTMIND_IOC_QUEUE_CREATE, distmind_queue_create, queue_create),
	DISTMIND_IOCTL(DISTMIND_IOC_QUEUE_DESTROY, distmind_handle_destroy, queue_destroy),
	DISTMIND_IOCTL(DISTMIND_IOC_QUEUE_WATCH, distmind_queue_watch, queue_watch),
	DISTMIND_IOCTL(DISTMIND_IOC_QUEUE_ROOM, distmind_queue_room, queue_room),
	DISTMIND_IOCTL_GROWN(DISTMIND_IOC_SUBMIT, distmind_submit, request, distmind_submit_call),
	DISTMIND_IOCTL(DISTMIND_IOC_GRANT_END, distmind_grant_end, grant_end),
	DISTMIND_IOCTL(DISTMIND_IOC_REQUEST_END, distmind_request_end, request_end),
};

static long client_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return distmind_ioctl_dispatch(file, cmd, arg, ioctls, ARRAY_SIZE(ioctls));
}

static int mmap_queue(struct file *file, struct vm_area_struct *vma)
{
	struct distmind_queue *queue;
	int err;

	queue = get_queue(file, vma->vm_pgoff - QUEUE_PGOFF);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	err = distmind_queue_mmap(queue, vma);
	distmind_queue_put(queue);
	return err;
}

static int client_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct distmind_payment *payment;
	struct distmind_buffer *buffer;
	bool writable;
	int err;

	if (vma->vm_pgoff >= QUEUE_PGOFF)
		return mmap_queue(file, vma);
	buffer = distmind_handle_get_buffer(file->private_data, vma->vm_pgoff >> HANDLE_SHIFT,
					    &writable, &payment);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	err = -EACCES;
	if (writable || !(vma->vm_flags & VM_WRITE))
		err = distmind_buffer_mmap(buffer, payment, vma);
	if (!writable)
		vm_flags_mod(vma, 0, VM_MAYWRITE);
	distmind_payment_put(payment);
	distmind_buffer_put(buffer);
	return err;
}

#ifdef CONFIG_PROC_FS
/* How requests fared: where their time went, and how long they took. */
static void show_requests(struct seq_file *m, struct distmind_vgpu *vgpu)
{
	static const char *const phases[DISTMIND_REQUEST_PHASE__COUNT] = {
		[DISTMIND_REQUEST_PHASE_IDLE] = "idle",
		[DISTMIND_REQUEST_PHASE_ORDER] = "order",
		[DISTMIND_REQUEST_PHASE_WEIGHTS] = "weights",
		[DISTMIND_REQUEST_PHASE_LANE] = "lane",
		[DISTMIND_REQUEST_PHASE_ROOM] = "room",
		[DISTMIND_REQUEST_PHASE_RUN] = "run",
	};
	struct distmind_request_stats stats;
	int i;

	distmind_requests_get_stats(&vgpu->requests, &stats);
	seq_printf(m, "distmind-requests-ended:\t%llu\n", stats.ended);
	seq_printf(m, "distmind-requests-open:\t%u\n", stats.open);
	seq_printf(m, "distmind-requests-failed:\t%llu\n", stats.failed);
	seq_printf(m, "distmind-requests-missed:\t%llu\n", stats.missed);
	for (i = 0; i < DISTMIND_REQUEST_PHASE__COUNT; i++)
		seq_printf(m, "distmind-requests-%s:\t%llu ns\n", phases[i], stats.spent_ns[i]);
	seq_puts(m, "distmind-requests-latency:\t");
	for (i = 0; i < DISTMIND_LATENCY_BUCKETS; i++)
		seq_printf(m, "%s%llu", i ? " " : "", stats.latency[i]);
	seq_putc(m, '\n');
}

/* Bytes of a client's buffers. */
struct usage {
	u64 total;
	u64 shared;
	u64 resident;
	u64 active;
};

static void add_usage(void *object, void *arg)
{
	const struct distmind_buffer *buffer = object;
	u64 size = distmind_buffer_size(buffer);
	struct usage *usage = arg;

	usage->total += size;
	if (atomic_read(&buffer->exports))
		usage->shared += size;
	if (READ_ONCE(buffer->resident))
		usage->resident += size;
	if (READ_ONCE(buffer->pins) || READ_ONCE(buffer->active))
		usage->active += size;
}

/* The keys of Documentation/gpu/drm-usage-stats.rst, so that its readers work. */
static void client_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct distmind_client *client = file->private_data;
	struct distmind_vgpu *vgpu = client->vgpu;
	struct usage usage = { 0 };
	u32 gpu;

	spin_lock(&vgpu->lock);
	gpu = vgpu->gpu ? vgpu->gpu->id : DISTMIND_GPU_NONE;
	spin_unlock(&vgpu->lock);
	distmind_handle_for_each(client, DISTMIND_HANDLE_BUFFER, add_usage, &usage);

	seq_puts(m, "drm-driver:\tdistmind\n");
	seq_printf(m, "drm-client-id:\t%llu\n", client->id);
	seq_printf(m, "drm-total-heap:\t%llu KiB\n", usage.total >> 10);
	seq_printf(m, "drm-shared-heap:\t%llu KiB\n", usage.shared >> 10);
	seq_printf(m, "drm-resident-heap:\t%llu KiB\n", usage.resident >> 10);
	seq_printf(m, "drm-active-heap:\t%llu KiB\n", usage.active >> 10);
	seq_printf(m, "distmind-vgpu:\t%u\n", vgpu->id);
	if (gpu == DISTMIND_GPU_NONE)
		seq_puts(m, "distmind-gpu:\tnone\n");
	else
		seq_printf(m, "distmind-gpu:\t%u\n", gpu);
	seq_printf(m, "distmind-quota:\t%llu KiB\n", vgpu->settings.memory >> 10);
	show_requests(m, vgpu);
	distmind_account_show(client->account, m);
}
#endif

const struct file_operations distmind_client_fops = {
	.owner = THIS_MODULE,
	.open = client_open,
	.release = client_close,
	.unlocked_ioctl = client_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = client_mmap,
#ifdef CONFIG_PROC_FS
	.show_fdinfo = client_show_fdinfo,
#endif
};
