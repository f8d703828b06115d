// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timelines: monotonic 64-bit counters that jobs wait for and signal.
 *
 * A timeline is held by the handles of clients, by files that were exported, by the
 * extents of a buffer that it says the state of, and by the jobs that name it. Its
 * value is in a page that user space maps read-only. The value only grows. A
 * failure is final: once the value v was signalled with an error, whoever waits for
 * v or more is told that error.
 *
 * timeline->lock is taken inside a gpu's scheduler lock; nothing is called with it
 * held but hold() of a waiter, and the eventfd of a watch. Waiters are taken out
 * of the tree and called one at a time, because a waiter that was called may arm
 * itself again, here or elsewhere. What ends by a signal is collected, not ended
 * from within it, so that a chain of jobs costs a loop and not a stack.
 */
#include <linux/anon_inodes.h>
#include <linux/atomic.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "ioctl.h"
#include "job.h"
#include "ledger.h"
#include "timeline.h"
#include "trace.h"

/* Eventfds of one open file: who has another one of the timeline is not kept from his. */
#define WATCHES_MAX 64

/**
 * struct watch - an eventfd to tell when a value is reached
 * @node: in timeline->watches
 * @opened: the open file that it belongs to
 * @link: in its list
 * @value: which
 * @eventfd: whom to tell
 */
struct watch {
	struct rb_node node;
	struct opened *opened;
	struct list_head link;
	u64 value;
	struct eventfd_ctx *eventfd;
};

/**
 * struct opened - an open file of a timeline
 * @timeline: which; held
 * @poll_value: poll() reports the value from here on
 * @watches: that were asked for by this file; under the timeline's lock
 * @watch_count: how many
 */
struct opened {
	struct distmind_timeline *timeline;
	u64 poll_value;
	struct list_head watches;
	u32 watch_count;
};

static atomic64_t last_id;

struct distmind_timeline *distmind_timeline_create(u64 value, u32 vgpu)
{
	struct distmind_timeline *timeline;

	timeline = kzalloc(sizeof(*timeline), GFP_KERNEL_ACCOUNT);
	if (!timeline)
		return ERR_PTR(-ENOMEM);
	timeline->page = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!timeline->page) {
		kfree(timeline);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&timeline->ref);
	timeline->id = atomic64_inc_return(&last_id);
	timeline->vgpu = vgpu;
	timeline->told_ns = ktime_get_ns();
	spin_lock_init(&timeline->lock);
	timeline->waiters = RB_ROOT_CACHED;
	timeline->signallers = RB_ROOT_CACHED;
	timeline->watches = RB_ROOT_CACHED;
	init_waitqueue_head(&timeline->wait);
	timeline->page->value = value;
	timeline->page->failed_value = U64_MAX;
	distmind_ledger_created(DISTMIND_OBJECT_TIMELINE);
	return timeline;
}

static bool watches_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct watch, node)->value < rb_entry(b, struct watch, node)->value;
}

static void drop_watch(struct distmind_timeline *timeline, struct watch *watch)
{
	rb_erase_cached(&watch->node, &timeline->watches);
	list_del(&watch->link);
	watch->opened->watch_count--;
	eventfd_ctx_put(watch->eventfd);
	kfree(watch);
}

static void timeline_release(struct kref *ref)
{
	struct distmind_timeline *timeline = container_of(ref, struct distmind_timeline, ref);

	WARN_ON(!RB_EMPTY_ROOT(&timeline->waiters.rb_root));
	WARN_ON(!RB_EMPTY_ROOT(&timeline->watches.rb_root));
	put_page(virt_to_page(timeline->page));
	kfree(timeline);
	distmind_ledger_destroyed(DISTMIND_OBJECT_TIMELINE);
}

void distmind_timeline_get(struct distmind_timeline *timeline)
{
	kref_get(&timeline->ref);
}

void distmind_timeline_put(struct distmind_timeline *timeline)
{
	kref_put(&timeline->ref, timeline_release);
}

