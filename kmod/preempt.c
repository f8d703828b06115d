// SPDX-License-Identifier: GPL-2.0-only
/*
 * Vendors' preemption hooks.
 *
 * A hook is found by the kind of the gpu. The list is guarded by a semaphore
 * that is held for reading while a hook runs, so that unregistering waits for
 * it; hooks sleep, and are called without any other lock.
 */
#include <linux/export.h>
#include <linux/rwsem.h>
#include <linux/string.h>

#include "preempt.h"
#include "trace.h"

static DECLARE_RWSEM(hooks_lock);
static LIST_HEAD(hooks);

static struct distmind_preempt_hook *find(const char *kind)
{
	struct distmind_preempt_hook *hook;

	list_for_each_entry(hook, &hooks, link) {
		if (!strcmp(hook->kind, kind))
			return hook;
	}
	return NULL;
}

int distmind_preempt_register(struct distmind_preempt_hook *hook)
{
	int err = -EBUSY;

	down_write(&hooks_lock);
	if (!find(hook->kind)) {
		list_add(&hook->link, &hooks);
		err = 0;
	}
	up_write(&hooks_lock);
	return err;
}
EXPORT_SYMBOL_GPL(distmind_preempt_register);

void distmind_preempt_unregister(struct distmind_preempt_hook *hook)
{
	down_write(&hooks_lock);
	list_del(&hook->link);
	up_write(&hooks_lock);
}
EXPORT_SYMBOL_GPL(distmind_preempt_unregister);

/* Returns -ENOENT, and tells nobody, if there is no hook. */
int distmind_preempt_evict(struct distmind_preempt *preempt)
{
	struct distmind_preempt_hook *hook;

	preempt->result = -ENOENT;
	down_read(&hooks_lock);
	hook = find(preempt->gpu_kind);
	if (hook) {
		preempt->result = hook->evict(preempt);
		trace_distmind_preempt_hook(preempt);
	}
	up_read(&hooks_lock);
	return preempt->result;
}

void distmind_preempt_resume(const struct distmind_preempt *preempt)
{
	struct distmind_preempt_hook *hook;

	down_read(&hooks_lock);
	hook = find(preempt->gpu_kind);
	if (hook)
		hook->resume(preempt);
	up_read(&hooks_lock);
}
