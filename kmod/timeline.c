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
 * Who may signal it is a writer: each handle and each open file with that right, and
 * each job that will. When the last one is gone no further value can come, and the
 * timeline fails with EOWNERDEAD from the next one on.
 *
 * Whoever waits for a value, a queue, a process that sleeps or polls, an eventfd, is a
 * waiter in one tree. A signal takes out those whose value is reached and calls one at a
 * time, because a waiter that was called may arm itself again, here or elsewhere. It
 * calls as many as the signaller has a budget for: the rest is called by a chore of who has
 * made the timeline, for which a queue does nothing but to post one of its own. A waiter does
 * a bounded amount of work; what is not, as waking all that wait for an eventfd, is a chore of
 * who asked for it. What ends by a signal is collected, not ended from within it, so that a
 * chain of jobs costs a loop and not a stack.
 *
 * timeline->lock is taken inside a gpu's scheduler lock; nothing is called with it
 * held but hold() of a waiter.
 */
#include <linux/anon_inodes.h>
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "account.h"
#include "compat.h"
#include "ioctl.h"
#include "job.h"
#include "ledger.h"
#include "timeline.h"
#include "trace.h"

/* Eventfds of one open file: who has another one of the timeline is not kept from his. */
#define WATCHES_MAX 64

/*
 * More that poll one open file are woken at the expense of who exported it. Each may be an
 * epoll instance that others wait for in turn, so what one file can cost is what the kernel
 * lets depend on it, some hundred wake-ups: who signals pays for that once at most.
 */
#define POLLS_AT_ONCE	2
#define POLL_COST	(DISTMIND_ENDS_AT_ONCE * 5 / 8)

/**
 * struct watch - an eventfd to tell when a value is reached
 * @waiter: waits for it
 * @chore: tells it
 * @account: at whose expense; held
 * @opened: the open file that it belongs to; held
 * @link: in its list
 * @eventfd: whom to tell
 */
struct watch {
	struct distmind_timeline_waiter waiter;
	struct distmind_chore chore;
	struct distmind_account *account;
	struct opened *opened;
	struct list_head link;
	struct eventfd_ctx *eventfd;
};

/**
 * struct opened - an open file of a timeline
 * @ref: held by the file, by its watches, and while its waiter or chore is being called
 * @timeline: which; held
 * @account: who has exported it; held
 * @writable: it is a writer
 * @waiter: waits for @poll_value, once somebody has polled
 * @poll_value: poll() reports the value from here on; under the timeline's lock
 * @chore: wakes many who poll
 * @wait: who polls
 * @watches: that were asked for by this file; under the timeline's lock
 * @watch_count: how many
 */
struct opened {
	struct kref ref;
	struct distmind_timeline *timeline;
	struct distmind_account *account;
	bool writable;
	struct distmind_timeline_waiter waiter;
	u64 poll_value;
	struct distmind_chore chore;
	wait_queue_head_t wait;
	struct list_head watches;
	u32 watch_count;
};

/* A process that sleeps. */
struct sleeper {
	struct distmind_timeline_waiter waiter;
	struct completion done;
};

static atomic64_t last_id;

static void call_rest(struct distmind_chore *chore);

/* Who makes it is a writer, see distmind_timeline_writer_put(). */
struct distmind_timeline *distmind_timeline_create(struct distmind_account *account, u64 value,
						   u32 vgpu)
{
	struct distmind_timeline *timeline;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_TIMELINE, 1);
	if (err)
		return ERR_PTR(err);
	timeline = kzalloc(sizeof(*timeline), GFP_KERNEL_ACCOUNT);
	if (!timeline)
		goto err_uncharge;
	timeline->page = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!timeline->page)
		goto err_free;
	kref_init(&timeline->ref);
	atomic_set(&timeline->writers, 1);
	distmind_account_get(account);
	timeline->account = account;
	distmind_chore_init(&timeline->chore, call_rest);
	timeline->id = atomic64_inc_return(&last_id);
	timeline->vgpu = vgpu;
	timeline->told_ns = ktime_get_ns();
	spin_lock_init(&timeline->lock);
	timeline->waiters = RB_ROOT_CACHED;
	timeline->signallers = RB_ROOT_CACHED;
	timeline->queues = RB_ROOT;
	timeline->page->value = value;
	timeline->page->failed_value = U64_MAX;
	distmind_ledger_created(DISTMIND_OBJECT_TIMELINE);
	return timeline;