/* Not an errno, because a timeline can fail with any: the value is not reached yet. */
#define NOT_YET 1

/* Whether @value is reached: 0, the error it failed with, or NOT_YET. */
static int status(struct distmind_timeline *timeline, u64 value)
{
	/* The failure is written first: who sees the value sees what it means. */
	if (smp_load_acquire(&timeline->page->value) < value)
		return NOT_YET;
	return value >= READ_ONCE(timeline->page->failed_value) ?
		       READ_ONCE(timeline->page->error) : 0;
}

static bool waits_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct distmind_timeline_waiter, node)->value <
	       rb_entry(b, struct distmind_timeline_waiter, node)->value;
}

/* The next waiter whose value is reached, held and out of the tree. */
static struct distmind_timeline_waiter *take_waiter(struct distmind_timeline *timeline)
{
	struct distmind_timeline_waiter *waiter = NULL;
	struct rb_node *first;

	spin_lock(&timeline->lock);
	first = rb_first_cached(&timeline->waiters);
	if (first) {
		waiter = rb_entry(first, struct distmind_timeline_waiter, node);
		if (waiter->value > timeline->page->value) {
			waiter = NULL;
		} else {
			waiter->hold(waiter);
			rb_erase_cached(first, &timeline->waiters);
			RB_CLEAR_NODE(first);
		}
	}
	spin_unlock(&timeline->lock);
	return waiter;
}

/*
 * Let the value be @to; with an error, let @from and all that follow have failed
 * with it. -EINVAL: the timeline is at @from already.
 */
static int advance(struct distmind_timeline *timeline, u64 from, u64 to, int error)
{
	struct rb_node *first;

	lockdep_assert_held(&timeline->lock);
	if (from <= timeline->page->value)
		return -EINVAL;
	if (error && timeline->page->failed_value == U64_MAX) {
		WRITE_ONCE(timeline->page->error, error);
		WRITE_ONCE(timeline->page->failed_value, from);
	}
	/* Pairs with status() and with readers of the page. */
	smp_store_release(&timeline->page->value, to);
	while ((first = rb_first_cached(&timeline->watches))) {
		struct watch *watch = rb_entry(first, struct watch, node);

		if (watch->value > to)
			break;
		distmind_eventfd_signal(watch->eventfd);
		drop_watch(timeline, watch);
	}
	return 0;
}

static void call_waiters(struct distmind_timeline *timeline, struct list_head *ended)
{
	struct distmind_timeline_waiter *waiter;

	wake_up_all(&timeline->wait);
	while ((waiter = take_waiter(timeline)))
		waiter->reached(waiter, ended);
}

/*
 * Let the value be at least @value; with an error, let it and all that follow
 * have failed with it. -EINVAL: the timeline is there already.
 *
 * The caller has a reference and holds no lock that a waiter takes.
 */
int distmind_timeline_signal(struct distmind_timeline *timeline, u64 value, int error,
			     struct list_head *ended)
{
	int err;

	spin_lock(&timeline->lock);
	err = advance(timeline, value, value, error);
	spin_unlock(&timeline->lock);
	if (!err)
		call_waiters(timeline, ended);
	return err;
}

/* 0 if the value is reached, 1 if not yet, else what it failed with. */
int distmind_timeline_status(struct distmind_timeline *timeline, u64 value)
{
	int err;

	spin_lock(&timeline->lock);
	err = status(timeline, value);
	spin_unlock(&timeline->lock);
	return err;
}

/*
 * Have @waiter called when @value is reached. Returns 0 if it is armed, 1 if
 * the value is there already, or the error it failed with.
 */
int distmind_timeline_arm(struct distmind_timeline *timeline,
			  struct distmind_timeline_waiter *waiter, u64 value)
{
	int err;

	spin_lock(&timeline->lock);
	err = status(timeline, value);
	if (err == NOT_YET) {
		waiter->timeline = timeline;
		waiter->value = value;
		rb_add_cached(&waiter->node, &timeline->waiters, waits_less);
	}
	spin_unlock(&timeline->lock);
	if (err == NOT_YET)
		return 0;
	return err ? err : 1;
}

