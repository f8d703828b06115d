// SPDX-License-Identifier: GPL-2.0-only
/*
 * Vendors' preemption hooks.
 *
 * A hook is found by the kind of the gpu. hooks_lock guards the list of hooks and all that
 * is theirs; it is taken inside a scheduler's lock, and never held around a call of a hook:
 * these sleep for as long as they like, and nobody waits for them but who must. A hook is
 * not called after its unregistration, which waits until its users are gone: calls that are
 * under way, and resumptions that have been ordered.
 *
 * A grant that a hook has taken off the device is a suspension, in its hook's list until
 * somebody orders the resumption, or until the hook is unregistered, which resumes all that
 * are left. The grant's job holds it too, and may find later that there is nothing to do.
 * Resumptions are carried out by a workqueue of the hook's own.
 */
#include <linux/export.h>
#include <linux/kref.h>
#include <linux/pid.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "preempt.h"
#include "trace.h"

/**
 * struct distmind_suspension - work that a hook has stopped
 * @ref: held by the job, and by the hook until it has resumed it
 * @hook: whose; valid while that holds it
 * @link: in the hook's list, or in resuming
 * @preempt: what the hook was called with; its process is held
 * @suspended: it is in the hook's list: nobody has ordered its resumption
 * @work: the resumption
 */
struct distmind_suspension {
	struct kref ref;
	struct distmind_preempt_hook *hook;
	struct list_head link;
	struct distmind_preempt preempt;
	bool suspended;
	struct work_struct work;
};

static DEFINE_SPINLOCK(hooks_lock);
static LIST_HEAD(hooks);
/* Suspensions whose resumption was ordered and is not over. */
static LIST_HEAD(resuming);
/* For a hook without users, and for the end of a resumption. */
static DECLARE_WAIT_QUEUE_HEAD(hooks_wait);

static struct distmind_preempt_hook *find_hook(const char *kind)
{
	struct distmind_preempt_hook *hook;

	lockdep_assert_held(&hooks_lock);
	list_for_each_entry(hook, &hooks, link) {
		if (!strcmp(hook->kind, kind))
			return hook;
	}
	return NULL;
}

/* The caller is a user of it. */
static struct distmind_preempt_hook *get_hook(const char *kind)
{
	struct distmind_preempt_hook *hook;

	spin_lock(&hooks_lock);
	hook = find_hook(kind);
	if (hook && hook->going)
		hook = NULL;
	if (hook)
		hook->users++;
	spin_unlock(&hooks_lock);
	return hook;
}

static void put_hook(struct distmind_preempt_hook *hook)
{
	spin_lock(&hooks_lock);
	hook->users--;
	wake_up_all(&hooks_wait);
	spin_unlock(&hooks_lock);
}

static bool has_users(struct distmind_preempt_hook *hook)
{
	bool users;

	spin_lock(&hooks_lock);
	users = hook->users;
	spin_unlock(&hooks_lock);
	return users;
}

static void suspension_release(struct kref *ref)
{
	struct distmind_suspension *suspension =
		container_of(ref, struct distmind_suspension, ref);

	put_pid(suspension->preempt.pid);
	kfree(suspension);
}

static void resume_suspended(struct work_struct *work)
{
	struct distmind_suspension *suspension =
		container_of(work, struct distmind_suspension, work);
	struct distmind_preempt_hook *hook = suspension->hook;

	hook->resume(&suspension->preempt);
	spin_lock(&hooks_lock);
	list_del(&suspension->link);
	spin_unlock(&hooks_lock);
	kref_put(&suspension->ref, suspension_release);
	put_hook(hook);
}

static bool is_resuming(u64 job)
{
	struct distmind_suspension *suspension;
	bool found = false;

	spin_lock(&hooks_lock);
	list_for_each_entry(suspension, &resuming, link)
		found |= suspension->preempt.job == job;
	spin_unlock(&hooks_lock);
	return found;
}

int distmind_preempt_register(struct distmind_preempt_hook *hook)
{
	int err = -EBUSY;

	hook->users = 0;
	hook->going = false;
	INIT_LIST_HEAD(&hook->suspended);
	hook->resumer = alloc_workqueue("distmind_%s", WQ_UNBOUND, 0, hook->kind);
	if (!hook->resumer)
		return -ENOMEM;
	spin_lock(&hooks_lock);
	if (!find_hook(hook->kind)) {
		list_add(&hook->link, &hooks);
		err = 0;
	}
	spin_unlock(&hooks_lock);
	if (err)
		destroy_workqueue(hook->resumer);
	return err;
}
EXPORT_SYMBOL_GPL(distmind_preempt_register);