err_free:
	kfree(timeline);
err_uncharge:
	distmind_account_uncharge(account, DISTMIND_LIMIT_TIMELINE, 1);
	return ERR_PTR(-ENOMEM);
}

static void timeline_release(struct kref *ref)
{
	struct distmind_timeline *timeline = container_of(ref, struct distmind_timeline, ref);

	WARN_ON(!RB_EMPTY_ROOT(&timeline->waiters.rb_root) ||
		!RB_EMPTY_ROOT(&timeline->queues) || atomic_read(&timeline->writers));
	put_page(virt_to_page(timeline->page));
	distmind_account_uncharge(timeline->account, DISTMIND_LIMIT_TIMELINE, 1);
	distmind_account_put(timeline->account);
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

/* Under the timeline's lock. */
static void arm(struct distmind_timeline *timeline, struct distmind_timeline_waiter *waiter,
		u64 value)
{
	waiter->timeline = timeline;
	waiter->value = value;
	rb_add_cached(&waiter->node, &timeline->waiters, waits_less);
}

/* Under the timeline's lock. False if it was not armed. */
static bool disarm(struct distmind_timeline_waiter *waiter)
{
	if (RB_EMPTY_NODE(&waiter->node))
		return false;
	rb_erase_cached(&waiter->node, &waiter->timeline->waiters);
	RB_CLEAR_NODE(&waiter->node);
	return true;
}

/*
 * Let the value be @to; with an error, let @from and all that follow have failed
 * with it. -EINVAL: the timeline is at @from already.
 */
static int advance(struct distmind_timeline *timeline, u64 from, u64 to, int error)
{
	lockdep_assert_held(&timeline->lock);
	if (from <= timeline->page->value)
		return -EINVAL;
	if (error && timeline->page->failed_value == U64_MAX) {
		WRITE_ONCE(timeline->page->error, error);
		WRITE_ONCE(timeline->page->failed_value, from);
	}
	/* Pairs with status() and with readers of the page. */
	smp_store_release(&timeline->page->value, to);
	return 0;
}

/* By somebody outside: the jobs' own tracepoints tell what they signal. */
static int advance_traced(struct distmind_timeline *timeline, u64 from, u64 to, int error)
{
	int err = advance(timeline, from, to, error);
	u64 now;

	if (err)
		return err;
	now = ktime_get_ns();
	trace_distmind_timeline_signal(timeline, from, error, now - timeline->told_ns);
	timeline->told_ns = now;
	return 0;
}

/*
 * The next waiter whose value is reached. If it is to be called it is held, and out of
 * the tree.
 */
static struct distmind_timeline_waiter *next_waiter(struct distmind_timeline *timeline, bool take)
{
	struct distmind_timeline_waiter *waiter = NULL;
	struct rb_node *first;

	spin_lock(&timeline->lock);
	first = rb_first_cached(&timeline->waiters);
	if (first)
		waiter = rb_entry(first, struct distmind_timeline_waiter, node);
	if (waiter && waiter->value > timeline->page->value)
		waiter = NULL;
	if (waiter && take) {
		if (waiter->hold)
			waiter->hold(waiter);
		disarm(waiter);
	}
	spin_unlock(&timeline->lock);
	return waiter;
}

/* Those who wait for what is reached, as far as the budget goes. */
static void call_waiters(struct distmind_timeline *timeline, u32 *budget, struct list_head *ended)
{
	struct distmind_timeline_waiter *waiter;

	while ((waiter = next_waiter(timeline, *budget))) {
		if (!*budget) {
			distmind_timeline_get(timeline);
			if (!distmind_account_post(timeline->account, &timeline->chore))
				distmind_timeline_put(timeline);
			return;
		}
		--*budget;
		waiter->reached(waiter, budget, ended);
	}
}

static void call_all(struct distmind_timeline *timeline)
{
	u32 budget = DISTMIND_ENDS_AT_ONCE;
	LIST_HEAD(ended);

	call_waiters(timeline, &budget, &ended);
	distmind_job_end_all(&ended);
}

/* Some of those that a signal left: what they do is at their own expense. */
static void call_rest(struct distmind_chore *chore)
{
	struct distmind_timeline *timeline = container_of(chore, struct distmind_timeline, chore);
	struct distmind_timeline_waiter *waiter = NULL;
	u32 i, none = 0;

	for (i = 0; i < DISTMIND_ENDS_AT_ONCE; i++) {
		waiter = next_waiter(timeline, true);
		if (!waiter)
			break;
		waiter->reached(waiter, &none, NULL);
	}
	if (!waiter || !distmind_account_post(timeline->account, &timeline->chore))
		distmind_timeline_put(timeline);
}

/*
 * Let the value be at least @value; with an error, let it and all that follow
 * have failed with it. -EINVAL: the timeline is there already.
 *
 * The caller has a reference and holds no lock that a waiter takes.
 */
int distmind_timeline_signal(struct distmind_timeline *timeline, u64 value, int error,
			     u32 *budget, struct list_head *ended)
{
	int err;

	spin_lock(&timeline->lock);
	err = advance(timeline, value, value, error);
	spin_unlock(&timeline->lock);
	if (!err)
		call_waiters(timeline, budget, ended);
	return err;
}

/* By who is a writer, or looks at one in the table of handles. */
void distmind_timeline_writer_get(struct distmind_timeline *timeline)
{
	atomic_inc(&timeline->writers);
}

/* Returns whether it has failed with the last writer, so that waiters are to be called. */
static bool lose_writer(struct distmind_timeline *timeline)
{
	bool failed = false;

	if (!atomic_dec_and_test(&timeline->writers))
		return false;
	spin_lock(&timeline->lock);
	if (timeline->page->value != U64_MAX)
		failed = !advance_traced(timeline, timeline->page->value + 1, U64_MAX,
					 -EOWNERDEAD);
	spin_unlock(&timeline->lock);
	return failed;
}

/* Like distmind_timeline_signal(): the caller has a reference, and holds no lock. */
void distmind_timeline_writer_end(struct distmind_timeline *timeline, u32 *budget,
				  struct list_head *ended)
{
	if (lose_writer(timeline))
		call_waiters(timeline, budget, ended);
}

/* The same for who does not collect what ends. */
void distmind_timeline_writer_put(struct distmind_timeline *timeline)
{
	if (lose_writer(timeline))
		call_all(timeline);
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
	if (err == NOT_YET)
		arm(timeline, waiter, value);
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
	armed = disarm(waiter);
	spin_unlock(&timeline->lock);
	return armed;
}

/* The file */

static void opened_release(struct kref *ref)
{
	struct opened *opened = container_of(ref, struct opened, ref);

	distmind_timeline_put(opened->timeline);
	distmind_account_uncharge(opened->account, DISTMIND_LIMIT_EXPORT, 1);
	distmind_account_put(opened->account);
	kfree(opened);
}

static void opened_put(struct opened *opened)
{
	kref_put(&opened->ref, opened_release);
}

static void sleeper_reached(struct distmind_timeline_waiter *waiter, u32 *budget,
			    struct list_head *ended)
{
	complete(&container_of(waiter, struct sleeper, waiter)->done);
}

static int sleep_until(struct distmind_timeline *timeline, u64 value, u32 timeout_ms)
{
	struct distmind_account *account;
	struct sleeper sleeper = { .waiter.reached = sleeper_reached };
	long left;
	int err;

	account = distmind_account_find();
	if (IS_ERR(account))
		return PTR_ERR(account);
	err = distmind_account_charge(account, DISTMIND_LIMIT_WAIT, 1);
	if (err)
		goto out;
	RB_CLEAR_NODE(&sleeper.waiter.node);
	init_completion(&sleeper.done);
	err = distmind_timeline_arm(timeline, &sleeper.waiter, value);
	if (!err) {
		left = wait_for_completion_killable_timeout(&sleeper.done,
							    msecs_to_jiffies(timeout_ms));
		/* Somebody who has taken it out of the tree is about to call it. */
		if (left <= 0 && !distmind_timeline_disarm(&sleeper.waiter))
			wait_for_completion(&sleeper.done);
		if (left < 0)
			err = -EINTR;
	} else if (err > 0) {
		err = 0;
	}
	distmind_account_uncharge(account, DISTMIND_LIMIT_WAIT, 1);
out:
	distmind_account_put(account);
	return err;
}

static int timeline_wait(struct file *file, void *arg, void __user *user)
{
	struct distmind_timeline *timeline = ((struct opened *)file->private_data)->timeline;
	struct distmind_timeline_wait *wait = arg;
	int err;

	if (wait->pad || wait->timeout_ms > DISTMIND_TIMEOUT_MAX_MS)
		return -EINVAL;
	err = status(timeline, wait->value);
	if (err == NOT_YET && wait->timeout_ms) {
		err = sleep_until(timeline, wait->value, wait->timeout_ms);
		if (err)
			return err;
		err = status(timeline, wait->value);
	}
	return err == NOT_YET ? -ETIMEDOUT : err;
}

/*
 * By a process. It is told to traces before who waits for it goes on.
 */
static int signal_by_process(struct file *file, u64 from, u64 to, int error)
{
	struct distmind_timeline *timeline = ((struct opened *)file->private_data)->timeline;
	int err;

	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	spin_lock(&timeline->lock);
	err = advance_traced(timeline, from, to, error);
	spin_unlock(&timeline->lock);
	if (err)
		return err;
	call_all(timeline);
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

/* The watch is in no tree and no list any more. */
static void watch_free(struct watch *watch)
{
	eventfd_ctx_put(watch->eventfd);
	distmind_account_uncharge(watch->account, DISTMIND_LIMIT_WATCH, 1);
	distmind_account_put(watch->account);
	opened_put(watch->opened);
	kfree(watch);
}

/* Whoever waits for the eventfd is woken, however many these are. */
static void watch_tell(struct distmind_chore *chore)
{
	struct watch *watch = container_of(chore, struct watch, chore);
	struct distmind_timeline *timeline = watch->opened->timeline;

	distmind_eventfd_signal(watch->eventfd);
	spin_lock(&timeline->lock);
	list_del(&watch->link);
	watch->opened->watch_count--;
	spin_unlock(&timeline->lock);
	watch_free(watch);
}

static void watch_reached(struct distmind_timeline_waiter *waiter, u32 *budget,
			  struct list_head *ended)
{
	struct watch *watch = container_of(waiter, struct watch, waiter);

	distmind_account_post(watch->account, &watch->chore);
}

static struct watch *watch_create(struct opened *opened, int fd)
{
	struct watch *watch;
	int err = -ENOMEM;

	watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	if (!watch)
		return ERR_PTR(err);
	watch->account = distmind_account_find();
	if (IS_ERR(watch->account)) {
		err = PTR_ERR(watch->account);
		goto err_free;
	}
	err = distmind_account_charge(watch->account, DISTMIND_LIMIT_WATCH, 1);
	if (err)
		goto err_account;
	watch->eventfd = eventfd_ctx_fdget(fd);
	if (IS_ERR(watch->eventfd)) {
		err = PTR_ERR(watch->eventfd);
		goto err_uncharge;
	}
	kref_get(&opened->ref);
	watch->opened = opened;
	watch->waiter.reached = watch_reached;
	RB_CLEAR_NODE(&watch->waiter.node);
	distmind_chore_init(&watch->chore, watch_tell);
	return watch;

err_uncharge:
	distmind_account_uncharge(watch->account, DISTMIND_LIMIT_WATCH, 1);
err_account:
	distmind_account_put(watch->account);
err_free:
	kfree(watch);
	return ERR_PTR(err);
}

static int timeline_watch(struct file *file, void *arg, void __user *user)
{
	struct opened *opened = file->private_data;
	struct distmind_timeline *timeline = opened->timeline;
	struct distmind_timeline_watch *request = arg;
	struct watch *watch;
	int err;

	if (request->pad)
		return -EINVAL;
	watch = watch_create(opened, request->eventfd);
	if (IS_ERR(watch))
		return PTR_ERR(watch);
	spin_lock(&timeline->lock);
	err = status(timeline, request->value) == NOT_YET ? 0 : 1;
	if (!err && opened->watch_count >= WATCHES_MAX)
		err = -ENOSPC;
	if (!err) {
		list_add(&watch->link, &opened->watches);
		opened->watch_count++;
		arm(timeline, &watch->waiter, request->value);
	}
	spin_unlock(&timeline->lock);
	if (!err)
		return 0;
	if (err > 0)
		distmind_eventfd_signal(watch->eventfd);
	watch_free(watch);
	return min(err, 0);
}

/* Whether no more than POLLS_AT_ONCE wait there. */
static bool are_few(wait_queue_head_t *wait)
{
	struct list_head *entry;
	u32 count = 0;

	spin_lock_irq(&wait->lock);
	list_for_each(entry, &wait->head) {
		if (++count > POLLS_AT_ONCE)
			break;
	}
	spin_unlock_irq(&wait->lock);
	return count <= POLLS_AT_ONCE;
}

static void wake_pollers(struct distmind_chore *chore)
{
	struct opened *opened = container_of(chore, struct opened, chore);

	wake_up_all(&opened->wait);
	opened_put(opened);
}

static void poll_hold(struct distmind_timeline_waiter *waiter)
{
	kref_get(&container_of(waiter, struct opened, waiter)->ref);
}

static void poll_reached(struct distmind_timeline_waiter *waiter, u32 *budget,
			 struct list_head *ended)
{
	struct opened *opened = container_of(waiter, struct opened, waiter);

	if (*budget >= POLL_COST - 1 && are_few(&opened->wait)) {
		*budget -= POLL_COST - 1;
		wake_up_all(&opened->wait);
	} else if (distmind_account_post(opened->account, &opened->chore)) {
		return;
	}
	opened_put(opened);
}

/* Have who polls woken, if the value is not reached yet. Under the timeline's lock. */
static int arm_poll(struct opened *opened)
{
	int err = status(opened->timeline, opened->poll_value);

	if (err == NOT_YET && RB_EMPTY_NODE(&opened->waiter.node))
		arm(opened->timeline, &opened->waiter, opened->poll_value);
	return err;
}

/* From which value on poll() reports this file as readable. */
static int timeline_poll_value(struct file *file, void *arg, void __user *user)
{
	struct opened *opened = file->private_data;
	struct distmind_timeline_signal *from = arg;
	int err;

	spin_lock(&opened->timeline->lock);
	disarm(&opened->waiter);
	opened->poll_value = from->value;
	err = arm_poll(opened);
	spin_unlock(&opened->timeline->lock);
	/* Who polls already, for a later value, hears of this one from nobody else. */
	if (err != NOT_YET)
		wake_up_all(&opened->wait);
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

	poll_wait(file, &opened->wait, wait);
	spin_lock(&opened->timeline->lock);
	err = arm_poll(opened);
	spin_unlock(&opened->timeline->lock);
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

static struct file *open_file(struct distmind_account *account,
			      struct distmind_timeline *timeline, bool writable);

/*
 * A mapping keeps its file open, and cannot signal: so that it does not count as a
 * writer it has a file of its own, which is none, and counts for who maps it.
 */
static int timeline_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct opened *opened = file->private_data;
	struct distmind_account *account;
	struct file *own;

	if (vma->vm_pgoff || vma_pages(vma) != 1 || !(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	if (opened->writable) {
		account = distmind_account_find();
		if (IS_ERR(account))
			return PTR_ERR(account);
		own = open_file(account, opened->timeline, false);
		distmind_account_put(account);
		if (IS_ERR(own))
			return PTR_ERR(own);
		vma_set_file(vma, own);
		fput(own);
	}
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	vma->vm_ops = &page_vm_ops;
	return 0;
}

/* A watch that has been reached is its chore's, which frees it. */
static int timeline_close(struct inode *inode, struct file *file)
{
	struct opened *opened = file->private_data;
	struct distmind_timeline *timeline = opened->timeline;
	struct watch *watch, *next;
	LIST_HEAD(left);

	spin_lock(&timeline->lock);
	disarm(&opened->waiter);
	list_for_each_entry_safe(watch, next, &opened->watches, link) {
		if (disarm(&watch->waiter)) {
			list_move(&watch->link, &left);
			opened->watch_count--;
		}
	}
	spin_unlock(&timeline->lock);
	list_for_each_entry_safe(watch, next, &left, link)
		watch_free(watch);
	if (opened->writable)
		distmind_timeline_writer_put(timeline);
	opened_put(opened);
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

static struct file *open_file(struct distmind_account *account,
			      struct distmind_timeline *timeline, bool writable)
{
	struct opened *opened;
	struct file *file;
	int err;

	err = distmind_account_charge(account, DISTMIND_LIMIT_EXPORT, 1);
	if (err)
		return ERR_PTR(err);
	opened = kzalloc(sizeof(*opened), GFP_KERNEL_ACCOUNT);
	if (!opened) {
		distmind_account_uncharge(account, DISTMIND_LIMIT_EXPORT, 1);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&opened->ref);
	distmind_account_get(account);
	opened->account = account;
	distmind_timeline_get(timeline);
	opened->timeline = timeline;
	opened->writable = writable;
	opened->waiter.hold = poll_hold;
	opened->waiter.reached = poll_reached;
	opened->waiter.timeline = timeline;
	RB_CLEAR_NODE(&opened->waiter.node);
	distmind_chore_init(&opened->chore, wake_pollers);
	init_waitqueue_head(&opened->wait);
	INIT_LIST_HEAD(&opened->watches);
	if (writable)
		distmind_timeline_writer_get(timeline);
	file = anon_inode_getfile("[distmind-timeline]", &timeline_fops, opened,
				  writable ? O_RDWR : O_RDONLY);
	if (IS_ERR(file)) {
		if (writable)
			distmind_timeline_writer_put(timeline);
		opened_put(opened);
	}
	return file;
}

/* Returns a descriptor, which counts for @account. */
int distmind_timeline_export(struct distmind_account *account, struct distmind_timeline *timeline,
			     u32 flags)
{
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(flags & DISTMIND_EXPORT_CLOEXEC ? O_CLOEXEC : 0);
	if (fd < 0)
		return fd;
	file = open_file(account, timeline, flags & DISTMIND_EXPORT_RDWR);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return fd;
}

/* The timeline of a descriptor, with a reference; if it is writable, as another writer. */
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
		*writable = opened->writable;
		if (opened->writable)
			distmind_timeline_writer_get(timeline);
	}
	fput(file);
	return timeline;
}