/* False if it was not armed: then it has been called, or is about to be. */
bool distmind_timeline_disarm(struct distmind_timeline_waiter *waiter)
{
	struct distmind_timeline *timeline = waiter->timeline;
	bool armed;

	if (!timeline)
		return false;
	spin_lock(&timeline->lock);
	armed = !RB_EMPTY_NODE(&waiter->node);
	if (armed) {
		rb_erase_cached(&waiter->node, &timeline->waiters);
		RB_CLEAR_NODE(&waiter->node);
	}
	spin_unlock(&timeline->lock);
	return armed;
}

/* The file */

static int timeline_wait(struct file *file, void *arg, void __user *user)
{
	struct distmind_timeline *timeline = ((struct opened *)file->private_data)->timeline;
	struct distmind_timeline_wait *wait = arg;
	long left;
	int err;

	if (wait->pad || wait->timeout_ms > DISTMIND_TIMEOUT_MAX_MS)
		return -EINVAL;
	left = wait_event_killable_timeout(timeline->wait,
					   (err = status(timeline, wait->value)) != NOT_YET,
					   msecs_to_jiffies(wait->timeout_ms));
	if (left < 0)
		return -EINTR;
	return err == NOT_YET ? -ETIMEDOUT : err;
}

/*
 * By a process. What jobs signal is told by their own tracepoints; this is how a
 * trace knows of work that is done elsewhere. It is told before who waits for it
 * goes on.
 */
static int signal_by_process(struct file *file, u64 from, u64 to, int error)
{
	struct distmind_timeline *timeline = ((struct opened *)file->private_data)->timeline;
	LIST_HEAD(ended);
	u64 now;
	int err;

	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	spin_lock(&timeline->lock);
	err = advance(timeline, from, to, error);
	if (!err) {
		now = ktime_get_ns();
		trace_distmind_timeline_signal(timeline, from, error, now - timeline->told_ns);
		timeline->told_ns = now;
	}
	spin_unlock(&timeline->lock);
	if (err)
		return err;
	call_waiters(timeline, &ended);
	distmind_job_end_all(&ended);
	return 0;
}

static int timeline_signal(struct file *file, void *arg, void __user *user)
{
	struct distmind_timeline_signal *signal = arg;

	return signal_by_process(file, signal->value, signal->value, 0);
}

/* It ends: there is nothing more to wait for. */
static int timeline_fail(struct file *file, void *arg, void __user *user)
{
	struct distmind_timeline_fail *fail = arg;

	if (fail->pad || !distmind_ioctl_is_error(fail->error))
		return -EINVAL;
	return signal_by_process(file, fail->value, U64_MAX, fail->error);
}

static int timeline_watch(struct file *file, void *arg, void __user *user)
{
	struct opened *opened = file->private_data;
	struct distmind_timeline *timeline = opened->timeline;
	struct distmind_timeline_watch *request = arg;
	struct watch *watch;
	int err = 0;

	if (request->pad)
		return -EINVAL;
	watch = kmalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	if (!watch)
		return -ENOMEM;
	watch->opened = opened;
	watch->value = request->value;
	watch->eventfd = eventfd_ctx_fdget(request->eventfd);
	if (IS_ERR(watch->eventfd)) {
		err = PTR_ERR(watch->eventfd);
		kfree(watch);
		return err;
	}
	spin_lock(&timeline->lock);
	rb_add_cached(&watch->node, &timeline->watches, watches_less);
	list_add(&watch->link, &opened->watches);
	opened->watch_count++;
	if (status(timeline, watch->value) != NOT_YET) {
		distmind_eventfd_signal(watch->eventfd);
		drop_watch(timeline, watch);
	} else if (opened->watch_count > WATCHES_MAX) {
		drop_watch(timeline, watch);
		err = -ENOSPC;
	}
	spin_unlock(&timeline->lock);
	return err;
}