static struct distmind_suspension *take_suspended(struct distmind_preempt_hook *hook)
{
	struct distmind_suspension *suspension;

	spin_lock(&hooks_lock);
	suspension = list_first_entry_or_null(&hook->suspended, struct distmind_suspension, link);
	if (suspension) {
		list_del(&suspension->link);
		suspension->suspended = false;
	}
	spin_unlock(&hooks_lock);
	return suspension;
}

/* No other hook of the kind is registered before all is resumed: the two would not agree. */
void distmind_preempt_unregister(struct distmind_preempt_hook *hook)
{
	struct distmind_suspension *suspension;

	spin_lock(&hooks_lock);
	hook->going = true;
	spin_unlock(&hooks_lock);
	wait_event(hooks_wait, !has_users(hook));
	while ((suspension = take_suspended(hook))) {
		hook->resume(&suspension->preempt);
		kref_put(&suspension->ref, suspension_release);
	}
	spin_lock(&hooks_lock);
	list_del(&hook->link);
	spin_unlock(&hooks_lock);
	destroy_workqueue(hook->resumer);
}
EXPORT_SYMBOL_GPL(distmind_preempt_unregister);

/* To be filled in when the hook has succeeded: afterwards there is no way back. */
static struct distmind_suspension *alloc_suspension(void)
{
	struct distmind_suspension *suspension;

	suspension = kzalloc(sizeof(*suspension), GFP_KERNEL);
	if (!suspension)
		return NULL;
	kref_init(&suspension->ref);
	INIT_WORK(&suspension->work, resume_suspended);
	return suspension;
}

/* A reference for the hook, and one for the caller. */
static void suspend(struct distmind_suspension *suspension, struct distmind_preempt_hook *hook,
		    const struct distmind_preempt *preempt)
{
	suspension->preempt = *preempt;
	get_pid(preempt->pid);
	suspension->hook = hook;
	suspension->suspended = true;
	kref_get(&suspension->ref);
	spin_lock(&hooks_lock);
	list_add_tail(&suspension->link, &hook->suspended);
	spin_unlock(&hooks_lock);
}

static int call_evict(struct distmind_preempt_hook *hook, struct distmind_preempt *preempt,
		      struct distmind_suspension **suspension)
{
	struct distmind_suspension *new = NULL;
	int err;

	if (preempt->type == DISTMIND_JOB_GRANT) {
		new = alloc_suspension();
		if (!new)
			return -ENOMEM;
	}
	/* One call at a time for a job. */
	wait_event_idle(hooks_wait, !is_resuming(preempt->job));
	err = hook->evict(preempt);
	if (err) {
		kfree(new);
		return err;
	}
	if (new)
		suspend(new, hook, preempt);
	*suspension = new;
	return 0;
}

/*
 * Returns -ENOENT, and tells nobody, if there is no hook. If it has taken a grant's work
 * off the device, *suspension is what to give to distmind_preempt_resume().
 */
int distmind_preempt_evict(struct distmind_preempt *preempt,
			   struct distmind_suspension **suspension)
{
	struct distmind_preempt_hook *hook = get_hook(preempt->gpu_kind);

	*suspension = NULL;
	preempt->result = -ENOENT;
	if (!hook)
		return preempt->result;
	preempt->result = call_evict(hook, preempt, suspension);
	trace_distmind_preempt_hook(preempt);
	put_hook(hook);
	return preempt->result;
}

/*
 * Order that what was stopped goes on, unless that has happened because the hook has gone.
 * Does not sleep. The caller's reference goes.
 */
void distmind_preempt_resume(struct distmind_suspension *suspension)
{
	spin_lock(&hooks_lock);
	if (suspension->suspended && !suspension->hook->going) {
		suspension->suspended = false;
		suspension->hook->users++;
		list_move_tail(&suspension->link, &resuming);
		queue_work(suspension->hook->resumer, &suspension->work);
	}
	spin_unlock(&hooks_lock);
	kref_put(&suspension->ref, suspension_release);
}