/* From which value on poll() reports this file as readable. */
static int timeline_poll_value(struct file *file, void *arg, void __user *user)
{
	struct opened *opened = file->private_data;
	struct distmind_timeline_signal *from = arg;

	WRITE_ONCE(opened->poll_value, from->value);
	return 0;
}

static const struct distmind_ioctl ioctls[] = {
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_WAIT, distmind_timeline_wait, timeline_wait),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_SIGNAL, distmind_timeline_signal, timeline_signal),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_FAIL, distmind_timeline_fail, timeline_fail),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_WATCH, distmind_timeline_watch, timeline_watch),
	DISTMIND_IOCTL(DISTMIND_IOC_TIMELINE_POLL, distmind_timeline_signal, timeline_poll_value),
};

static long timeline_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return distmind_ioctl_dispatch(file, cmd, arg, ioctls, ARRAY_SIZE(ioctls));
}

static __poll_t timeline_poll(struct file *file, poll_table *wait)
{
	struct opened *opened = file->private_data;
	int err;

	poll_wait(file, &opened->timeline->wait, wait);
	err = status(opened->timeline, READ_ONCE(opened->poll_value));
	if (err == NOT_YET)
		return 0;
	return err ? EPOLLIN | EPOLLRDNORM | EPOLLERR : EPOLLIN | EPOLLRDNORM;
}

static vm_fault_t page_fault(struct vm_fault *vmf)
{
	struct opened *opened = vmf->vma->vm_file->private_data;

	if (vmf->pgoff)
		return VM_FAULT_SIGBUS;
	vmf->page = virt_to_page(opened->timeline->page);
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct page_vm_ops = {
	.fault = page_fault,
};

static int timeline_mmap(struct file *file, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || vma_pages(vma) != 1 || !(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	vma->vm_ops = &page_vm_ops;
	return 0;
}

static int timeline_close(struct inode *inode, struct file *file)
{
	struct opened *opened = file->private_data;
	struct distmind_timeline *timeline = opened->timeline;
	struct watch *watch, *next;

	spin_lock(&timeline->lock);
	list_for_each_entry_safe(watch, next, &opened->watches, link)
		drop_watch(timeline, watch);
	spin_unlock(&timeline->lock);
	distmind_timeline_put(timeline);
	kfree(opened);
	return 0;
}

static const struct file_operations timeline_fops = {
	.owner = THIS_MODULE,
	.release = timeline_close,
	.unlocked_ioctl = timeline_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = timeline_poll,
	.mmap = timeline_mmap,
};

/* Returns a descriptor. */
int distmind_timeline_export(struct distmind_timeline *timeline, u32 flags)
{
	struct opened *opened = kzalloc(sizeof(*opened), GFP_KERNEL_ACCOUNT);
	int fd;

	if (!opened)
		return -ENOMEM;
	distmind_timeline_get(timeline);
	opened->timeline = timeline;
	INIT_LIST_HEAD(&opened->watches);
	fd = anon_inode_getfd("[distmind-timeline]", &timeline_fops, opened,
			      (flags & DISTMIND_EXPORT_RDWR ? O_RDWR : O_RDONLY) |
			      (flags & DISTMIND_EXPORT_CLOEXEC ? O_CLOEXEC : 0));
	if (fd < 0) {
		distmind_timeline_put(timeline);
		kfree(opened);
	}
	return fd;
}

/* The timeline of a descriptor, with a reference. */
struct distmind_timeline *distmind_timeline_import(int fd, bool *writable)
{
	struct distmind_timeline *timeline = ERR_PTR(-EBADF);
	struct file *file = fget(fd);
	struct opened *opened;

	if (!file)
		return timeline;
	if (file->f_op == &timeline_fops) {
		opened = file->private_data;
		timeline = opened->timeline;
		distmind_timeline_get(timeline);
		*writable = file->f_mode & FMODE_WRITE;
	}
	fput(file);
	return timeline;
}
